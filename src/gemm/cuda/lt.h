// RAII and checks for cuBLASLt. Inside libtt_cuda.so only.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>
#include <type_traits>

#include "common/error.h"

namespace tt::lt {

inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw LibraryError("cuBLASLt", call, status,
                       std::string(cublasLtGetStatusName(status)) + ", " + cublasLtGetStatusString(status));
}
#define TT_LT(call) ::tt::lt::check((call), #call)

template <class Pointer, cublasStatus_t (*destroy)(Pointer)>
struct Destroy {
  using pointer = Pointer;
  void operator()(Pointer p) const noexcept { (void)destroy(p); }
};
using Handle =
    std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, Destroy<cublasLtHandle_t, cublasLtDestroy>>;
using Description =
    std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t,
                               Destroy<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                                   Destroy<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>>;

inline Handle make_handle() {
  cublasLtHandle_t h = nullptr;
  TT_LT(cublasLtCreate(&h));
  return Handle(h);
}
inline Description make_description(cublasComputeType_t compute, cudaDataType_t scale) {
  cublasLtMatmulDesc_t d = nullptr;
  TT_LT(cublasLtMatmulDescCreate(&d, compute, scale));
  return Description(d);
}
/// Column-major, as cuBLASLt sees it.
inline Layout make_layout(cudaDataType_t type, int64_t rows, int64_t columns) {
  cublasLtMatrixLayout_t l = nullptr;
  TT_LT(cublasLtMatrixLayoutCreate(&l, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                   rows));
  return Layout(l);
}
inline Preference make_preference() {
  cublasLtMatmulPreference_t p = nullptr;
  TT_LT(cublasLtMatmulPreferenceCreate(&p));
  return Preference(p);
}

template <class T>
void set(const Description& d, cublasLtMatmulDescAttributes_t name, const T& value) {
  TT_LT(cublasLtMatmulDescSetAttribute(d.get(), name, &value, sizeof(value)));
}
template <class T>
void set(const Preference& p, cublasLtMatmulPreferenceAttributes_t name, const T& value) {
  TT_LT(cublasLtMatmulPreferenceSetAttribute(p.get(), name, &value, sizeof(value)));
}

/// "id 66, tile 128x256, stages 64xAUTO, cluster 2x1x1, split-k 1, swizzle 0"; `id` is set to cuBLASLt's
/// number.
std::string describe(const cublasLtMatmulAlgo_t& algorithm, int64_t* id);

}  // namespace tt::lt

// How open_ops.cpp and the host's products reach the libraries: both sit in shared objects loaded at run
// time.
#pragma once

#include <cstdint>

#include "src/llm/ops.h"

namespace tt {

/// libtt_cuda.so: extern "C" tt_cuda_llm_ops. Ownership passes to the caller.
using CudaOpsFunction = Ops*(Device&);

/// c[m,n] = alpha op(a) op(b) + beta c, row-major, f32; op(a) is [m,k], op(b) [k,n]; `threads`: this rank's
/// cores.
struct SgemmCall {
  bool ta = false, tb = false;
  int64_t m = 0, n = 0, k = 0;
  float alpha = 1, beta = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  const float* b = nullptr;
  int64_t ldb = 0;
  float* c = nullptr;
  int64_t ldc = 0;
  int threads = 1;
};
/// libtt_hostmath.so: extern "C" tt_blas_sgemm, there if the build found a CBLAS. SkippedError for sizes
/// that CBLAS cannot take.
using HostSgemmFunction = void(const SgemmCall&);

}  // namespace tt

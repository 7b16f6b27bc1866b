#include "src/comm/cuda/nccl_types.h"

#include <cstring>

#include "common/error.h"
#include "src/device/convert.h"
#include "src/device/dtype_visit.h"

namespace tt {

std::optional<ncclDataType_t> nccl_type(DType type) {
  switch (type) {
    case DType::int8:
      return ncclInt8;
    case DType::uint8:
      return ncclUint8;
    case DType::int32:
      return ncclInt32;
    case DType::uint32:
      return ncclUint32;
    case DType::int64:
      return ncclInt64;
    case DType::uint64:
      return ncclUint64;
    case DType::f16:
      return ncclFloat16;
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 10, 0)
    case DType::bf16:
      return ncclBfloat16;
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
    case DType::f8e4m3:
      return ncclFloat8e4m3;
    case DType::f8e5m2:
      return ncclFloat8e5m2;
#endif
    default:
      return std::nullopt;
  }
}

std::optional<ncclRedOp_t> nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::prod:
      return ncclProd;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 10, 0)
    case ReduceOp::avg:
      return ncclAvg;
#endif
    default:
      return std::nullopt;
  }
}

std::array<unsigned char, 8> premul_bytes(DType type, int rank) {
  std::array<unsigned char, 8> bytes{};
  with_storage(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T scalar = from_double<T>(premul_scalar(rank));
    std::memcpy(bytes.data(), &scalar, sizeof scalar);
  });
  return bytes;
}

std::string nccl_version_text() {
  int v = 0;
  if (ncclGetVersion(&v) != ncclSuccess) return "unknown (ncclGetVersion failed)";
  // 10000 * major + 100 * minor + patch; before 2.9 it was 1000 * major + ...
  if (v < 10000)
    return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 100) + "." + std::to_string(v % 100);
  return std::to_string(v / 10000) + "." + std::to_string(v % 10000 / 100) + "." + std::to_string(v % 100);
}

void check_nccl(ncclResult_t code, const char* call, ncclComm_t comm) {
  if (code == ncclSuccess) return;
  std::string text = ncclGetErrorString(code);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 13, 0)
  if (const char* last = ncclGetLastError(comm); last && *last) text += ": " + std::string(last);
#endif
  throw LibraryError("NCCL", call, code, text);
}

}  // namespace tt

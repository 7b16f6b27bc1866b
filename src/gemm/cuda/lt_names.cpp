// The configuration of a cuBLASLt algorithm in words.
#include "src/gemm/cuda/lt.h"

namespace tt::lt {
namespace {

template <class T>
T config(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t attribute) {
  T value{};
  size_t written = 0;
  // An attribute that this algorithm does not have is no fault: it reads as 0.
  if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, attribute, &value, sizeof(value), &written) !=
      CUBLAS_STATUS_SUCCESS)
    return T{};
  return value;
}

/// Tiles that large products use; cuBLASLt knows some 880, the others are given by their number.
std::string tile_name(uint32_t tile) {
  switch (tile) {
#define TT_TILE(shape)               \
  case CUBLASLT_MATMUL_TILE_##shape: \
    return #shape
    TT_TILE(32x32);
    TT_TILE(32x64);
    TT_TILE(64x32);
    TT_TILE(64x64);
    TT_TILE(64x128);
    TT_TILE(128x64);
    TT_TILE(64x256);
    TT_TILE(256x64);
    TT_TILE(128x128);
    TT_TILE(128x256);
    TT_TILE(256x128);
    TT_TILE(128x192);
    TT_TILE(192x128);
    TT_TILE(128x160);
    TT_TILE(160x128);
    TT_TILE(128x96);
    TT_TILE(96x128);
#undef TT_TILE
    default:
      return "#" + std::to_string(tile);
  }
}

std::string stages_name(uint32_t stages) {
  switch (stages) {
#define TT_STAGES(shape)               \
  case CUBLASLT_MATMUL_STAGES_##shape: \
    return #shape
    TT_STAGES(32x3);
    TT_STAGES(32x4);
    TT_STAGES(32x5);
    TT_STAGES(32x6);
    TT_STAGES(64x3);
    TT_STAGES(64x4);
    TT_STAGES(64x5);
    TT_STAGES(64x6);
    TT_STAGES(128x3);
    TT_STAGES(128x4);
    TT_STAGES(128x5);
    TT_STAGES(128x6);
    TT_STAGES(32xAUTO);
    TT_STAGES(64xAUTO);
    TT_STAGES(128xAUTO);
#undef TT_STAGES
    default:
      return "#" + std::to_string(stages);
  }
}

std::string cluster_name(uint16_t cluster) {
  switch (cluster) {
#define TT_CLUSTER(shape)              \
  case CUBLASLT_CLUSTER_SHAPE_##shape: \
    return #shape
    TT_CLUSTER(1x1x1);
    TT_CLUSTER(2x1x1);
    TT_CLUSTER(4x1x1);
    TT_CLUSTER(1x2x1);
    TT_CLUSTER(2x2x1);
    TT_CLUSTER(4x2x1);
    TT_CLUSTER(1x4x1);
    TT_CLUSTER(2x4x1);
    TT_CLUSTER(4x4x1);
    TT_CLUSTER(8x1x1);
    TT_CLUSTER(1x8x1);
#undef TT_CLUSTER
    case CUBLASLT_CLUSTER_SHAPE_AUTO:
      return "auto";
    default:
      return "#" + std::to_string(cluster);
  }
}

}  // namespace

std::string describe(const cublasLtMatmulAlgo_t& a, int64_t* id) {
  *id = config<int32_t>(a, CUBLASLT_ALGO_CONFIG_ID);
  return "id " + std::to_string(*id) + ", tile " +
         tile_name(config<uint32_t>(a, CUBLASLT_ALGO_CONFIG_TILE_ID)) + ", stages " +
         stages_name(config<uint32_t>(a, CUBLASLT_ALGO_CONFIG_STAGES_ID)) + ", cluster " +
         cluster_name(config<uint16_t>(a, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID)) + ", split-k " +
         std::to_string(config<int32_t>(a, CUBLASLT_ALGO_CONFIG_SPLITK_NUM)) + ", swizzle " +
         std::to_string(config<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING)) + ", custom " +
         std::to_string(config<uint32_t>(a, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION));
}

}  // namespace tt::lt

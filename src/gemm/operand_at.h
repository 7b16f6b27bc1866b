// Reading an operand with its block scales; shared by the host's and the GPU's verification.
#pragma once

#include "src/gemm/block_scales.h"
#include "src/gemm/freivalds.h"

namespace tt {

/// Element (x, p) of an operand of encoding E.
template <Element E>
TT_HD inline double operand_at(const OperandView& v, int64_t x, int64_t p) {
  const double value = decode<E>(v.data, x * v.outer_stride + p * v.k_stride);
  if (!v.scales) return value;
  const int64_t blocks = (v.k + v.scale_block - 1) / v.scale_block;
  const uint8_t scale = v.scales[block_scale_offset(x, p / v.scale_block, blocks)];
  return value * static_cast<double>(v.scale_block == 32 ? decode_ue8m0(scale) : to_float(E4M3{scale}));
}

}  // namespace tt

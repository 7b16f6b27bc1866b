// Where cuBLASLt wants the scales of block-scaled operands (MXFP8, NVFP4).
#pragma once

#include <cstdint>

#include "src/gemm/element.h"

namespace tt {

/// Scales lie in tiles of 128 rows x 4 blocks, 512 bytes each, tiles row-major over the (padded) matrix; in a
/// tile, row r and block c lie at (r mod 32) * 16 + (r div 32) * 4 + c. Source: cuBLAS documentation, "1D
/// Block Scaling Factors Layout".
TT_HD inline int64_t block_scale_offset(int64_t row, int64_t block, int64_t blocks_per_row) {
  const int64_t tiles_per_row = (blocks_per_row + 3) / 4;
  const int64_t tile = row / 128 * tiles_per_row + block / 4;
  const int64_t r = row % 128;
  return tile * 512 + r % 32 * 16 + r / 32 * 4 + block % 4;
}

/// Bytes with the padding to whole tiles.
constexpr int64_t block_scale_bytes(int64_t rows, int64_t blocks_per_row) {
  return (rows + 127) / 128 * ((blocks_per_row + 3) / 4) * 512;
}

}  // namespace tt

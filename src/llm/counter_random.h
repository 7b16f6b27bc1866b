// Random numbers of a training step, the same on host and device: each depends on (seed, counter) alone.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/device/convert.h"  // TT_HD
#include "src/device/random.h"

namespace tt {

/// The 24 topmost bits of mix64: as many as a float holds exactly.
TT_HD inline uint32_t random24(uint64_t seed, uint64_t counter) {
  return static_cast<uint32_t>(mix64(seed, counter) >> 40);
}

/// Uniform in [0, 1), a multiple of 2^-24; exact.
TT_HD inline float uniform01(uint64_t seed, uint64_t counter) {
  return static_cast<float>(random24(seed, counter)) * 0x1p-24f;
}

/// Gumbel(0, 1): -log(-log u) with u = (k + 1/2) 2^-24, never 0 or 1 (u has 25 bits: exact in double only).
/// argmax_j (x_j + gumbel_j) is distributed as softmax(x) (Gumbel 1954; Maddison et al. 2014). Two libraries'
/// logarithms may differ in the last bit of a double, so near-ties of about 1e-15 alone may fall differently.
TT_HD inline double gumbel(uint64_t seed, uint64_t counter) {
  const double u = (static_cast<double>(random24(seed, counter)) + 0.5) * 0x1p-24;
  return -log(-log(u));
}

}  // namespace tt

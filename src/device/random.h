// Counter-based random data: element e of a stream depends on (seed, e) alone, on host and device alike.
#pragma once

#include <cstdint>

#include "common/dtype.h"
#include "src/device/device.h"

namespace tt {

/// 64 mixed bits of (seed, counter): the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over seed-keyed
/// counters.
constexpr uint64_t mix64(uint64_t seed, uint64_t counter) noexcept {
  uint64_t z = counter * 0x9e3779b97f4a7c15ull + (seed ^ 0xd1b54a32d192ed03ull) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// The value, exactly as stored (rounded to `type`), that fill_random gives element `e`.
///   normal          about N(0,1), |x| < 5.9: the sum of twelve 5-bit uniforms minus its mean (Irwin-Hall),
///   plus a fraction
///                   so that every mantissa bit is random (a GPU's power depends on it), / 32. All in
///                   integers, so host and device agree bit for bit. Signed integers: 32 x rounded,
///                   saturated; unsigned: its magnitude.
///   uniform         [-1, 1), which rounding to a short type may take to 1. Integers: over the whole type (64
///   bits: over
///                   53 bits, so that a double holds the value).
///   small_integers  -2 ... 2; unsigned integers 0 ... 4. Exact in every type.
double random_value(DType type, Fill fill, uint64_t seed, uint64_t e);

/// Writes elements first_element ... first_element + count - 1 to host memory with `threads` threads.
void fill_random_on_host(void* to, size_t count, DType type, Fill fill, uint64_t seed, uint64_t first_element,
                         int threads);

}  // namespace tt

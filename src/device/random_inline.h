// The generator behind fill_random and random_value, compiled for host and device alike. Integer arithmetic
// up to one last rounding, so that both give the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/device/convert.h"
#include "src/device/random.h"

namespace tt::detail {

/// Sum of the twelve 5-bit fields in the low 60 bits, less its mean 186: -186 ... 186, variance 12 (32^2 - 1)
/// / 12 = 1023. Neighbouring fields are added into six 10-bit fields (<= 62 each); the multiplication adds
/// these up in the topmost.
TT_HD constexpr int irwin_hall(uint64_t bits) noexcept {
  constexpr uint64_t fields =
      0x1full | 0x1full << 10 | 0x1full << 20 | 0x1full << 30 | 0x1full << 40 | 0x1full << 50;
  constexpr uint64_t ones = 1ull | 1ull << 10 | 1ull << 20 | 1ull << 30 | 1ull << 40 | 1ull << 50;
  const uint64_t pairs = (bits & fields) + ((bits >> 5) & fields);
  return static_cast<int>(((pairs * ones) >> 50) & 0x3ff) - 186;
}

template <class T>
TT_HD constexpr T normal_element(uint64_t bits) noexcept {
  const int k = irwin_hall(bits);
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_unsigned_v<T>) return static_cast<T>(k < 0 ? -k : k);
    if constexpr (sizeof(T) == 1) return static_cast<T>(k > 127 ? 127 : k < -127 ? -127 : k);
    return static_cast<T>(k);
  } else {
    const uint64_t low =
        (bits ^ (bits >> 29)) * 0x9fb21c651e98df25ull;  // the fraction: a second, cheap mix of the bits
    if constexpr (std::is_same_v<T, double>) {          // 9 + 40 bits
      const int64_t n = static_cast<int64_t>(k) * (1ll << 40) + static_cast<int64_t>(low >> 24) - (1ll << 39);
      return static_cast<double>(n) * 0x1p-45;
    } else {  // |n| <= 186.5 * 2^16 < 2^24: exact in a float
      const int32_t n = k * (1 << 16) + static_cast<int32_t>(low >> 48) - (1 << 15);
      return from_float<T>(static_cast<float>(n) * 0x1p-21f);
    }
  }
}

template <class T>
TT_HD constexpr T uniform_element(uint64_t bits) noexcept {
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8)
    return static_cast<T>(static_cast<int64_t>(bits >> 11) - (std::is_signed_v<T> ? 1ll << 52 : 0));
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(bits >> (64 - 8 * sizeof(T)));
  else if constexpr (std::is_same_v<T, double>)
    return static_cast<double>(static_cast<int64_t>(bits >> 11) - (1ll << 52)) * 0x1p-52;
  else
    return from_float<T>(static_cast<float>(static_cast<int32_t>(bits >> 40) - (1 << 23)) * 0x1p-23f);
}

template <class T>
TT_HD constexpr T small_integer_element(uint64_t bits) noexcept {
  const int v = static_cast<int>(((bits >> 32) * 5) >> 32);  // 0 ... 4
  if constexpr (std::is_unsigned_v<T>) return static_cast<T>(v);
  return from_float<T>(static_cast<float>(v - 2));
}

template <class T>
TT_HD constexpr T random_element(Fill fill, uint64_t seed, uint64_t e) noexcept {
  const uint64_t bits = mix64(seed, e);
  switch (fill) {
    case Fill::normal:
      return normal_element<T>(bits);
    case Fill::uniform:
      return uniform_element<T>(bits);
    case Fill::small_integers:
      break;
  }
  return small_integer_element<T>(bits);
}

}  // namespace tt::detail

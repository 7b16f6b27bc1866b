// Element encodings of GEMM operands and results, decoded to double alike on host and device.
#pragma once

#include <cstdint>
#include <cstring>

#include "src/device/convert.h"  // also TT_HD

namespace tt {

/// e2m1 packs two values into a byte, the even index in the low half. s8 and s32 are integers.
enum class Element : uint8_t { f64, f32, f16, bf16, e4m3, e5m2, e2m1, s8, s32 };

constexpr int bits_of(Element e) {
  switch (e) {
    case Element::f64:
      return 64;
    case Element::f32:
    case Element::s32:
      return 32;
    case Element::f16:
    case Element::bf16:
      return 16;
    case Element::e2m1:
      return 4;
    default:
      return 8;
  }
}
/// Bytes of `count` elements.
constexpr int64_t bytes_of(Element e, int64_t count) {
  return (count * bits_of(e) + 7) / 8;
}

template <class To, class From>
TT_HD inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

/// OCP e2m1: 0 0.5 1 1.5 2 3 4 6 and their negatives.
TT_HD inline float decode_e2m1(uint8_t code) {
  const uint32_t magnitude = code & 7;
  const float value = magnitude < 2
                          ? 0.5f * magnitude
                          : (magnitude & 1 ? 1.5f : 1.0f) * static_cast<float>(1u << (magnitude / 2 - 1));
  return code & 8 ? -value : value;
}
/// Block scales: UE8M0 is 2^(x-127), 255 NaN; UE4M3 is e4m3 without a sign.
TT_HD inline float decode_ue8m0(uint8_t x) {
  if (x == 255) return bits_as<float>(uint32_t{0x7fc00000});
  return x == 0 ? 0x1p-127f : bits_as<float>(static_cast<uint32_t>(x) << 23);
}

/// Element `index` of an array of encoding E.
template <Element E>
TT_HD inline double decode(const void* data, int64_t index) {
  if constexpr (E == Element::f64) return static_cast<const double*>(data)[index];
  if constexpr (E == Element::f32) return static_cast<const float*>(data)[index];
  if constexpr (E == Element::f16) return to_float(static_cast<const F16*>(data)[index]);
  if constexpr (E == Element::bf16) return to_float(static_cast<const Bf16*>(data)[index]);
  if constexpr (E == Element::e4m3) return to_float(static_cast<const E4M3*>(data)[index]);
  if constexpr (E == Element::e5m2) return to_float(static_cast<const E5M2*>(data)[index]);
  if constexpr (E == Element::e2m1)
    return decode_e2m1((static_cast<const uint8_t*>(data)[index / 2] >> (index % 2 * 4)) & 15);
  if constexpr (E == Element::s8) return static_cast<const int8_t*>(data)[index];
  if constexpr (E == Element::s32) return static_cast<const int32_t*>(data)[index];
}

template <Element E>
struct ElementTag {
  static constexpr Element value = E;
};

/// Calls f(ElementTag<e>{}): one compiled loop per encoding instead of a branch per element.
template <class F>
void with_element(Element e, F&& f) {
  switch (e) {
    case Element::f64:
      f(ElementTag<Element::f64>{});
      break;
    case Element::f32:
      f(ElementTag<Element::f32>{});
      break;
    case Element::f16:
      f(ElementTag<Element::f16>{});
      break;
    case Element::bf16:
      f(ElementTag<Element::bf16>{});
      break;
    case Element::e4m3:
      f(ElementTag<Element::e4m3>{});
      break;
    case Element::e5m2:
      f(ElementTag<Element::e5m2>{});
      break;
    case Element::e2m1:
      f(ElementTag<Element::e2m1>{});
      break;
    case Element::s8:
      f(ElementTag<Element::s8>{});
      break;
    case Element::s32:
      f(ElementTag<Element::s32>{});
      break;
  }
}

/// Square of the spacing of the representable numbers of a result type with `fraction_bits` at `value`; below
/// 2^min_exponent the spacing stays (subnormals). fraction_bits < 0: an exact type, 0.
TT_HD inline double spacing_squared(double value, int fraction_bits, int min_exponent) {
  if (fraction_bits < 0) return 0;
  int exponent = static_cast<int>((bits_as<uint64_t>(value) >> 52) & 0x7ff) - 1023;
  if (exponent < min_exponent) exponent = min_exponent;
  const int power =
      2 *
      (exponent - fraction_bits);  // squares of subnormal spacings of f64 would underflow: 0 is right then
  if (power < -1022) return 0;
  if (power > 1023) return bits_as<double>(uint64_t{0x7ff0000000000000});
  return bits_as<double>(static_cast<uint64_t>(power + 1023) << 52);
}

}  // namespace tt

// Narrow floating-point types as bits, and exact conversion to and from them: the same bits on host and
// device, constexpr.
//
// Rounding is to nearest, ties to even. Overflow: bf16 and f16 become infinite (IEEE 754); the 8-bit types
// saturate to their largest finite value, infinity included (what NVIDIA calls SATFINITE, OCP OFP8
// "saturating"). NaN stays NaN, as the code that NVIDIA's conversions give: 0x7fff for the 16-bit types, 0x7f
// for the 8-bit types.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define TT_HD __host__ __device__
#else
#define TT_HD
#endif

namespace tt {

struct Bf16 {  // 8 exponent bits, 7 mantissa bits
  uint16_t bits = 0;
};
struct F16 {  // 5, 10
  uint16_t bits = 0;
};
struct E4M3 {  // 4, 3; no infinity, S.1111.111 is NaN, largest 448
  uint8_t bits = 0;
};
struct E5M2 {  // 5, 2; largest finite 57344
  uint8_t bits = 0;
};

namespace detail {

/// Magnitude bits of |x| in a format of E exponent and M mantissa bits (bias 2^(E-1) - 1), as if its exponent
/// had no upper end: the caller cuts off at its largest code. x is finite.
template <int E, int M>
TT_HD constexpr uint32_t round_magnitude(float x) noexcept {
  constexpr int bias = (1 << (E - 1)) - 1, shift = 23 - M;
  const uint32_t a = std::bit_cast<uint32_t>(x) & 0x7fffffffu;
  const int below =
      (1 - bias) - (static_cast<int>(a >> 23) - 127);  // binades under the smallest normal; <= 0: normal
  if (below <= 0) {  // a carry out of the mantissa rightly moves on to the next binade
    const uint32_t rounded = a + ((1u << (shift - 1)) - 1) + ((a >> shift) & 1u);
    return (rounded >> shift) - (static_cast<uint32_t>(127 - bias) << M);
  }
  const int s = shift + below;
  if (s > 24) return 0;  // less than half the smallest subnormal (a float subnormal is, too, for bias < 127)
  const uint32_t mantissa = (a & 0x7fffffu) | 0x800000u;
  const uint32_t rest = mantissa & ((1u << s) - 1), half = 1u << (s - 1);
  const uint32_t q = mantissa >> s;
  return q + ((rest > half || (rest == half && (q & 1u))) ? 1u : 0u);
}

/// The value of finite magnitude bits; exact, since every such value is a float.
template <int E, int M>
TT_HD constexpr float magnitude_value(uint32_t code) noexcept {
  constexpr int bias = (1 << (E - 1)) - 1;
  const uint32_t exponent = code >> M, mantissa = code & ((1u << M) - 1);
  if (exponent == 0)  // subnormal: mantissa * 2^(1 - bias - M)
    return static_cast<float>(mantissa) *
           std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - bias - M) << 23);
  return std::bit_cast<float>(((exponent + static_cast<uint32_t>(127 - bias)) << 23) |
                              (mantissa << (23 - M)));
}

TT_HD constexpr bool is_nan(uint32_t float_bits) noexcept {
  return (float_bits & 0x7fffffffu) > 0x7f800000u;
}
TT_HD constexpr bool is_inf(uint32_t float_bits) noexcept {
  return (float_bits & 0x7fffffffu) == 0x7f800000u;
}

TT_HD constexpr float with_sign(float magnitude, uint32_t negative) noexcept {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | (negative ? 0x80000000u : 0u));
}

}  // namespace detail

TT_HD constexpr float to_float(Bf16 x) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

TT_HD constexpr float to_float(F16 x) noexcept {
  const uint32_t code = x.bits & 0x7fffu, negative = x.bits >> 15;
  if (code >= 0x7c00u)  // infinity, or NaN with its payload
    return detail::with_sign(std::bit_cast<float>(0x7f800000u | ((code & 0x3ffu) << 13)), negative);
  return detail::with_sign(detail::magnitude_value<5, 10>(code), negative);
}

TT_HD constexpr float to_float(E4M3 x) noexcept {
  const uint32_t code = x.bits & 0x7fu, negative = x.bits >> 7;
  if (code == 0x7fu) return detail::with_sign(std::bit_cast<float>(0x7fc00000u), negative);
  return detail::with_sign(detail::magnitude_value<4, 3>(code), negative);
}

TT_HD constexpr float to_float(E5M2 x) noexcept {
  const uint32_t code = x.bits & 0x7fu, negative = x.bits >> 7;
  if (code >= 0x7cu)
    return detail::with_sign(std::bit_cast<float>(0x7f800000u | ((code & 3u) << 21)), negative);
  return detail::with_sign(detail::magnitude_value<5, 2>(code), negative);
}

TT_HD constexpr Bf16 to_bf16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if (detail::is_nan(u)) return {0x7fff};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

TT_HD constexpr F16 to_f16(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if (detail::is_nan(u)) return {0x7fff};
  uint32_t code = detail::is_inf(u) ? 0x7c00u : detail::round_magnitude<5, 10>(x);
  if (code > 0x7c00u) code = 0x7c00u;
  return {static_cast<uint16_t>(code | ((u >> 16) & 0x8000u))};
}

TT_HD constexpr E4M3 to_e4m3(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x), sign = (u >> 24) & 0x80u;
  if (detail::is_nan(u)) return {0x7f};
  uint32_t code = detail::is_inf(u) ? 0x7eu : detail::round_magnitude<4, 3>(x);
  if (code > 0x7eu) code = 0x7eu;
  return {static_cast<uint8_t>(sign | code)};
}

TT_HD constexpr E5M2 to_e5m2(float x) noexcept {
  const uint32_t u = std::bit_cast<uint32_t>(x), sign = (u >> 24) & 0x80u;
  if (detail::is_nan(u)) return {0x7f};
  uint32_t code = detail::is_inf(u) ? 0x7bu : detail::round_magnitude<5, 2>(x);
  if (code > 0x7bu) code = 0x7bu;
  return {static_cast<uint8_t>(sign | code)};
}

/// The float next to x towards zero, with its last bit set if that lost anything ("round to odd"). Rounding
/// the result once more to a format at least two bits shorter gives what rounding x there directly gives
/// (Boldo and Melquiond 2008), so a double reference can be stored as bf16 or fp8 without being rounded
/// twice. Beyond the largest float: that one (odd).
TT_HD constexpr float to_float_odd(double x) noexcept {
  const uint64_t u = std::bit_cast<uint64_t>(x), a = u & 0x7fffffffffffffffull;
  const uint32_t sign = static_cast<uint32_t>(u >> 32) & 0x80000000u;
  if (a >= 0x7ff0000000000000ull) return static_cast<float>(x);  // infinity, NaN
  const int exponent = static_cast<int>(a >> 52) - 1023;
  if (exponent > 127) return std::bit_cast<float>(sign | 0x7f7fffffu);
  const uint64_t mantissa = (a & 0xfffffffffffffull) | (a >> 52 ? 0x10000000000000ull : 0);
  const int shift = exponent >= -126 ? 29 : 29 + (-126 - exponent);
  if (shift > 53) return std::bit_cast<float>(sign | (a ? 1u : 0u));
  uint32_t kept = static_cast<uint32_t>(mantissa >> shift);
  if (mantissa & ((1ull << shift) - 1)) kept |= 1u;
  // A normal's implicit bit is in `kept`, so adding (exponent field - 1) gives the right exponent field.
  const uint32_t field = exponent >= -126 ? static_cast<uint32_t>(exponent + 126) << 23 : 0u;
  return std::bit_cast<float>(sign | (kept + field));
}

/// T(x) rounded once, for templated code. Integers: x must be a value of T.
template <class T>
TT_HD constexpr T from_float(float x) noexcept {
  return static_cast<T>(x);
}
template <>
TT_HD constexpr Bf16 from_float<Bf16>(float x) noexcept {
  return to_bf16(x);
}
template <>
TT_HD constexpr F16 from_float<F16>(float x) noexcept {
  return to_f16(x);
}
template <>
TT_HD constexpr E4M3 from_float<E4M3>(float x) noexcept {
  return to_e4m3(x);
}
template <>
TT_HD constexpr E5M2 from_float<E5M2>(float x) noexcept {
  return to_e5m2(x);
}

template <class T>
TT_HD constexpr T from_double(double x) noexcept {
  if constexpr (requires(T t) { t.bits; })
    return from_float<T>(to_float_odd(x));
  else
    return static_cast<T>(x);
}

TT_HD constexpr double to_double(Bf16 x) noexcept {
  return to_float(x);
}
TT_HD constexpr double to_double(F16 x) noexcept {
  return to_float(x);
}
TT_HD constexpr double to_double(E4M3 x) noexcept {
  return to_float(x);
}
TT_HD constexpr double to_double(E5M2 x) noexcept {
  return to_float(x);
}
/// Exact for integers up to 2^53.
template <class T>
requires(!requires(T x) { x.bits; }) TT_HD constexpr double to_double(T x) noexcept {
  return static_cast<double>(x);
}

}  // namespace tt

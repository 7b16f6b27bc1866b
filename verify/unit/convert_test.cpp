// Narrow types: every pattern of every type, against values computed another way (ldexp), and rounding
// against a search for the nearest value.
#include "src/device/convert.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "verify/unit/catch.h"

using namespace tt;

namespace {

/// The value of a code by the definition: (-1)^s 2^(e - bias) (1 + m / 2^M), subnormals 2^(1 - bias) m / 2^M.
double by_definition(uint32_t code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t m = code & ((1u << mantissa_bits) - 1);
  const int e = static_cast<int>((code >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const bool negative = (code >> (exponent_bits + mantissa_bits)) & 1;
  const double magnitude = e == 0 ? std::ldexp(m, 1 - bias - mantissa_bits)
                                  : std::ldexp(m + (1u << mantissa_bits), e - bias - mantissa_bits);
  return negative ? -magnitude : magnitude;
}

struct Bf16Format {
  using T = Bf16;
  static constexpr int exponent = 8, mantissa = 7;
  static constexpr uint32_t largest = 0x7f7f;
  static constexpr bool saturates = false;
  static T from(float x) { return to_bf16(x); }
};
struct F16Format {
  using T = F16;
  static constexpr int exponent = 5, mantissa = 10;
  static constexpr uint32_t largest = 0x7bff;
  static constexpr bool saturates = false;
  static T from(float x) { return to_f16(x); }
};
struct E4M3Format {
  using T = E4M3;
  static constexpr int exponent = 4, mantissa = 3;
  static constexpr uint32_t largest = 0x7e;
  static constexpr bool saturates = true;
  static T from(float x) { return to_e4m3(x); }
};
struct E5M2Format {
  using T = E5M2;
  static constexpr int exponent = 5, mantissa = 2;
  static constexpr uint32_t largest = 0x7b;
  static constexpr bool saturates = true;
  static T from(float x) { return to_e5m2(x); }
};

template <class T>
T of_bits(uint32_t bits) {
  T x;
  x.bits = static_cast<decltype(x.bits)>(bits);
  return x;
}

template <class Format>
void check_all_codes() {
  using T = typename Format::T;
  const uint32_t codes = 1u << (8 * sizeof(T)), sign = codes / 2;
  int64_t wrong = 0, round_trip = 0, nans = 0, infinities = 0;
  for (uint32_t code = 0; code < codes; ++code) {
    const T x = of_bits<T>(code);
    const float value = to_float(x);
    if ((code & (sign - 1)) <= Format::largest) {
      wrong += !(value == by_definition(code, Format::exponent, Format::mantissa));
      wrong += std::signbit(value) != (code >= sign);
      round_trip += Format::from(value).bits != x.bits;  // -0 too
    } else if (std::isinf(value)) {
      ++infinities;
      round_trip += !Format::saturates && Format::from(value).bits != x.bits;
    } else {
      wrong += !std::isnan(value);
      round_trip += !std::isnan(to_float(Format::from(value)));
      ++nans;
    }
  }
  CHECK(wrong == 0);
  CHECK(round_trip == 0);
  const bool has_infinity = Format::largest + 1 != (codes / 2 - 1) || Format::mantissa != 3;  // all but e4m3
  CHECK(infinities == (has_infinity ? 2 : 0));
  CHECK(nans == static_cast<int64_t>(codes) - 2 * static_cast<int64_t>(Format::largest + 1) - infinities);
}

/// Around each pair of neighbours: exactly half way goes to the even one, a float beside it to the nearer
/// one.
template <class Format>
void check_rounding() {
  using T = typename Format::T;
  int64_t wrong = 0;
  for (uint32_t code = 0; code < Format::largest; ++code) {
    const double low = by_definition(code, Format::exponent, Format::mantissa);
    const double high = by_definition(code + 1, Format::exponent, Format::mantissa);
    const double middle = (low + high) / 2;
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    const uint32_t sign = 1u << (8 * sizeof(T) - 1);
    if (const float tie = static_cast<float>(middle); tie == middle) {
      wrong += Format::from(tie).bits != even;
      wrong += Format::from(-tie).bits != (even | sign);
      wrong += Format::from(std::nextafter(tie, 0.f)).bits != code;
      wrong += Format::from(std::nextafter(tie, std::numeric_limits<float>::infinity())).bits != code + 1;
    }
    // In double, so close to the middle that a float in between would lose which side it is on.
    wrong += from_double<T>(middle).bits != even;
    wrong += from_double<T>(std::nextafter(middle, 0.0)).bits != code;
    wrong += from_double<T>(std::nextafter(middle, 1e300)).bits != code + 1;
    wrong += from_double<T>(-std::nextafter(middle, 1e300)).bits != ((code + 1) | sign);
  }
  CHECK(wrong == 0);
}

template <class Format>
void check_extremes() {
  using T = typename Format::T;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const uint32_t beyond = Format::saturates ? Format::largest : Format::largest + 1;
  const uint32_t sign = 1u << (8 * sizeof(T) - 1);
  CHECK(Format::from(inf).bits == beyond);
  CHECK(Format::from(-inf).bits == (beyond | sign));
  CHECK(Format::from(std::numeric_limits<float>::max()).bits == beyond);
  CHECK(from_double<T>(1e300).bits == beyond);
  CHECK(from_double<T>(-1e300).bits == (beyond | sign));
  CHECK(std::isnan(to_float(Format::from(nan))));
  CHECK(std::isnan(to_float(Format::from(-nan))));
  CHECK(std::isnan(to_float(from_double<T>(std::nan("")))));
  CHECK(Format::from(0.f).bits == 0);
  CHECK(Format::from(-0.f).bits == sign);
  CHECK(from_double<T>(1e-320).bits == 0);
  CHECK(Format::from(std::numeric_limits<float>::denorm_min()).bits == 0);
}

}  // namespace

TEST_CASE("every code of every narrow type has the value of its definition and survives the round trip") {
  SECTION("bf16") {
    check_all_codes<Bf16Format>();
  }
  SECTION("f16") {
    check_all_codes<F16Format>();
  }
  SECTION("e4m3") {
    check_all_codes<E4M3Format>();
  }
  SECTION("e5m2") {
    check_all_codes<E5M2Format>();
  }
}

TEST_CASE("narrow types round to nearest, ties to even, once") {
  SECTION("bf16") {
    check_rounding<Bf16Format>();
  }
  SECTION("f16") {
    check_rounding<F16Format>();
  }
  SECTION("e4m3") {
    check_rounding<E4M3Format>();
  }
  SECTION("e5m2") {
    check_rounding<E5M2Format>();
  }
}

TEST_CASE("narrow types at the ends of their range") {
  SECTION("bf16") {
    check_extremes<Bf16Format>();
  }
  SECTION("f16") {
    check_extremes<F16Format>();
  }
  SECTION("e4m3") {
    check_extremes<E4M3Format>();
  }
  SECTION("e5m2") {
    check_extremes<E5M2Format>();
  }
}

TEST_CASE("known codes of the narrow types") {
  static_assert(to_bf16(1.0f).bits == 0x3f80 && to_f16(1.0f).bits == 0x3c00);
  static_assert(to_e4m3(1.0f).bits == 0x38 && to_e5m2(1.0f).bits == 0x3c);
  static_assert(to_float(E4M3{0x7e}) == 448.0f && to_float(E5M2{0x7b}) == 57344.0f &&
                to_float(F16{0x7bff}) == 65504.0f);
  static_assert(to_float(E4M3{1}) == 0x1p-9f && to_float(E5M2{1}) == 0x1p-16f &&
                to_float(F16{1}) == 0x1p-24f);
  CHECK(to_e4m3(464.0f).bits == 0x7e);  // half way to the value that would come next: saturates, never NaN
  CHECK(to_e4m3(-1e9f).bits == 0xfe);
  CHECK(to_f16(65519.996f).bits == 0x7bff);
  CHECK(to_f16(65520.0f).bits == 0x7c00);
}

TEST_CASE("rounding to odd keeps the side of the midpoint and the nearest float") {
  std::mt19937_64 random(5);
  int64_t wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const double x = std::bit_cast<double>(random());
    if (std::isnan(x)) continue;
    const float odd = to_float_odd(x);
    const double back = odd;
    if (std::fabs(x) > std::numeric_limits<float>::max()) {
      wrong += std::isinf(x) ? !std::isinf(odd) : std::fabs(odd) != std::numeric_limits<float>::max();
      continue;
    }
    if (back == x) continue;
    // Off by less than one step, and on an odd code.
    wrong += (std::bit_cast<uint32_t>(odd) & 1u) != 1u;
    const double below = std::nextafter(odd, -std::numeric_limits<float>::infinity());
    const double above = std::nextafter(odd, std::numeric_limits<float>::infinity());
    wrong += !(below < x && x < above);
    wrong += std::signbit(odd) != std::signbit(x);
  }
  // Exponents near float's, where nearly all of the doubles above are not.
  for (int i = 0; i < 200000; ++i) {
    const double x = std::ldexp(static_cast<double>(random()) - 9e18, static_cast<int>(random() % 280) - 215);
    const float odd = to_float_odd(x);
    const double below = std::nextafter(odd, -std::numeric_limits<float>::infinity());
    const double above = std::nextafter(odd, std::numeric_limits<float>::infinity());
    if (std::fabs(x) <= std::numeric_limits<float>::max()) wrong += !(below < x && x < above);
    if (static_cast<double>(odd) != x) wrong += (std::bit_cast<uint32_t>(odd) & 1u) != 1u;
  }
  CHECK(wrong == 0);
}

// Data for collectives whose result every element tells apart: what each rank contributes and what must come
// out, each in O(1) per element, on host and device alike. docs/method.md, "Collectives", derives it.
//
// Element e of a reduction: one hash of (key, e) gives a rotation h, a factor c in 1 ... C and a sign. With
// j = (rank + h) mod n a rank contributes +-c w(j); the sum is +-c W, W = w(0) + ... + w(n-1), whatever h is.
// C W <= B, up to which the type has every integer: the sum is exact in any order and compared bit for bit.
//
// avg: as sum, then divided by n. Integers: the rank at j = 0 adds what takes the sum to a multiple of n, or
// to one short of it, so that rounding hides nothing. Floating point: exact if n is a power of two, otherwise
// within M + 2 roundings, M being how many ranks contribute to an element.
//
// mulsum: the input is c w(j) 2 / premul_scalar(rank); the sum is 2 c W, and B/2 takes the place of B.
//
// prod: the rank at j = 0 gives +-c (c = 1 ... 4), those at 1 ... m give +-2, the rest 1: +-c 2^m.
//
// max: the rank at j = 0 has b(e), the others b - 1 - (0 ... K-1); min the same upwards.
//
// Element e of a copy (all_gather, broadcast, ...) is random bits of (key, source rank, index in the source),
// with the exponent of floating-point types kept off infinity and NaN.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "common/dtype.h"
#include "src/comm/comm.h"
#include "src/device/convert.h"
#include "src/device/random.h"

namespace tt {

enum class PatternKind : int { copy, sum, mulsum, avg, prod, max, min };
PatternKind pattern_of(ReduceOp op) noexcept;

struct Pattern {
  DType type = DType::f32;
  PatternKind kind = PatternKind::copy;
  int ranks = 1;
  uint64_t key = 0;
  bool is_signed = true;
  bool exact = true;            // results are compared bit for bit; else within the tolerances (avg)
  int32_t contributors = 1;     // M
  uint32_t weight_mask = 0;     // k - 1
  int64_t weight_sum = 1;       // W
  int64_t c_max = 1;            // C
  int32_t powers_max = 0;       // prod: m at most
  int64_t low = 0, values = 1;  // max, min: b is low ... low + values - 1
  uint32_t spread_mask = 0;     // K - 1
  bool rounds_up = false;       // avg of integers: the addition at j = 0
  double relative = 0, absolute = 0;
};

/// The pattern of this type, kind and number of ranks; `key` is set by the caller for each iteration.
/// EnvironmentError where there is none: avg of a type in which 1/n is no normal number (e4m3 beyond 64
/// ranks, e5m2 and half beyond 16384).
Pattern make_pattern(DType type, PatternKind kind, int ranks);

/// What an output must be, element i of it.
struct Expect {
  enum class Kind : int { reduced, copied, untouched };
  Kind kind = Kind::reduced;
  // reduced: the reduction's element base + i. copied: the input of rank source + i / block at index base + i
  // % block. untouched: every byte is kPoison.
  int source = 0;
  uint64_t block = 1;
  uint64_t base = 0;
};

/// Data repeat after this many elements: the host then makes and compares all but the first period at the
/// speed of memory. A prime, so that no block of a power of two, or of another usual size, lies a whole
/// number of periods from where it belongs.
inline constexpr uint64_t kPeriod = 65521;

/// Outputs are filled with this before an iteration. As any of the types it is no value that a reduction here
/// results in.
inline constexpr unsigned char kPoison = 0x95;

namespace pattern {

TT_HD constexpr uint64_t scaled(uint64_t random31,
                                int64_t count) noexcept {  // 0 ... count - 1, count <= 2^31
  return (random31 * static_cast<uint64_t>(count)) >> 31;
}
TT_HD constexpr uint32_t hash_of_place(uint32_t j) noexcept {
  return (j * 0x9e3779b1u) >> 20;
}
TT_HD constexpr int64_t weight(const Pattern& p, uint32_t j) noexcept {
  return j < static_cast<uint32_t>(p.contributors)
             ? 1 + static_cast<int64_t>(hash_of_place(j) & p.weight_mask)
             : 0;
}

/// The 64 hash bits of an element, taken apart: 0-31 rotation, 32-62 value, 63 sign; prod's m uses 34-61, its
/// second sign 33.
struct Hashed {
  uint64_t bits;
  TT_HD constexpr uint32_t place(int rank, int ranks) const noexcept {
    const uint32_t j = static_cast<uint32_t>(rank) +
                       static_cast<uint32_t>(((bits & 0xffffffffu) * static_cast<uint64_t>(ranks)) >> 32);
    return j >= static_cast<uint32_t>(ranks) ? j - static_cast<uint32_t>(ranks) : j;
  }
  TT_HD constexpr uint64_t value31() const noexcept { return (bits >> 32) & 0x7fffffffu; }
  TT_HD constexpr bool negative() const noexcept { return bits >> 63; }
};

TT_HD constexpr int64_t signed_c(const Pattern& p, Hashed h) noexcept {
  const int64_t c = 1 + static_cast<int64_t>(scaled(h.value31(), p.c_max));
  return p.is_signed && h.negative() ? -c : c;
}
TT_HD constexpr int32_t powers(const Pattern& p, Hashed h) noexcept {  // m: 1 ... powers_max, or 0
  return p.powers_max == 0
             ? 0
             : 1 + static_cast<int32_t>(
                       (((h.bits >> 34) & 0xfffffffu) * static_cast<uint64_t>(p.powers_max)) >> 28);
}
TT_HD constexpr bool second_sign(const Pattern& p, Hashed h) noexcept {
  return p.is_signed && p.ranks > 1 && ((h.bits >> 33) & 1);
}
TT_HD constexpr int64_t product_c(const Pattern& p, Hashed h) noexcept {
  const int64_t c = 1 + static_cast<int64_t>((h.bits >> 61) & 3);
  return p.is_signed && (h.bits & 1) ? -c : c;
}

/// avg of integers: what the rank at j = 0 adds, with the sign of c.
TT_HD constexpr int64_t addition(const Pattern& p, Hashed h, int64_t c) noexcept {
  if (!p.rounds_up) return 0;
  const int64_t n = p.ranks, sum = (c < 0 ? -c : c) * p.weight_sum, wanted = (h.bits >> 32) & 1 ? n - 1 : 0;
  const int64_t add = (wanted - sum % n + n) % n;
  return c < 0 ? -add : add;
}

/// What `rank` contributes to element e of a reduction, before rounding to the type (nothing is lost by
/// that).
TT_HD constexpr int64_t contribution(const Pattern& p, int rank, uint64_t e) noexcept {
  const Hashed h{mix64(p.key, e % kPeriod)};
  const uint32_t j = h.place(rank, p.ranks);
  switch (p.kind) {
    case PatternKind::sum:
      return signed_c(p, h) * weight(p, j);
    case PatternKind::avg: {
      const int64_t c = signed_c(p, h);
      return c * weight(p, j) + (j == 0 ? addition(p, h, c) : 0);
    }
    case PatternKind::mulsum:
      return signed_c(p, h) * weight(p, j) * (2 / premul_scalar(rank));
    case PatternKind::prod:
      if (j == 0) return product_c(p, h);
      return static_cast<int32_t>(j) > powers(p, h) ? 1 : j == 1 && second_sign(p, h) ? -2 : 2;
    case PatternKind::max:
    case PatternKind::min: {
      const int64_t b = p.low + static_cast<int64_t>(scaled(h.value31(), p.values));
      const int64_t off = j == 0 ? 0 : 1 + static_cast<int64_t>(hash_of_place(j) & p.spread_mask);
      return p.kind == PatternKind::max ? b - off : b + off;
    }
    case PatternKind::copy:
      break;
  }
  return 0;
}

/// The reduction's element e: the exact result, for avg the sum before it is divided.
TT_HD constexpr int64_t reduced(const Pattern& p, uint64_t e) noexcept {
  const Hashed h{mix64(p.key, e % kPeriod)};
  switch (p.kind) {
    case PatternKind::sum:
      return signed_c(p, h) * p.weight_sum;
    case PatternKind::avg: {
      const int64_t c = signed_c(p, h);
      return c * p.weight_sum + addition(p, h, c);
    }
    case PatternKind::mulsum:
      return signed_c(p, h) * p.weight_sum * 2;
    case PatternKind::prod: {
      const int64_t c = product_c(p, h);
      return (second_sign(p, h) ? -c : c) * (int64_t{1} << powers(p, h));
    }
    case PatternKind::max:
    case PatternKind::min:
      return p.low + static_cast<int64_t>(scaled(h.value31(), p.values));
    case PatternKind::copy:
      break;
  }
  return 0;
}

template <int Bytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using type = uint8_t;
};
template <>
struct BitsOf<2> {
  using type = uint16_t;
};
template <>
struct BitsOf<4> {
  using type = uint32_t;
};
template <>
struct BitsOf<8> {
  using type = uint64_t;
};
template <class T>
using bits_t = typename BitsOf<sizeof(T)>::type;

template <class T>
TT_HD constexpr bits_t<T> bits_of(T x) noexcept {
  return std::bit_cast<bits_t<T>>(x);
}

/// The exponent field; bits with all of it set are infinity or NaN (or near them) and get its highest bit
/// cleared.
template <class T>
TT_HD constexpr uint64_t exponent_mask() noexcept {
  if constexpr (std::is_same_v<T, double>) return 0x7ff0000000000000ull;
  if constexpr (std::is_same_v<T, float>) return 0x7f800000ull;
  if constexpr (std::is_same_v<T, F16>) return 0x7c00ull;
  if constexpr (std::is_same_v<T, Bf16>) return 0x7f80ull;
  if constexpr (std::is_same_v<T, E4M3>) return 0x78ull;
  if constexpr (std::is_same_v<T, E5M2>) return 0x7cull;
  return 0;
}

TT_HD constexpr uint64_t source_key(const Pattern& p, int rank) noexcept {
  return mix64(p.key, 0x51ull << 56 | static_cast<uint64_t>(rank));
}
template <class T>
TT_HD constexpr T copied_element(uint64_t key_of_source, uint64_t index) noexcept {
  uint64_t bits = mix64(key_of_source, index % kPeriod) >> (64 - 8 * sizeof(T));
  constexpr uint64_t mask = exponent_mask<T>();
  if (mask != 0 && (bits & mask) == mask) bits ^= mask & ~(mask >> 1);
  return std::bit_cast<T>(static_cast<bits_t<T>>(bits));
}

template <class T>
TT_HD constexpr T store(int64_t v) noexcept {
  if constexpr (requires(T t) { t.bits; })
    return from_float<T>(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

/// The input of `rank` at index e.
template <class T>
TT_HD constexpr T input_element(const Pattern& p, int rank, uint64_t e) noexcept {
  return p.kind == PatternKind::copy ? copied_element<T>(source_key(p, rank), e)
                                     : store<T>(contribution(p, rank, e));
}

/// The reduction's element e. Where the result is not exact this is the nearest value.
template <class T>
TT_HD constexpr T reduced_element(const Pattern& p, uint64_t e) noexcept {
  const int64_t v = reduced(p, e);
  if (p.kind != PatternKind::avg) return store<T>(v);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(v / p.ranks);
  else
    return from_double<T>(static_cast<double>(v) / p.ranks);
}

/// Does `got` pass as the reduction's element e? NaN never does.
template <class T>
TT_HD constexpr bool reduced_matches(const Pattern& p, T got, uint64_t e) noexcept {
  if (p.exact) return bits_of(got) == bits_of(reduced_element<T>(p, e));
  const double want = static_cast<double>(reduced(p, e)) / p.ranks, off = to_double(got) - want;
  return (off < 0 ? -off : off) <= p.relative * (want < 0 ? -want : want) + p.absolute;
}

template <class T>
TT_HD constexpr T untouched_element() noexcept {
  return std::bit_cast<T>(static_cast<bits_t<T>>(0x9595959595959595ull));
}

/// Element i of an output, see Expect.
template <class T>
TT_HD constexpr T expected_element(const Pattern& p, const Expect& x, uint64_t i) noexcept {
  switch (x.kind) {
    case Expect::Kind::reduced:
      return reduced_element<T>(p, x.base + i);
    case Expect::Kind::copied: {
      const uint64_t block = i < x.block ? 0 : i / x.block;
      return input_element<T>(p, x.source + static_cast<int>(block), x.base + (i - block * x.block));
    }
    case Expect::Kind::untouched:
      break;
  }
  return untouched_element<T>();
}
template <class T>
TT_HD constexpr bool matches(const Pattern& p, const Expect& x, T got, uint64_t i) noexcept {
  if (x.kind == Expect::Kind::reduced) return reduced_matches(p, got, x.base + i);
  return bits_of(got) == bits_of(expected_element<T>(p, x, i));
}

}  // namespace pattern

/// How many elements of an output are wrong, and the first of them (-1: none).
struct Found {
  int64_t wrong = 0;
  int64_t first = -1;
};

/// Writes elements first ... first + count - 1 of the input of `rank`. Host memory; `threads` OpenMP threads.
void generate_on_host(void* to, size_t count, const Pattern& p, int rank, uint64_t first, int threads);
Found check_on_host(const void* data, size_t count, const Pattern& p, const Expect& expect, int threads);

/// For messages: element i of the output as it should be, and the element stored at `element` (host memory).
double expected_value(const Pattern& p, const Expect& expect, uint64_t i);
double stored_value(DType type, const void* element);

/// Generates and checks on a device, in stream order.
class PatternRunner {
 public:
  virtual ~PatternRunner() = default;
  virtual void generate(void* to, size_t count, const Pattern& p, int rank, uint64_t first, Stream& s) = 0;
  /// Enqueues a check; its outcome is found in collect() at the index that check() returns.
  virtual size_t check(const void* data, size_t count, const Pattern& p, const Expect& expect, Stream& s) = 0;
  /// Waits for the checks since the last call and gives their outcomes.
  virtual std::vector<Found> collect(Stream& s) = 0;
};
std::unique_ptr<PatternRunner> make_pattern_runner(Device& device, int threads);

}  // namespace tt

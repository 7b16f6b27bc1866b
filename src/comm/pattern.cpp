#include "src/comm/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "src/comm/cuda_entry.h"
#include "src/device/cuda_library.h"
#include "src/device/dtype_visit.h"

namespace tt {
namespace {

/// B: integers up to it are exact in the type (floating point), or keep clear of the type's ends (integers).
int64_t exact_limit(DType type) {
  switch (type) {
    case DType::int8:
      return 64;
    case DType::uint8:
      return 128;
    case DType::int32:
    case DType::uint32:
      return int64_t{1} << 30;
    case DType::int64:
    case DType::uint64:
    case DType::f64:
      return int64_t{1} << 52;
    case DType::f32:
      return int64_t{1} << 24;
    case DType::f16:
      return int64_t{1} << 11;
    case DType::bf16:
      return int64_t{1} << 8;
    case DType::f8e4m3:
      return int64_t{1} << 4;
    case DType::f8e5m2:
      return int64_t{1} << 3;
  }
  return 2;
}

bool is_unsigned(DType type) {
  return type == DType::uint8 || type == DType::uint32 || type == DType::uint64;
}
bool is_integer(DType type) {
  return is_unsigned(type) || type == DType::int8 || type == DType::int32 || type == DType::int64;
}

/// prod: 2^this times 4 is a value of the type.
int powers_limit(DType type) {
  switch (type) {
    case DType::int8:
    case DType::uint8:
    case DType::f8e4m3:
      return 4;
    case DType::f16:
    case DType::f8e5m2:
      return 11;
    case DType::int32:
    case DType::uint32:
      return 26;
    default:
      return 50;
  }
}

/// The exponents of the smallest normal and subnormal number of a floating-point type.
struct Smallest {
  int normal, subnormal;
};
Smallest smallest_of(DType type) {
  switch (type) {
    case DType::f64:
      return {-1022, -1074};
    case DType::f16:
      return {-14, -24};
    case DType::bf16:
      return {-126, -133};
    case DType::f8e4m3:
      return {-6, -9};
    case DType::f8e5m2:
      return {-14, -16};
    default:
      return {-126, -149};
  }
}

constexpr int64_t kMost = int64_t{1} << 31;  // what 31 hash bits can be scaled to

void set_weights(Pattern& p, int64_t limit, int64_t contributors, int64_t k_max) {
  int64_t k = k_max;
  while (k > 1 && contributors * k * 2 > limit) k /= 2;
  if (k == 1 && contributors == p.ranks && p.ranks > 1) --contributors;  // else all weights were alike
  p.contributors = static_cast<int32_t>(contributors);
  p.weight_mask = static_cast<uint32_t>(k - 1);
  p.weight_sum = 0;
  for (int64_t j = 0; j < contributors; ++j) p.weight_sum += pattern::weight(p, static_cast<uint32_t>(j));
  p.c_max = std::min(limit / p.weight_sum, kMost);
}

void set_average(Pattern& p, int64_t limit) {
  const int64_t n = p.ranks;
  const bool power_of_two = (n & (n - 1)) == 0;
  const Smallest small = smallest_of(p.type);
  if (!is_integer(p.type) && n > std::ldexp(1.0, -small.normal))
    throw EnvironmentError(std::string("avg of ") + name_of(p.type) + " over " + std::to_string(n) +
                           " ranks: 1/" + std::to_string(n) + " is not a normal number of the type");
  p.rounds_up = is_integer(p.type) && n <= limit;  // limit + n - 1 is still a value of every integer type
  if (is_integer(p.type) || power_of_two) {
    set_weights(p, limit, std::min<int64_t>(n, limit / 2), 16);
    return;
  }
  const auto most = static_cast<int64_t>(std::sqrt(static_cast<double>(limit) / 2)) - 1;
  set_weights(p, limit, std::clamp<int64_t>(most, 1, n), 2);
  p.exact = false;
  p.relative = std::expm1((p.contributors + 2) * std::log1p(1.0 / static_cast<double>(limit)));
  p.absolute = p.contributors * std::ldexp(1.0, small.subnormal);
}

void set_extremes(Pattern& p, int64_t limit) {
  limit = std::min(limit, kMost / 4);
  const int64_t k = std::min<int64_t>(16, limit / 4);
  const int64_t high = limit - k - 1;
  p.spread_mask = static_cast<uint32_t>(k - 1);
  p.low = p.is_signed ? -high : k + 1;
  p.values = high - p.low + 1;
}

/// Calls f with a copy of the pattern whose kind the compiler knows, so that it makes a loop of its own for
/// each kind and keeps the pattern in registers (stores through char-like types could change it otherwise).
template <PatternKind kind>
Pattern with_kind(Pattern p) {
  p.kind = kind;
  return p;
}
template <class F>
void for_kind(const Pattern& p, F&& f) {
  switch (p.kind) {
    case PatternKind::copy:
      return f(std::integral_constant<PatternKind, PatternKind::copy>{});
    case PatternKind::sum:
      return f(std::integral_constant<PatternKind, PatternKind::sum>{});
    case PatternKind::mulsum:
      return f(std::integral_constant<PatternKind, PatternKind::mulsum>{});
    case PatternKind::avg:
      return f(std::integral_constant<PatternKind, PatternKind::avg>{});
    case PatternKind::prod:
      return f(std::integral_constant<PatternKind, PatternKind::prod>{});
    case PatternKind::max:
      return f(std::integral_constant<PatternKind, PatternKind::max>{});
    case PatternKind::min:
      return f(std::integral_constant<PatternKind, PatternKind::min>{});
  }
}

template <class T>
void generate_range(T* out, size_t begin, size_t end, const Pattern& p, int rank, uint64_t first) {
  for_kind(p, [&](auto kind) {
    const Pattern known = with_kind<kind()>(p);
    const uint64_t key = pattern::source_key(known, rank);
    for (size_t i = begin; i < end; ++i)
      out[i] = kind() == PatternKind::copy ? pattern::copied_element<T>(key, first + i)
                                           : pattern::store<T>(pattern::contribution(known, rank, first + i));
  });
}

template <class T>
void check_range(const T* data, size_t begin, size_t end, const Pattern& p, const Expect& expect,
                 Found& result) {
  for_kind(p, [&](auto kind) {
    const Pattern known = with_kind<kind()>(p);
    const Expect x = expect;
    Found found;
    for (size_t i = begin; i < end; ++i)
      if (!pattern::matches(known, x, data[i], i)) {
        if (found.first < 0) found.first = static_cast<int64_t>(i);
        ++found.wrong;
      }
    result = found;
  });
}

/// Calls f(begin, end) for the pieces of an array, each a whole number of periods, by threads.
template <class F>
void in_pieces(size_t count, int threads, F&& f) {
  constexpr auto kPiece = static_cast<size_t>(4 * kPeriod);
  const auto pieces = static_cast<int64_t>((count + kPiece - 1) / kPiece);
#pragma omp parallel for num_threads(threads) schedule(static) if (pieces > 1 && threads > 1)
  for (int64_t i = 0; i < pieces; ++i) {
    const size_t begin = static_cast<size_t>(i) * kPiece;
    f(begin, std::min(count, begin + kPiece));
  }
}

/// Elements begin ... end - 1, where begin is a whole number of periods, are those of the first period again.
template <class T, class F>
void by_period(size_t begin, size_t end, F&& f) {
  for (size_t i = std::max<size_t>(begin, kPeriod); i < end; i += kPeriod)
    f(i, std::min<size_t>(kPeriod, end - i));
}

/// Checks elements from `at` on, in which what is expected has the period. Once the first period has passed,
/// the others are compared with it as bytes; where one differs, or when the first is wrong, each element is
/// checked by itself.
template <class T>
Found check_run(const T* data, size_t at, size_t count, const Pattern& p, const Expect& x, int threads) {
  Found all;
  const T* run = data + at;
  check_range(data, at, at + std::min<size_t>(count, kPeriod), p, x, all);
  const bool reference = all.wrong == 0;
  std::mutex mutex;
  in_pieces(count, threads, [&](size_t begin, size_t end) {
    by_period<T>(begin, end, [&](size_t i, size_t n) {
      if (reference && std::memcmp(run + i, run, n * sizeof(T)) == 0) return;
      Found found;
      check_range(data, at + i, at + i + n, p, x, found);
      if (found.wrong == 0) return;
      const std::lock_guard lock(mutex);
      all.wrong += found.wrong;
      if (all.first < 0 || found.first < all.first) all.first = found.first;
    });
  });
  return all;
}

class HostRunner final : public PatternRunner {
 public:
  explicit HostRunner(int threads) : threads_(threads) {}
  void generate(void* to, size_t count, const Pattern& p, int rank, uint64_t first, Stream&) override {
    generate_on_host(to, count, p, rank, first, threads_);
  }
  size_t check(const void* data, size_t count, const Pattern& p, const Expect& expect, Stream&) override {
    found_.push_back(check_on_host(data, count, p, expect, threads_));
    return found_.size() - 1;
  }
  std::vector<Found> collect(Stream&) override { return std::exchange(found_, {}); }

 private:
  int threads_;
  std::vector<Found> found_;
};

}  // namespace

PatternKind pattern_of(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::sum:
      return PatternKind::sum;
    case ReduceOp::prod:
      return PatternKind::prod;
    case ReduceOp::max:
      return PatternKind::max;
    case ReduceOp::min:
      return PatternKind::min;
    case ReduceOp::avg:
      return PatternKind::avg;
    case ReduceOp::mulsum:
      return PatternKind::mulsum;
  }
  return PatternKind::sum;
}

Pattern make_pattern(DType type, PatternKind kind, int ranks) {
  Pattern p;
  p.type = type;
  p.kind = kind;
  p.ranks = ranks;
  p.is_signed = !is_unsigned(type);
  int64_t limit = exact_limit(type);
  switch (kind) {
    case PatternKind::copy:
      break;
    case PatternKind::mulsum:
      limit /= 2;
      [[fallthrough]];
    case PatternKind::sum:
      set_weights(p, limit, std::min<int64_t>(ranks, limit / 2), 16);
      break;
    case PatternKind::avg:
      set_average(p, limit);
      break;
    case PatternKind::prod:
      p.powers_max = std::min(ranks - 1, powers_limit(type));
      break;
    case PatternKind::max:
    case PatternKind::min:
      set_extremes(p, limit);
      break;
  }
  return p;
}

void generate_on_host(void* to, size_t count, const Pattern& p, int rank, uint64_t first, int threads) {
  with_storage(p.type, [&]<class T>(std::type_identity<T>) {
    T* out = static_cast<T*>(to);
    generate_range(out, 0, std::min<size_t>(count, kPeriod), p, rank, first);
    in_pieces(count, threads, [&](size_t begin, size_t end) {
      by_period<T>(begin, end, [&](size_t i, size_t n) { std::memcpy(out + i, out, n * sizeof(T)); });
    });
  });
}

Found check_on_host(const void* data, size_t count, const Pattern& p, const Expect& expect, int threads) {
  // What is expected has the period within a source's block.
  const size_t run = expect.kind == Expect::Kind::copied ? std::min<size_t>(count, expect.block) : count;
  Found all;
  with_storage(p.type, [&]<class T>(std::type_identity<T>) {
    for (size_t at = 0; at < count; at += run) {
      const Found found =
          check_run(static_cast<const T*>(data), at, std::min(run, count - at), p, expect, threads);
      if (all.first < 0) all.first = found.first;
      all.wrong += found.wrong;
    }
  });
  return all;
}

double expected_value(const Pattern& p, const Expect& expect, uint64_t i) {
  return with_storage(p.type, [&]<class T>(std::type_identity<T>) {
    return to_double(pattern::expected_element<T>(p, expect, i));
  });
}

double stored_value(DType type, const void* element) {
  return with_storage(type, [&]<class T>(std::type_identity<T>) {
    T x;
    std::memcpy(&x, element, sizeof x);
    return to_double(x);
  });
}

std::unique_ptr<PatternRunner> make_pattern_runner(Device& device, int threads) {
  if (device.kind() == DeviceKind::host) return std::make_unique<HostRunner>(threads);
  const CudaLibrary* library = CudaLibrary::get();
  if (!library) throw EnvironmentError(CudaLibrary::error());
  return std::unique_ptr<PatternRunner>(
      library->function<cuda_entry::MakePatternRunner>("tt_make_pattern_runner")(device));
}

}  // namespace tt

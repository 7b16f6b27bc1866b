#include "src/comm/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

template <class T>
void check_range(const T* data, size_t begin, size_t end, const Pattern& p, const Expect& x, Found& found) {
  for (size_t i = begin; i < end; ++i)
    if (!pattern::matches(p, x, data[i], i)) {
      if (found.first < 0) found.first = static_cast<int64_t>(i);
      ++found.wrong;
    }
}

/// Whole blocks at a time, so that the source's key is made once per block.
template <class T>
void check_copied(const T* data, size_t begin, size_t end, const Pattern& p, const Expect& x, Found& found) {
  for (size_t i = begin; i < end;) {
    const uint64_t block = i / x.block, stop = std::min<uint64_t>(end, (block + 1) * x.block);
    const uint64_t key = pattern::source_key(p, x.source + static_cast<int>(block));
    for (; i < stop; ++i) {
      const T want = pattern::copied_element<T>(key, x.base + (i - block * x.block));
      if (pattern::bits_of(data[i]) == pattern::bits_of(want)) continue;
      if (found.first < 0) found.first = static_cast<int64_t>(i);
      ++found.wrong;
    }
  }
}

/// Elements per thread and piece; short arrays are not worth a team.
constexpr size_t kPiece = size_t{1} << 16;

template <class F>
void in_pieces(size_t count, int threads, F&& f) {
  const auto pieces = static_cast<int64_t>((count + kPiece - 1) / kPiece);
#pragma omp parallel for num_threads(threads) schedule(static) if (pieces > 1 && threads > 1)
  for (int64_t i = 0; i < pieces; ++i)
    f(static_cast<size_t>(i), static_cast<size_t>(i) * kPiece,
      std::min(count, static_cast<size_t>(i + 1) * kPiece));
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
    const uint64_t key = pattern::source_key(p, rank);
    in_pieces(count, threads, [&](size_t, size_t begin, size_t end) {
      if (p.kind == PatternKind::copy)
        for (size_t i = begin; i < end; ++i) out[i] = pattern::copied_element<T>(key, first + i);
      else
        for (size_t i = begin; i < end; ++i)
          out[i] = pattern::store<T>(pattern::contribution(p, rank, first + i));
    });
  });
}

Found check_on_host(const void* data, size_t count, const Pattern& p, const Expect& expect, int threads) {
  std::vector<Found> parts((count + kPiece - 1) / kPiece);
  with_storage(p.type, [&]<class T>(std::type_identity<T>) {
    const T* in = static_cast<const T*>(data);
    in_pieces(count, threads, [&](size_t piece, size_t begin, size_t end) {
      if (expect.kind == Expect::Kind::copied && p.kind == PatternKind::copy)
        check_copied(in, begin, end, p, expect, parts[piece]);
      else
        check_range(in, begin, end, p, expect, parts[piece]);
    });
  });
  Found all;
  for (const Found& part : parts) {
    if (all.first < 0) all.first = part.first;
    all.wrong += part.wrong;
  }
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

// The data of collectives: the closed forms against a plain loop over the ranks, in every order, and what
// mistakes they show.
#include "src/comm/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "src/device/dtype_visit.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

const std::vector<PatternKind> kReductions = {PatternKind::sum,  PatternKind::mulsum, PatternKind::avg,
                                              PatternKind::prod, PatternKind::max,    PatternKind::min};

bool has_pattern(DType type, PatternKind kind, int ranks) {
  try {
    make_pattern(type, kind, ranks);
    return true;
  } catch (const EnvironmentError&) {
    return false;
  }
}

/// Reduces one element over the ranks in the order given, every partial result rounded to the type.
template <class T>
T reduce_in_order(const Pattern& p, const std::vector<int>& order, uint64_t e) {
  const auto load = [&](int r) {
    T x = pattern::input_element<T>(p, r, e);
    if (p.kind == PatternKind::mulsum) x = from_double<T>(to_double(x) * premul_scalar(r));
    if (p.kind == PatternKind::avg && !std::is_integral_v<T>)
      x = from_double<T>(to_double(x) * to_double(from_double<T>(1.0 / p.ranks)));
    return x;
  };
  T result = load(order[0]);
  for (size_t i = 1; i < order.size(); ++i) {
    const double a = to_double(result), b = to_double(load(order[i]));
    switch (p.kind) {
      case PatternKind::prod:
        result = from_double<T>(a * b);
        break;
      case PatternKind::max:
        result = from_double<T>(std::max(a, b));
        break;
      case PatternKind::min:
        result = from_double<T>(std::min(a, b));
        break;
      default:
        result = from_double<T>(a + b);
        break;
    }
  }
  if (p.kind == PatternKind::avg && std::is_integral_v<T>)
    result = from_double<T>(std::trunc(to_double(result) / p.ranks));
  return result;
}

std::vector<int> iota(int n) {
  std::vector<int> v(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) v[static_cast<size_t>(i)] = i;
  return v;
}

}  // namespace

TEST_CASE("every reduction comes out as expected in any order of the ranks, for every type") {
  const int ranks = GENERATE(1, 2, 3, 4, 5, 7, 8, 64, 100, 1000);
  std::mt19937 random(static_cast<unsigned>(ranks));
  for (DType type : all_dtypes())
    for (PatternKind kind : kReductions) {
      if (!has_pattern(type, kind, ranks)) continue;
      Pattern p = make_pattern(type, kind, ranks);
      std::vector<int> order = iota(ranks);
      for (uint64_t e = 0; e < 200; ++e) {
        p.key = mix64(7, e);
        if (e > 0) std::shuffle(order.begin(), order.end(), random);
        with_storage(type, [&]<class T>(std::type_identity<T>) {
          const T got = reduce_in_order<T>(p, order, e);
          INFO(name_of(type) << " kind " << static_cast<int>(kind) << " ranks " << ranks << " element " << e);
          REQUIRE(pattern::reduced_matches(p, got, e));
        });
      }
    }
}

TEST_CASE("a contribution lost, doubled or taken for another is seen, for every pair of ranks") {
  const int ranks = GENERATE(2, 3, 4, 6, 8, 12, 16, 64);
  for (DType type : all_dtypes())
    for (PatternKind kind : {PatternKind::sum, PatternKind::mulsum, PatternKind::avg}) {
      if (!has_pattern(type, kind, ranks)) continue;
      Pattern p = make_pattern(type, kind, ranks);
      p.key = 99;
      // Exact values, as an exact reduction would give them; avg's tolerance is applied by reduced_matches.
      const auto seen = [&](int lost, int doubled) {
        for (uint64_t e = 0; e < 4096; ++e) {
          double v = static_cast<double>(pattern::reduced(p, e));
          const auto term = [&](int r) {
            return static_cast<double>(pattern::contribution(p, r, e)) *
                   (kind == PatternKind::mulsum ? premul_scalar(r) : 1);
          };
          if (lost >= 0) v -= term(lost);
          if (doubled >= 0) v += term(doubled);
          if (kind == PatternKind::avg) v /= ranks;
          const bool wrong = with_storage(type, [&]<class T>(std::type_identity<T>) {
            if constexpr (std::is_integral_v<T>) v = std::trunc(v);
            return !pattern::reduced_matches(p, from_double<T>(v), e);
          });
          if (wrong) return true;
        }
        return false;
      };
      for (int r = 0; r < ranks; ++r) {
        INFO(name_of(type) << " kind " << static_cast<int>(kind) << " ranks " << ranks << " rank " << r);
        REQUIRE(seen(r, -1));
        REQUIRE(seen(-1, r));
        if (!(kind == PatternKind::avg && !p.exact && p.contributors == 1)) REQUIRE(seen(r, (r + 1) % ranks));
        for (int other = 0; other < ranks && ranks <= 16; ++other)
          if (other != r) REQUIRE(seen(r, other));
      }
    }
}

TEST_CASE("values stay where the type is exact") {
  const int ranks = GENERATE(1, 2, 3, 8, 64, 1000, 100000);
  for (DType type : {DType::f8e5m2, DType::f8e4m3, DType::bf16, DType::f16, DType::int8, DType::uint8}) {
    const double limit = type == DType::f8e5m2   ? 8
                         : type == DType::f8e4m3 ? 16
                         : type == DType::bf16   ? 256
                         : type == DType::f16    ? 2048
                                                 : 127;
    for (PatternKind kind : {PatternKind::sum, PatternKind::mulsum}) {
      const Pattern p = make_pattern(type, kind, ranks);
      INFO(name_of(type) << " ranks " << ranks << " W " << p.weight_sum << " C " << p.c_max);
      REQUIRE(p.c_max >= 1);
      REQUIRE(static_cast<double>(p.c_max) * p.weight_sum * (kind == PatternKind::mulsum ? 2 : 1) <=
              limit + 1);
    }
  }
}

TEST_CASE("copied data is finite and differs by source, place and key") {
  for (DType type : all_dtypes())
    with_storage(type, [&]<class T>(std::type_identity<T>) {
      Pattern p = make_pattern(type, PatternKind::copy, 4), q = p;
      p.key = 1, q.key = 2;
      int same_source = 0, same_place = 0, same_key = 0;
      for (uint64_t e = 0; e < 1000; ++e) {
        const T x = pattern::input_element<T>(p, 0, e);
        if constexpr (!std::is_integral_v<T>) REQUIRE(std::isfinite(to_double(x)));
        same_source += pattern::bits_of(x) == pattern::bits_of(pattern::input_element<T>(p, 1, e));
        same_place += pattern::bits_of(x) == pattern::bits_of(pattern::input_element<T>(p, 0, e + 1));
        same_key += pattern::bits_of(x) == pattern::bits_of(pattern::input_element<T>(q, 0, e));
      }
      REQUIRE(std::max({same_source, same_place, same_key}) < 30);
    });
}

TEST_CASE("a check finds one wrong element, at the very end too, and NaN never passes") {
  const size_t count = GENERATE(1, 3, 4097, 65521, 65522, 300001);
  const DType type = GENERATE(DType::uint8, DType::bf16, DType::f8e4m3, DType::f32, DType::int64, DType::f64);
  const size_t bytes = count * size_of(type);
  Pattern p = make_pattern(type, PatternKind::sum, 1);  // one rank: its input is the result
  p.key = 5;
  std::vector<unsigned char> data(bytes);
  generate_on_host(data.data(), count, p, 0, 10, 2);
  const Expect expect{Expect::Kind::reduced, 0, 1, 10};
  REQUIRE(check_on_host(data.data(), count, p, expect, 2).wrong == 0);

  const size_t at = GENERATE_COPY(size_t{0}, count / 2, count - 1);
  data[at * size_of(type)] ^= 1;
  const Found found = check_on_host(data.data(), count, p, expect, 2);
  REQUIRE(found.wrong == 1);
  REQUIRE(found.first == static_cast<int64_t>(at));

  data[0] ^= 1;  // the first period is no longer one to compare with
  data[at * size_of(type)] ^= at == 0 ? 0 : 2;
  REQUIRE(check_on_host(data.data(), count, p, expect, 2).wrong == (at == 0 ? 0 : 2));

  if (type == DType::f32) {
    generate_on_host(data.data(), count, p, 0, 10, 2);
    const float nan = std::nanf("");
    std::memcpy(&data[at * 4], &nan, 4);
    REQUIRE(check_on_host(data.data(), count, p, expect, 2).wrong == 1);
  }
}

TEST_CASE("NaN does not pass where a tolerance applies, and one unit too many does not either") {
  Pattern p = make_pattern(DType::f32, PatternKind::avg, 3);
  p.key = 3;
  REQUIRE_FALSE(p.exact);
  const double want = static_cast<double>(pattern::reduced(p, 0)) / 3;
  REQUIRE(pattern::reduced_matches(p, static_cast<float>(want), 0));
  REQUIRE_FALSE(pattern::reduced_matches(p, std::nanf(""), 0));
  REQUIRE_FALSE(pattern::reduced_matches(p, std::numeric_limits<float>::infinity(), 0));
  REQUIRE_FALSE(pattern::reduced_matches(p, static_cast<float>(want * (1 + 1e-5)), 0));
}

TEST_CASE("blocks: element i of an output comes from block i / size of the sources") {
  Pattern p = make_pattern(DType::int32, PatternKind::copy, 3);
  p.key = 11;
  const size_t block = 5;
  std::vector<int32_t> out(3 * block);
  for (int r = 0; r < 3; ++r) generate_on_host(&out[static_cast<size_t>(r) * block], block, p, r, 0, 1);
  const Expect expect{Expect::Kind::copied, 0, block, 0};
  REQUIRE(check_on_host(out.data(), out.size(), p, expect, 1).wrong == 0);
  for (size_t i = 0; i < out.size(); ++i) REQUIRE(out[i] == pattern::expected_element<int32_t>(p, expect, i));
  std::swap_ranges(out.begin(), out.begin() + block, out.begin() + block);
  const Found found = check_on_host(out.data(), out.size(), p, expect, 1);
  REQUIRE(found.wrong == 2 * static_cast<int64_t>(block));
  REQUIRE(found.first == 0);
}

TEST_CASE("poison is no result of a reduction") {
  for (DType type : all_dtypes())
    for (int ranks : {1, 2, 8, 64})
      for (PatternKind kind : kReductions) {
        if (!has_pattern(type, kind, ranks)) continue;
        Pattern p = make_pattern(type, kind, ranks);
        std::vector<unsigned char> data(512 * size_of(type), kPoison);
        INFO(name_of(type) << " kind " << static_cast<int>(kind) << " ranks " << ranks);
        REQUIRE(check_on_host(data.data(), 512, p, {Expect::Kind::reduced, 0, 1, 0}, 1).wrong == 512);
        REQUIRE(check_on_host(data.data(), 512, p, {Expect::Kind::untouched, 0, 1, 0}, 1).wrong == 0);
      }
}

TEST_CASE("reductions have names, and an unknown one names the option and the accepted") {
  for (ReduceOp op : all_reduce_ops()) REQUIRE(parse_reduce_op("-o", name_of(op)) == op);
  const std::string words = test::message_of<UsageError>([] { parse_reduce_op("-o", "summ"); });
  REQUIRE(words.find("-o") != std::string::npos);
  REQUIRE(words.find("summ") != std::string::npos);
  REQUIRE(words.find("mulsum") != std::string::npos);
}

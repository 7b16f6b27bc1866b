#include "common/stopping.h"

#include <functional>
#include <limits>
#include <stdexcept>

#include "verify/unit/catch.h"

using namespace tt;

namespace {
struct End {
  int64_t samples;
  bool stable;
};

/// Feeds a made-up series until the rule has enough; -1 samples when it never has.
End run(const WarmupRule::Limits& limits, const std::function<double(int64_t)>& time) {
  WarmupRule rule(limits);
  for (int64_t i = 0; i < 100000; ++i) {
    if (rule.done()) return {i, rule.stable()};
    rule.add(time(i));
  }
  return {-1, false};
}
}  // namespace

TEST_CASE("a series that is stable at once ends after one window") {
  const End end = run({}, [](int64_t) { return 1e-3; });
  CHECK(end.samples == 5);
  CHECK(end.stable);
}

TEST_CASE("a slow first iteration is waited out") {
  const End end = run({}, [](int64_t i) { return i < 3 ? 1.0e-2 : 1e-3; });
  CHECK(end.samples == 8);
  CHECK(end.stable);
}

TEST_CASE("more warm-up iterations are made when they are asked for") {
  WarmupRule::Limits limits;
  limits.min_samples = 20;
  CHECK(run(limits, [](int64_t) { return 1e-3; }).samples == 20);
  limits.min_samples = 70;  // outweighs the maximum
  CHECK(run(limits, [](int64_t) { return 1e-3; }).samples == 70);
  limits.max_seconds = 1e-3;  // and the time limit
  CHECK(run(limits, [](int64_t) { return 1e-3; }).samples == 70);
}

TEST_CASE("a noisy series ends at the limit and is not called stable") {
  const End end = run({}, [](int64_t i) { return i % 2 == 0 ? 1e-3 : 1.2e-3; });
  CHECK(end.samples == 50);
  CHECK_FALSE(end.stable);
}

TEST_CASE("noise inside the tolerance is stable") {
  CHECK(run({}, [](int64_t i) { return i % 2 == 0 ? 1.00e-3 : 1.04e-3; }).stable);
}

TEST_CASE("a slowly rising series, as of a clock that throttles, ends at the limit") {
  const End end = run({}, [](int64_t i) { return 1e-3 * (1 + 0.05 * static_cast<double>(i)); });
  CHECK(end.samples <= 50);
  CHECK(end.samples > 5);
}

TEST_CASE("a falling series is followed past the limit until it levels off") {
  const auto falling = [](int64_t i) { return i < 80 ? 1.0 / static_cast<double>(1 << (i / 4)) : 1e-6; };
  WarmupRule::Limits limits;
  limits.max_seconds = 1e9;
  const End end = run(limits, falling);
  CHECK(end.samples > 80);
  CHECK(end.samples < 90);
  CHECK(end.stable);
}

TEST_CASE("a series that falls for ever ends all the same") {
  const End end = run({}, [](int64_t i) { return 1e-3 / (1 + static_cast<double>(i * i * i)); });
  CHECK(end.samples > 50);
  CHECK(end.samples <= 500);
}

TEST_CASE("long iterations are ended by the time, not the number") {
  const End end = run({}, [](int64_t) { return 1.1; });
  CHECK(end.samples == 3);
  CHECK_FALSE(end.stable);  // three of five samples are no agreement
}

TEST_CASE("no warm-up at all") {
  WarmupRule::Limits limits;
  limits.min_samples = 0;
  limits.max_samples = 0;
  CHECK(run(limits, [](int64_t) { return 1.0; }).samples == 0);
}

TEST_CASE("times of zero, below the clock's resolution, are stable") {
  CHECK(run({}, [](int64_t) { return 0.0; }).samples == 5);
}

TEST_CASE("a window of one needs one sample") {
  WarmupRule::Limits limits;
  limits.window = 1;
  CHECK(run(limits, [](int64_t) { return 1.0; }).samples == 1);
}

TEST_CASE("a time that cannot be is a fault") {
  WarmupRule rule({});
  CHECK_THROWS_AS(rule.add(std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
  CHECK_THROWS_AS(rule.add(std::numeric_limits<double>::infinity()), std::invalid_argument);
  CHECK_THROWS_AS(rule.add(-1e-9), std::invalid_argument);
}

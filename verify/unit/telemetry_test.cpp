#include "common/telemetry.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "common/clock.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

TelemetrySample at(double t, std::optional<double> power, std::optional<double> energy = std::nullopt) {
  TelemetrySample s;
  s.t = t;
  s.power_W = power;
  s.energy_J = energy;
  return s;
}

class CountingSource final : public TelemetrySource {
 public:
  std::string name() const override { return "counting"; }
  TelemetrySample sample() override {
    if (++calls == throw_at) throw std::runtime_error("lost the bus");
    TelemetrySample s;
    s.sm_MHz = 1000.0 + calls;
    return s;
  }
  std::atomic<int> calls{0};
  int throw_at = -1;
};

/// Answers only when released.
class StuckSource final : public TelemetrySource {
 public:
  std::string name() const override { return "stuck"; }
  TelemetrySample sample() override {
    while (!released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  }
  std::atomic<bool> released{false};
};

/// Waits for something that another thread does; bounded, so that a failure is a failure and not a hang.
template <class Condition>
bool soon(Condition condition) {
  const double end = monotonic_seconds() + 20;
  while (!condition() && monotonic_seconds() < end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return condition();
}

}  // namespace

TEST_CASE("summary of readings: means, maxima, only what lies inside", "[telemetry]") {
  std::vector<TelemetrySample> s = {at(0, 1000), at(1, 100), at(2, 300), at(3, 5000)};
  s[1].sm_MHz = 1000;
  s[2].temperature_C = 60;
  s[1].temperature_C = 70;
  s[1].throttle = {"sw_power_cap", "hw_thermal"};
  s[2].throttle = {"sw_power_cap"};
  s[3].throttle = {"outside"};
  const TelemetrySummary t = summarize_samples(s, 1, 2);
  CHECK(t.samples == 2);
  CHECK(*t.power_W == 200);
  CHECK(*t.power_max_W == 300);
  CHECK(*t.sm_MHz == 1000);
  CHECK(*t.temperature_C == 70);
  CHECK_FALSE(t.mem_MHz);
  CHECK_FALSE(t.host_load);
  CHECK(t.throttle == std::vector<std::string>{"sw_power_cap", "hw_thermal"});
  CHECK(t.throttled);
}

TEST_CASE("no readings give nothing, not zeros", "[telemetry]") {
  const TelemetrySummary t = summarize_samples({at(0, 1)}, 5, 6);
  CHECK(t.samples == 0);
  CHECK_FALSE(t.power_W);
  CHECK_FALSE(t.energy_J);
  CHECK_FALSE(t.throttled);
}

TEST_CASE("energy: the counter goes before the trapezoid over power", "[telemetry]") {
  CHECK(*summarize_samples({at(0, 100), at(2, 300), at(3, 100)}, 0, 3).energy_J == Approx(400 + 200));
  CHECK(*summarize_samples({at(0, 100, 5000), at(2, 300, 5500)}, 0, 3).energy_J == Approx(500));
  CHECK(*summarize_samples({at(0, 100, 5000), at(2, 300, 10)}, 0, 3).energy_J ==
        Approx(400));  // reset: not -4990
  CHECK(*summarize_samples({at(0, 100, 7), at(2, 300)}, 0, 3).energy_J ==
        Approx(400));  // one reading tells no difference
  CHECK_FALSE(summarize_samples({at(1, 100)}, 0, 3).energy_J);
}

TEST_CASE("the sampler samples, with the time filled in", "[telemetry]") {
  auto source = std::make_shared<CountingSource>();
  const double begin = monotonic_seconds();
  const Sampler sampler(source, 1);
  REQUIRE(soon([&] { return source->calls >= 5; }));
  REQUIRE(soon([&] { return sampler.series().size() >= 4; }));
  CHECK(sampler.series().front().t >= begin);
  CHECK(sampler.summarize(begin, monotonic_seconds()).samples >= 4);
  CHECK(sampler.source_name() == "counting");
  CHECK(sampler.trouble().empty());
}

TEST_CASE("a source that throws is given up and said", "[telemetry]") {
  auto source = std::make_shared<CountingSource>();
  source->throw_at = 3;
  const Sampler sampler(source, 1);
  REQUIRE(soon([&] { return !sampler.trouble().empty(); }));
  CHECK(test::has(sampler.trouble(), {"counting", "lost the bus"}));
  CHECK(sampler.series().size() == 2);
  CHECK(source->calls == 3);
}

TEST_CASE("a source that is stuck holds nobody up", "[telemetry]") {
  auto source = std::make_shared<StuckSource>();
  const double begin = monotonic_seconds();
  {
    const Sampler sampler(source, 1);
    CHECK(sampler.summarize(0, 1e18).samples == 0);
  }
  CHECK(monotonic_seconds() - begin < 15);
  source->released = true;
  CHECK(soon([&] { return source.use_count() == 1; }));  // the thread that was left behind ends and lets go
}

TEST_CASE("a sampler without a source is empty", "[telemetry]") {
  const Sampler sampler(nullptr, 100);
  CHECK(sampler.series().empty());
  CHECK(sampler.trouble().empty());
}

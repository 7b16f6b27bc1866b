// The GPU's busy wait on made-up clocks: a timer that advances in steps, and cycles of any rate.
#include "src/device/spin_timer.h"

#include <cmath>
#include <functional>

#include "verify/unit/catch.h"

using namespace tt;

namespace {

/// Nanoseconds that a wait takes, polled every 40 cycles. rate(ns): cycles per ns at that time.
double waited(
    double target_ns, double nominal, uint64_t step_ns, double start_ns, double rate_now,
    const std::function<uint64_t(uint64_t)>& timer = [](uint64_t ns) { return ns; }) {
  const auto shown = [&](double ns) { return timer(static_cast<uint64_t>(ns) / step_ns * step_ns); };
  double ns = start_ns;
  uint64_t cycle = 1234567;
  SpinTimer spin(target_ns, nominal, shown(ns), cycle);
  for (int polls = 0; polls < 10'000'000; ++polls) {
    if (spin.done(shown(ns), cycle)) return ns - start_ns;
    cycle += 40;
    ns += 40 / rate_now;
  }
  FAIL("the wait does not end");
  return 0;
}

}  // namespace

TEST_CASE("a wait is right to 2 % from 20 us on, whatever the timer's step and the clock") {
  const uint64_t step = GENERATE(1, 32, 1000, 1024);
  const double rate = GENERATE(0.345, 1.2, 1.98);
  const double start = GENERATE(0.0, 17.0, 1023.0, 999999.0);
  const double target = GENERATE(20e3, 33.3e3, 1e6);
  CHECK(waited(target, 1.98, step, start, rate) == Approx(target).epsilon(0.02));
}

TEST_CASE("no wait at all ends at once") {
  CHECK(waited(0, 1.98, 32, 5, 1.5) == 0);
}

TEST_CASE("a timer that stands still, stops, jumps or runs backwards cannot hang the wait") {
  const double most = 20e3 * SpinTimer::kMaxRate / 1.5 * 1.01;  // kMaxRate * target cycles at 1.5 per ns
  CHECK(waited(20e3, 1.5, 1, 0, 1.5, [](uint64_t) { return 77; }) == Approx(20e3).epsilon(0.01));
  CHECK(waited(20e3, 1.5, 1, 0, 1.5, [](uint64_t ns) { return std::min<uint64_t>(ns, 5000); }) ==
        Approx(20e3).epsilon(0.02));
  CHECK(waited(20e3, 1.5, 1, 0, 1.5, [](uint64_t ns) { return ns > 9000 ? ns + (1ull << 62) : ns; }) <= most);
  CHECK(waited(20e3, 1.5, 1, 0, 1.5, [](uint64_t ns) { return ~ns; }) <= most);
  CHECK(waited(20e3, 1.5, 1, 0, 1.5, [](uint64_t ns) { return ns / 50; }) <= most);
  CHECK(waited(20e3, 1.5, 1 << 20, 1000, 1.5) == Approx(20e3).epsilon(0.01));  // steps longer than the wait
}

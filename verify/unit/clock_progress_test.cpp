#include <regex>
#include <thread>

#include "common/clock.h"
#include "common/progress.h"
#include "verify/unit/catch.h"

using namespace tt;

TEST_CASE("the clock does not go backwards") {
  double last = monotonic_seconds();
  for (int i = 0; i < 1000; ++i) {
    const double now = monotonic_seconds();
    REQUIRE(now >= last);
    last = now;
  }
}

TEST_CASE("the wall clock is RFC 3339 UTC with milliseconds") {
  const std::string now = utc_now();
  CAPTURE(now);
  CHECK(std::regex_match(now, std::regex(R"(20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d\.\d{3}Z)")));
}

TEST_CASE("progress tells phase, iteration and activity") {
  Progress p;
  CHECK(p.snapshot().phase == "start");
  CHECK(p.snapshot().iteration == -1);
  const double before = monotonic_seconds();
  p.enter_phase("allocate");
  p.at_iteration(7);
  CHECK(p.snapshot().phase == "allocate");
  CHECK(p.snapshot().phase_number == 1);
  CHECK(p.snapshot().iteration == 7);
  CHECK(p.snapshot().phase_started >= before);
  {
    const ActivityScope waiting(p, Activity::waiting);
    CHECK(p.snapshot().activity == Activity::waiting);
    {
      const ActivityScope inner(p, Activity::in_step);
      CHECK(p.activity() == Activity::in_step);
    }
    CHECK(p.activity() == Activity::waiting);
  }
  CHECK(p.activity() == Activity::own_work);
  p.enter_phase("measure");
  CHECK(p.snapshot().phase_number == 2);
  CHECK(p.snapshot().iteration == -1);  // a number of the phase before would mislead
}

TEST_CASE("progress is read whole while it is written") {
  Progress p;
  std::jthread writer([&](const std::stop_token& stop) {
    for (uint64_t i = 0; !stop.stop_requested(); ++i) p.enter_phase(std::to_string(i + 1));
  });
  for (int i = 0; i < 2000; ++i) {
    const Progress::Snapshot s = p.snapshot();
    if (s.phase_number > 0) REQUIRE(s.phase == std::to_string(s.phase_number));
  }
}

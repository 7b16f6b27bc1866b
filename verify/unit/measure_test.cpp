// The measuring loop, with a stream whose time is made up: known times in, known figures out.
#include "common/measure.h"

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

#include "common/soak.h"
#include "verify/unit/alone.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::alone;

namespace {

/// Time passes only through work: step() and delay() advance it.
class FakeStream final : public Stream {
 public:
  void begin_marks(size_t count) override { marks_.assign(count, NAN); }
  void mark(size_t slot) override { marks_.at(slot) = now += mark_takes; }
  double mark_seconds(size_t slot) const override { return marks_.at(slot); }
  size_t marks_passed() const override { return 0; }
  void synchronize() override {}
  void delay(double seconds) override {
    now += seconds;
    delays.push_back(seconds);
  }
  double mark_cost() const override { return cost; }

  double now = 1000, mark_takes = 0, cost = 0;
  std::vector<double> delays;

 private:
  std::vector<double> marks_;
};

/// Each step takes what `seconds_of` says. A step's result is right when it was prepared, made and not
/// corrupted.
class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(FakeStream& stream) : fake_(stream) {}
  Row describe() const override {
    Row row;
    row.key = "fake/8";
    row.group = "fake";
    row.size = 8;
    row.main_metric = "per_s";
    return row;
  }
  void step(Stream&, int64_t i) override {
    REQUIRE(i == next_++);                        // without gaps
    if (poisoned_.erase(i) == 0) REQUIRE(round);  // a soak overwrites what it could not keep
    fake_.now += seconds_of(i);
    made.insert(i);
  }
  int64_t slots() const override { return slot_count; }
  bool goes_round() const override { return round; }
  void prepare(Stream&, int64_t first, int64_t count) override {
    REQUIRE(count <= slot_count);
    for (int64_t i = first; i < first + count; ++i) {
      poisoned_.insert(i);
      prepared_.insert(i);
    }
  }
  Check verify(Stream&, int64_t first, int64_t count) override {
    Check check{count, 12345, 0, std::nullopt, "made"};
    for (int64_t i = first; i < first + count; ++i) {
      REQUIRE(prepared_.count(i) == 1);  // only what was made wrong beforehand proves anything
      if (made.count(i) && !corrupted.count(i) && !wrong_from_the_start) continue;
      ++check.wrong;
      if (!check.first) check.first = Mismatch{99, i, 3, 1, 2};
    }
    verified.push_back(first);
    return check;
  }
  void corrupt(Stream&, int64_t i) override { corrupted.insert(i); }
  std::vector<Rate> rates(double seconds) const override {
    return {{"per_s", 1 / seconds}, {"busbw_GBps", std::nullopt}};
  }
  bool collective() const override { return is_collective; }

  std::function<double(int64_t)> seconds_of = [](int64_t) { return 1e-3; };
  int64_t slot_count = 4;
  bool is_collective = false, wrong_from_the_start = false, round = false;
  std::set<int64_t> made, corrupted;
  std::vector<int64_t> verified;

 private:
  FakeStream& fake_;
  std::set<int64_t> poisoned_, prepared_;
  int64_t next_ = 0;
};

struct Bench {
  FakeStream stream;
  FakeEngine engine{stream};
  MeasurePlan plan;
  Injection injection;
  Progress progress;
  Bench() { plan.warmup.min_samples = 1; }
  Row run() {
    const MeasureContext context{alone(), progress, injection, 0, nullptr, {}, {}};
    return measure(engine, stream, plan, context);
  }
};

RankMarks marks_of(const std::vector<double>& begin, const std::vector<double>& enter,
                   const std::vector<double>& end) {
  return {begin, enter, end};
}

/// Samples back to back from 0: each with this delay before entering and this time inside.
RankMarks steady(size_t n, double delay, double inside) {
  RankMarks m;
  double t = 0;
  for (size_t j = 0; j < n; ++j) {
    m.begin.push_back(t);
    m.enter.push_back(t += delay);
    m.end.push_back(t += inside);
  }
  return m;
}

bool has_note(const Row& row, const std::string& part) {
  for (const std::string& note : row.notes)
    if (note.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

// ---- reduce_samples ----

TEST_CASE("the time of an iteration is the maximum over ranks, the quoted one the median of those",
          "[measure]") {
  // Own medians are 2 s on both ranks; the iterations take 9, 2, 5.
  Row row;
  reduce_samples(
      row, {marks_of({0, 10, 20}, {0, 10, 20}, {1, 12, 25}), marks_of({0, 10, 20}, {0, 10, 20}, {9, 12, 21})},
      1, false, {0, 1});
  const Summary& t = row.metric("time_us")->summary;
  CHECK(t.n == 3);
  CHECK(*t.min == Approx(2e6));
  CHECK(*t.median == Approx(5e6));
  CHECK(*t.max == Approx(9e6));
  REQUIRE(row.ranks.size() == 2);
  CHECK(row.ranks[0].time_us == Approx(2e6));
  CHECK(row.ranks[1].time_us == Approx(2e6));
  CHECK_FALSE(row.ranks[0].arrival_us);
}

TEST_CASE("k steps share a sample and every figure is per step", "[measure]") {
  Row row;
  reduce_samples(row, {steady(3, 4, 8), steady(3, 0, 12)}, 4, true, {0, 1});
  CHECK(*row.metric("time_us")->summary.median == Approx(3e6));
  CHECK(row.ranks[0].time_us == Approx(2e6));
  CHECK(*row.ranks[0].delay_us == Approx(1e6));
  CHECK(*row.ranks[0].arrival_us == Approx(4e6));  // lateness at the door is not divided
}

TEST_CASE("a late rank of a collective is named although the others' time is longer", "[measure]") {
  for (size_t ranks : {2, 4}) {
    // Rank 1 computes 1 s before each operation of 1 s; the others wait inside theirs.
    std::vector<RankMarks> marks(ranks, steady(5, 0, 2));
    marks[1] = steady(5, 1, 1);
    std::vector<int> world;
    for (size_t r = 0; r < ranks; ++r) world.push_back(static_cast<int>(r));
    Row row;
    reduce_samples(row, marks, 1, true, world);
    REQUIRE(row.slowest);
    CHECK(row.slowest->rank == 1);
    CHECK(row.slowest->ratio == Approx(2));
    CHECK(row.slowest->outlier);
    CHECK(row.slowest->reason == "arrival");
    CHECK(*row.metric("time_us")->summary.median == Approx(2e6));
    CHECK(*row.ranks[1].arrival_us == Approx(1e6));
    CHECK(row.ranks[1].time_us < row.ranks[0].time_us);
  }
}

TEST_CASE("a root that always leaves last is not taken for a late one", "[measure]") {
  // reduce: the root's iterations end one second after the leaf's, so that it also enters each one later.
  Row row;
  RankMarks root = steady(6, 0, 2), leaf = steady(6, 0, 2);
  for (size_t j = 0; j < 6; ++j) {
    leaf.end[j] -= 1;
    if (j > 0) leaf.begin[j] -= 1, leaf.enter[j] -= 1;
  }
  reduce_samples(row, {root, leaf}, 1, true, {0, 1});
  CHECK(*row.ranks[0].arrival_us == Approx(1e6));
  CHECK_FALSE(row.slowest->outlier);
}

TEST_CASE("a slow independent rank is named by its own time, by its world rank", "[measure]") {
  Row row;
  reduce_samples(row, {steady(5, 0, 1), steady(5, 0, 1.01), steady(5, 1, 1), steady(5, 0, 0.99)}, 1, false,
                 {4, 5, 6, 7});
  CHECK(row.slowest->rank == 6);
  CHECK(row.slowest->ratio == Approx(2));
  CHECK(row.slowest->outlier);
  CHECK(row.slowest->reason == "own time");
  CHECK(row.ranks[2].rank == 6);
}

TEST_CASE("of two independent ranks the slower is named, an outlier only beyond the margin", "[measure]") {
  Row near, far;
  reduce_samples(near, {steady(5, 0, 1.04), steady(5, 0, 1)}, 1, false, {0, 1});
  CHECK(near.slowest->rank == 0);
  CHECK_FALSE(near.slowest->outlier);
  reduce_samples(far, {steady(5, 0, 1), steady(5, 0, 1.5)}, 1, false, {0, 1});
  CHECK(far.slowest->rank == 1);
  CHECK(far.slowest->outlier);
}

TEST_CASE("a rank that is faster than its peers makes no other one an outlier", "[measure]") {
  Row row;
  reduce_samples(row, {steady(5, 0, 1), steady(5, 0, 1), steady(5, 0, 1), steady(5, 0, 0.5)}, 1, false,
                 {0, 1, 2, 3});
  CHECK_FALSE(row.slowest->outlier);
}

TEST_CASE("one rank has nobody to be compared with", "[measure]") {
  Row row;
  reduce_samples(row, {steady(1, 0, 1)}, 1, true, {0});
  CHECK_FALSE(row.slowest);
  const Summary& t = row.metric("time_us")->summary;
  CHECK(t.n == 1);
  CHECK(*t.min == *t.p99);
  CHECK_FALSE(t.cv);
}

TEST_CASE("marks that cannot be are refused", "[measure]") {
  Row row;
  CHECK_THROWS_AS(reduce_samples(row, {}, 1, true, {}), std::invalid_argument);
  CHECK_THROWS_AS(reduce_samples(row, {steady(2, 0, 1), steady(3, 0, 1)}, 1, true, {0, 1}),
                  std::invalid_argument);
  CHECK_THROWS_AS(reduce_samples(row, {steady(2, 0, 1)}, 0, true, {0}), std::invalid_argument);
  CHECK_THROWS_AS(reduce_samples(row, {steady(2, 0, NAN)}, 1, true, {0}), std::invalid_argument);
}

// ---- rates ----

TEST_CASE("rates follow from the summarised times", "[measure]") {
  Row row;
  row.metrics.push_back({"time_us", {5, 1e6, 2e6, 2.5e6, 8e6, 8e6, 0.25}});
  add_rates(row, [](double s) { return std::vector<Rate>{{"per_s", 1 / s}, {"none", std::nullopt}}; });
  const Summary& r = row.metric("per_s")->summary;
  CHECK(r.n == 5);
  CHECK(*r.median == Approx(0.5));
  CHECK(*r.max == Approx(1));
  CHECK(*r.min == Approx(0.125));
  CHECK(*r.mean == Approx(0.4));
  CHECK(*r.p99 == Approx(0.125));
  CHECK(*r.cv == 0.25);
  REQUIRE(row.metric("none"));
  CHECK(row.metric("none")->summary.n == 0);  // no meaning: null, never 0
  CHECK_FALSE(row.metric("none")->summary.median);
}

TEST_CASE("a time of zero gives no rate rather than an infinite one", "[measure]") {
  Row row;
  row.metrics.push_back({"time_us", {2, 0.0, 0.0, 0.5, 1.0, 1.0, std::nullopt}});
  add_rates(row, [](double s) { return std::vector<Rate>{{"per_s", 1 / s}}; });
  CHECK(row.metric("per_s")->summary.n == 0);
  CHECK_FALSE(row.metric("per_s")->summary.median);
}

TEST_CASE("so many steps share a sample that its marks stay below one per cent", "[measure]") {
  CHECK(steps_per_sample(1e-3, 1e-7, 50) == 1);
  CHECK(steps_per_sample(1e-5, 1.5e-6, 100) == 60);
  CHECK(steps_per_sample(1e-6, 1.5e-6, 50) == 50);
  CHECK(steps_per_sample(0, 1.5e-6, 8) == 8);
  CHECK(steps_per_sample(1e-5, 0, 50) == 1);
  CHECK(steps_per_sample(1e-5, 1.5e-6, 0) == 1);
}

// ---- the loop ----

TEST_CASE("every timed iteration is counted and verified, in chunks of at most the engine's slots",
          "[measure]") {
  Bench b;
  b.plan.iterations = 10;
  const Row row = b.run();
  CHECK(row.check.total == 10);
  CHECK(row.check.checked == 10);
  CHECK(row.check.wrong == 0);
  CHECK(row.check.method == "made");
  CHECK(b.engine.verified.size() == 1 + 3);  // the first of the warm-up, then 4 + 4 + 2
  CHECK(row.metric("time_us")->summary.n == 10);
  CHECK(*row.metric("time_us")->summary.median == Approx(1000));
  CHECK(*row.metric("per_s")->summary.median == Approx(1000));
  CHECK(row.metric("busbw_GBps")->summary.n == 0);
  CHECK(row.key == "fake/8");
  CHECK(row.params.back().first == "iterations_per_sample");
  CHECK(std::get<int64_t>(row.params.back().second) == 1);
  CHECK(row.series.empty());
}

TEST_CASE("one iteration, no warm-up wanted: everything equal, cv empty", "[measure]") {
  Bench b;
  b.plan.iterations = 1;
  b.plan.warmup.min_samples = 0;
  const Summary t = b.run().metric("time_us")->summary;
  CHECK(t.n == 1);
  CHECK(*t.min == *t.max);
  CHECK(*t.median == *t.p99);
  CHECK_FALSE(t.cv);
}

TEST_CASE("short steps are grouped and the sample is theirs divided", "[measure]") {
  Bench b;
  b.stream.cost = 1.5e-6;
  b.engine.seconds_of = [](int64_t) { return 2.2e-4; };  // 3 us of marks: 2.7 steps for 0.5 %
  b.engine.slot_count = 7;
  b.plan.iterations = 5;
  const Row row = b.run();
  CHECK(std::get<int64_t>(row.params.back().second) == 3);
  CHECK(*row.metric("time_us")->summary.median == Approx(220));
  CHECK(row.check.total == 15);
  CHECK(row.check.checked == 15);
  CHECK_FALSE(has_note(row, "marks:"));
}

TEST_CASE("too few slots to hide the marks: said in a note", "[measure]") {
  Bench b;
  b.stream.cost = 1.5e-6;
  b.engine.seconds_of = [](int64_t) { return 1e-5; };
  b.engine.slot_count = 2;
  const Row row = b.run();
  CHECK(std::get<int64_t>(row.params.back().second) == 2);
  CHECK(has_note(row, "marks: 15 % of a sample"));
}

TEST_CASE("the warm-up ends when times agree and is not part of the figures", "[measure]") {
  Bench b;
  b.engine.seconds_of = [](int64_t i) { return i < 6 ? 1.0 / static_cast<double>(i + 1) : 1e-3; };
  b.plan.warmup.max_seconds = 100;
  const Row row = b.run();
  CHECK(*row.metric("time_us")->summary.max == Approx(1000));
  CHECK_FALSE(has_note(row, "warm-up not stable"));
  Bench restless;
  restless.engine.seconds_of = [](int64_t i) { return i % 2 ? 1e-3 : 2e-3; };
  CHECK(has_note(restless.run(), "warm-up not stable"));
}

TEST_CASE("injected: a slow rank takes factor times as long", "[measure]") {
  Bench b;
  b.injection = Injection::parse({"slow:rank=0,factor=3"});
  CHECK(*b.run().metric("time_us")->summary.median == Approx(3000));
  Bench other;
  other.injection = Injection::parse({"slow:rank=1,factor=3"});
  CHECK(*other.run().metric("time_us")->summary.median == Approx(1000));
  Bench grouped;  // the factor holds per step, whatever shares a sample
  grouped.injection = Injection::parse({"slow:rank=0,factor=2"});
  grouped.stream.cost = 1.5e-6;
  grouped.engine.seconds_of = [](int64_t) { return 1e-4; };
  grouped.engine.slot_count = 12;
  CHECK(*grouped.run().metric("time_us")->summary.median == Approx(200));
}

TEST_CASE("injected: a corrupted result is found, named with the rank that had it", "[measure]") {
  Bench b;
  b.injection = Injection::parse({"corrupt:rank=0"});
  const Row row = b.run();
  CHECK(row.check.wrong == 1);
  REQUIRE(row.check.first);
  CHECK(row.check.first->rank == 0);  // not what the engine put there
  CHECK(row.check.first->offset == 3);
  CHECK(row.check.checked == 20);
  CHECK(b.engine.corrupted.size() == 1);
  Bench later;
  later.injection = Injection::parse({"corrupt:rank=0,iteration=13"});
  CHECK(later.run().check.first->iteration == 13);
}

TEST_CASE("what is wrong from the start is wrong although later iterations are right", "[measure]") {
  Bench b;
  b.engine.wrong_from_the_start = true;
  b.plan.iterations = 2;
  const Row row = b.run();
  CHECK(row.check.wrong == 3);  // the warm-up's too
  CHECK(row.check.checked == 2);
  CHECK(row.check.first->iteration == 0);
}

TEST_CASE("without checking nothing is verified and the row says so", "[measure]") {
  Bench b;
  b.plan.check = false;
  const Row row = b.run();
  CHECK(row.check.method.empty());
  CHECK(row.check.checked == 0);
  CHECK(row.check.total == 20);
  CHECK(b.engine.verified.empty());
}

TEST_CASE("an engine that throws ends the measurement with its own error", "[measure]") {
  Bench b;
  b.engine.seconds_of = [](int64_t i) -> double {
    if (i == 7) throw std::runtime_error("device lost");
    return 1e-3;
  };
  CHECK(test::message_of<std::runtime_error>([&] { b.run(); }) == "device lost");
  CHECK(b.progress.activity() == Activity::own_work);
}

// ---- soak ----

TEST_CASE("a soak goes on for its time, with a series and a bounded number of samples", "[measure]") {
  Bench b;
  b.plan.duration_s = 0.05;  // of real time: the loop's own clock
  b.engine.round = true;
  b.plan.iterations = 3;
  double extended = 0;
  const MeasureContext context{
      alone(), b.progress, b.injection, 0, nullptr, {}, [&](double s) { extended = s; }};
  const Row row = measure(b.engine, b.stream, b.plan, context);
  CHECK(extended == 0.05);
  CHECK(row.end_s - row.start_s >= 0.05);
  CHECK(row.metric("time_us")->summary.n >= 3);
  CHECK(row.metric("time_us")->summary.n <= 10000);
  // Chunks of a second of made-up time, 1,000 iterations, of which the engine keeps four.
  CHECK(row.check.total % 1000 == 0);
  CHECK(row.check.checked == row.check.total / 1000 * b.engine.slot_count);
  CHECK(row.check.wrong == 0);
  REQUIRE_FALSE(row.series.empty());
  int64_t iterations = 0;
  for (const SeriesPoint& p : row.series) {
    iterations += p.iterations;
    CHECK(*p.rate == Approx(1000).epsilon(1e-3));
  }
  CHECK(iterations == row.check.total);
}

TEST_CASE("a soak of an engine that consumes its slots prepares and verifies every iteration", "[measure]") {
  Bench b;
  b.plan.duration_s = 0.02;
  b.plan.iterations = 3;
  const Row row = b.run();
  CHECK(row.check.checked == row.check.total);
  CHECK(row.check.wrong == 0);
}

TEST_CASE("a full store keeps samples spread evenly over the whole time", "[measure]") {
  SampleStore store(8);
  for (int i = 0; i < 100; ++i) store.add({{1.0 * i}, {1.0 * i}, {1.0 * i}});
  const std::vector<double>& kept = store.marks().end;
  CHECK(kept.size() <= 8);
  CHECK(kept.size() >= 4);
  CHECK(kept.front() == 0);
  for (size_t i = 1; i < kept.size(); ++i) CHECK(kept[i] - kept[i - 1] == 16);
  CHECK(store.marks().begin == kept);
  CHECK(SampleStore::most_for(1) == 10000);
  CHECK(SampleStore::most_for(4096) == 1000);
}

TEST_CASE("a soak's series has about a point a second, fewer in long soaks", "[measure]") {
  SoakSeries minute(60), day(86400);
  for (int i = 0; i < 600; ++i) minute.add(0.1 * i, 0.1, 2);
  CHECK(minute.points().size() >= 55);
  CHECK(minute.points().size() <= 60);
  CHECK(*minute.points()[3].rate == Approx(0.05));
  for (int i = 0; i < 86400; ++i) day.add(i, 1, 1);
  CHECK(day.points().size() <= 1000);
  CHECK(day.points().size() >= 900);
}

TEST_CASE("drift and dips of a soak are called out", "[measure]") {
  std::vector<SeriesPoint> series(20);
  for (SeriesPoint& p : series) p.rate = 100;
  CHECK(soak_notes(series).empty());
  series[7].rate = 50;
  REQUIRE(soak_notes(series).size() == 1);
  CHECK(test::has(soak_notes(series)[0], {"dips: 1 of 20", "the lowest 50"}));
  for (size_t i = 10; i < 20; ++i) series[i].rate = 95;
  series[7].rate = 100;
  REQUIRE(soak_notes(series).size() == 1);
  CHECK(test::has(soak_notes(series)[0], {"drift", "-5.0 %"}));
  CHECK(soak_notes({}).empty());
}

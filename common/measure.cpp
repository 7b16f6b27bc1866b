#include "common/measure.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>

#include "common/clock.h"
#include "common/soak.h"
#include "common/statistics.h"
#include "common/wire.h"

namespace tt {
namespace {

/// Before the first mark of a chunk the stream is kept busy this long, so that the first steps are queued up
/// behind it and the launch of the first one is not part of its time.
constexpr double kLeadIn = 30e-6;
constexpr double kLongestChunk =
    1.0;  // seconds of samples, in a soak: it ends on time and its series has a point a second

[[noreturn]] void hang() {
  for (;;) ::pause();
}

[[noreturn]] void die() {
  std::raise(SIGKILL);
  hang();
}

double recent_median(const std::vector<double>& times) {
  constexpr size_t kRecent = 5;
  return *median_of(std::span(times).last(std::min(times.size(), kRecent)));
}

bool in_measure(const Fault& fault) {
  return fault.phase.empty() || fault.phase == "measure";
}

/// The faults that act inside the timed part on this rank.
struct TimedFaults {
  std::optional<Fault> slow, corrupt, hang, die;
  TimedFaults(const Injection& injection, int rank)
      : slow(injection.find(FaultKind::slow, rank)),
        corrupt(injection.find(FaultKind::corrupt, rank)),
        hang(injection.find(FaultKind::hang, rank)),
        die(injection.find(FaultKind::die, rank)) {
    if (hang && !in_measure(*hang)) hang.reset();
    if (die && !in_measure(*die)) die.reset();
  }
  void before_step(int64_t i) const {
    if (die && i >= die->iteration) tt::die();
    if (hang && i >= hang->iteration) tt::hang();
  }
};

class Measurement {
 public:
  Measurement(Engine& engine, Stream& stream, const MeasurePlan& plan, const MeasureContext& context)
      : engine_(engine),
        stream_(stream),
        plan_(plan),
        context_(context),
        faults_(context.injection, context.world_rank),
        slots_(std::max<int64_t>(1, context.group.all_min(engine.slots()))),
        row_(engine.describe()) {}

  Row run() {
    warm_up();
    measure_chunks();
    gather();
    return std::move(row_);
  }

 private:
  void warm_up();
  void measure_chunks();
  int64_t samples_in_chunk(int64_t left) const;
  int64_t held(int64_t count) const { return std::min(count, slots_); }
  void run_chunk(int64_t samples, int64_t k, double delay, const TimedFaults* faults);
  void verify(int64_t first, int64_t count, bool timed);
  void keep_samples(int64_t samples);
  void gather();
  void gather_marks();
  void gather_check();
  void gather_telemetry();

  Engine& engine_;
  Stream& stream_;
  const MeasurePlan& plan_;
  const MeasureContext& context_;
  const TimedFaults faults_;
  const int64_t slots_;  // agreed on, so that all ranks make the same chunks
  Row row_;

  int64_t next_ = 0;     // number of the next iteration
  int64_t k_ = 1;        // iterations per sample
  double own_step_ = 0;  // seconds, this rank's, from the warm-up
  double step_ = 0;      // the maximum over ranks
  bool corrupted_ = false;
  Check check_;
  RankMarks chunk_;       // marks of the last chunk
  SampleStore store_{1};  // those of the whole timed part, thinned in a soak
  std::optional<SoakSeries> soak_;
  double t0_ = 0, t1_ = 0;  // monotonic, of the timed part
};

/// One chunk: iterations next_ .. next_ + samples * k - 1, of which the last held() keep their results.
void Measurement::run_chunk(int64_t samples, int64_t k, double delay, const TimedFaults* faults) {
  const int64_t first = next_;
  next_ += samples * k;
  const int64_t kept = held(samples * k);
  engine_.prepare(stream_, next_ - kept, kept);
  {
    ActivityScope waiting(context_.progress, Activity::waiting);
    stream_.begin_marks(static_cast<size_t>(1 + 2 * samples));
  }
  context_.group.barrier();
  stream_.delay(kLeadIn);
  stream_.mark(0);
  for (int64_t s = 0; s < samples; ++s) {
    if (delay > 0) stream_.delay(delay);
    stream_.mark(static_cast<size_t>(1 + 2 * s));
    for (int64_t i = first + s * k; i < first + (s + 1) * k; ++i) {
      context_.progress.at_iteration(i);
      if (faults) faults->before_step(i);
      ActivityScope in_step(context_.progress, Activity::in_step);
      engine_.step(stream_, i);
    }
    stream_.mark(static_cast<size_t>(2 + 2 * s));
  }
  {
    ActivityScope waiting(context_.progress, Activity::waiting);
    stream_.synchronize();
  }
  chunk_ = {};
  for (int64_t s = 0; s < samples; ++s) {
    const size_t at = static_cast<size_t>(2 * s);
    chunk_.begin.push_back(stream_.mark_seconds(at) - context_.clock.offset_s);
    chunk_.enter.push_back(stream_.mark_seconds(at + 1) - context_.clock.offset_s);
    chunk_.end.push_back(stream_.mark_seconds(at + 2) - context_.clock.offset_s);
  }
}

/// Warm-up goes through the measuring code, so that its last times are what samples will take; they set k.
/// Their median is taken, since a single one may be far off.
void Measurement::warm_up() {
  const std::string phase = "warm-up " + row_.key;
  context_.progress.enter_phase(phase);
  act_on_phase(context_.injection, context_.world_rank, phase);
  WarmupRule rule(plan_.warmup);
  std::vector<double> own, agreed;  // seconds of an iteration: this rank's, the maximum over ranks
  bool first = true;
  const auto more = [&] {
    if (plan_.exact_warmup) return static_cast<int64_t>(own.size()) < *plan_.exact_warmup;
    return own.empty() || !rule.done();
  };
  while (more()) {
    run_chunk(1, k_, 0, nullptr);
    own.push_back((chunk_.end[0] - chunk_.begin[0]) / static_cast<double>(k_));
    agreed.push_back(own.back());
    context_.group.all_max(std::span(agreed).last(1));
    rule.add(agreed.back());
    own_step_ = recent_median(own);
    step_ = recent_median(agreed);
    // A result that is wrong from the start is found before time goes into measuring it.
    if (first && plan_.check) verify(next_ - k_, k_, false);
    first = false;
    if (plan_.exact_warmup) continue;
    k_ = context_.group.all_max(
        steps_per_sample(step_, stream_.mark_cost(), std::min(plan_.max_grouped, slots_)));
  }
  if (!plan_.exact_warmup && !rule.stable()) row_.notes.push_back("warm-up not stable");
  const double share = step_ > 0 ? 2 * stream_.mark_cost() / (static_cast<double>(k_) * step_) : 0;
  if (share > 0.02) row_.notes.push_back(fmt::format("marks: {:.0f} % of a sample", 100 * share));
}

int64_t Measurement::samples_in_chunk(int64_t left) const {
  if (plan_.duration_s > 0) {
    const double fit = step_ > 0 ? kLongestChunk / (step_ * static_cast<double>(k_)) : 1e4;
    // Pauses for verification after each round of the slots would let the device cool and clock up.
    const double most = engine_.goes_round() ? 1e4 : static_cast<double>(slots_ / k_);
    return static_cast<int64_t>(std::clamp(fit, 1.0, std::max(1.0, most)));
  }
  return std::min(std::max<int64_t>(1, slots_ / k_), left);
}

void Measurement::measure_chunks() {
  const bool soak = plan_.duration_s > 0;
  context_.progress.enter_phase("measure " + row_.key);
  const double delay = faults_.slow ? (faults_.slow->factor - 1) * own_step_ * static_cast<double>(k_) : 0;
  store_ = SampleStore(soak ? SampleStore::most_for(context_.group.size())
                            : static_cast<size_t>(plan_.iterations));
  if (soak) soak_.emplace(plan_.duration_s);
  if (soak && context_.extend_phase) context_.extend_phase(plan_.duration_s);
  t0_ = t1_ = monotonic_seconds();
  int64_t done = 0;
  bool more = plan_.iterations > 0;
  while (more) {
    const int64_t samples = samples_in_chunk(plan_.iterations - done);
    run_chunk(samples, k_, delay, &faults_);
    const int64_t first_held = next_ - held(samples * k_);
    t1_ = monotonic_seconds();
    if (faults_.corrupt && !corrupted_ && next_ > faults_.corrupt->iteration) {
      engine_.corrupt(stream_, std::max(first_held, faults_.corrupt->iteration));
      corrupted_ = true;
    }
    check_.total += samples * k_;
    if (plan_.check) verify(first_held, next_ - first_held, true);
    keep_samples(samples);
    done += samples;
    more = done < plan_.iterations;
    if (soak) {
      // Agreed on, so that all make the same number of chunks.
      const bool unfinished = more || t1_ - t0_ < plan_.duration_s;
      more = context_.group.all_max(static_cast<int64_t>(unfinished)) != 0;
    }
  }
}

void Measurement::verify(int64_t first, int64_t count, bool timed) {
  Check found = engine_.verify(stream_, first, count);
  if (found.first) found.first->rank = context_.world_rank;
  found.total = 0;                // counted here, where the chunks are made
  if (!timed) found.checked = 0;  // the warm-up's results count only when they are wrong
  check_.merge(found);
}

void Measurement::keep_samples(int64_t samples) {
  store_.add(chunk_);
  if (!soak_) return;
  // The maxima over ranks, and of the chunk's begin too, so that all ranks make the same series.
  std::vector<double> agreed;
  for (int64_t s = 0; s < samples; ++s) agreed.push_back(chunk_.end[s] - chunk_.begin[s]);
  agreed.push_back(chunk_.begin[0] + context_.clock.offset_s - t0_);
  context_.group.all_max(agreed);
  double t = agreed.back();
  for (int64_t s = 0; s < samples; t += agreed[s++]) soak_->add(t, agreed[s], k_ * engine_.operations());
}

void Measurement::gather() {
  row_.start_s = t0_ - plan_.run_start;
  row_.end_s = t1_ - plan_.run_start;
  row_.params.emplace_back("iterations_per_sample", k_);
  gather_marks();
  add_rates(row_, [this](double seconds) { return engine_.rates(seconds); });
  gather_check();
  gather_telemetry();
  double error = context_.clock.error_s;
  context_.group.all_max(std::span<double>(&error, 1));
  if (engine_.collective() && error > 0)
    row_.notes.push_back(fmt::format("arrival times between hosts are known to {:.1f} us", error * 1e6));
  // Times of the run are each rank's own; the row is to be the same everywhere.
  const Row agreed = row_from_text(context_.group.broadcast(to_text(row_), 0));
  row_ = agreed;
}

void Measurement::gather_marks() {
  const RankMarks& mine = store_.marks();
  const size_t n = mine.end.size();
  std::vector<double> flat;
  for (const auto* part : {&mine.begin, &mine.enter, &mine.end})
    flat.insert(flat.end(), part->begin(), part->end());
  const std::vector<double> all = context_.group.all_gather(flat);
  std::vector<RankMarks> marks(static_cast<size_t>(context_.group.size()));
  auto from = all.begin();
  for (RankMarks& m : marks)
    for (auto* part : {&m.begin, &m.enter, &m.end}) {
      part->assign(from, from + static_cast<std::ptrdiff_t>(n));
      from += static_cast<std::ptrdiff_t>(n);
    }
  reduce_samples(row_, marks, k_ * engine_.operations(), engine_.collective(), context_.group.world_ranks());
}

void Measurement::gather_check() {
  const Mismatch none;
  const Mismatch& m = check_.first ? *check_.first : none;
  // Counts stay below 2^53, so doubles hold them exactly.
  const double mine[] = {static_cast<double>(check_.checked),
                         static_cast<double>(check_.total),
                         static_cast<double>(check_.wrong),
                         check_.first ? 1.0 : 0.0,
                         static_cast<double>(m.iteration),
                         static_cast<double>(m.offset),
                         m.expected,
                         m.got};
  constexpr size_t kWidth = std::size(mine);
  const std::vector<double> all = context_.group.all_gather(mine);
  Check merged;
  for (size_t r = 0; r * kWidth < all.size(); ++r) {
    const double* v = &all[r * kWidth];
    Check c;
    c.checked = static_cast<int64_t>(v[0]);
    c.total = static_cast<int64_t>(v[1]);
    c.wrong = static_cast<int64_t>(v[2]);
    if (v[3] != 0)
      c.first = Mismatch{context_.group.world_ranks()[r], static_cast<int64_t>(v[4]),
                         static_cast<int64_t>(v[5]), v[6], v[7]};
    merged.merge(c);
  }
  merged.method = check_.method;
  row_.check = merged;
}

void Measurement::gather_telemetry() {
  std::vector<TelemetrySummary> mine;
  const auto add = [&](double t0, double t1) {
    mine.push_back(context_.sampler ? context_.sampler->summarize(t0, t1) : TelemetrySummary{});
    mine.back().rank = context_.world_rank;
  };
  add(t0_, t1_);
  std::vector<SeriesPoint> points;
  if (soak_) {
    points = soak_->points();
    for (const SeriesPoint& p : points) add(t0_ + p.t_s - p.span_s / 2, t0_ + p.t_s + p.span_s / 2);
  }
  const std::vector<std::string> texts = context_.group.all_gather(to_text(mine));
  for (const std::string& text : texts) {
    const std::vector<TelemetrySummary> theirs = summaries_from_text(text);
    if (theirs.front().samples > 0) {
      row_.telemetry.push_back(theirs.front());
      if (theirs.front().throttled) row_.notes.push_back(throttle_note(theirs.front()));
    }
    for (size_t i = 0; i < points.size(); ++i) merge_telemetry(points[i], theirs.at(i + 1));
  }
  finish_series(points, row_.main_metric, [this](double seconds) { return engine_.rates(seconds); });
  for (SeriesPoint& p : points) p.t_s += row_.start_s;
  row_.series = std::move(points);
  for (std::string& note : soak_notes(row_.series)) row_.notes.push_back(std::move(note));
}

}  // namespace

Row measure(Engine& engine, Stream& stream, const MeasurePlan& plan, const MeasureContext& context) {
  return Measurement(engine, stream, plan, context).run();
}

void act_on_phase(const Injection& injection, int world_rank, const std::string& phase) {
  const std::string first_word = phase.substr(0, phase.find(' '));
  const auto hits = [&](FaultKind kind) {
    const std::optional<Fault> fault = injection.find(kind, world_rank);
    return fault && !in_measure(*fault) && (fault->phase == first_word || fault->phase == phase);
  };
  if (hits(FaultKind::die)) die();
  if (hits(FaultKind::hang)) hang();
}

}  // namespace tt

// The one measuring loop: warm up -> chunks of (prepare, barrier, timed steps, verify) -> figures over all
// ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/engine.h"
#include "common/group.h"
#include "common/inject.h"
#include "common/progress.h"
#include "common/stopping.h"
#include "common/telemetry.h"
#include "common/world.h"

namespace tt {

struct MeasurePlan {
  int64_t iterations = 20;  // samples of the distribution
  WarmupRule::Limits warmup;
  /// Steps that each change what the next works on (training): exactly so many are not timed, and none shares a sample.
  std::optional<int64_t> exact_warmup;
  bool check = true;
  double duration_s = 0;  // > 0: go on until this much time has been measured (soak), at least `iterations`
  double run_start = 0;   // monotonic, for Row::start_s
  int64_t max_grouped = 64;  // at most this many iterations between two marks
};

/// What the loop needs besides the engine. All references outlive the call.
struct MeasureContext {
  const Group& group;
  Progress& progress;
  const Injection& injection;
  int world_rank = 0;
  const Sampler* sampler = nullptr;
  ClockOffset clock;                                 // this rank's clock against world rank 0's
  std::function<void(double seconds)> extend_phase;  // a soak tells how long its timed part will be
};

/// Measures one row. Collective over the group; every member gets the same row. docs/method.md, "Timing", has
/// the reasons.
///
/// A chunk is prepare, barrier, then for each sample of the chunk [enter mark, k steps, end mark],
/// synchronize, verify. k
/// ("iterations_per_sample" in params) is 1 unless a step is so short that the marks would show; every figure
/// is per step. A sample begins where the one before it ended (the first: at a mark behind the barrier), so
/// that the samples of a chunk cover it without gaps: what a rank does before it enters, like an injected
/// delay, is part of the time. The time of sample j is the maximum over ranks of end_j - begin_j, the quoted
/// time the median of those. Rates are computed from the summarised times, so that median rate = rate(median
/// time) and the largest rate belongs to the smallest time; p99 of a rate is the rate at the p99 time, mean
/// that at the mean time; its cv is that of the time.
Row measure(Engine& engine, Stream& stream, const MeasurePlan& plan, const MeasureContext& context);

/// One rank's marks in seconds, on a clock common to all ranks; the three have equal length.
struct RankMarks {
  std::vector<double> begin, enter, end;
};

/// Pure part: the row's time figures from every rank's marks, k steps per sample. Fills metric "time_us",
/// ranks, slowest. Throws std::invalid_argument for no ranks, unequal lengths, a value that is not finite.
void reduce_samples(Row& row, const std::vector<RankMarks>& marks, int64_t k, bool collective,
                    const std::vector<int>& world_ranks);

/// Pure: adds the metrics that follow from row's "time_us" through `rates`(seconds); see measure().
void add_rates(Row& row, const std::function<std::vector<Rate>(double seconds)>& rates);

/// Pure: how many steps of `seconds` each share a sample, so that its two marks stay below 0.5 % of it; at most
/// `most`.
int64_t steps_per_sample(double seconds, double mark_cost, int64_t most);

/// Pure: what a soak's series says that its median hides: drift from the first to the last fifth, stretches
/// far below the median.
std::vector<std::string> soak_notes(const std::vector<SeriesPoint>& series);

/// Fault injection at the start of a phase: hangs (for ever) or kills this rank if a fault names the phase's
/// first word. "hang" and "die" without a phase, or with phase "measure", act inside measure() instead.
void act_on_phase(const Injection& injection, int world_rank, const std::string& phase);

}  // namespace tt

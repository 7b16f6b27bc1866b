// The one measuring loop: warm up -> chunks of (prepare, barrier, timed steps, verify) -> figures over all ranks.
#pragma once

#include <cstdint>
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
  int64_t iterations = 20;      // samples of the distribution
  WarmupRule::Limits warmup;
  bool check = true;
  double duration_s = 0;        // > 0: go on until this much time has been measured (soak), at least `iterations`
  double run_start = 0;         // monotonic, for Row::start_s
  int64_t max_grouped = 50;     // at most this many iterations between two marks
};

/// What the loop needs besides the engine. All references outlive the call.
struct MeasureContext {
  const Group& group;
  Progress& progress;
  const Injection& injection;
  int world_rank = 0;
  const Sampler* sampler = nullptr;
  ClockOffset clock;            // this rank's clock against the group's rank 0
};

/// Measures one row. Collective over the group; every member gets the same row, apart from nothing.
///
/// Iterations are timed between marks in the stream. Where a step is so short that the mark itself would show, k steps
/// share a pair of marks and the sample is their time / k ("iterations_per_sample" in params). The time of sample j is the
/// maximum over ranks of (end - begin) for a collective engine; the quoted time is the median of those. For independent
/// engines each sample is likewise the maximum over ranks, and per-rank medians tell who was slow.
/// Rates are computed from the summarised times, so that median rate = rate(median time) and the largest rate belongs to
/// the smallest time; p99 of a rate is the rate at the p99 time; its cv is that of the time.
/// Arrival of rank r: median over samples of begin_r - min over ranks of begin, on one clock (measure_clock_offset).
Row measure(Engine& engine, Stream& stream, const MeasurePlan& plan, const MeasureContext& context);

/// Pure part: the row's time figures from every rank's samples. begins[r][j], ends[r][j] in seconds on one clock, k steps
/// per sample. Fills metrics "time_us", ranks, slowest.
void reduce_samples(Row& row, const std::vector<std::vector<double>>& begins,
                    const std::vector<std::vector<double>>& ends, int64_t k, bool collective,
                    const std::vector<int>& world_ranks);

}  // namespace tt

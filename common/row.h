// What one measurement yields. Plain values; the record (common/record.h) is their JSON form.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/statistics.h"

namespace tt {

using Value = std::variant<int64_t, double, bool, std::string>;
using Params = std::vector<std::pair<std::string, Value>>;  // in the order of insertion

enum class Verdict { pass, fail, wrong, unknown, skipped };  // unknown: measured, but nothing to judge it by
const char* word_of(Verdict verdict) noexcept;               // "pass" "fail" "wrong" "unknown" "skipped"

/// One rate derived from an iteration's time. `value` is empty where the rate has no meaning (busbw of one
/// rank).
struct Rate {
  std::string name;  // with its unit: "busbw_GBps", "tflops"
  std::optional<double> value;
};

struct Metric {
  std::string name;  // with its unit: "time_us", "busbw_GBps", "tflops"
  Summary summary;
};

/// The first wrong element: where, what was expected and what was there.
struct Mismatch {
  int rank = 0;
  int64_t iteration = 0;
  int64_t offset = 0;  // element index in the result
  double expected = 0, got = 0;
};

/// Outcome of verification. NaN never passes: implementations compare as !(error <= bound).
struct Check {
  int64_t checked = 0;  // iterations (or products) whose result was verified, summed over ranks
  int64_t total = 0;    // iterations that were timed, summed over ranks
  int64_t wrong = 0;    // wrong elements found, summed over ranks
  std::optional<Mismatch> first;
  std::string method;  // "exact", "Freivalds + 64 sampled entries", ...; empty: no verification was asked for
  /// Sums; the first wrong element is that of the lower rank, then of the earlier iteration, then of the
  /// lower offset.
  void merge(const Check& other);
};

/// The slowest of the ranks that took part.
struct Slowest {
  int rank = 0;  // world rank
  double ratio =
      1;  // its median time against the median of the others; collectives: docs/method.md, "Arrival"
  bool outlier = false;  // beyond the peer gate (statistics.h find_outliers)
  std::string reason;    // "own time" or "arrival"
};

/// One rank's share of a row: medians of what the rank itself saw.
struct RankFigures {
  int rank = 0;
  /// Independent engines: an iteration's time on this rank. Collectives: from entering the operation to
  /// leaving it, so that the late rank has the shortest and the others wait for it.
  double time_us = 0;
  std::optional<double>
      arrival_us;  // collectives: how long after the first rank it entered (clock error: see method.md)
  std::optional<double>
      delay_us;  // collectives: what it did, per iteration, between leaving one and entering the next
};

/// The physical limit of the row's main metric and where it comes from.
struct Limit {
  std::string metric;
  double value = 0;
  std::string origin;
};

struct BaselineResult {
  std::string metric, direction, origin;                     // direction: "higher" or "lower" is better
  double value = 0, measured = 0, ratio = 0, min_ratio = 0;  // ratio: measured/value, inverted for "lower"
  bool pass = false;
};

/// What telemetry saw during the row's timed part: means, of the temperature the highest. Empty: no source
/// gave it.
struct TelemetrySummary {
  int rank = -1;  // world rank; -1: not said
  int64_t samples = 0;
  std::optional<double> sm_MHz, mem_MHz, power_W, power_max_W, energy_J, temperature_C, gpu_util_percent,
      host_load;
  std::vector<std::string> throttle;  // reasons seen, e.g. "sw_power_cap"
  bool throttled = false;
};

/// One stretch of a soak: about a second, more in long soaks.
struct SeriesPoint {
  double t_s = 0, span_s = 0;  // its middle, since the run's start, and its length
  int64_t iterations = 0;
  std::optional<double> rate;                                        // the row's main metric over the stretch
  std::optional<double> sm_MHz_min, power_W_max, temperature_C_max;  // over the ranks that have a source
  std::vector<std::string> throttle;
};

/// Something the tool itself holds the row to, besides a baseline: a loss, a scaling factor.
struct Gate {
  std::string name;  // "target_loss", "speedup_4"
  double value = 0, limit = 0;
  bool at_most = false;  // value <= limit is wanted; else value >= limit
  std::string what;      // in words, without the figures
  bool pass() const { return at_most ? value <= limit : value >= limit; }  // NaN does not pass
};

/// A figure over the steps of a run: the loss.
struct Curve {
  std::string name;
  std::vector<double> values;  // by step, the first at 0
};

struct Row {
  std::string key;    // stable: "all_reduce/float/sum/1048576/out-of-place"
  std::string group;  // key without the size; gates have windows over `size` inside a group
  std::optional<int64_t> size;
  Params params;
  std::vector<Metric> metrics;
  std::string main_metric;  // the one that limit and baseline speak about by default
  std::optional<Limit> limit;
  std::optional<double> limit_ratio;
  std::optional<BaselineResult> baseline;
  std::vector<RankFigures> ranks;
  std::optional<Slowest> slowest;
  Check check;
  std::vector<TelemetrySummary> telemetry;  // one per rank that has a source, by rank order; may be empty
  std::vector<SeriesPoint> series;          // soaks (--duration) only
  std::vector<Gate> gates;
  std::vector<Curve> curves;
  std::vector<std::string> notes;  // "throttled", "warm-up not stable", "cache-resident", ...
  bool comparable =
      true;  // false: no baseline and no limit applies (some layers only, cache-resident); a note says why
  bool judged = false;  // true: the tool has set the verdict itself (node_check); no baseline is asked
  Verdict verdict = Verdict::unknown;
  std::string reason;             // why it failed or is unknown
  double start_s = 0, end_s = 0;  // of the timed part, seconds since the run's start

  /// The metric of this name, or nullptr.
  const Metric* metric(const std::string& name) const;
};

}  // namespace tt

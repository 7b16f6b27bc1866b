// What a soak keeps: a bounded number of samples and a series of rates over time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/measure.h"
#include "common/row.h"

namespace tt {

/// Keeps at most `most` samples: when full, every second one goes and from then on only every second one is
/// taken (and so on), so that what is kept is spread evenly over the whole time. Depends on the count alone:
/// all ranks keep the same.
class SampleStore {
 public:
  explicit SampleStore(size_t most) : most_(most < 2 ? 2 : most) {}
  void add(const RankMarks& chunk);
  const RankMarks& marks() const { return marks_; }
  /// 10,000, fewer on many ranks, since all ranks' samples meet in one place: 2^21 in all, but 1,000 of each.
  static size_t most_for(int ranks);

 private:
  size_t most_, stride_ = 1, seen_ = 0;
  RankMarks marks_;
};

/// Sums samples up over stretches of at least a second; of at most 1,000 stretches in all.
class SoakSeries {
 public:
  explicit SoakSeries(double duration_s) : span_(duration_s / 1000 > 1 ? duration_s / 1000 : 1) {}
  /// A sample of k iterations that began `t` seconds into the timed part and took `seconds`.
  void add(double t, double seconds, int64_t k);
  /// `rate` still holds the mean seconds of an iteration: see finish_series.
  std::vector<SeriesPoint> points() const;

 private:
  struct Stretch {
    double begin = 0, end = 0;
    double busy = 0;  // seconds inside samples: verification between chunks does not count
    int64_t iterations = 0;
  };
  double span_;
  std::vector<Stretch> stretches_;
};

/// Lowest clock, highest power and temperature, all reasons.
void merge_telemetry(SeriesPoint& point, const TelemetrySummary& rank);

/// Turns each point's mean seconds of an iteration into the rate named `metric`.
void finish_series(std::vector<SeriesPoint>& points, const std::string& metric,
                   const std::function<std::vector<Rate>(double)>& rates);

/// "rank 1 throttled (sw_power_cap), SM clock 1450 MHz on average".
std::string throttle_note(const TelemetrySummary& summary);

}  // namespace tt

// When a series of measurements is long enough. A rule sees numbers only, so it is tested on made-up series.
#pragma once

#include <cstdint>
#include <vector>

namespace tt {

/// Warm-up is over when the last `window` times agree: (max - min) / median <= tolerance, or when the window's median
/// no longer falls against the window before it by more than `tolerance` and `max_samples` have been seen (a series that
/// falls for ever ends at ten times as many), or when max_seconds are used up. Never before min_samples.
class WarmupRule {
 public:
  struct Limits {
    int64_t min_samples = 1;
    int64_t max_samples = 50;
    int64_t window = 5;
    double tolerance = 0.05;
    double max_seconds = 3.0;  // of measured time; a large size is not warmed up for minutes
  };
  explicit WarmupRule(Limits limits) : limits_(limits) {}
  /// Throws std::invalid_argument for a time that is negative or not finite.
  void add(double seconds);
  bool done() const;
  bool stable() const;  // false when a limit, not agreement, ended it; the row then says so

 private:
  Limits limits_;
  std::vector<double> times_;
  double total_ = 0;
};

}  // namespace tt

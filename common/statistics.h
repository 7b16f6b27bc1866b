// Pure statistics over series of numbers: no clock, no device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace tt {

/// A distribution. With n = 0 everything is empty; with n = 1 min = median = mean = max = p99 and cv is empty.
struct Summary {
  int64_t n = 0;
  std::optional<double> min, median, mean, max;
  std::optional<double> p99;  // nearest-rank: the smallest value with at least 99 % of the values <= it
  std::optional<double> cv;   // sample standard deviation (n-1, two-pass) / mean; empty if n < 2 or mean is 0
};

/// Throws std::invalid_argument if a value is NaN or infinite: a non-finite figure is a fault, never a sample.
Summary summarize(std::span<const double> values);

/// Middle value; mean of the two middle ones for even n; empty for n = 0.
std::optional<double> median_of(std::span<const double> values);

/// Median absolute deviation from the median (not scaled); empty for n = 0.
std::optional<double> mad_of(std::span<const double> values);

/// One value that lies off its peers.
struct Outlier {
  size_t index = 0;
  double peers_median = 0;  // of all the others
  double ratio = 0;         // value / peers_median
  double z = 0;             // 0.6745 (value - peers_median) / MAD of the others (Iglewicz and Hoaglin 1993)
};

/// Values beyond both a robust z-score (|z| > z_limit, with MAD floored at 0.1 % of the median so that identical
/// peers do not make every difference infinite) and a relative margin (|ratio - 1| > margin) against the median of the
/// rest. Fewer than 2 values: none. With exactly 2 values only the margin can decide and *which* one is off is not
/// knowable from the pair alone: both are returned. A value whose peers have the median 0 is not judged. Throws
/// std::invalid_argument if a value is not finite.
std::vector<Outlier> find_outliers(std::span<const double> values, double z_limit = 3.5, double margin = 0.05);

}  // namespace tt

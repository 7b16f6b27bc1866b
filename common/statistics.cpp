#include "common/statistics.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tt {
namespace {

void require_finite(std::span<const double> values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      throw std::invalid_argument("statistics: value " + std::to_string(i) + " of " +
                                  std::to_string(values.size()) + " is not finite");
}

std::vector<double> sorted(std::span<const double> values) {
  require_finite(values);
  std::vector<double> copy(values.begin(), values.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

double median_of_sorted(const std::vector<double>& v) {
  const size_t half = v.size() / 2;
  // Half the distance, not half the sum: two values of 1e308 have a middle.
  return v.size() % 2 == 1 ? v[half] : v[half - 1] + (v[half] - v[half - 1]) / 2;
}

}  // namespace

Summary summarize(std::span<const double> values) {
  Summary s;
  s.n = static_cast<int64_t>(values.size());
  if (values.empty()) return s;
  const std::vector<double> v = sorted(values);
  s.min = v.front();
  s.max = v.back();
  s.median = median_of_sorted(v);
  s.p99 = v[(99 * v.size() + 99) / 100 - 1];  // rank ceil(0.99 n), counted from 1

  // Sums of differences to the minimum: identical values give their own value and a deviation of exactly 0.
  const long double base = v.front();
  const long double n = static_cast<long double>(v.size());
  long double sum = 0;
  for (double x : v) sum += x - base;
  const long double mean = base + sum / n;
  s.mean = static_cast<double>(mean);
  if (v.size() < 2 || *s.mean == 0) return s;
  long double squares = 0;
  for (double x : v) squares += (x - mean) * (x - mean);
  s.cv = static_cast<double>(std::sqrt(squares / (n - 1)) / mean);
  return s;
}

std::optional<double> median_of(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  return median_of_sorted(sorted(values));
}

std::optional<double> mad_of(std::span<const double> values) {
  const std::optional<double> middle = median_of(values);
  if (!middle) return std::nullopt;
  std::vector<double> deviations;
  deviations.reserve(values.size());
  for (double x : values) deviations.push_back(std::abs(x - *middle));
  return median_of(deviations);
}

std::vector<Outlier> find_outliers(std::span<const double> values, double z_limit, double margin) {
  require_finite(values);
  constexpr double kMadFloor = 0.001;  // of the median
  if (values.size() < 2) return {};
  const bool pair = values.size() == 2;
  std::vector<Outlier> judged, off;
  std::vector<double> peers;
  for (size_t i = 0; i < values.size(); ++i) {
    peers.assign(values.begin(), values.end());
    peers.erase(peers.begin() + static_cast<std::ptrdiff_t>(i));
    Outlier o;
    o.index = i;
    o.peers_median = *median_of(peers);
    if (o.peers_median == 0) continue;
    const double mad = std::max(*mad_of(peers), kMadFloor * std::abs(o.peers_median));
    o.ratio = values[i] / o.peers_median;
    o.z = 0.6745 * (values[i] - o.peers_median) / mad;
    judged.push_back(o);
    if (std::abs(o.ratio - 1) > margin && (pair || std::abs(o.z) > z_limit)) off.push_back(o);
  }
  // Of a pair, one ratio is the other's inverse and may fall just inside the margin: both or none.
  return pair && !off.empty() ? judged : off;
}

}  // namespace tt

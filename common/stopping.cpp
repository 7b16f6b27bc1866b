#include "common/stopping.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "common/statistics.h"

namespace tt {

void WarmupRule::add(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0)
    throw std::invalid_argument("warm-up: a time of " + std::to_string(seconds) + " s cannot be");
  times_.push_back(seconds);
  total_ += seconds;
}

bool WarmupRule::stable() const {
  const auto window = static_cast<size_t>(std::max<int64_t>(limits_.window, 1));
  if (times_.size() < window) return false;
  const std::span last = std::span(times_).last(window);
  const auto [low, high] = std::minmax_element(last.begin(), last.end());
  return *high - *low <= limits_.tolerance * *median_of(last);
}

namespace {

/// Does the median of the last window lie below the one before it by more than `tolerance`?
bool falling(std::span<const double> times, size_t window, double tolerance) {
  if (times.size() < 2 * window) return false;
  const std::optional<double> now = median_of(times.last(window));
  const std::optional<double> before = median_of(times.last(2 * window).first(window));
  return *now < (1 - tolerance) * *before;
}

}  // namespace

bool WarmupRule::done() const {
  const auto samples = static_cast<int64_t>(times_.size());
  if (samples < limits_.min_samples) return false;
  if (total_ >= limits_.max_seconds || stable()) return true;
  if (samples < limits_.max_samples) return false;
  // Times that still fall say that the warm-up is at work; but no series falls for ever.
  constexpr int64_t kPatience = 10;
  const auto window = static_cast<size_t>(std::max<int64_t>(limits_.window, 1));
  return samples >= kPatience * limits_.max_samples || !falling(times_, window, limits_.tolerance);
}

}  // namespace tt

#include "common/soak.h"

#include <fmt/format.h>

#include <algorithm>

namespace tt {

void SampleStore::add(const RankMarks& chunk) {
  for (size_t j = 0; j < chunk.end.size(); ++j, ++seen_) {
    if (seen_ % stride_ != 0) continue;
    if (marks_.end.size() == most_) {
      for (auto* part : {&marks_.begin, &marks_.enter, &marks_.end}) {
        for (size_t i = 0; 2 * i < part->size(); ++i) (*part)[i] = (*part)[2 * i];
        part->resize((part->size() + 1) / 2);
      }
      stride_ *= 2;
      if (seen_ % stride_ != 0) continue;
    }
    marks_.begin.push_back(chunk.begin[j]);
    marks_.enter.push_back(chunk.enter[j]);
    marks_.end.push_back(chunk.end[j]);
  }
}

size_t SampleStore::most_for(int ranks) {
  return std::clamp<size_t>((size_t{1} << 21) / static_cast<size_t>(std::max(1, ranks)), 1000, 10000);
}

void SoakSeries::add(double t, double seconds, int64_t k) {
  if (stretches_.empty() || stretches_.back().busy >= span_ || t >= stretches_.back().begin + span_)
    stretches_.push_back({t, t, 0, 0});
  Stretch& s = stretches_.back();
  s.end = t + seconds;
  s.busy += seconds;
  s.iterations += k;
}

std::vector<SeriesPoint> SoakSeries::points() const {
  std::vector<SeriesPoint> points;
  for (const Stretch& s : stretches_) {
    SeriesPoint p;
    p.t_s = (s.begin + s.end) / 2;
    p.span_s = s.end - s.begin;
    p.iterations = s.iterations;
    if (s.iterations > 0) p.rate = s.busy / static_cast<double>(s.iterations);
    points.push_back(p);
  }
  return points;
}

void merge_telemetry(SeriesPoint& point, const TelemetrySummary& rank) {
  if (rank.sm_MHz) point.sm_MHz_min = std::min(*rank.sm_MHz, point.sm_MHz_min.value_or(*rank.sm_MHz));
  if (rank.power_max_W)
    point.power_W_max = std::max(*rank.power_max_W, point.power_W_max.value_or(*rank.power_max_W));
  if (rank.temperature_C)
    point.temperature_C_max =
        std::max(*rank.temperature_C, point.temperature_C_max.value_or(*rank.temperature_C));
  for (const std::string& reason : rank.throttle)
    if (std::find(point.throttle.begin(), point.throttle.end(), reason) == point.throttle.end())
      point.throttle.push_back(reason);
}

void finish_series(std::vector<SeriesPoint>& points, const std::string& metric,
                   const std::function<std::vector<Rate>(double)>& rates) {
  for (SeriesPoint& p : points) {
    const std::optional<double> seconds = p.rate;
    p.rate.reset();
    if (!seconds || !(*seconds > 0)) continue;
    for (const Rate& r : rates(*seconds))
      if (r.name == metric) p.rate = r.value;
  }
}

std::string throttle_note(const TelemetrySummary& summary) {
  std::string reasons;
  for (const std::string& r : summary.throttle) reasons += (reasons.empty() ? "" : ", ") + r;
  std::string note = fmt::format("throttled: rank {}: {}", summary.rank, reasons);
  if (summary.sm_MHz) note += fmt::format(", SM clock {:.0f} MHz on average", *summary.sm_MHz);
  return note;
}

}  // namespace tt

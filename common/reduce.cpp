// Figures from marks: the pure part of measure.h. docs/method.md derives each.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "common/measure.h"
#include "common/statistics.h"

namespace tt {
namespace {

void check_marks(const std::vector<RankMarks>& marks, int64_t k, const std::vector<int>& world_ranks) {
  if (marks.empty() || marks.size() != world_ranks.size() || k < 1)
    throw std::invalid_argument(
        fmt::format("reduce_samples: {} ranks' marks, {} ranks, k {}", marks.size(), world_ranks.size(), k));
  const size_t n = marks.front().end.size();
  for (const RankMarks& m : marks)
    if (m.begin.size() != n || m.enter.size() != n || m.end.size() != n)
      throw std::invalid_argument("reduce_samples: ranks have different numbers of samples");
}

/// (to - from) / k for each sample.
std::vector<double> spans(const std::vector<double>& from, const std::vector<double>& to, int64_t k) {
  std::vector<double> out(from.size());
  for (size_t j = 0; j < out.size(); ++j) out[j] = (to[j] - from[j]) / static_cast<double>(k);
  return out;
}

/// The one with the largest value; ratio against the median of the others.
Slowest slowest_of(const std::vector<double>& values, const std::vector<int>& world_ranks,
                   const char* reason) {
  const size_t i = static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
  std::vector<double> others = values;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
  Slowest s;
  s.rank = world_ranks[i];
  s.reason = reason;
  const double peers = *median_of(others);
  s.ratio = peers > 0 ? values[i] / peers : 1;
  for (const Outlier& o : find_outliers(values)) s.outlier = s.outlier || (o.index == i && o.ratio > 1);
  return s;
}

}  // namespace

void reduce_samples(Row& row, const std::vector<RankMarks>& marks, int64_t k, bool collective,
                    const std::vector<int>& world_ranks) {
  check_marks(marks, k, world_ranks);
  const size_t ranks = marks.size(), n = marks.front().end.size();
  if (n == 0) {
    row.metrics.push_back({"time_us", {}});
    return;
  }
  std::vector<double> time(n, -INFINITY), first_enter(n, INFINITY);
  for (const RankMarks& m : marks)
    for (size_t j = 0; j < n; ++j) {
      time[j] = std::max(time[j], (m.end[j] - m.begin[j]) / static_cast<double>(k) * 1e6);
      first_enter[j] = std::min(first_enter[j], m.enter[j]);
    }
  row.metrics.push_back({"time_us", summarize(time)});

  std::vector<double> own(ranks), delay(ranks);
  for (size_t r = 0; r < ranks; ++r) {
    const RankMarks& m = marks[r];
    RankFigures figures;
    figures.rank = world_ranks[r];
    own[r] = *median_of(spans(collective ? m.enter : m.begin, m.end, k)) * 1e6;
    delay[r] = *median_of(spans(m.begin, m.enter, k)) * 1e6;
    figures.time_us = own[r];
    if (collective) {
      figures.arrival_us = *median_of(spans(first_enter, m.enter, 1)) * 1e6;
      figures.delay_us = delay[r];
    }
    row.ranks.push_back(figures);
  }
  if (ranks < 2) return;
  if (!collective) {
    row.slowest = slowest_of(own, world_ranks, "own time");
    return;
  }
  // In a collective everybody's time is the slowest one's. Who made the others wait is told by what it did
  // between leaving one operation and entering the next, on top of what the operation takes the rank that
  // waits least.
  const double base = *std::min_element(own.begin(), own.end());
  std::vector<double> alone(ranks);
  for (size_t r = 0; r < ranks; ++r) alone[r] = base + delay[r];
  row.slowest = slowest_of(alone, world_ranks, "arrival");
}

void add_rates(Row& row, const std::function<std::vector<Rate>(double)>& rates) {
  const Metric* time = row.metric("time_us");
  if (!time || !time->summary.median) return;
  const Summary t = time->summary;  // a copy: metrics grow below
  const auto at = [&rates](const std::optional<double>& us, size_t i) -> std::optional<double> {
    if (!us || !(*us > 0)) return std::nullopt;
    const std::optional<double> value = rates(*us * 1e-6).at(i).value;
    return value && std::isfinite(*value) ? value : std::nullopt;
  };
  const double probe = *t.median > 0 ? *t.median * 1e-6 : 1.0;  // names do not depend on the time
  const std::vector<Rate> named = rates(probe);
  for (size_t i = 0; i < named.size(); ++i) {
    Summary s;
    s.median = at(t.median, i);
    if (s.median) {
      s.n = t.n;
      s.min = at(t.max, i);  // the longest time is the lowest rate
      s.max = at(t.min, i);
      s.mean = at(t.mean, i);
      s.p99 = at(t.p99, i);
      s.cv = t.cv;
    }
    row.metrics.push_back({named[i].name, s});
  }
}

int64_t steps_per_sample(double seconds, double mark_cost, int64_t most) {
  most = std::max<int64_t>(1, most);
  if (!(mark_cost > 0)) return 1;
  if (!(seconds > 0)) return most;
  const double wanted = std::ceil(2 * mark_cost / (0.005 * seconds));
  return wanted >= static_cast<double>(most) ? most : std::max<int64_t>(1, static_cast<int64_t>(wanted));
}

std::vector<std::string> soak_notes(const std::vector<SeriesPoint>& series) {
  constexpr double kDrift = 0.02, kDip = 0.9;
  std::vector<double> rates;
  for (const SeriesPoint& p : series)
    if (p.rate) rates.push_back(*p.rate);
  if (rates.size() < 5) return {};
  std::vector<std::string> notes;
  const std::span<const double> all(rates);
  const size_t fifth = rates.size() / 5;
  const double first = *median_of(all.first(fifth)), last = *median_of(all.last(fifth));
  if (std::abs(last / first - 1) > kDrift)
    notes.push_back(fmt::format("drift: the rate went from {:.4g} to {:.4g} ({:+.1f} %)", first, last,
                                (last / first - 1) * 100));
  const double middle = *median_of(all);
  const auto dips = std::count_if(rates.begin(), rates.end(), [&](double r) { return r < kDip * middle; });
  if (dips > 0)
    notes.push_back(
        fmt::format("dips: {} of {} stretches below 90 % of the median rate {:.4g}, the lowest {:.4g}", dips,
                    rates.size(), middle, *std::min_element(rates.begin(), rates.end())));
  return notes;
}

}  // namespace tt

// The record's figures in Prometheus' text format, for node_exporter's textfile collector. docs/record.md
// lists the names.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "common/record_data.h"

namespace tt {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// Label values: \ " and newline have an escape, other control characters are legal as they are.
std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\\' || c == '"')
      (out += '\\') += c;
    else
      out += c;
  }
  return out;
}

/// Names are [a-zA-Z_:][a-zA-Z0-9_:]*.
std::string metric_name(const std::string& name) {
  std::string out = "tt_";
  for (char c : name) {
    const bool legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    out += legal ? c : '_';
  }
  return out;
}

/// Help depends on the name alone, so that two executables' files never contradict each other.
std::string help_of(const std::string& name) {
  static const std::map<std::string, std::string> kHelp = {
      {"tt_time_us", "Time of one iteration in microseconds, the maximum over ranks."},
      {"tt_rank_time_us", "Median time of one iteration on each rank in microseconds."},
      {"tt_rank_arrival_us",
       "Median time in microseconds by which a rank entered a collective after the first one."},
      {"tt_limit_ratio", "Median of the main metric against the physical limit."},
      {"tt_baseline_ratio", "Median against the baseline, above 1 is better."},
      {"tt_row_pass", "1 when the row passed, 0 when it failed or was wrong; absent when it was not judged."},
      {"tt_checked_iterations", "Timed iterations whose result was verified, summed over ranks."},
      {"tt_timed_iterations", "Timed iterations, summed over ranks."},
      {"tt_wrong_elements", "Wrong elements found, summed over ranks."},
      {"tt_throttled", "1 when a device's clock was held down during the row."},
      {"tt_run_end_time_seconds", "When the run ended, in seconds since 1970."},
      {"tt_run_exit_code",
       "Exit code of the run: 0 pass, 1 gate, 2 usage, 3 environment, 4 wrong data, 5 timeout, 77 skipped."},
      {"tt_run_injected", "1 when faults were injected: the figures are not real."},
  };
  const auto it = kHelp.find(name);
  return it != kHelp.end() ? it->second : "Figure of a measured row; the unit is the last part of the name.";
}

/// Samples by metric name. A name's samples must stand together, and name+labels may appear once.
class Exposition {
 public:
  void add(const std::string& name, const Labels& labels, const std::optional<double>& value) {
    if (!value || !std::isfinite(*value)) return;
    std::string line = name + "{";
    for (const auto& [label, text] : labels)
      line += (line.back() == '{' ? "" : ",") + label + "=\"" + escaped(text) + "\"";
    line += "}";
    if (seen_.insert(line).second) samples_[name] += line + fmt::format(" {}\n", *value);
  }
  std::string text() const {
    std::string out;
    for (const auto& [name, lines] : samples_)
      out += "# HELP " + name + " " + help_of(name) + "\n# TYPE " + name + " gauge\n" + lines;
    return out;
  }

 private:
  std::map<std::string, std::string> samples_;
  std::set<std::string> seen_;
};

void add_metric(Exposition& out, const Metric& metric, const Labels& labels) {
  const std::string name = metric_name(metric.name);
  const Summary& s = metric.summary;
  const auto with = [&](const char* stat) {
    Labels l = labels;
    l.emplace_back("stat", stat);
    return l;
  };
  out.add(name, with("min"), s.min);
  out.add(name, with("median"), s.median);
  out.add(name, with("mean"), s.mean);
  out.add(name, with("max"), s.max);
  out.add(name, with("p99"), s.p99);
}

void add_row(Exposition& out, const Row& row, const Labels& labels, const std::vector<RankIdentity>& ranks) {
  for (const Metric& m : row.metrics) add_metric(out, m, labels);
  for (const RankFigures& r : row.ranks) {
    Labels l = labels;
    l.emplace_back("rank", std::to_string(r.rank));
    for (const RankIdentity& identity : ranks)
      if (identity.rank == r.rank) l.emplace_back("host", identity.host);
    out.add("tt_rank_time_us", l, r.time_us);
    out.add("tt_rank_arrival_us", l, r.arrival_us);
  }
  out.add("tt_limit_ratio", labels, row.limit_ratio);
  if (row.baseline) {
    Labels l = labels;
    l.emplace_back("metric", row.baseline->metric);
    out.add("tt_baseline_ratio", l, row.baseline->ratio);
  }
  if (row.verdict == Verdict::pass) out.add("tt_row_pass", labels, 1);
  if (row.verdict == Verdict::fail || row.verdict == Verdict::wrong) out.add("tt_row_pass", labels, 0);
  if (!row.check.method.empty()) {
    out.add("tt_checked_iterations", labels, static_cast<double>(row.check.checked));
    out.add("tt_wrong_elements", labels, static_cast<double>(row.check.wrong));
  }
  if (row.check.total > 0) out.add("tt_timed_iterations", labels, static_cast<double>(row.check.total));
  if (!row.telemetry.empty()) {
    bool throttled = false;
    for (const TelemetrySummary& t : row.telemetry) throttled = throttled || t.throttled;
    out.add("tt_throttled", labels, throttled ? 1 : 0);
  }
}

}  // namespace

std::string prometheus_text(const Record::Data& data) {
  Exposition out;
  const Labels run{{"tool", data.tool}};
  std::map<std::string, int> occurrences;
  for (const Row& row : data.rows) {
    Labels labels = run;
    labels.emplace_back("key", row.key);
    // A key that comes again (-N) is the same measurement made again; without a label of its own it would be
    // a duplicate.
    if (const int n = ++occurrences[row.key]; n > 1) labels.emplace_back("occurrence", std::to_string(n));
    add_row(out, row, labels, data.ranks);
  }
  out.add("tt_run_end_time_seconds", run, data.end_unix);
  out.add("tt_run_exit_code", run, static_cast<double>(data.finished ? data.code : ExitCode::environment));
  out.add("tt_run_injected", run, data.injection.empty() ? 0 : 1);
  return out.text();
}

}  // namespace tt

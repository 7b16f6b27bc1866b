#include "common/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/clock.h"
#include "common/error.h"
#include "common/report_text.h"
#include "common/wire.h"

namespace tt {
namespace {

/// Rank 0 reads, so that the file need be on one node only, and a broken one is the same error on every rank.
Baseline shared_baseline(const std::string& path, const Group& all) {
  if (path.empty()) return {};
  std::string text;
  if (all.rank() == 0) {
    try {
      text = "+" + Baseline::read(path);
    } catch (const Error& e) {
      text = std::string("-") + e.what();
    }
  }
  text = all.broadcast(text, 0);
  if (text.at(0) == '-') throw EnvironmentError(text.substr(1));
  return Baseline::parse(text.substr(1), path);
}

std::string counted(int n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

std::string settings_line(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string line = "settings:";
  for (const auto& [name, value] : settings)
    if (!value.empty()) line += " " + name + "=" + value;
  return line;
}

std::string versions_line(const Versions& versions) {
  std::string line = "libraries:";
  for (const auto& [name, version] : versions)
    line += fmt::format("{} {} {}", line.back() == ':' ? "" : ",", name, version);
  return line;
}

}  // namespace

Session::Session(const CommonOptions& options, World& world, Progress& progress, Watchdog& watchdog,
                 Record& record)
    : options_(options),
      world_(world),
      progress_(progress),
      watchdog_(watchdog),
      record_(record),
      baseline_(shared_baseline(options.baseline, world.all())) {
  options_.injection.check_ranks(world_.size());
}

Session::~Session() = default;

void Session::introduce(const RankIdentity& me, const Versions& versions,
                        std::shared_ptr<TelemetrySource> telemetry, bool sharing_allowed) {
  ranks_.clear();
  for (const std::string& text : world_.all().all_gather(to_text(me)))
    ranks_.push_back(identity_from_text(text));
  record_.set_world(world_.size(), world_.nodes(), world_.launcher().name);
  record_.set_ranks(ranks_);
  record_.set_versions(versions);
  record_.set_injection(options_.injection.text());

  say(fmt::format("# {} {}, {} on {}, started by {}, {}", record_.tool(), TT_VERSION,
                  counted(world_.size(), "rank"), counted(world_.nodes(), "node"), world_.launcher().name,
                  utc_now()));
  header(versions_line(versions));
  header(settings_line(record_.settings()));
  for (const RankIdentity& r : ranks_) header(rank_line(r));
  if (!options_.injection.empty())
    header("FAULT INJECTION: " + options_.injection.text() + ": figures and verdict are not the machine's",
           true);
  for (const std::vector<int>& sharers : shared_gpus(ranks_)) {
    const std::string text = sharing_text(sharers, ranks_);
    if (!sharing_allowed && !options_.share_gpu)
      throw EnvironmentError(text + "; give every rank a GPU of its own, or allow it with --share-gpu");
    header(text + ": rates are not those of one GPU alone", true);
  }
  clock_ = measure_clock_offset(world_.all());
  if (telemetry) sampler_ = std::make_unique<Sampler>(std::move(telemetry), options_.telemetry_interval_ms);
}

void Session::header(const std::string& line, bool noted) {
  say("# " + line);
  if (noted) record_.add_note(line);
}

void Session::say(const std::string& line) {
  if (world_.rank() != 0) return;
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);  // whoever watches sees each row as it is made
}

void Session::phase(const std::string& name) {
  progress_.enter_phase(name);
  act_on_phase(options_.injection, world_.rank(), name);
}

Row Session::measure(Engine& engine, Stream& stream, const MeasurePlan& plan, const Group* group) {
  MeasurePlan mine = plan;
  mine.duration_s = options_.duration_s;
  mine.run_start = record_.start();
  MeasureContext context{group ? *group : world_.all(),
                         progress_,
                         options_.injection,
                         world_.rank(),
                         sampler_.get(),
                         clock_,
                         {}};
  if (options_.timeout_s > 0)
    context.extend_phase = [this](double seconds) { watchdog_.extend_phase(seconds); };
  return tt::measure(engine, stream, mine, context);
}

Row Session::add(Row row) {
  if (row.limit && !row.limit_ratio && row.comparable && row.limit->value > 0)
    if (const Metric* m = row.metric(row.limit->metric); m && m->summary.median)
      row.limit_ratio = *m->summary.median / row.limit->value;
  if (!row.judged) baseline_.judge(row, options_.min_ratio);
  record_.add_row(row);
  rows_.push_back(row);
  return row;
}

Row Session::share(std::optional<Row> row) {
  // measure() enters two phases. Ranks outside the group enter as many, or they would look left behind.
  if (!row)
    for (int i = 0; i < 2; ++i) progress_.enter_phase("wait for a smaller group");
  world_.all().idle_barrier();
  const std::string text = world_.all().broadcast(row ? to_text(*row) : std::string(), 0);
  if (text.empty()) throw EnvironmentError("a row of a smaller group that rank 0 is not a member of");
  return row_from_text(text);
}

void Session::require_memory(const std::string& what, int64_t needed, int64_t available) {
  // Two halves, each exact in a double.
  const auto high = [](int64_t v) { return static_cast<double>(v >> 32); };
  const auto low = [](int64_t v) { return static_cast<double>(v & 0xffffffff); };
  const double mine[] = {high(needed), low(needed), high(available), low(available)};
  const std::vector<double> all = world_.all().all_gather(mine);
  std::vector<MemoryDemand> demands;
  const auto whole = [](const double* v) {
    return (static_cast<int64_t>(v[0]) << 32) + static_cast<int64_t>(v[1]);
  };
  for (size_t i = 0; i < all.size(); i += 4) demands.push_back({whole(&all[i]), whole(&all[i + 2])});
  const std::string shortage = memory_shortage(what, demands, ranks_);
  if (!shortage.empty()) throw EnvironmentError(shortage);
}

void Session::record_telemetry() {
  // The ranks of a host without GPUs would all tell the same: its first one does. Many sources are thinned
  // more.
  std::string text;
  const bool tells =
      sampler_ && (ranks_.empty() || ranks_[world_.rank()].device.kind == "cuda" || world_.local_rank() == 0);
  if (tells) {
    std::vector<TelemetrySample> series = sampler_->series();
    const size_t most = std::max<size_t>(50, 8000 / static_cast<size_t>(world_.size()));
    const size_t stride = (series.size() + most - 1) / most;
    std::vector<TelemetrySample> thinned;
    for (size_t i = 0; i < series.size(); i += std::max<size_t>(1, stride)) {
      series[i].t -= record_.start();
      thinned.push_back(std::move(series[i]));
    }
    text = to_text(thinned);
  }
  const auto sources = world_.all().all_gather(tells ? sampler_->source_name() : std::string());
  const auto troubles = world_.all().all_gather(sampler_ ? sampler_->trouble() : std::string());
  const auto series = world_.all().all_gather(text);
  for (int r = 0; r < world_.size(); ++r) {
    if (!series[r].empty()) record_.set_telemetry(r, sources[r], series_from_text(series[r]));
    if (!troubles[r].empty())
      header(fmt::format("telemetry of {}: {}", called(r, ranks_), troubles[r]), true);
  }
}

ExitCode Session::finish() {
  phase("finish");
  record_telemetry();
  for (const std::string& key : baseline_.missing(rows_, record_.tool())) {
    Row row;
    row.key = row.group = key;
    row.verdict = Verdict::fail;
    row.reason = "not measured: the baseline expects " + key;
    record_.add_row(row);
    rows_.push_back(std::move(row));
  }
  const int64_t agreed = world_.all().all_max(static_cast<int64_t>(severity(code_of(rows_))));
  const ExitCode code = from_severity(static_cast<int>(agreed));
  std::optional<int> culprit;
  if (const auto slowest = overall_slowest(rows_); slowest && slowest->outlier) culprit = slowest->rank;
  for (const Row& row : rows_)
    if (row.check.first && code == ExitCode::wrong_data) {
      culprit = row.check.first->rank;
      break;
    }
  const std::string reason = reason_of(code, rows_, ranks_);
  for (const std::string& line : footer_lines(rows_, ranks_)) header(line);
  const bool judged =
      std::any_of(rows_.begin(), rows_.end(), [](const Row& r) { return r.verdict != Verdict::unknown; });
  header(fmt::format("verdict: {} ({})",
                     code == ExitCode::pass && !judged ? "NOT JUDGED" : verdict_word(code), reason));
  if (!options_.injection.empty()) header("fault injection was on: " + options_.injection.text());
  record_.finish(code, reason, culprit);
  return code;
}

void Session::write_files() const {
  if (!options_.json.empty()) write_atomically(options_.json, record_.json());
  if (!options_.prom.empty()) write_atomically(options_.prom, record_.prometheus());
}

}  // namespace tt

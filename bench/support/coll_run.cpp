#include "bench/support/coll_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <set>

#include "bench/support/coll_table.h"
#include "bench/support/cpu_time_stream.h"
#include "common/error.h"

namespace tt {
namespace {

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local)};
}

/// What a sweep that cannot be run is called, with the reason; empty when it can.
std::string why_not(const CollSweep& sweep, const Comm& comm) {
  const std::string what = fmt::format("{} {}{}", name_of(sweep.op), name_of(sweep.type),
                                       reduces(sweep.op) ? std::string(" ") + name_of(sweep.redop) : "");
  if (!comm.supports(sweep.type))
    return fmt::format("{}: {} does not have this type here", what, comm.kind());
  if (!reduces(sweep.op)) return "";
  if (!comm.supports(sweep.redop, sweep.type))
    return fmt::format("{}: {} does not have this reduction of this type", what, comm.kind());
  try {
    make_pattern(sweep.type, pattern_of(sweep.redop), comm.size());
  } catch (const EnvironmentError& e) {
    return e.what();
  }
  return "";
}

std::string words_of_average(int average) {
  switch (average) {
    case 0:
      return "rank 0's median";
    case 1:
      return "the mean of the ranks' medians";
    case 2:
      return "the least of the ranks' medians";
    default:
      return "the median of the slowest rank's times";
  }
}

}  // namespace

struct CollRun::Member {
  std::unique_ptr<Group> own_group;  // a part of the world
  const Group* group;
  std::unique_ptr<Comm> comm;
  std::unique_ptr<PatternRunner> runner;
  std::unique_ptr<CollArena> arena;  // ends before comm
};

CollRun::CollRun(const CollOptions& options, Session& session, Device& device)
    : options_(options), session_(session), device_(device), stream_(device.make_stream()) {
  if (options_.cpu_time) cpu_time_stream_ = std::make_unique<CpuTimeStream>(*stream_);
}

void CollRun::run() {
  check_scale();
  print_settings();
  const std::vector<int> scale =
      options_.scale.empty() ? std::vector{session_.world().size()} : options_.scale;
  for (int n : scale) run_group(n);
  for (const std::string& line : coll_footer(rows_, options_.average)) session_.say(line);
  if (scale.size() > 1)
    for (const std::string& line : scaling_table(rows_, scale)) session_.say(line);
}

void CollRun::check_scale() const {
  const int world = session_.world().size();
  for (int n : options_.scale)
    if (n > world)
      throw UsageError(fmt::format("--scale: {} is more than the {} ranks of this run; accepted: 1 to {}", n,
                                   world, world));
}

void CollRun::print_settings() {
  session_.header(
      fmt::format("time: {} over -n {} {}; see docs/coll_perf.md", words_of_average(options_.average),
                  options_.graph_launches > 0 ? options_.graph_launches : options_.sweep.iterations,
                  options_.graph_launches > 0 ? "launches of a graph" : "iterations"));
  if (options_.show_algorithm) {
    if (session_.world().rank() == 0) log_ = std::make_unique<NcclTuningLog>();  // NCCL's rank 0 writes it
    session_.header("--show-algorithm: NCCL writes a log line for each operation, which takes time", true);
    if (log_ && !log_->on()) session_.header("--show-algorithm: NCCL_DEBUG is set: its log is left as it is");
  }
  if (options_.cpu_time) session_.header("-C: times are those that the host takes to launch", true);
  if (options_.blocking > 0)
    session_.header(fmt::format("-z {}: the host waits after each step", options_.blocking), true);
  const bool none_reduces = std::none_of(options_.operations.begin(), options_.operations.end(),
                                         [](const std::string& op) { return reduces(*find_collective(op)); });
  if (none_reduces && options_.redops != std::vector<std::string>{"sum"})
    session_.header("-o: has no meaning for these operations");
  const bool no_root = std::none_of(options_.operations.begin(), options_.operations.end(),
                                    [](const std::string& op) { return has_root(*find_collective(op)); });
  if (no_root && options_.root != "0") session_.header("-r: has no meaning for these operations");
}

void CollRun::run_group(int ranks) {
  World& world = session_.world();
  const bool whole = ranks == world.size();
  std::vector<CollSweep> sweeps = sweeps_of(options_, ranks);
  MemoryUse use{device_.memory().available};

  std::unique_ptr<Member> member;
  std::unique_ptr<Group> part = whole ? nullptr : world.first(ranks);
  if (whole || part) {
    member = std::make_unique<Member>();
    member->own_group = std::move(part);
    member->group = whole ? &world.all() : member->own_group.get();
  }
  // Memory first: a size that doesn't fit is told before anything is started for it.
  session_.phase("allocate");
  const size_t bytes = arena_bytes(sweeps, ranks, member != nullptr);
  if (member) {
    session_.phase("open the communicator");
    member->comm = open_comm(session_.options().comm, *member->group, device_, session_.progress());
    use.opened = device_.memory().available;
    if (versions_.empty()) versions_ = member->comm->versions();
    session_.phase("allocate");
    member->runner = make_pattern_runner(device_, std::max(1, device_.identity().compute_units));
    member->arena = std::make_unique<CollArena>(*member->comm, device_, bytes, options_.register_as);
    use.allocated = device_.memory().available;
    if (options_.graph_launches > 0 && member->comm->kind() != "nccl")
      throw SkippedError("-G: there are no graphs without CUDA and NCCL");
  } else {
    for (const char* phase : {"open the communicator", "allocate"}) session_.phase(phase);
  }
  sweeps = supported(sweeps, ranks, member.get());
  tell_versions();
  if (!options_.scale.empty()) session_.say(fmt::format("#\n# {} of {} ranks", ranks, world.size()));
  session_.say("#");
  for (const std::string& line : coll_header(options_)) session_.say(line);
  for (const CollSweep& sweep : sweeps)
    for (int cycle = 0; cycle < options_.cycles; ++cycle) run_sweep(sweep, ranks, cycle, member.get());
  if (options_.memory) report_memory(use);
  world.all().barrier();  // nobody closes its side of the communicator while others still use theirs
}

/// The communication library's, once. Every rank's record is to hold them, so they come from rank 0, a member
/// of all groups.
void CollRun::tell_versions() {
  if (versions_told_) return;
  versions_told_ = true;
  const std::string name = versions_.empty() ? "" : versions_[0].first,
                    version = versions_.empty() ? "" : versions_[0].second;
  const Group& all = session_.world().all();
  const std::string agreed_name = all.broadcast(name, 0), agreed_version = all.broadcast(version, 0);
  if (agreed_name.empty()) return;
  session_.header("communication: " + agreed_name + " " + agreed_version);
  session_.record().add_versions({{agreed_name, agreed_version}});
}

/// Bytes of each of the two areas: enough for the largest operation, and beyond that for as many buffers in
/// turn as outgrow the last-level cache, or as nccl-tests' one buffer of the largest size holds, if a
/// sixteenth of the memory allows it.
size_t CollRun::arena_bytes(const std::vector<CollSweep>& sweeps, int ranks, bool member) {
  size_t least = 0, largest_stride = 0;
  for (const CollSweep& sweep : sweeps)
    for (const CollLine& line : lines_of(options_, sweep, ranks, 0, 1, "")) {
      least = std::max({least, least_arena(line.out_of_place, ranks),
                        line.has_in_place ? least_arena(line.in_place, ranks) : 0});
      largest_stride = std::max(largest_stride, slot_stride(line.out_of_place, ranks));
    }
  constexpr auto kMost = static_cast<size_t>(std::numeric_limits<int64_t>::max());
  const int64_t needed = static_cast<int64_t>(least > kMost / 2 ? kMost : least * 2);
  // The host device tells a rank's share; the check adds up what a host's ranks need.
  const int64_t available = device_.memory().available;
  const int64_t of_all =
      device_.kind() == DeviceKind::host ? available * session_.world().local().size() : available;
  session_.require_memory(
      fmt::format("send and receive buffer of {} bytes each", std::max<int64_t>(options_.sweep.max_bytes, 1)),
      member ? needed : 0, of_all);
  const size_t wanted = std::max(largest_stride, 2 * device_.last_level_cache_bytes());
  const size_t spare = static_cast<size_t>(available) / 16;
  return std::max(least, std::min({wanted, spare, largest_stride * 1024}));
}

/// Without those that the library or the verification does not have; the same on all ranks, rank 0's members
/// decide. Nothing left is no run: SkippedError.
std::vector<CollSweep> CollRun::supported(const std::vector<CollSweep>& sweeps, int ranks,
                                          const Member* member) {
  std::vector<CollSweep> kept;
  std::set<std::string> told;
  std::string last;
  for (const CollSweep& sweep : sweeps) {
    const std::string mine = member ? why_not(sweep, *member->comm) : "";
    const std::string reason = session_.world().all().broadcast(mine, 0);
    if (reason.empty())
      kept.push_back(sweep);
    else if (told.insert(reason).second)
      session_.header(fmt::format("left out at {} ranks: {}", ranks, reason), true);
    if (!reason.empty()) last = reason;
  }
  if (kept.empty()) throw SkippedError(last);
  return kept;
}

void CollRun::run_sweep(const CollSweep& sweep, int ranks, int cycle, Member* member) {
  const std::string suffix = ranks == session_.world().size() ? "" : "/ranks=" + std::to_string(ranks);
  const auto seed = static_cast<uint64_t>(session_.options().seed);
  for (const CollLine& line : lines_of(options_, sweep, ranks, cycle, seed, suffix)) {
    const Row out_of_place = measure(line.out_of_place, ranks, member);
    std::optional<Row> in_place;
    if (line.has_in_place) in_place = measure(line.in_place, ranks, member);
    session_.say(coll_line(options_, line, ranks, out_of_place, in_place, time_of_day()));
  }
}

Row CollRun::measure(const CollSpec& spec, int ranks, Member* member) {
  std::optional<Row> row;
  if (member) {
    CollEngine engine(spec, *member->group, *member->comm, device_, *stream_, *member->arena,
                      *member->runner);
    Stream& timed = cpu_time_stream_ ? *cpu_time_stream_ : *stream_;
    row = session_.measure(engine, timed, plan(), member->group);
    if (options_.show_algorithm) {
      const std::string algorithm = member->group->broadcast(log_ ? log_->last_algorithm() : "", 0);
      row->params.emplace_back("algorithm", algorithm.empty() ? "-" : algorithm);
    }
  }
  if (ranks != session_.world().size()) row = session_.share(std::move(row));
  rows_.push_back(session_.add(std::move(*row)));
  return rows_.back();
}

MeasurePlan CollRun::plan() const {
  MeasurePlan plan;
  plan.iterations =
      options_.graph_launches > 0 ? options_.graph_launches : options_.sweep.iterations - options_.skip;
  plan.check = options_.sweep.check;
  plan.warmup.min_samples = options_.sweep.warmup + options_.skip;
  plan.warmup.max_samples = options_.sweep.warmup == 0
                                ? plan.warmup.min_samples
                                : std::max<int64_t>(plan.warmup.max_samples, plan.warmup.min_samples);
  return plan;
}

void CollRun::report_memory(const MemoryUse& use) {
  const int64_t now = device_.memory().available;
  double most[] = {static_cast<double>(use.opened ? use.start - use.opened : 0),
                   static_cast<double>(use.opened ? use.opened - use.allocated : 0),
                   static_cast<double>(use.opened ? use.allocated - now : 0)};
  session_.world().all().all_max(most);
  session_.say(memory_line(static_cast<int64_t>(most[0]), static_cast<int64_t>(most[1]),
                           static_cast<int64_t>(most[2])));
}

}  // namespace tt

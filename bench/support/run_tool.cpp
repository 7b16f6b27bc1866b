// The life of a run, the same for every executable, and the one catch of the program.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "bench/support/tool.h"
#include "common/exit_guard.h"
#include "common/pinning.h"
#include "common/watchdog.h"
#include "common/world.h"

namespace tt {
namespace {

struct Run {
  Tool& tool;
  CommonOptions options;
  OptionSet set;
  Launcher launcher = detect_launcher();
  explicit Run(Tool& t) : tool(t), set(t.name(), t.description()) {}
  /// Before MPI is up only the launcher knows who is rank 0.
  int rank_by_launcher() const { return launcher.rank.value_or(0); }
};

void print_line(std::FILE* to, const std::string& line) {
  std::fprintf(to, "%s\n", line.c_str());
  std::fflush(to);
}

void write_files(const CommonOptions& options, const Record& record) {
  if (!options.json.empty()) write_atomically(options.json, record.json());
  if (!options.prom.empty()) write_atomically(options.prom, record.prometheus());
}

/// For an end before the watchdog is there to report it.
int end_early(const Run& run, Record& record, ExitCode code, const std::string& reason) {
  if (run.rank_by_launcher() != 0) return static_cast<int>(code);
  print_line(stderr, run.tool.name() + ": " + reason);
  record.finish(code, reason);
  try {
    write_files(run.options, record);
  } catch (const std::exception& e) {
    print_line(stderr, run.tool.name() + ": " + e.what());
  }
  return static_cast<int>(code);
}

/// -g N: the ranks of this node, as nccl-tests starts its GPUs.
void start_ranks(const Run& run, char** argv) {
  const int ranks = run.options.gpus;
  if (ranks <= 1) return;
  if (run.launcher.name == "none") relaunch_under_mpirun(ranks, argv);
  if (!is_relaunched(ranks))
    throw UsageError("-g " + std::to_string(ranks) + ": under " + run.launcher.name +
                     " every rank has one GPU; give the launcher the number of ranks and leave -g out");
}

/// Options, and what needs nothing but them. True when there is something to run.
bool prepare(Run& run, int argc, char** argv) {
  run.tool.add_options(run.set);
  add_common(run.set, run.options);
  const OptionSet::Outcome outcome = run.set.parse(argc, argv);
  const bool speaks = run.rank_by_launcher() == 0;
  if (outcome == OptionSet::Outcome::help) {
    if (speaks) print_line(stdout, run.set.help());
    return false;
  }
  if (outcome == OptionSet::Outcome::version) {
    if (speaks) print_line(stdout, run.tool.name() + " " + TT_VERSION);
    return false;
  }
  finish_common(run.options);
  run.tool.check_options(run.options);
  if (run.options.list) {
    for (const std::string& key : run.tool.list(run.options))
      if (speaks) print_line(stdout, key);
    return false;
  }
  start_ranks(run, argv);
  return true;
}

/// Faults for the phase "init" strike before there is a session.
void inject_before_mpi(const Run& run, Progress& progress) {
  const auto struck = [&](FaultKind kind) {
    const auto fault = run.options.injection.find(kind, run.rank_by_launcher());
    return fault && fault->phase == "init";
  };
  if (struck(FaultKind::die)) std::raise(SIGKILL);
  if (!struck(FaultKind::hang)) return;
  progress.enter_phase("init");
  for (;;) pause();
}

struct Placed {
  Opened opened;
  Place place;
};

/// Opens this rank's device and binds the rank near it. Only an opened cuda device has a place of its own;
/// the host device is opened anew afterwards because it counts the cores that it may use.
Placed open_and_bind(const CommonOptions& options, const World& world) {
  const int local_rank = world.local_rank(), local_size = world.local().size();
  Placed placed{open_device(options.device, local_rank, local_size), {}};
  const DeviceIdentity identity = placed.opened.device->identity();
  placed.place = Topology().bind(options.bind, identity.pci, local_rank, local_size);
  if (identity.kind == "host") placed.opened.device = open_device("host", local_rank, local_size).device;
  return placed;
}

RankIdentity identify(const World& world, const Device& device, const Place& place) {
  RankIdentity me;
  me.rank = world.rank();
  me.local_rank = world.local_rank();
  me.node = world.node();
  me.pid = getpid();
  me.host = world.host();
  me.device = device.identity();
  me.numa = place.numa;
  me.cpuset = place.cpuset;
  me.nic = place.nic;
  me.binding = place.binding;
  return me;
}

/// Every rank's warnings, each text once, and which ranks have to share cores. Collective.
std::vector<std::string> all_warnings(const Session& session, const World& world, const Place& place) {
  std::string joined;
  for (const std::string& warning : place.warnings) joined += warning + "\n";
  std::set<std::string> once;
  for (const std::string& text : world.all().all_gather(joined))
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      once.insert(text.substr(at, end - at));
  std::vector<std::string> warnings(once.begin(), once.end());

  const double cores = place.cores;
  const std::vector<double> all_cores = world.all().all_gather(std::span(&cores, 1));
  std::vector<Seat> seats;
  std::vector<std::string> hosts(static_cast<size_t>(world.nodes()));
  for (const RankIdentity& r : session.ranks()) {
    seats.push_back({r.rank, r.node, r.cpuset, static_cast<int>(all_cores[static_cast<size_t>(r.rank)])});
    hosts[static_cast<size_t>(r.node)] = r.host;
  }
  for (std::string& warning : crowded_seats(seats, hosts)) warnings.push_back(std::move(warning));
  return warnings;
}

std::string device_words(const DeviceIdentity& device) {
  std::string words =
      device.kind == "cuda" ? "cuda " + std::to_string(device.index) + " " + device.name : device.kind;
  return device.pci.empty() ? words : words + " at " + device.pci;
}

ExitCode measure_everything(Run& run, World& world, Progress& progress, Watchdog& watchdog, Record& record) {
  run.options.injection.check_ranks(world.size());
  record.set_world(world.size(), world.nodes(), world.launcher().name);
  Session session(run.options, world, progress, watchdog, record);
  session.phase("open the device");
  Placed placed = open_and_bind(run.options, world);
  Device& device = *placed.opened.device;
  watchdog.set_device(device_words(device.identity()));

  session.phase("introduce");
  Versions versions = system_versions();
  for (auto& version : device.versions()) versions.push_back(version);
  session.introduce(identify(world, device, placed.place), versions, device.telemetry(),
                    run.tool.may_share_gpu(run.options));
  if (!placed.opened.why.empty()) session.header("device: " + placed.opened.why, true);
  for (const std::string& warning : all_warnings(session, world, placed.place))
    session.header("warning: " + warning, true);
  if (!watchdog.trouble().empty()) session.header("warning: " + watchdog.trouble(), true);

  run.tool.run(session, device);
  session.phase("finish");
  const ExitCode code = session.finish();
  session.phase("write the files");
  if (world.rank() == 0) session.write_files();
  // Not in MPI_Finalize yet: mpirun may hang or crash when a rank ends early while others are in there.
  world.all().barrier();
  return code;
}

}  // namespace

int run_tool(int argc, char** argv, Tool& tool) {
  Run run(tool);
  Record record(tool.name(), std::vector<std::string>(argv, argv + argc));
  try {
    if (!prepare(run, argc, argv)) return static_cast<int>(ExitCode::pass);
  } catch (const Error& e) {
    return end_early(run, record, e.code(), e.what());
  } catch (const std::exception& e) {
    return end_early(run, record, ExitCode::environment, e.what());
  }
  record.set_settings(run.set.settings());
  record.set_injection(run.options.injection.text());

  Progress progress;
  progress.enter_phase("start");
  Watchdog watchdog(progress, run.options.timeout_s);
  watchdog.on_early_end([&](const EarlyEnd& end) {
    record.finish(end.code, end.reason, end.rank >= 0 ? std::optional<int>(end.rank) : std::nullopt);
    write_files(run.options, record);
  });
  try {
    ExitCode code = ExitCode::pass;
    inject_before_mpi(run, progress);
    const ExitGuard guard([&] {
      watchdog.fail(ExitCode::environment, "a library ended the process in phase \"" +
                                               progress.snapshot().phase + "\"; its own message is above");
    });
    {
      World world(argc, argv, progress);
      watchdog.join(world);
      code = measure_everything(run, world, progress, watchdog, record);
      watchdog.ending(code);
      progress.enter_phase("MPI_Finalize");
    }
    watchdog.leave();
    return static_cast<int>(code);
  } catch (const Error& e) {
    watchdog.fail(e.code(), e.what());
  } catch (const std::bad_alloc&) {
    watchdog.fail(ExitCode::environment, "out of host memory (std::bad_alloc)");
  } catch (const std::exception& e) {
    watchdog.fail(ExitCode::environment, e.what());
  }
}

}  // namespace tt

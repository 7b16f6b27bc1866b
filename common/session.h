// One run: options, world, record and output joined. Benches talk to this, engines never do.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/baseline.h"
#include "common/identity.h"
#include "common/measure.h"
#include "common/options.h"
#include "common/progress.h"
#include "common/record.h"
#include "common/telemetry.h"
#include "common/watchdog.h"
#include "common/world.h"

namespace tt {

class Session {
 public:
  Session(const CommonOptions& options, World& world, Progress& progress, Watchdog& watchdog, Record& record);
  ~Session();

  const CommonOptions& options() const { return options_; }
  World& world() { return world_; }
  Progress& progress() { return progress_; }
  Watchdog& watchdog() { return watchdog_; }
  Record& record() { return record_; }

  /// Tells the session what this rank runs on: gathers all identities, refuses two ranks on one GPU (by UUID,
  /// naming ranks, host, UUID and --share-gpu) unless `sharing_allowed` or --share-gpu, prints the header.
  /// Collective.
  void introduce(const RankIdentity& me, const Versions& versions, std::shared_ptr<TelemetrySource> telemetry,
                 bool sharing_allowed);
  const std::vector<RankIdentity>& ranks() const { return ranks_; }

  /// Prints "# " + line on rank 0, and records it as a note when `noted`.
  void header(const std::string& line, bool noted = false);
  /// One line of output on rank 0.
  void say(const std::string& line);

  /// Names the phase this rank is in (watchdog, messages). Fault injection for phases happens here.
  void phase(const std::string& name);

  /// Measures one row on a group (default: all ranks) with --duration, --inject and telemetry applied.
  /// Collective over the group. The row is not yet judged or recorded.
  Row measure(Engine& engine, Stream& stream, const MeasurePlan& plan, const Group* group = nullptr);

  /// Judges and records; on all ranks alike (a row of a sub-group must be given to every rank: share()).
  Row add(Row row);
  /// A row that only the members of a group have (sub-communicators): gives rank 0's to all. Collective over
  /// the world.
  Row share(std::optional<Row> row);

  /// Collective: EnvironmentError on every rank when any rank lacks memory; the message has bytes needed and
  /// available.
  void require_memory(const std::string& what, int64_t needed, int64_t available);

  /// The footer: verification, verdict, slowest rank by name; finishes the record. Returns the code that
  /// every rank exits with. Collective.
  ExitCode finish();
  /// Writes --json and --prom, where asked for. The caller sees to it that one rank does (normally 0).
  void write_files() const;

 private:
  void record_telemetry();

  const CommonOptions& options_;
  World& world_;
  Progress& progress_;
  Watchdog& watchdog_;
  Record& record_;
  Baseline baseline_;
  std::vector<RankIdentity> ranks_;
  std::vector<Row> rows_;
  std::unique_ptr<Sampler> sampler_;
  ClockOffset clock_;
};

}  // namespace tt

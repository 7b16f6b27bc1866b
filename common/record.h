// The run's document (docs/record.schema.json). Filled by all ranks alike, written by one, valid after every
// kind of end.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exit_code.h"
#include "common/identity.h"
#include "common/row.h"
#include "common/telemetry.h"

namespace tt {

inline constexpr int kRecordVersion = 1;

/// Thread-safe: the main thread fills it, the watchdog's may have to write it. Writing uses a copy taken
/// under the lock.
class Record {
 public:
  struct Data;  // common/record_data.h, for the writers
  /// The run starts now: row and telemetry times count from here.
  Record(std::string tool, std::vector<std::string> command);
  ~Record();

  void set_settings(std::vector<std::pair<std::string, std::string>> settings);
  void set_world(int ranks, int nodes, const std::string& launcher);
  void set_ranks(std::vector<RankIdentity> ranks);
  void set_versions(Versions versions);
  /// More of them, known later (a communication library's).
  void add_versions(const Versions& versions);
  void set_injection(const std::string& text);
  void add_row(Row row);
  void add_note(const std::string& note);
  /// Times in `series` are seconds since the run's start.
  void set_telemetry(int rank, const std::string& source, std::vector<TelemetrySample> series);
  /// The verdict: code, its reason, and the rank that is to blame or slowest over all rows, if one was named.
  /// The first call counts: an early end and a late finish must not overwrite each other.
  void finish(ExitCode code, const std::string& reason, std::optional<int> culprit = std::nullopt);

  std::vector<Row> rows() const;
  std::string tool() const;
  std::vector<std::pair<std::string, std::string>> settings() const;
  double start() const;  // monotonic seconds

  /// The whole document as JSON text: numbers or null, never NaN or infinity; strings valid UTF-8 (others
  /// replaced). A record that was not finished says verdict "incomplete", exit code 3.
  std::string json() const;
  /// The figures as a Prometheus text file: HELP and TYPE once per name, each name+labels once, missing
  /// figures left out, an end-time gauge.
  std::string prometheus() const;

 private:
  Data copy() const;
  mutable std::mutex mutex_;
  std::unique_ptr<Data> data_;
};

/// Writes text to `path` by way of a temporary file beside it, fsync and rename: the file is whole or as it
/// was before. Throws EnvironmentError naming path and cause; leaves no temporary file.
void write_atomically(const std::string& path, const std::string& text);

/// Names of the environment variables that a record may hold: NCCL_*, CUDA_VISIBLE_DEVICES, OMP_*, UCX_*,
/// SLURM_JOB_ID… Anything that looks like a secret (KEY, TOKEN, SECRET, PASSWORD in the name) is left out.
std::vector<std::pair<std::string, std::string>> recorded_environment();

/// Kernel, OS and MPI library versions; backends add theirs.
Versions system_versions();

}  // namespace tt

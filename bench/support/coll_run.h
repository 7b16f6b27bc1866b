// One run of coll_perf: for each number of ranks a communicator, for each operation a table.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/support/coll_options.h"
#include "common/session.h"
#include "src/comm/coll_engine.h"
#include "src/comm/nccl_log.h"
#include "src/device/device.h"

namespace tt {

class CollRun {
 public:
  CollRun(const CollOptions& options, Session& session, Device& device);
  void run();

 private:
  /// What the members of a group work with; the others have none of it.
  struct Member;
  struct MemoryUse {
    int64_t start = 0, opened = 0, allocated = 0;
  };

  void check_scale() const;
  void print_settings();
  void run_group(int ranks);
  size_t arena_bytes(const std::vector<CollSweep>& sweeps, int ranks, bool member);
  std::vector<CollSweep> supported(const std::vector<CollSweep>& sweeps, int ranks, const Member* member);
  void run_sweep(const CollSweep& sweep, int ranks, int cycle, Member* member);
  Row measure(const CollSpec& spec, int ranks, Member* member);
  MeasurePlan plan() const;
  void tell_versions();
  void report_memory(const MemoryUse& use);

  const CollOptions& options_;
  Session& session_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Stream> cpu_time_stream_;  // -C
  std::unique_ptr<NcclTuningLog> log_;       // --show-algorithm, on rank 0
  std::vector<Row> rows_;
  Versions versions_;  // the communication library's
  bool versions_told_ = false;
};

}  // namespace tt

// What an executable is: its name, its options and what it measures. run_tool() does everything else, the same for all.
#pragma once

#include <memory>
#include <string>

#include "common/options.h"
#include "common/session.h"
#include "src/device/device.h"

namespace tt {

class Tool {
 public:
  virtual ~Tool() = default;
  virtual std::string name() const = 0;         // "gemm_perf"
  virtual std::string description() const = 0;  // one line for --help
  virtual void add_options(OptionSet& set) = 0;
  /// After parsing, before MPI: combinations of options. Throws UsageError.
  virtual void check_options(const CommonOptions& common) { (void)common; }
  /// The keys of the rows that run() would measure, for --list. Must not allocate or need a device.
  virtual std::vector<std::string> list(const CommonOptions& common) = 0;
  /// True when the tool can work with several ranks on one GPU without being asked for with --share-gpu.
  virtual bool may_share_gpu(const CommonOptions& common) const { return common.comm == "mpi"; }
  /// Measures: fills the session. Runs on all ranks.
  virtual void run(Session& session, Device& device) = 0;
};

/// The whole life of a run: parse -> (-g: re-execute under mpirun) -> watchdog -> MPI -> device -> pin -> introduce ->
/// tool.run -> finish -> files -> exit code. The one catch of the program is in here.
int run_tool(int argc, char** argv, Tool& tool);

}  // namespace tt

#include "bench/support/coll_tool.h"

#include <algorithm>
#include <limits>
#include <set>

#include "bench/support/coll_run.h"
#include "common/error.h"
#include "common/world.h"

namespace tt {
namespace {

std::string file_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

/// "all_reduce_perf" -> all_reduce.
std::optional<Collective> operation_of(const std::string& name) {
  constexpr std::string_view tail = "_perf";
  if (!name.ends_with(tail)) return std::nullopt;
  return find_collective(std::string_view(name).substr(0, name.size() - tail.size()));
}

}  // namespace

CollTool::CollTool(const std::string& program) : name_(file_name(program)), fixed_(operation_of(name_)) {
  if (!fixed_) name_ = "coll_perf";
  if (fixed_) options_.operations = {tt::name_of(*fixed_)};
}

std::string CollTool::description() const {
  return fixed_ ? std::string("Measures and verifies ") + tt::name_of(*fixed_) + " over all ranks"
                : "Measures and verifies collective operations over all ranks";
}

void CollTool::add_options(OptionSet& set) {
  add_coll_options(set, options_, fixed_.has_value());
}

void CollTool::check_options(const CommonOptions& common) {
  check_coll_options(options_);
  const bool cpu_only = common.device == "host" || common.comm == "mpi";
  if (options_.graph_launches > 0 && cpu_only)
    throw SkippedError("-G: there are no graphs without CUDA and NCCL");
  if (options_.register_as > 0 && cpu_only)
    throw SkippedError("-R: MPI has no registration of buffers; it needs NCCL");
}

std::vector<std::string> CollTool::list(const CommonOptions& common) {
  const int ranks = detect_launcher().size.value_or(common.gpus);
  std::vector<std::string> keys;
  std::vector<int> scale = options_.scale.empty() ? std::vector{ranks} : options_.scale;
  for (int n : scale)
    for (const CollSweep& sweep : sweeps_of(options_, n))
      for (int cycle = 0; cycle < options_.cycles; ++cycle)
        for (const CollLine& line :
             lines_of(options_, sweep, n, cycle, 1, n == ranks ? "" : "/ranks=" + std::to_string(n))) {
          keys.push_back(row_key(line.out_of_place, n));
          if (line.has_in_place) keys.push_back(row_key(line.in_place, n));
        }
  return keys;
}

void CollTool::run(Session& session, Device& device) {
  CollRun(options_, session, device).run();
}

}  // namespace tt

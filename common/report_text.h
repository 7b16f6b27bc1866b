// The lines around the table, and the decisions behind them. Pure, so that they are tested without ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/exit_code.h"
#include "common/identity.h"
#include "common/row.h"

namespace tt {

/// "rank 1 (host gpu03, GPU NVIDIA H200 0000:1b:00.0)"; "rank 1" when the rank is not among `ranks`.
std::string called(int rank, const std::vector<RankIdentity>& ranks);

/// One header line: rank, pid, host, device, PCI address, NUMA node, cpuset, NIC.
std::string rank_line(const RankIdentity& r);

/// Ranks whose device is one and the same GPU (by host and UUID; those without a UUID are never the same),
/// lowest first.
std::vector<std::vector<int>> shared_gpus(const std::vector<RankIdentity>& ranks);
/// "ranks 0 and 1 share GPU GPU-… (NVIDIA H200) on host gpu03".
std::string sharing_text(const std::vector<int>& sharers, const std::vector<RankIdentity>& ranks);

/// What a rank asked of its memory and what there is; ranks that share memory (a host, a GPU) must fit
/// together.
struct MemoryDemand {
  int64_t needed = 0, available = 0;
};
/// Empty when all fits; otherwise the message for the first memory that is too small.
std::string memory_shortage(const std::string& what, const std::vector<MemoryDemand>& demands,
                            const std::vector<RankIdentity>& ranks);

/// The rank that stands out over all rows: the one most often an outlier, and of those the one with the
/// largest ratio; when no row has an outlier, the one most often slowest.
struct OverallSlowest {
  int rank = 0;
  bool outlier = false;
  int rows = 0, of_rows = 0;  // in how many of the rows that name somebody
  double ratio = 1;           // median over those rows
  std::string reason;
};
std::optional<OverallSlowest> overall_slowest(const std::vector<Row>& rows);

/// The code that rows deserve: wrong data, else a failed gate, else skipped when all were, else pass;
/// environment when there are none ("nothing was measured").
ExitCode code_of(const std::vector<Row>& rows);

/// Footer lines without the "# ".
std::vector<std::string> footer_lines(const std::vector<Row>& rows, const std::vector<RankIdentity>& ranks);
/// One line that says why the code is what it is.
std::string reason_of(ExitCode code, const std::vector<Row>& rows, const std::vector<RankIdentity>& ranks);

}  // namespace tt

// The table of coll_perf, in nccl-tests' layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/support/coll_options.h"
#include "common/row.h"

namespace tt {

/// The three lines above the rows, with what -C, -I and -S add.
std::vector<std::string> coll_header(const CollOptions& options);

/// One line; `in_place` is empty for operations that have none. `time_of_day` is shown with -S.
std::string coll_line(const CollOptions& options, const CollLine& line, int ranks, const Row& out_of_place,
                      const std::optional<Row>& in_place, const std::string& time_of_day);

/// "-" padded to the width where there is no value; else as many digits after the point, two at most, as the
/// width has room for.
std::string fitted(const std::optional<double>& value, int width);

/// A row's figures as -a wants them: medians; of the ranks' own times with 0, 1 and 2.
struct ShownFigures {
  std::optional<double> time_us, algbw, busbw;
};
ShownFigures shown_figures(const Row& row, int average);

/// "Out of bounds values" and "Avg bus bandwidth", nccl-tests' footer. Rows without a bus bandwidth don't
/// count.
std::vector<std::string> coll_footer(const std::vector<Row>& rows, int average);

/// How the rows scale with the number of ranks, by operation and size: bus bandwidth, and its share of that
/// of the fewest ranks that have one.
std::vector<std::string> scaling_table(const std::vector<Row>& rows, const std::vector<int>& scale);

/// -M: what -M of nccl-tests prints, in bytes of 1024.
std::string memory_line(int64_t initialisation, int64_t buffers, int64_t operations);

}  // namespace tt

// Columns of text for terminals.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tt {

struct Column {
  std::string head, unit;
  int width = 10;  // right-aligned
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Two header lines, "#" in front: heads, then units in brackets.
  std::vector<std::string> header() const;
  /// One line; cells wider than their column push the rest to the right rather than being cut.
  std::string line(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

/// "-" for a value that has no meaning or was not measured, never 0; otherwise `digits` after the point.
std::string cell(const std::optional<double>& value, int digits);
/// A time in microseconds with nccl-tests' precision: two digits below 100, one below 1000, none above.
std::string time_cell(const std::optional<double>& us);

}  // namespace tt

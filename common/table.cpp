#include "common/table.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace tt {
namespace {

constexpr const char* kGap = "  ";

/// '#' in the first place; trailing blanks dropped.
std::string header_line(std::string text) {
  if (text.starts_with(' '))
    text.front() = '#';
  else
    text = std::string("#").append(
        text);  // the head fills its column: the line moves by one rather than losing a letter
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string Table::line(const std::vector<std::string>& cells) const {
  if (cells.size() != columns_.size())
    throw std::invalid_argument(fmt::format("table: {} cells for {} columns", cells.size(), columns_.size()));
  std::string out;
  for (size_t i = 0; i < cells.size(); ++i)
    out += fmt::format("{}{:>{}}", i == 0 ? "" : kGap, cells[i], columns_[i].width);
  return out;
}

std::vector<std::string> Table::header() const {
  std::vector<std::string> heads, units;
  for (const Column& c : columns_) {
    heads.push_back(c.head);
    units.push_back(c.unit.empty() ? "" : "(" + c.unit + ")");
  }
  return {header_line(line(heads)), header_line(line(units))};
}

std::string cell(const std::optional<double>& value, int digits) {
  if (!value || !std::isfinite(*value)) return "-";
  return fmt::format("{:.{}f}", *value, digits);
}

std::string time_cell(const std::optional<double>& us) {
  if (!us) return "-";
  // The limits are those of the printed text: 99.996 is "100.0", not "100.00".
  const double size = std::abs(*us);
  return cell(us, size < 99.995 ? 2 : size < 999.95 ? 1 : 0);
}

}  // namespace tt

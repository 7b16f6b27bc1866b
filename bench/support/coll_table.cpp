#include "bench/support/coll_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace tt {
namespace {

std::optional<double> median(const Row& row, const char* metric) {
  const Metric* m = row.metric(metric);
  return m ? m->summary.median : std::nullopt;
}

std::string wrong_cell(const Row& row) {
  if (row.check.method.empty()) return "N/A";
  return row.check.wrong < 1000000 ? std::to_string(row.check.wrong)
                                   : fmt::format("{:.4g}", static_cast<double>(row.check.wrong));
}

/// time algbw busbw #wrong, and with -I the spread of the iterations.
std::string half_line(const CollOptions& o, const std::optional<Row>& row) {
  if (!row) {
    std::string cells = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
    if (o.per_iteration) cells += fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "N/A", "N/A", "N/A", "N/A");
    return cells;
  }
  const ShownFigures f = shown_figures(*row, o.average);
  std::string cells = fmt::format("  {}  {}  {}  {:>6}", fitted(f.time_us, 7), fitted(f.algbw, 6),
                                  fitted(f.busbw, 6), wrong_cell(*row));
  if (!o.per_iteration) return cells;
  const Metric* time = row->metric("time_us");
  const Summary s = time ? time->summary : Summary{};
  const std::optional<double> cv = s.cv ? std::optional(*s.cv * 100) : std::nullopt;
  return cells +
         fmt::format("  {}  {}  {}  {}", fitted(s.min, 7), fitted(s.max, 7), fitted(s.p99, 7), fitted(cv, 7));
}

std::string heads(const CollOptions& o, bool units) {
  const char* time = units ? "(us)" : o.cpu_time ? "cputime" : "time";
  const char* rate = units ? "(GB/s)" : "algbw";
  std::string half = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", time, rate, units ? "(GB/s)" : "busbw",
                                 units ? "" : "#wrong");
  if (o.per_iteration)
    half += units ? fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "(us)", "(us)", "(us)", "(%)")
                  : fmt::format("  {:>7}  {:>7}  {:>7}  {:>7}", "i_min", "i_max", "i_p99", "i_cv%");
  std::string line =
      units ? fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "")
            : fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
  line += half + half;
  if (o.timestamps) line += fmt::format("  {:>19}", units ? "%Y-%m-%d %H:%M:%S" : "timestamp");
  if (o.show_algorithm) line += units ? "" : "  algorithm/protocol";
  return line;
}

std::string amount(int64_t bytes) {
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* larger : {"KB", "MB", "GB"}) {
    if (value < 1024 && value > -1024) break;
    value /= 1024;
    unit = larger;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit);
}

std::string text_param(const Row& row, const std::string& name) {
  for (const auto& [key, value] : row.params)
    if (key == name)
      if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return "";
}
int64_t number_param(const Row& row, const std::string& name) {
  for (const auto& [key, value] : row.params)
    if (key == name)
      if (const auto* number = std::get_if<int64_t>(&value)) return *number;
  return 0;
}

}  // namespace

std::vector<std::string> coll_header(const CollOptions& o) {
  const char* pad = o.per_iteration ? "                  " : "";
  return {fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           {}out-of-place{}                      "
                      " {}in-place{}",
                      "", "", "", "", "", pad, pad, pad, o.per_iteration ? "" : "          "),
          heads(o, false), heads(o, true)};
}

std::string fitted(const std::optional<double>& value, int width) {
  if (!value) return fmt::format("{:>{}}", "-", width);
  for (int digits = 2; digits >= 0; --digits)
    if (std::string text = fmt::format("{:{}.{}f}", *value, width, digits);
        static_cast<int>(text.size()) <= width)
      return text;
  return fmt::format("{:{}.{}e}", *value, width, width >= 7 ? 1 : 0);
}

ShownFigures shown_figures(const Row& row, int average) {
  ShownFigures f{median(row, "time_us"), median(row, "algbw_GBps"), median(row, "busbw_GBps")};
  if (average == 3 || row.ranks.empty() || !f.time_us) return f;
  std::vector<double> own;
  for (const RankFigures& r : row.ranks) own.push_back(r.time_us);
  double time = own.front();
  if (average == 1) time = std::accumulate(own.begin(), own.end(), 0.0) / static_cast<double>(own.size());
  if (average == 2) time = *std::min_element(own.begin(), own.end());
  if (!(time > 0)) return f;
  const double ratio = *f.time_us / time;
  f.time_us = time;
  if (f.algbw) f.algbw = *f.algbw * ratio;
  if (f.busbw) f.busbw = *f.busbw * ratio;
  return f;
}

std::string coll_line(const CollOptions& o, const CollLine& line, int ranks, const Row& out_of_place,
                      const std::optional<Row>& in_place, const std::string& time_of_day) {
  const CollSpec& spec = line.out_of_place;
  const CollCounts counts = counts_of(spec.op, spec.bytes, spec.type, ranks);
  std::string text =
      fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", size_bytes(spec.op, counts, spec.type), counts.count,
                  name_of(spec.type), reduces(spec.op) ? name_of(spec.redop) : "none",
                  has_root(spec.op) ? spec.root : -1);
  text += half_line(o, out_of_place) + half_line(o, in_place);
  if (o.timestamps) text += fmt::format("  {:>19}", time_of_day);
  if (o.show_algorithm) {
    const std::string out = text_param(out_of_place, "algorithm"),
                      in = in_place ? text_param(*in_place, "algorithm") : out;
    text += "  " + (out == in ? out : out + " (in place " + in + ")");
  }
  return text;
}

std::vector<std::string> coll_footer(const std::vector<Row>& rows, int average) {
  int64_t wrong = 0, count = 0;
  double sum = 0;
  for (const Row& row : rows) {
    wrong += row.check.wrong > 0;
    const ShownFigures f = shown_figures(row, average);
    if (!f.busbw) continue;
    sum += *f.busbw;
    ++count;
  }
  return {fmt::format("# {:<20} : {} {}", "Out of bounds values", wrong, wrong ? "FAILED" : "OK"),
          fmt::format("# {:<20} : {}", "Avg bus bandwidth",
                      count ? fmt::format("{:.6g}", sum / static_cast<double>(count)) : std::string("-"))};
}

std::vector<std::string> scaling_table(const std::vector<Row>& rows, const std::vector<int>& scale) {
  // By what the rows have in common, in their order; then by ranks.
  std::vector<std::string> order;
  std::map<std::string, std::map<int64_t, const Row*>> table;
  for (const Row& row : rows) {
    const std::string place = row.key.find("/in-place") != std::string::npos ? "in-place" : "out-of-place";
    const std::string name = fmt::format(
        "{:>14}  {:>8}  {:>6}  {:>6}  {:>12}  {:>12}", text_param(row, "operation"), text_param(row, "type"),
        text_param(row, "redop"), number_param(row, "root"), place, row.size.value_or(0));
    if (!table.contains(name)) order.push_back(name);
    table[name].emplace(number_param(row, "ranks"), &row);
  }
  std::string head = fmt::format("# {:>14}  {:>8}  {:>6}  {:>6}  {:>12}  {:>12}", "operation", "type",
                                 "redop", "root", "", "size(B)");
  for (int n : scale) head += fmt::format("  {:>16}", fmt::format("{} rank{}", n, n == 1 ? "" : "s"));
  std::vector<std::string> lines = {
      "# Scaling: bus bandwidth [GB/s], and its share of that of the fewest ranks that have one", head};
  for (const std::string& name : order) {
    std::string line = "# " + name;
    std::optional<double> first;
    for (int n : scale) {
      const auto found = table[name].find(n);
      const std::optional<double> busbw =
          found == table[name].end() ? std::nullopt : median(*found->second, "busbw_GBps");
      if (!first) first = busbw;
      line += busbw ? fmt::format("  {:>8.2f} {:>5.1f} %", *busbw, 100 * *busbw / *first)
                    : fmt::format("  {:>8} {:>7}", "-", "-");
    }
    lines.push_back(line);
  }
  return lines;
}

std::string memory_line(int64_t initialisation, int64_t buffers, int64_t operations) {
  return fmt::format("# {:<20} : Initialization {} | User-Allocated {} | Collective {} | Total {}",
                     "Memory usage", amount(initialisation), amount(buffers), amount(operations),
                     amount(initialisation + buffers + operations));
}

}  // namespace tt

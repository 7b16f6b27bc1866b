#include "src/node/report.h"

#include <algorithm>

#include "src/node/catalogue.h"

namespace tt::node {
namespace {

constexpr size_t kHosts = 8;    // named before "and N more"
constexpr size_t kWidest = 44;  // wider values push the rest of their line to the right

/// Nodes for which everything that a line shows is the same.
struct Line {
  const Finding* finding;
  std::vector<std::string> hosts;
};

bool same(const Finding& a, const Finding& b) {
  return a.status == b.status && a.expected == b.expected && a.reason == b.reason &&
         value_text(a) == value_text(b);
}

std::vector<Line> grouped(const std::vector<Node>& nodes, const std::string& id) {
  std::vector<Line> lines;
  for (const Node& node : nodes) {
    const Finding* f = node.find(id);
    if (!f) continue;
    auto it =
        std::find_if(lines.begin(), lines.end(), [&](const Line& line) { return same(*line.finding, *f); });
    if (it == lines.end()) it = lines.insert(it, Line{f, {}});
    it->hosts.push_back(node.host);
  }
  return lines;
}

std::string shown_value(const Finding& f) {
  const std::string unit(catalogue_entry(f.id).unit);
  if (f.status == Status::unknown && f.items.size() == 1 && !f.items[0].value) return "?";
  return value_text(f) + (unit.empty() ? "" : " " + unit);
}

const char* shown_verdict(Status status) {
  switch (status) {
    case Status::pass:
      return "pass";
    case Status::fail:
      return "FAIL";
    case Status::unknown:
      return "unknown";
    case Status::info:
      return "-";
  }
  return "?";
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

}  // namespace

Counts count(const std::vector<Node>& nodes) {
  Counts counts;
  for (const Node& node : nodes)
    for (const Finding& f : node.findings) {
      size_t& n = f.status == Status::pass      ? counts.pass
                  : f.status == Status::fail    ? counts.fail
                  : f.status == Status::unknown ? counts.unknown
                                                : counts.info;
      ++n;
    }
  return counts;
}

std::string hosts_text(const std::vector<std::string>& hosts, size_t all) {
  if (hosts.size() == all && all > 1) return "all " + std::to_string(all);
  std::string text;
  for (size_t i = 0; i < std::min(hosts.size(), kHosts); ++i) text += (i ? ", " : "") + hosts[i];
  return hosts.size() > kHosts ? text + " and " + std::to_string(hosts.size() - kHosts) + " more" : text;
}

std::vector<std::string> table_lines(const std::vector<Node>& nodes) {
  struct Cells {
    std::string check, value, expected;
    const Line* line;
  };
  std::vector<std::vector<Line>> groups;
  for (const CatalogueEntry& entry : catalogue()) groups.push_back(grouped(nodes, std::string(entry.id)));
  std::vector<Cells> rows;
  size_t check = 5, value = 5, expected = 8;
  for (const auto& group : groups)
    for (const Line& line : group) {
      rows.push_back({line.finding->id, shown_value(*line.finding),
                      line.finding->expected.empty() ? "-" : line.finding->expected, &line});
      check = std::max(check, rows.back().check.size());
      value = std::max(value, std::min(rows.back().value.size(), kWidest));
      expected = std::max(expected, std::min(rows.back().expected.size(), kWidest));
    }
  std::vector<std::string> lines{"# " + padded("check", check) + "  " + padded("value", value) + "  " +
                                 padded("expected", expected) + "  verdict  host"};
  for (const Cells& row : rows) {
    const Finding& f = *row.line->finding;
    lines.push_back("  " + padded(row.check, check) + "  " + padded(row.value, value) + "  " +
                    padded(row.expected, expected) + "  " + padded(shown_verdict(f.status), 7) + "  " +
                    hosts_text(row.line->hosts, nodes.size()));
    if ((f.status == Status::fail || f.status == Status::unknown) && !f.reason.empty())
      lines.push_back("      why: " + f.reason);
    if (f.status == Status::fail && !f.remedy.empty()) lines.push_back("      remedy: " + f.remedy);
  }
  return lines;
}

std::string summary_line(const std::vector<Node>& nodes) {
  const Counts c = count(nodes);
  return std::to_string(c.pass + c.fail + c.unknown + c.info) + " checks on " + std::to_string(nodes.size()) +
         (nodes.size() == 1 ? " node: " : " nodes: ") + std::to_string(c.pass) + " pass, " +
         std::to_string(c.fail) + (c.fail ? " FAIL, " : " fail, ") + std::to_string(c.unknown) +
         " unknown, " + std::to_string(c.info) + " not judged";
}

}  // namespace tt::node

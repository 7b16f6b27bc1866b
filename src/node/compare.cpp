// All nodes alike?
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "common/statistics.h"
#include "src/node/catalogue.h"
#include "src/node/inventory.h"

namespace tt::node {
namespace {

constexpr double kWithin = 0.02;
constexpr double kClockLimit_ms = 100;

Finding* find(Node& node, std::string_view id) {
  const auto it =
      std::find_if(node.findings.begin(), node.findings.end(), [&](const Finding& f) { return f.id == id; });
  return it == node.findings.end() ? nullptr : &*it;
}

bool readable(const Finding& f) {
  return std::all_of(f.items.begin(), f.items.end(),
                     [](const Item& item) { return item.value.value.has_value(); });
}

/// Nodes whose finding can be compared: there, and readable.
std::vector<Finding*> comparable(std::vector<Node>& nodes, std::string_view id) {
  std::vector<Finding*> list;
  for (Node& node : nodes)
    if (Finding* f = find(node, id); f && readable(*f)) list.push_back(f);
  return list;
}

void mark_odd(Finding& f, const std::string& expected, const std::string& reason) {
  if (f.status == Status::fail) return;
  f.status = Status::fail;
  f.expected = expected;
  f.reason = reason;
  if (f.remedy.empty())
    f.remedy = "bring this node to the state of its neighbours, or find out why it was delivered otherwise";
}

void mark_alike(Finding& f, const std::string& text) {
  // Neighbours that all lack it prove nothing.
  const std::string value = value_text(f);
  if (f.status != Status::info || value == "0" || value == "none") return;
  f.status = Status::pass;
  f.expected = text;
  f.reason.clear();
}

void compare_exact(const std::vector<Finding*>& findings) {
  std::map<std::string, size_t> counts;
  for (const Finding* f : findings) ++counts[value_text(*f)];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
  const bool majority = 2 * most->second > findings.size();
  std::string spread;
  for (const auto& [value, n] : counts)
    spread += (spread.empty() ? "" : "; ") + std::to_string(n) + " of " + std::to_string(findings.size()) +
              " nodes: " + value;
  for (Finding* f : findings) {
    if (!majority)
      mark_odd(*f, "all nodes alike", "nodes differ, no majority (" + spread + ")");
    else if (value_text(*f) != most->first)
      mark_odd(*f, most->first + " (majority)",
               "differs from " + std::to_string(most->second) + " of " + std::to_string(findings.size()) +
                   " nodes");
    else
      mark_alike(*f, "all nodes alike");
  }
}

/// Numbers, item by item, against the median of the nodes.
void compare_within(const std::vector<Finding*>& findings) {
  std::map<std::string, std::vector<double>> values;
  for (const Finding* f : findings)
    for (const Item& item : f->items) values[item.name].push_back(std::atof(item.value->c_str()));
  for (Finding* f : findings) {
    std::string odd;
    for (const Item& item : f->items) {
      const double median = median_of(values[item.name]).value_or(0), value = std::atof(item.value->c_str());
      if (!(std::abs(value - median) <= kWithin * std::abs(median)))
        odd += (odd.empty() ? "" : "; ") + (item.name.empty() ? "" : item.name + ": ") + *item.value +
               ", median of all nodes " + number_text(median);
    }
    if (odd.empty())
      mark_alike(*f, "all nodes within 2 %");
    else
      mark_odd(*f, "all nodes within 2 %", odd);
  }
}

void compare_names(std::vector<Node>& nodes) {
  std::map<std::string, std::string> ranks;
  std::map<std::string, int> counts;
  for (const Node& node : nodes) {
    ranks[node.host] += (counts[node.host]++ ? ", " : "") + std::to_string(node.rank);
  }
  for (Node& node : nodes) {
    Finding* f = find(node, "host.name");
    if (!f) continue;
    f->expected = "all different";
    f->status = counts[node.host] > 1 ? Status::fail : Status::pass;
    if (counts[node.host] < 2) continue;
    f->reason = "the nodes of ranks " + ranks[node.host] + " all have the name " + node.host;
    f->remedy = "give every node a name of its own (hostnamectl), in DNS and Slurm too";
  }
}

void compare_clocks(std::vector<Node>& nodes) {
  std::vector<double> clocks;
  for (const Node& node : nodes)
    if (node.clock_s) clocks.push_back(*node.clock_s);
  if (clocks.size() < 2) return;
  const double median = *median_of(clocks);
  for (Node& node : nodes) {
    if (!node.clock_s) continue;
    const double off_ms = (*node.clock_s - median) * 1e3;
    Finding f{
        .id = "time.agreement",
        .items = {
            {"", Text::of(std::abs(off_ms) <= kClockLimit_ms ? "yes" : number_text(off_ms, 0) + " off")}}};
    judge(f,
          {"within " + number_text(kClockLimit_ms), [&](auto&) { return std::abs(off_ms) <= kClockLimit_ms; },
           "the clock is off against the median of all nodes: start chronyd, and step it once with `chronyc "
           "makestep`"});
    const auto after = std::find_if(node.findings.begin(), node.findings.end(),
                                    [](const Finding& g) { return g.id == "time.synchronized"; });
    node.findings.insert(after == node.findings.end() ? after : after + 1, std::move(f));
  }
}

}  // namespace

void compare_nodes(std::vector<Node>& nodes) {
  if (nodes.size() < 2) return;
  compare_names(nodes);
  compare_clocks(nodes);
  for (const CatalogueEntry& entry : catalogue()) {
    if (entry.compare == Compare::no) continue;
    const auto findings = comparable(nodes, entry.id);
    if (findings.size() < 2) continue;
    if (entry.compare == Compare::exact)
      compare_exact(findings);
    else
      compare_within(findings);
  }
}

}  // namespace tt::node

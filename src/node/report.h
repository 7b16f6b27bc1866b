// The table that node_check prints: nodes that agree share a line.
#pragma once

#include <string>
#include <vector>

#include "src/node/inventory.h"

namespace tt::node {

struct Counts {
  size_t pass = 0, fail = 0, unknown = 0, info = 0;
};
Counts count(const std::vector<Node>& nodes);

/// Header and lines: check, value, expectation, verdict, hosts; the reason under lines that fail or are
/// unknown, the remedy under those that fail. In the catalogue's order.
std::vector<std::string> table_lines(const std::vector<Node>& nodes);

/// "41 checks on 2 nodes: 13 pass, 1 FAIL, 9 unknown, 18 not judged"
std::string summary_line(const std::vector<Node>& nodes);

/// "node1, node2", "all", or the first eight and how many more.
std::string hosts_text(const std::vector<std::string>& hosts, size_t all);

}  // namespace tt::node

// The nodes' checks as plain values: made on each node, gathered as text, compared and judged in one place.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/row.h"
#include "src/node/finding.h"
#include "src/node/sysroot.h"

namespace tt::node {

struct Node {
  std::string host;
  int rank = 0;                     // the world rank that spoke for it
  std::optional<double> clock_s{};  // wall clock at one moment common to all nodes
  std::vector<Finding> findings{};  // in the catalogue's order

  const Finding* find(const std::string& id) const;
};

/// Reads and judges one node by the rules that need neither neighbours nor an order. `versions`: of this
/// machine's libraries that were asked themselves. The host's name is the tree's own
/// (/proc/sys/kernel/hostname) for a recorded one, or `host` where it has none.
Node inspect(const Sysroot& root, const std::string& host, int rank,
             const std::map<std::string, std::string>& versions);

/// Adds "gpu.computes" out of what each rank's trial on its GPU came to: "yes", or what went wrong.
void add_computes(Node& node, std::vector<Item> items);

/// Writes the tree that `inspect` of `root` has read, so that it can be looked at elsewhere: the files, and
/// under live/ what came from calls (GPUs, clock state, library versions, kernel log).
void record_tree(const Sysroot& root, const std::string& folder,
                 const std::map<std::string, std::string>& versions);

/// For the way from rank to rank. EnvironmentError when the text is not one that to_text() made.
std::string to_text(const Node& node);
Node parse_node(const std::string& text);

/// Holds the nodes against each other. What more than half of them have is right: the others fail, named, and
/// the majority passes. Without a majority all of them fail ("no majority"): with two nodes nobody can know
/// which one is off. Findings that their own rule has failed keep that verdict. Host names must differ,
/// clocks agree within 100 ms. One node: nothing happens.
void compare_nodes(std::vector<Node>& nodes);

/// One row per node and check, key "node/<id>/<host>" (the rank behind a host name that occurs twice), with
/// its verdict; the common verdict of "info" is unknown, "not judged".
std::vector<Row> to_rows(const std::vector<Node>& nodes);

}  // namespace tt::node

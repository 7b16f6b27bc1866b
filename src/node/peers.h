// Parts of one node that should be alike: a port is judged by its siblings of the same kind.
#pragma once

#include <string>
#include <vector>

#include "src/node/finding.h"

namespace tt::node {

/// kinds[i] is the kind of finding.items[i] ("" = judge it not). Inside a kind, a value that more than half
/// of the items have is what the others are held against; without such a majority nothing is said of the
/// kind. Fails naming the odd items; passes when at least one kind of two or more agrees and none fails; else
/// leaves the finding as it is.
void judge_by_peers(Finding& finding, const std::vector<std::string>& kinds, const std::string& remedy);

}  // namespace tt::node

#include "src/node/peers.h"

#include <map>

namespace tt::node {

void judge_by_peers(Finding& finding, const std::vector<std::string>& kinds, const std::string& remedy) {
  std::map<std::string, std::map<std::string, size_t>> counts;  // kind -> value -> how many
  std::map<std::string, size_t> sizes;
  for (size_t i = 0; i < finding.items.size(); ++i)
    if (!kinds[i].empty() && finding.items[i].value) {
      ++counts[kinds[i]][*finding.items[i].value];
      ++sizes[kinds[i]];
    }
  const auto majority = [&](const std::string& kind) -> const std::string* {
    for (const auto& [value, n] : counts[kind])
      if (sizes[kind] > 1 && 2 * n > sizes[kind]) return &value;
    return nullptr;
  };
  std::string odd;
  bool judged = false;
  for (size_t i = 0; i < finding.items.size(); ++i) {
    const Item& item = finding.items[i];
    const std::string* usual = kinds[i].empty() || !item.value ? nullptr : majority(kinds[i]);
    if (!usual) continue;
    judged = true;
    if (*item.value != *usual)
      odd += (odd.empty() ? "" : "; ") + item.name + ": " + *item.value + ", its siblings " + *usual;
  }
  if (!judged) return;
  finding.expected = "siblings alike";
  if (!odd.empty()) {
    finding.status = Status::fail;
    finding.reason = odd;
    finding.remedy = remedy;
  } else if (finding.status == Status::info) {
    finding.status = Status::pass;
  }
}

}  // namespace tt::node

#include "src/node/finding.h"

#include <algorithm>
#include <cstdio>

#include "common/error.h"
#include "src/node/catalogue.h"
#include "src/node/sysroot.h"

namespace tt::node {
namespace {

struct Group {
  std::string value;
  std::vector<std::string> names;
};

/// Values with the items that have them, most frequent first (ties: as met).
std::vector<Group> group(const std::vector<Item>& items) {
  std::vector<Group> groups;
  for (const Item& item : items) {
    const std::string value = item.value ? *item.value : "?";
    auto it = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.value == value; });
    if (it == groups.end()) it = groups.insert(it, Group{value, {}});
    it->names.push_back(item.name);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](auto& a, auto& b) { return a.names.size() > b.names.size(); });
  return groups;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

const char* word_of(Status status) noexcept {
  switch (status) {
    case Status::pass:
      return "pass";
    case Status::fail:
      return "fail";
    case Status::unknown:
      return "unknown";
    case Status::info:
      return "info";
  }
  return "unknown";
}

Status parse_status(const std::string& word) {
  for (const Status s : {Status::pass, Status::fail, Status::unknown, Status::info})
    if (word == word_of(s)) return s;
  throw EnvironmentError("status '" + printable(word, 40) + "' is not pass, fail, unknown or info");
}

std::string value_text(const Finding& finding) {
  if (finding.items.empty()) return "none";
  std::string text;
  for (const Group& g : group(finding.items)) {
    const bool named = !text.empty() || (g.names.size() == 1 && finding.items.size() > 1);
    text += text.empty() ? "" : "; ";
    if (named)
      text += joined(g.names) + ": " + g.value;
    else
      text += g.names.size() == 1 ? g.value : std::to_string(g.names.size()) + " x " + g.value;
  }
  return text;
}

void judge(Finding& finding, const Rule& rule) {
  finding.expected = rule.expected;
  finding.reason.clear();
  std::vector<std::string> bad;
  std::string unread;
  for (const Item& item : finding.items) {
    if (!item.value)
      unread = unread.empty() ? item.value.why : unread;
    else if (!rule.holds(*item.value))
      bad.push_back(item.name.empty() ? *item.value : item.name + ": " + *item.value);
  }
  if (!bad.empty()) {
    finding.status = Status::fail;
    finding.reason = joined(bad) + ", expected " + rule.expected;
    finding.remedy = rule.remedy;
  } else if (finding.items.empty() || !unread.empty()) {
    finding.status = Status::unknown;
    finding.reason = unread.empty() ? "nothing of the kind here" : unread;
  } else {
    finding.status = Status::pass;
  }
}

Rule equals(const std::string& value, const std::string& remedy) {
  return {value, [value](const std::string& v) { return v == value; }, remedy};
}

Rule at_least(const std::string& limit, const std::string& remedy) {
  return {">= " + limit, [limit](const std::string& v) { return compare_natural(v, limit) >= 0; }, remedy};
}

void judge_alike(Finding& finding, const std::string& remedy) {
  std::vector<Item> readable;
  for (const Item& item : finding.items)
    if (item.value) readable.push_back(item);
  if (readable.empty()) return;
  judge(finding, equals(group(readable).front().value, remedy));
  finding.expected = "all alike";
}

Finding& Findings::add(const std::string& id, std::vector<Item> items) {
  catalogue_entry(id);  // an id that is not in the catalogue is a mistake of ours
  Finding finding{.id = id, .items = std::move(items)};
  for (const Item& item : finding.items)
    if (!item.value) {
      finding.status = Status::unknown;
      finding.reason = item.value.why;
      break;
    }
  list_.push_back(std::move(finding));
  return list_.back();
}

Finding& Findings::add(const std::string& id, Text value) {
  return add(id, std::vector<Item>{{"", std::move(value)}});
}

Finding& Findings::add(const std::string& id, Reading<int64_t> value) {
  return add(id, value ? Text::of(std::to_string(*value)) : Text::unknown(value.why));
}

std::string number_text(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  std::string s = text;
  if (s.find('.') != std::string::npos) {
    s.erase(s.find_last_not_of('0') + 1);
    if (s.back() == '.') s.pop_back();
  }
  return s;
}

}  // namespace tt::node

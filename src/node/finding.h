// One check of one node: what was found, what should have been found, the verdict and what to do about it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/node/sysroot.h"

namespace tt::node {

enum class Status {
  pass,
  fail,
  unknown,  // could not be read; the reason says why
  info,     // read, but there is nothing to judge it by
};
const char* word_of(Status status) noexcept;   // "pass" "fail" "unknown" "info"
Status parse_status(const std::string& word);  // EnvironmentError for any other word

/// A part of the node and its value: {"GPU 3 (0000:5d:00.0)", "x16"}. The node itself has an empty name.
struct Item {
  std::string name;
  Text value;
};

struct Finding {
  std::string id;           // of the catalogue
  std::vector<Item> items;  // empty: nothing of the kind here
  std::string expected{};   // "" when nothing is expected
  Status status = Status::info;
  std::string reason{};  // why it fails (which parts), is unknown or is not judged
  std::string remedy{};  // what to do, when it fails
};

/// All items in one line: "2" - "8 x NVIDIA H200" - "7 x x16; GPU 3 (0000:5d:00.0): x8" (the most frequent
/// value by count, others by name) - "none". Unreadable ones as "?".
std::string value_text(const Finding& finding);

/// What is expected of each item.
struct Rule {
  std::string expected;  // for people: "16", ">= 570"
  std::function<bool(const std::string&)> holds;
  std::string remedy;
};

/// Judges: an item for which the rule does not hold: fail, naming it; else an unreadable item: unknown with
/// its reason; else pass. Without items: unknown "nothing of the kind here".
void judge(Finding& finding, const Rule& rule);
/// Rules of frequent kinds.
Rule equals(const std::string& value, const std::string& remedy);
Rule at_least(const std::string& version_or_number, const std::string& remedy);  // natural order
/// All items alike; the expectation is the most frequent value.
void judge_alike(Finding& finding, const std::string& remedy);

/// The checks of one node in the making. `add` returns the finding for judging.
class Findings {
 public:
  Finding& add(const std::string& id, Text value);
  Finding& add(const std::string& id, Reading<int64_t> value);
  Finding& add(const std::string& id, std::vector<Item> items);
  std::vector<Finding> take() { return std::move(list_); }
  const std::vector<Finding>& list() const { return list_; }

 private:
  std::vector<Finding> list_;
};

/// A number without needless digits: 2, 7.5, 503.4.
std::string number_text(double value, int digits = 1);

}  // namespace tt::node

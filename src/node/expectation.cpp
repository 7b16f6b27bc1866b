#include "src/node/expectation.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "common/error.h"
#include "src/node/catalogue.h"

namespace tt::node {
namespace {

std::string joined(const std::vector<std::string>& texts, const char* between) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : between) + text;
  return all;
}

struct Choice {
  std::string op, operand;  // op "" is equality
};

Choice parse_choice(const std::string& text) {
  for (const char* op : {">=", "<=", "!=", ">", "<"})
    if (text.starts_with(op)) return {op, std::string(trimmed(text.substr(std::string(op).size())))};
  return {"", text};
}

bool meets_any(const std::string& value, const Expectation& e) {
  return std::any_of(e.choices.begin(), e.choices.end(),
                     [&](const std::string& c) { return meets(value, c); });
}

/// Memory sizes differ a little between like machines.
bool nearly_any(const std::string& value, const Expectation& e) {
  return std::any_of(e.choices.begin(), e.choices.end(), [&](const std::string& c) {
    const double a = std::atof(value.c_str()), b = std::atof(c.c_str());
    return b > 0 && std::abs(a - b) <= 0.02 * b;
  });
}

std::string remedy_for(const Expectation& e) {
  if (e.id == "gpu.count")
    return "a GPU that never came up shows nowhere but in the count: compare the BMC's inventory with `lspci "
           "-d 10de:`, cold start, reseat";
  if (e.id.ends_with(".count"))
    return "compare the BMC's inventory with `lspci`; reseat the card, look for a slot that is switched off "
           "in the firmware";
  return "not what " + e.origin + " says was ordered: take it up with the supplier, or correct the file";
}

bool holds(const Finding& f, const Expectation& e) {
  if (f.items.empty()) return false;
  const bool within = catalogue_entry(f.id).compare == Compare::within;
  const bool each = std::all_of(f.items.begin(), f.items.end(), [&](const Item& item) {
    return item.value && (meets_any(*item.value, e) || (within && nearly_any(*item.value, e)));
  });
  return each || meets_any(value_text(f), e);
}

std::string failure(const Finding& f, const Expectation& e) {
  for (const Item& item : f.items)
    if (!item.value) return "expected, but could not be read: " + item.value.why;
  if (f.items.empty()) return "nothing of the kind here";
  if (f.id.ends_with(".count"))
    return value_text(f) + " of " + joined(e.choices, " or ") + " " + std::string(catalogue_entry(f.id).what);
  return value_text(f) + ", expected " + joined(e.choices, " or ");
}

void apply_one(const Expectation& e, Finding& f) {
  const bool exact =
      std::all_of(e.choices.begin(), e.choices.end(), [](auto& c) { return parse_choice(c).op.empty(); });
  const bool good = holds(f, e);
  if (good && f.status == Status::fail && !exact) return;
  f.expected = joined(e.choices, " or ");
  f.status = good ? Status::pass : Status::fail;
  f.reason = good ? "" : failure(f, e);
  if (!good) f.remedy = remedy_for(e);
}

std::string quoted(const std::string& text) {  // a TOML basic string
  std::string out = "\"";
  for (const char c : printable(text, 4000))
    out += (c == '"' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  return out + "\"";
}

}  // namespace

bool meets(const std::string& value, const std::string& choice) {
  const Choice c = parse_choice(choice);
  const int order = compare_natural(value, c.operand);
  if (c.op == ">=") return order >= 0;
  if (c.op == "<=") return order <= 0;
  if (c.op == ">") return order > 0;
  if (c.op == "<") return order < 0;
  if (c.op == "!=") return order != 0;
  return order == 0;
}

void apply_expectations(const std::vector<Expectation>& expectations, Node& node) {
  for (const Expectation& e : expectations) {
    auto it = std::find_if(node.findings.begin(), node.findings.end(),
                           [&](const Finding& f) { return f.id == e.id; });
    if (it == node.findings.end()) {  // into its place in the catalogue's order
      const CatalogueEntry* entry = &catalogue_entry(e.id);
      it = std::find_if(node.findings.begin(), node.findings.end(),
                        [&](const Finding& f) { return &catalogue_entry(f.id) > entry; });
      it = node.findings.insert(it, Finding{.id = e.id, .items = {}});
    }
    apply_one(e, *it);
  }
}

std::string freeze_bom(const std::vector<Node>& nodes, const std::string& head) {
  std::string text;
  for (const std::string& line : split_lines(head)) text += "# " + line + "\n";
  for (const CatalogueEntry& entry : catalogue()) {
    if (!entry.bom) continue;
    std::map<std::string, size_t> counts;
    std::string why;
    for (const Node& node : nodes)
      if (const Finding* f = node.find(std::string(entry.id))) {
        const auto unread =
            std::find_if(f->items.begin(), f->items.end(), [](const Item& item) { return !item.value; });
        if (unread == f->items.end())
          ++counts[value_text(*f)];
        else
          why = unread->value.why;
      }
    const auto most =
        std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
    if (most != counts.end())
      text += std::string(entry.id) + " = " + quoted(most->first) + "\n";
    else if (!why.empty())
      text += "# " + std::string(entry.id) + ": unknown, " + printable(why) + "\n";
  }
  return text;
}

}  // namespace tt::node

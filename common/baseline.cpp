#include "common/baseline.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/error.h"

namespace tt {
namespace {

using Json = nlohmann::json;

/// Reads the fields of one object and refuses what it does not know: a misspelt "tolerence" must not pass for
/// none.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail("is not an object");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw EnvironmentError("baseline " + where_ + ": " + what);
  }

  std::string text(const char* name) const {
    const Json* j = find(name);
    if (!j) fail(fmt::format("field '{}' is missing", name));
    if (!j->is_string()) fail(fmt::format("field '{}' is {}, not a text", name, j->dump()));
    return j->get<std::string>();
  }
  std::string text_or(const char* name, const std::string& otherwise) const {
    return find(name) ? text(name) : otherwise;
  }

  double number(const char* name) const {
    const Json* j = find(name);
    if (!j) fail(fmt::format("field '{}' is missing", name));
    if (!j->is_number()) fail(fmt::format("field '{}' is {}, not a number", name, j->dump()));
    return j->get<double>();
  }
  std::optional<int64_t> size(const char* name) const {
    const Json* j = find(name);
    if (!j) return std::nullopt;
    const bool fits = j->is_number_integer() && (!j->is_number_unsigned() || j->get<uint64_t>() <= INT64_MAX);
    if (!fits || j->get<int64_t>() < 0) fail(fmt::format("field '{}' is {}, not a size", name, j->dump()));
    return j->get<int64_t>();
  }
  bool flag_or(const char* name, bool otherwise) const {
    const Json* j = find(name);
    if (!j) return otherwise;
    if (!j->is_boolean()) fail(fmt::format("field '{}' is {}, neither true nor false", name, j->dump()));
    return j->get<bool>();
  }
  const Json* find(const char* name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  void only(std::initializer_list<const char*> names) const {
    for (const auto& [name, value] : object_.items()) {
      bool known = false;
      for (const char* n : names) known = known || name == n;
      if (!known) fail(fmt::format("unknown field '{}'", name));
    }
  }

 private:
  const Json& object_;
  std::string where_;
};

BaselineEntry entry_from(const Json& object, const std::string& where) {
  const Fields f(object, where);
  f.only({"key", "group", "metric", "value", "direction", "tolerance", "size_min", "size_max", "origin",
          "conditions", "tool", "required"});
  BaselineEntry e;
  if (!f.find("key") == !f.find("group")) f.fail("needs either 'key' or 'group'");
  e.is_group = f.find("group") != nullptr;
  e.key = f.text(e.is_group ? "group" : "key");
  e.metric = f.text("metric");
  e.value = f.number("value");
  if (!(e.value > 0) || !std::isfinite(e.value))
    f.fail(fmt::format("value {} is not positive and finite", e.value));
  const std::string direction = f.text("direction");
  if (direction != "higher" && direction != "lower")
    f.fail(fmt::format("direction '{}' is neither 'higher' nor 'lower'", direction));
  e.higher_is_better = direction == "higher";
  if (f.find("tolerance")) {
    e.tolerance = f.number("tolerance");
    if (!(*e.tolerance >= 0 && *e.tolerance < 1))
      f.fail(fmt::format("tolerance {} is not in [0, 1)", *e.tolerance));
  }
  e.size_min = f.size("size_min");
  e.size_max = f.size("size_max");
  if (e.size_min && e.size_max && *e.size_min > *e.size_max)
    f.fail(fmt::format("size_min {} is above size_max {}", *e.size_min, *e.size_max));
  e.origin = f.text("origin");
  const std::string kind = e.origin.substr(0, e.origin.find(':'));
  if (kind != "measured" && kind != "published" && kind != "computed")
    f.fail(fmt::format("origin '{}' begins with none of 'measured', 'published', 'computed'", e.origin));
  e.conditions = f.text_or("conditions", "");
  e.tool = f.text_or("tool", "");
  e.required = f.flag_or("required", !e.is_group);
  if (e.required && e.is_group) f.fail("'required' needs an exact 'key'");
  return e;
}

bool overlap(const BaselineEntry& a, const BaselineEntry& b) {
  return a.size_min.value_or(0) <= b.size_max.value_or(INT64_MAX) &&
         b.size_min.value_or(0) <= a.size_max.value_or(INT64_MAX);
}

/// Judged only inside its window; a row without a size lies outside every window.
bool in_window(const BaselineEntry& e, const Row& row) {
  if (!e.size_min && !e.size_max) return true;
  return row.size && *row.size >= e.size_min.value_or(0) && *row.size <= e.size_max.value_or(INT64_MAX);
}

std::string describe(const Mismatch& m) {
  return fmt::format("rank {}, iteration {}, offset {}: expected {}, got {}", m.rank, m.iteration, m.offset,
                     m.expected, m.got);
}

BaselineResult compare(const BaselineEntry& e, double measured, double min_ratio) {
  BaselineResult r;
  r.metric = e.metric;
  r.direction = e.higher_is_better ? "higher" : "lower";
  r.origin = e.origin;
  r.value = e.value;
  r.measured = measured;
  r.ratio = e.higher_is_better ? measured / e.value : e.value / measured;
  r.min_ratio = e.tolerance ? 1 - *e.tolerance : min_ratio;
  r.pass = r.ratio >= r.min_ratio;  // NaN does not pass
  return r;
}

/// How far above its gate; the least is the one to show.
double margin_of(const BaselineResult& r) {
  return r.ratio / r.min_ratio;
}

}  // namespace

std::string Baseline::read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw EnvironmentError("baseline " + path + " cannot be opened");
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || text.fail()) throw EnvironmentError("baseline " + path + " cannot be read");
  return text.str();
}

Baseline Baseline::load(const std::string& path) {
  return parse(read(path), path);
}

Baseline Baseline::parse(const std::string& text, const std::string& name) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& e) {
    throw EnvironmentError("baseline " + name + " is not valid JSON: " + e.what());
  }
  const Fields top(document, name);
  top.only({"baseline_version", "sku", "comment", "entries"});
  if (const double version = top.number("baseline_version"); version != 1)
    top.fail(fmt::format("baseline_version {} is not one that this program reads (1)", version));
  Baseline baseline;
  baseline.sku_ = top.text("sku");
  const Json* entries = top.find("entries");
  if (!entries || !entries->is_array()) top.fail("field 'entries' is missing or not a list");
  for (size_t i = 0; i < entries->size(); ++i) {
    const std::string where = fmt::format("{}, entry {}", name, i + 1);
    BaselineEntry entry = entry_from((*entries)[i], where);
    for (const BaselineEntry& other : baseline.entries_)
      if (other.key == entry.key && other.metric == entry.metric && other.is_group == entry.is_group &&
          overlap(other, entry))
        throw EnvironmentError(
            fmt::format("baseline {}: a second entry for '{}' and {}", where, entry.key, entry.metric));
    baseline.entries_.push_back(std::move(entry));
  }
  return baseline;
}

std::vector<const BaselineEntry*> Baseline::all_for(const Row& row) const {
  std::vector<const BaselineEntry*> found;
  for (const BaselineEntry& e : entries_)
    if (!e.is_group && e.key == row.key && in_window(e, row)) found.push_back(&e);
  for (const BaselineEntry& e : entries_) {
    if (!e.is_group || e.key != row.group || !in_window(e, row)) continue;
    bool exact = false;
    for (const BaselineEntry* f : found) exact = exact || (!f->is_group && f->metric == e.metric);
    if (!exact) found.push_back(&e);
  }
  return found;
}

const BaselineEntry* Baseline::find(const Row& row) const {
  const auto found = all_for(row);
  return found.empty() ? nullptr : found.front();
}

void Baseline::judge(Row& row, double min_ratio) const {
  row.baseline.reset();
  if (row.check.wrong > 0) {
    row.verdict = Verdict::wrong;
    row.reason = fmt::format("{} wrong elements", row.check.wrong);
    if (row.check.first) row.reason += "; the first: " + describe(*row.check.first);
    return;
  }
  if (row.verdict == Verdict::skipped) return;  // never ran; its reason stands
  const auto fail = [&row](const std::string& reason) {
    row.verdict = Verdict::fail;
    row.reason = reason;
  };
  if (!row.check.method.empty() && row.check.checked == 0) return fail("not verified");
  if (row.metrics.empty() && row.check.method.empty()) return fail("not measured: " + row.key);

  for (const Gate& gate : row.gates)
    if (!gate.pass())
      return fail(fmt::format("{}: {:.6g}, {} {:.6g} is wanted", gate.what, gate.value,
                              gate.at_most ? "at most" : "at least", gate.limit));

  const auto entries = row.comparable ? all_for(row) : std::vector<const BaselineEntry*>{};
  for (const BaselineEntry* e : entries) {
    const Metric* metric = row.metric(e->metric);
    if (!metric || !metric->summary.median)
      return fail(fmt::format("not measured: {} of {}", e->metric, row.key));
    const BaselineResult result = compare(*e, *metric->summary.median, min_ratio);
    if (!row.baseline || margin_of(result) < margin_of(*row.baseline)) row.baseline = result;
  }
  if (!row.baseline) {
    const std::string why = !row.comparable ? "not comparable with a baseline" : "no baseline";
    row.verdict = row.check.checked > 0 ? Verdict::pass : Verdict::unknown;
    row.reason = row.check.checked > 0 ? "verified; " + why : why;
    if (!row.gates.empty()) row.reason = fmt::format("{} gates held; ", row.gates.size()) + row.reason;
    return;
  }
  const BaselineResult& b = *row.baseline;
  row.verdict = b.pass ? Verdict::pass : Verdict::fail;
  row.reason = fmt::format("{} {:.6g} is {:.3f} of the baseline {:.6g} ({:.3f} needed)", b.metric, b.measured,
                           b.ratio, b.value, b.min_ratio);
}

std::vector<std::string> Baseline::missing(const std::vector<Row>& rows, const std::string& tool) const {
  std::vector<std::string> keys;
  for (const BaselineEntry& e : entries_) {
    if (!e.required || (!e.tool.empty() && e.tool != tool)) continue;
    bool there = false;
    for (const Row& row : rows) there = there || row.key == e.key;
    for (const std::string& key : keys) there = there || key == e.key;
    if (!there) keys.push_back(e.key);
  }
  return keys;
}

}  // namespace tt

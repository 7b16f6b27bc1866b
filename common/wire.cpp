// JSON forms of rows and ranks, and back. docs/record.schema.json is their contract.
#include "common/wire.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "common/error.h"
#include "common/json_forms.h"

namespace tt {

std::string dump(const Json& j, int indent) {
  return j.dump(indent, ' ', false, Json::error_handler_t::replace);
}

namespace {

// ---- small pieces ----

template <class T>
Json maybe(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::optional<double> maybe_number(const Json& j, const char* name) {
  const auto it = j.find(name);
  if (it == j.end() || it->is_null()) return std::nullopt;
  return it->get<double>();
}

/// A number that must be there; null is what a non-finite one was written as.
double number(const Json& j, const char* name) {
  return maybe_number(j, name).value_or(std::numeric_limits<double>::quiet_NaN());
}

Json json_of(const Summary& s) {
  return {{"n", s.n},
          {"min", maybe(s.min)},
          {"median", maybe(s.median)},
          {"mean", maybe(s.mean)},
          {"max", maybe(s.max)},
          {"p99", maybe(s.p99)},
          {"cv", maybe(s.cv)}};
}

Summary summary_from(const Json& j) {
  Summary s;
  s.n = j.at("n").get<int64_t>();
  s.min = maybe_number(j, "min");
  s.median = maybe_number(j, "median");
  s.mean = maybe_number(j, "mean");
  s.max = maybe_number(j, "max");
  s.p99 = maybe_number(j, "p99");
  s.cv = maybe_number(j, "cv");
  return s;
}

Json json_of(const Gate& gate) {
  return {{"name", gate.name},       {"value", gate.value}, {"limit", gate.limit},
          {"at_most", gate.at_most}, {"pass", gate.pass()}, {"what", gate.what}};
}

Gate gate_from(const Json& j) {
  return {j.at("name").get<std::string>(), number(j, "value"), number(j, "limit"),
          j.at("at_most").get<bool>(), j.at("what").get<std::string>()};
}

Json json_of(const Value& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

Value value_from(const Json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_string()) return j.get<std::string>();
  return j.is_null() ? std::numeric_limits<double>::quiet_NaN() : j.get<double>();
}

/// NaN is a possible finding ("got"): null in the number's place and the word beside it.
void put_found(Json& j, const char* name, double value) {
  j[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
  if (!std::isfinite(value))
    j[std::string(name) + "_text"] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double found_from(const Json& j, const char* name) {
  const auto text = j.find(std::string(name) + "_text");
  return text == j.end() ? number(j, name) : std::strtod(text->get<std::string>().c_str(), nullptr);
}

// ---- parts of a row ----

Json json_of(const Mismatch& m) {
  Json j{{"rank", m.rank}, {"iteration", m.iteration}, {"offset", m.offset}};
  put_found(j, "expected", m.expected);
  put_found(j, "got", m.got);
  return j;
}

Json json_of(const Check& c) {
  return {{"method", c.method},
          {"checked", c.checked},
          {"total", c.total},
          {"wrong", c.wrong},
          {"first", c.first ? json_of(*c.first) : Json(nullptr)}};
}

Check check_from(const Json& j) {
  Check c;
  c.method = j.at("method").get<std::string>();
  c.checked = j.at("checked").get<int64_t>();
  c.total = j.at("total").get<int64_t>();
  c.wrong = j.at("wrong").get<int64_t>();
  if (const Json& f = j.at("first"); !f.is_null())
    c.first = Mismatch{f.at("rank").get<int>(), f.at("iteration").get<int64_t>(),
                       f.at("offset").get<int64_t>(), found_from(f, "expected"), found_from(f, "got")};
  return c;
}

Json json_of(const TelemetrySummary& t) {
  return {{"rank", t.rank},
          {"samples", t.samples},
          {"sm_MHz", maybe(t.sm_MHz)},
          {"mem_MHz", maybe(t.mem_MHz)},
          {"power_W", maybe(t.power_W)},
          {"power_max_W", maybe(t.power_max_W)},
          {"energy_J", maybe(t.energy_J)},
          {"temperature_C", maybe(t.temperature_C)},
          {"gpu_util_percent", maybe(t.gpu_util_percent)},
          {"host_load", maybe(t.host_load)},
          {"throttle", t.throttle},
          {"throttled", t.throttled}};
}

TelemetrySummary telemetry_from(const Json& j) {
  TelemetrySummary t;
  t.rank = j.at("rank").get<int>();
  t.samples = j.at("samples").get<int64_t>();
  t.sm_MHz = maybe_number(j, "sm_MHz");
  t.mem_MHz = maybe_number(j, "mem_MHz");
  t.power_W = maybe_number(j, "power_W");
  t.power_max_W = maybe_number(j, "power_max_W");
  t.energy_J = maybe_number(j, "energy_J");
  t.temperature_C = maybe_number(j, "temperature_C");
  t.gpu_util_percent = maybe_number(j, "gpu_util_percent");
  t.host_load = maybe_number(j, "host_load");
  t.throttle = j.at("throttle").get<std::vector<std::string>>();
  t.throttled = j.at("throttled").get<bool>();
  return t;
}

}  // namespace

Json json_of(const TelemetrySample& s) {
  return {{"t_s", s.t},
          {"sm_MHz", maybe(s.sm_MHz)},
          {"mem_MHz", maybe(s.mem_MHz)},
          {"power_W", maybe(s.power_W)},
          {"energy_J", maybe(s.energy_J)},
          {"temperature_C", maybe(s.temperature_C)},
          {"gpu_util_percent", maybe(s.gpu_util_percent)},
          {"host_load", maybe(s.host_load)},
          {"throttle", s.throttle}};
}

namespace {

TelemetrySample sample_from(const Json& j) {
  TelemetrySample s;
  s.t = number(j, "t_s");
  s.sm_MHz = maybe_number(j, "sm_MHz");
  s.mem_MHz = maybe_number(j, "mem_MHz");
  s.power_W = maybe_number(j, "power_W");
  s.energy_J = maybe_number(j, "energy_J");
  s.temperature_C = maybe_number(j, "temperature_C");
  s.gpu_util_percent = maybe_number(j, "gpu_util_percent");
  s.host_load = maybe_number(j, "host_load");
  s.throttle = j.at("throttle").get<std::vector<std::string>>();
  return s;
}

Json json_of(const SeriesPoint& p) {
  return {{"t_s", p.t_s},
          {"span_s", p.span_s},
          {"iterations", p.iterations},
          {"rate", maybe(p.rate)},
          {"sm_MHz_min", maybe(p.sm_MHz_min)},
          {"power_W_max", maybe(p.power_W_max)},
          {"temperature_C_max", maybe(p.temperature_C_max)},
          {"throttle", p.throttle}};
}

SeriesPoint point_from(const Json& j) {
  SeriesPoint p;
  p.t_s = number(j, "t_s");
  p.span_s = number(j, "span_s");
  p.iterations = j.at("iterations").get<int64_t>();
  p.rate = maybe_number(j, "rate");
  p.sm_MHz_min = maybe_number(j, "sm_MHz_min");
  p.power_W_max = maybe_number(j, "power_W_max");
  p.temperature_C_max = maybe_number(j, "temperature_C_max");
  p.throttle = j.at("throttle").get<std::vector<std::string>>();
  return p;
}

Json json_of(const BaselineResult& b) {
  return {
      {"metric", b.metric},     {"direction", b.direction}, {"origin", b.origin},       {"value", b.value},
      {"measured", b.measured}, {"ratio", b.ratio},         {"min_ratio", b.min_ratio}, {"pass", b.pass}};
}

BaselineResult result_from(const Json& j) {
  BaselineResult b;
  b.metric = j.at("metric").get<std::string>();
  b.direction = j.at("direction").get<std::string>();
  b.origin = j.at("origin").get<std::string>();
  b.value = number(j, "value");
  b.measured = number(j, "measured");
  b.ratio = number(j, "ratio");
  b.min_ratio = number(j, "min_ratio");
  b.pass = j.at("pass").get<bool>();
  return b;
}

Json json_of(const RankFigures& r) {
  return {{"rank", r.rank},
          {"time_us", r.time_us},
          {"arrival_us", maybe(r.arrival_us)},
          {"delay_us", maybe(r.delay_us)}};
}

template <class T>
Json local_list_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& v : values) list.push_back(json_of(v));
  return list;
}

template <class T>
std::vector<T> list_from(const Json& list, T (*read)(const Json&)) {
  std::vector<T> values;
  for (const Json& j : list) values.push_back(read(j));
  return values;
}

RankFigures figures_from(const Json& j) {
  return {j.at("rank").get<int>(), number(j, "time_us"), maybe_number(j, "arrival_us"),
          maybe_number(j, "delay_us")};
}

Json json_of(const Slowest& s) {
  return {{"rank", s.rank}, {"ratio", s.ratio}, {"outlier", s.outlier}, {"reason", s.reason}};
}

Verdict verdict_from(const std::string& word) {
  for (Verdict v : {Verdict::pass, Verdict::fail, Verdict::wrong, Verdict::unknown, Verdict::skipped})
    if (word == word_of(v)) return v;
  throw EnvironmentError("row from another rank: unknown verdict '" + word + "'");
}

// ---- a row ----

}  // namespace

Json json_of(const Row& row) {
  Json j;
  j["key"] = row.key;
  j["group"] = row.group;
  j["size"] = maybe(row.size);
  j["params"] = Json::object();
  for (const auto& [name, value] : row.params) j["params"][name] = json_of(value);
  j["metrics"] = Json::object();
  for (const Metric& m : row.metrics) j["metrics"][m.name] = json_of(m.summary);
  j["main_metric"] = row.main_metric;
  j["limit"] = nullptr;
  if (row.limit)
    j["limit"] = {{"metric", row.limit->metric}, {"value", row.limit->value}, {"origin", row.limit->origin}};
  j["limit_ratio"] = maybe(row.limit_ratio);
  j["baseline"] = row.baseline ? json_of(*row.baseline) : Json(nullptr);
  j["ranks"] = local_list_of(row.ranks);
  j["slowest"] = row.slowest ? json_of(*row.slowest) : Json(nullptr);
  j["verification"] = json_of(row.check);
  j["telemetry"] = local_list_of(row.telemetry);
  j["series"] = local_list_of(row.series);
  if (!row.gates.empty()) j["gates"] = local_list_of(row.gates);
  for (const Curve& curve : row.curves) j["curves"][curve.name] = curve.values;
  j["notes"] = row.notes;
  j["comparable"] = row.comparable;
  j["verdict"] = word_of(row.verdict);
  j["reason"] = row.reason;
  j["start_s"] = row.start_s;
  j["end_s"] = row.end_s;
  return j;
}

namespace {

Row row_from(const Json& j) {
  Row row;
  row.key = j.at("key").get<std::string>();
  row.group = j.at("group").get<std::string>();
  if (!j.at("size").is_null()) row.size = j.at("size").get<int64_t>();
  for (const auto& [name, value] : j.at("params").items()) row.params.emplace_back(name, value_from(value));
  for (const auto& [name, value] : j.at("metrics").items())
    row.metrics.push_back({name, summary_from(value)});
  row.main_metric = j.at("main_metric").get<std::string>();
  if (const Json& l = j.at("limit"); !l.is_null())
    row.limit =
        Limit{l.at("metric").get<std::string>(), number(l, "value"), l.at("origin").get<std::string>()};
  row.limit_ratio = maybe_number(j, "limit_ratio");
  if (const Json& b = j.at("baseline"); !b.is_null()) row.baseline = result_from(b);
  row.ranks = list_from(j.at("ranks"), figures_from);
  if (const Json& s = j.at("slowest"); !s.is_null())
    row.slowest = Slowest{s.at("rank").get<int>(), number(s, "ratio"), s.at("outlier").get<bool>(),
                          s.at("reason").get<std::string>()};
  row.check = check_from(j.at("verification"));
  row.telemetry = list_from(j.at("telemetry"), telemetry_from);
  row.series = list_from(j.at("series"), point_from);
  if (const auto gates = j.find("gates"); gates != j.end()) row.gates = list_from(*gates, gate_from);
  if (const auto curves = j.find("curves"); curves != j.end())
    for (const auto& [name, values] : curves->items()) {
      Curve curve{name, {}};
      for (const Json& v : values)
        curve.values.push_back(v.is_null() ? std::numeric_limits<double>::quiet_NaN() : v.get<double>());
      row.curves.push_back(std::move(curve));
    }
  row.notes = j.at("notes").get<std::vector<std::string>>();
  row.comparable = j.at("comparable").get<bool>();
  row.verdict = verdict_from(j.at("verdict").get<std::string>());
  row.reason = j.at("reason").get<std::string>();
  row.start_s = number(j, "start_s");
  row.end_s = number(j, "end_s");
  return row;
}

// ---- a rank ----

Json json_of(const DeviceIdentity& d) {
  return {{"kind", d.kind},
          {"name", d.name},
          {"uuid", d.uuid},
          {"pci", d.pci},
          {"serial", d.serial},
          {"index", d.index},
          {"memory_bytes", d.memory_bytes},
          {"compute_units", d.compute_units},
          {"capability", d.capability}};
}

}  // namespace

Json json_of(const RankIdentity& r) {
  return {{"rank", r.rank}, {"local_rank", r.local_rank},  {"node", r.node}, {"pid", r.pid},
          {"host", r.host}, {"device", json_of(r.device)}, {"numa", r.numa}, {"cpuset", r.cpuset},
          {"nic", r.nic},   {"binding", r.binding}};
}

namespace {

RankIdentity identity_from(const Json& j) {
  RankIdentity r;
  r.rank = j.at("rank").get<int>();
  r.local_rank = j.at("local_rank").get<int>();
  r.node = j.at("node").get<int>();
  r.pid = j.at("pid").get<int64_t>();
  r.host = j.at("host").get<std::string>();
  const Json& d = j.at("device");
  r.device = {
      d.at("kind").get<std::string>(),     d.at("name").get<std::string>(),   d.at("uuid").get<std::string>(),
      d.at("pci").get<std::string>(),      d.at("serial").get<std::string>(), d.at("index").get<int>(),
      d.at("memory_bytes").get<int64_t>(), d.at("compute_units").get<int>(),  d.at("capability").get<int>()};
  r.numa = j.at("numa").get<std::string>();
  r.cpuset = j.at("cpuset").get<std::string>();
  r.nic = j.at("nic").get<std::string>();
  r.binding = j.at("binding").get<std::string>();
  return r;
}

// ---- text ----

template <class Read>
auto parse(const std::string& text, const char* what, Read read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& e) {
    throw EnvironmentError(std::string(what) + " from another rank cannot be read: " + e.what());
  }
}

}  // namespace

std::string to_text(const Row& row) {
  return dump(json_of(row));
}
Row row_from_text(const std::string& text) {
  return parse(text, "a row", row_from);
}

std::string to_text(const RankIdentity& identity) {
  return dump(json_of(identity));
}
RankIdentity identity_from_text(const std::string& text) {
  return parse(text, "an identity", identity_from);
}

std::string to_text(const std::vector<TelemetrySummary>& summaries) {
  return dump(local_list_of(summaries));
}
std::vector<TelemetrySummary> summaries_from_text(const std::string& text) {
  return parse(text, "telemetry", [](const Json& j) { return list_from(j, telemetry_from); });
}

std::string to_text(const std::vector<TelemetrySample>& series) {
  return dump(list_of(series));
}
std::vector<TelemetrySample> series_from_text(const std::string& text) {
  return parse(text, "telemetry", [](const Json& j) { return list_from(j, sample_from); });
}

}  // namespace tt

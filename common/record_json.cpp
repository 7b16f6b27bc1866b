// The record as a JSON document. docs/record.schema.json is its contract.
#include <cmath>

#include "common/json_forms.h"
#include "common/record_data.h"

namespace tt {
namespace {

Json object_of(const std::vector<std::pair<std::string, std::string>>& pairs) {
  Json j = Json::object();
  for (const auto& [name, value] : pairs) j[name] = value;
  return j;
}

/// Replaces non-finite numbers by null. Each is a fault of ours and is said, with its place.
void scrub(Json& j, const std::string& place, std::vector<std::string>& found) {
  if (j.is_number_float() && !std::isfinite(j.get<double>())) {
    j = nullptr;
    found.push_back("not a finite number: " + place);
  } else if (j.is_object()) {
    for (auto& [name, value] : j.items()) scrub(value, place + "/" + name, found);
  } else if (j.is_array()) {
    for (size_t i = 0; i < j.size(); ++i) scrub(j[i], place + "/" + std::to_string(i), found);
  }
}

Json culprit_of(const Record::Data& data) {
  if (!data.culprit) return nullptr;
  Json j{{"rank", *data.culprit}, {"host", nullptr}, {"device", nullptr}};
  for (const RankIdentity& r : data.ranks)
    if (r.rank == *data.culprit) {
      j["host"] = r.host;
      j["device"] = r.device.name;
    }
  return j;
}

}  // namespace

std::string verdict_of(const Record::Data& data) {
  if (!data.finished) return "incomplete";
  switch (data.code) {
    case ExitCode::pass:
      break;
    case ExitCode::gate:
      return "fail";
    case ExitCode::usage:
      return "usage";
    case ExitCode::environment:
      return "error";
    case ExitCode::wrong_data:
      return "wrong";
    case ExitCode::timeout:
      return "timeout";
    case ExitCode::skipped:
      return "skipped";
  }
  for (const Row& row : data.rows)
    if (row.verdict == Verdict::pass) return "pass";
  return data.rows.empty() ? "pass" : "unknown";
}

std::string json_text(const Record::Data& data) {
  Json j;
  j["record_version"] = kRecordVersion;
  j["tool"] = data.tool;
  j["version"] = TT_VERSION;
  j["start"] = data.start_utc;
  j["end"] = data.end_utc;
  j["command"] = data.command;
  j["settings"] = object_of(data.settings);
  j["world"] = {{"ranks", data.world_ranks}, {"nodes", data.world_nodes}, {"launcher", data.launcher}};
  j["ranks"] = list_of(data.ranks);
  j["versions"] = object_of(data.versions);
  j["environment"] = object_of(data.environment);
  j["injection"] = data.injection.empty() ? Json(nullptr) : Json(data.injection);
  j["rows"] = list_of(data.rows);
  j["telemetry"] = Json::array();
  for (const RankTelemetry& t : data.telemetry)
    j["telemetry"].push_back({{"rank", t.rank}, {"source", t.source}, {"samples", list_of(t.series)}});
  j["notes"] = data.notes;
  j["verdict"] = verdict_of(data);
  j["exit_code"] = static_cast<int>(data.finished ? data.code : ExitCode::environment);
  j["reason"] = data.reason;
  j["culprit"] = culprit_of(data);
  std::vector<std::string> found;
  scrub(j, "", found);
  for (std::string& place : found) j["notes"].push_back(std::move(place));
  return dump(j, 1) + "\n";
}

}  // namespace tt

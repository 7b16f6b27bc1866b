// JSON forms shared by wire.cpp and record_json.cpp. Includes nlohmann-json: for these two only.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/identity.h"
#include "common/row.h"
#include "common/telemetry.h"

namespace tt {

using Json = nlohmann::ordered_json;

Json json_of(const Row& row);
Json json_of(const RankIdentity& identity);
Json json_of(const TelemetrySample& sample);

template <class T>
Json list_of(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& v : values) list.push_back(json_of(v));
  return list;
}

/// Bytes that are not UTF-8 (a broken device name) become U+FFFD rather than an exception at the worst
/// moment.
std::string dump(const Json& j, int indent = -1);

}  // namespace tt

// JSON from outside: a broken text is a discarded value, and so is one nested so deeply that walking it would
// need a bottomless stack. Only for .cpp files.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tt::node {

inline nlohmann::json parse_json(const std::string& text) {
  constexpr int kDeepest = 32;
  bool deep = false;
  auto document = nlohmann::json::parse(
      text,
      [&deep](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
        deep = deep || depth > kDeepest;
        return !deep;  // what is too deep is not kept
      },
      false);
  return deep ? nlohmann::json(nlohmann::json::value_t::discarded) : document;
}

}  // namespace tt::node

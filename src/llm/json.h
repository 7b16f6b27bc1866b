// JSON files of the ecosystem, read strictly: duplicate keys and bottomless nesting are refused, and every
// error names file, field and value. Includes nlohmann-json: only for .cpp files.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/quote.h"

namespace tt {

/// A value as text inside a message: one line, never long.
inline std::string shown(const nlohmann::json& value) {
  const std::string text = value.dump();
  constexpr size_t kLongest = 100;
  return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

/// EnvironmentError naming `file` for what is no JSON, nested more than 32 deep, or an object with one key
/// twice.
template <class Text>
nlohmann::json parse_json_file(const Text& text, const std::string& file) {
  constexpr int kDeepest = 32;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (depth > kDeepest) throw EnvironmentError(file + ": JSON nested more than 32 deep");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && !keys.back().insert(value.template get<std::string>()).second)
      throw EnvironmentError(file + ": key " + in_quotes(value.template get<std::string>()) +
                             " is there twice");
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::parse_error& e) {
    throw EnvironmentError(file + ": not valid JSON at byte " + std::to_string(e.byte));
  } catch (const nlohmann::json::exception&) {  // a number beyond double
    throw EnvironmentError(file + ": not valid JSON: a number is out of range");
  }
}

/// The fields of one JSON object. A field that is null counts as absent.
class JsonFields {
 public:
  /// `prefix`: path to the object inside the file, "" or "rope_parameters.".
  JsonFields(const nlohmann::json& object, std::string file, std::string prefix = "")
      : object_(object), file_(std::move(file)), prefix_(std::move(prefix)) {
    if (!object.is_object())
      throw EnvironmentError(
          file_ + ": " +
          (prefix_.empty() ? "is" : "field " + in_quotes(prefix_.substr(0, prefix_.size() - 1)) + " is") +
          " not a JSON object");
  }
  /// "FILE: field "NAME" WHAT".
  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    throw EnvironmentError(file_ + ": field " + in_quotes(prefix_ + name) + " " + what);
  }
  const nlohmann::json* find(const std::string& name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  const nlohmann::json& at(const std::string& name) const {
    const nlohmann::json* value = find(name);
    if (!value) fail(name, "is missing");
    return *value;
  }
  const nlohmann::json& object() const { return object_; }
  const std::string& file() const { return file_; }

  int64_t integer(const std::string& name, int64_t min, int64_t max) const {
    const nlohmann::json& value = at(name);
    const bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    if (!fits || value.get<int64_t>() < min || value.get<int64_t>() > max)
      fail(name, "is " + shown(value) + ", not an integer from " + std::to_string(min) + " to " +
                     std::to_string(max));
    return value.get<int64_t>();
  }
  int64_t integer_or(const std::string& name, int64_t min, int64_t max, int64_t otherwise) const {
    return find(name) ? integer(name, min, max) : otherwise;
  }
  double number(const std::string& name) const {
    const nlohmann::json& value = at(name);
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      fail(name, "is " + shown(value) + ", not a number");
    return value.get<double>();
  }
  double number_or(const std::string& name, double otherwise) const {
    return find(name) ? number(name) : otherwise;
  }
  std::string text(const std::string& name) const {
    const nlohmann::json& value = at(name);
    if (!value.is_string()) fail(name, "is " + shown(value) + ", not a text");
    return value.get<std::string>();
  }
  std::string text_or(const std::string& name, const std::string& otherwise) const {
    return find(name) ? text(name) : otherwise;
  }
  bool flag_or(const std::string& name, bool otherwise) const {
    const nlohmann::json* value = find(name);
    if (!value) return otherwise;
    if (!value->is_boolean()) fail(name, "is " + shown(*value) + ", neither true nor false");
    return value->get<bool>();
  }
  /// The object of this name; it must be there.
  JsonFields fields(const std::string& name) const { return {at(name), file_, prefix_ + name + "."}; }

 private:
  const nlohmann::json& object_;
  std::string file_, prefix_;
};

}  // namespace tt

// Reads expectation files: TOML by toml++ where it was found at build time, JSON always.
#include <cmath>
#include <filesystem>

#if __has_include(<toml++/toml.h>)
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>
#define TT_HAVE_TOML 1
#endif

#include "common/error.h"
#include "src/node/catalogue.h"
#include "src/node/expectation.h"
#include "src/node/json.h"

namespace tt::node {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::string& file, const std::string& key, const std::string& what) {
  throw EnvironmentError(file + ": " + (key.empty() ? "" : printable(key, 60) + ": ") + what);
}

std::string shown(const json& value) {
  return printable(value.dump(-1, ' ', true, json::error_handler_t::replace), 60);
}

std::string one_choice(const json& value, const std::string& file, const std::string& key) {
  if (value.is_string() && !trimmed(value.get_ref<const std::string&>()).empty())
    return std::string(trimmed(value.get_ref<const std::string&>()));
  if (value.is_number_unsigned()) return std::to_string(value.get<uint64_t>());
  if (value.is_number_integer()) return std::to_string(value.get<int64_t>());
  if (value.is_number_float() && std::abs(value.get<double>()) < 1e15)
    return number_text(value.get<double>(), 6);
  refuse(file, key, shown(value) + " is not a text, a number or a list of them");
}

void flatten(const json& table, const std::string& prefix, const std::string& file,
             std::vector<Expectation>& list) {
  for (const auto& [name, value] : table.items()) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    if (value.is_object()) {
      flatten(value, key, file, list);
      continue;
    }
    if (!find_entry(key))
      refuse(file, key,
             "no check has this id; the nearest is " + std::string(nearest_id(key.substr(0, 60))) +
                 " (--list shows all)");
    Expectation e{key, {}, file};
    if (!value.is_array())
      e.choices.push_back(one_choice(value, file, key));
    else
      for (const json& choice : value) e.choices.push_back(one_choice(choice, file, key));
    if (e.choices.empty()) refuse(file, key, "the list is empty");
    list.push_back(std::move(e));
  }
}

std::vector<Expectation> from_document(const json& document, const std::string& file) {
  std::vector<Expectation> list;
  if (!document.is_object()) refuse(file, "", "not a table of expectations");
  flatten(document, "", file, list);
  if (list.empty()) refuse(file, "", "holds no expectation");
  return list;
}

#ifdef TT_HAVE_TOML
json to_json(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    json object = json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = to_json(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    json list = json::array();
    for (const auto& value : *array) list.push_back(to_json(value));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return number->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  return nullptr;  // dates and times: refused by one_choice
}
#endif

}  // namespace

std::vector<Expectation> parse_expectations_json(const std::string& text, const std::string& file) {
  const json document = parse_json(text);
  if (document.is_discarded()) refuse(file, "", "not JSON");
  return from_document(document, file);
}

std::vector<Expectation> parse_expectations_toml(const std::string& text, const std::string& file) {
#ifdef TT_HAVE_TOML
  try {
    return from_document(to_json(toml::parse(text)), file);
  } catch (const toml::parse_error& e) {
    refuse(file, "", "line " + std::to_string(e.source().begin.line) + ": " + printable(e.description()));
  }
#else
  (void)text;
  refuse(file, "", "built without toml++, so only JSON can be read (FILE.json); `make deps` installs it");
#endif
}

std::vector<Expectation> parse_expectations(const std::string& text, const std::string& file) {
  return file.ends_with(".json") ? parse_expectations_json(text, file) : parse_expectations_toml(text, file);
}

std::string expectation_text(const std::string& file) {
  const Text text = Sysroot().text(std::filesystem::absolute(file));
  if (!text) refuse(file, "", "cannot be read: " + text.why.substr(text.why.rfind(": ") + 2));
  return *text;
}

}  // namespace tt::node

#include "src/llm/peft_targets.h"

#include <algorithm>
#include <regex>

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

std::regex::flag_type grammar() {
#ifdef __GLIBCXX__
  // Without backtracking, so that no expression takes time exponential in the text.
  return std::regex::ECMAScript | std::regex_constants::__polynomial;
#else
  return std::regex::ECMAScript;
#endif
}

/// The length of the expression with each {m,n} written out, more or less: what it costs to match it.
int64_t written_out(std::string_view expression) {
  int64_t length = static_cast<int64_t>(expression.size());
  int64_t largest = 0, number = 0;
  bool inside = false;
  for (const char c : expression) {
    if (c == '{') {
      inside = true;
      largest = number = 0;
    } else if (inside && c >= '0' && c <= '9') {
      number = std::min<int64_t>(Pattern::kLongest, number * 10 + (c - '0'));
      largest = std::max(largest, number);
    } else if (c == ',') {
      number = 0;
    } else if (inside && c == '}') {
      length = std::min(length * std::max<int64_t>(1, largest), 2 * Pattern::kLongest);
      inside = false;
    }
  }
  return length;
}

/// Python and ECMAScript give these escapes of letters the same meaning; the standard library takes others
/// for the letter itself.
bool has_other_escapes(std::string_view expression) {
  constexpr std::string_view kSame = "dDwWsSbBtnrfv";
  for (size_t i = 0; i + 1 < expression.size(); ++i) {
    if (expression[i] != '\\') continue;
    const char c = expression[++i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter && kSame.find(c) == std::string_view::npos) return true;
  }
  return false;
}

bool is_plain(std::string_view key) {
  return std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

/// The module of this path, or one whose path ends in ".NAME".
bool name_means(std::string_view name, std::string_view path) {
  return path == name ||
         (path.size() > name.size() && path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

}  // namespace

struct Pattern::Compiled {
  std::regex regex;
};

Pattern::Pattern(std::string_view expression, std::string where) : where_(std::move(where)) {
  if (written_out(expression) > kLongest)
    throw EnvironmentError(where_ + ": regular expression " + in_quotes(expression) +
                           " is too long or repeats too often; accepted: " + std::to_string(kLongest) +
                           " characters, repetitions written out");
  const auto fail = [&](const std::string& why) {
    throw EnvironmentError(where_ + ": regular expression " + in_quotes(expression) +
                           " is malformed or not implemented: " + why);
  };
  if (has_other_escapes(expression)) fail("an escaped letter other than d D w W s S b B t n r f v");
  try {
    compiled_ = std::make_unique<Compiled>(
        Compiled{std::regex(expression.data(), expression.data() + expression.size(), grammar())});
  } catch (const std::regex_error& e) {
    fail(e.what());
  }
}

Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;

bool Pattern::matches(const std::string& path) const {
  try {
    return std::regex_match(path, compiled_->regex);
  } catch (const std::regex_error& e) {
    throw EnvironmentError(where_ + ": the regular expression cannot be matched: " + e.what());
  }
}

PatternKey::PatternKey(std::string key, const std::string& where) : key_(std::move(key)) {
  if (!is_plain(key_)) pattern_.emplace("(.*\\.)?(" + key_ + ")$", where);
}

bool PatternKey::matches(const std::string& path) const {
  if (pattern_) return pattern_->matches(path);
  if (path.size() < key_.size()) return false;
  const size_t start = path.size() - key_.size();
  if (start > 0 && path[start - 1] != '.') return false;
  for (size_t i = 0; i < key_.size(); ++i)  // a dot is any character
    if (key_[i] != '.' && key_[i] != path[start + i]) return false;
  return true;
}

bool ModuleSelection::matches(const std::string& path) const {
  if (pattern_) return pattern_->matches(path);
  return std::any_of(names_.begin(), names_.end(),
                     [&](const std::string& name) { return name_means(name, path); });
}

bool ModuleSelection::names(const std::string& path) const {
  return std::find(names_.begin(), names_.end(), path) != names_.end();
}

std::vector<std::string> ModuleSelection::names_without(const std::vector<std::string>& paths) const {
  std::vector<std::string> names;
  for (const std::string& name : names_)
    if (std::none_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return name_means(name, path); }))
      names.push_back(name);
  return names;
}

}  // namespace tt

// Which modules PEFT's settings mean: target_modules, exclude_modules, rank_pattern, alpha_pattern. Modules
// go by their path in transformers' LlamaForCausalLM, such as "model.layers.3.self_attn.q_proj".
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tt {

/// A regular expression from a file, matched in time polynomial in its length.
class Pattern {
 public:
  /// `where` names file and field in errors: EnvironmentError when the expression is malformed, too long
  /// (kLongest; each repetition {m,n} counts n times), or not known to ECMAScript's grammar.
  Pattern(std::string_view expression, std::string where);
  ~Pattern();
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  /// The whole text, as Python's re.fullmatch.
  bool matches(const std::string& path) const;

  static constexpr int64_t kLongest = 2048;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::string where_;
};

/// A key of rank_pattern or alpha_pattern: Python's re.match(rf"(.*\.)?({key})$", path).
class PatternKey {
 public:
  PatternKey(std::string key, const std::string& where);
  const std::string& key() const { return key_; }
  bool matches(const std::string& path) const;

 private:
  std::string key_;
  std::optional<Pattern> pattern_;  // nothing: a name, of which only the dots mean something
};

/// A list of names, each meaning the module of that path and all whose path ends in ".NAME"; or one regular
/// expression for whole paths.
class ModuleSelection {
 public:
  explicit ModuleSelection(std::vector<std::string> names) : names_(std::move(names)) {}
  explicit ModuleSelection(Pattern pattern) : pattern_(std::move(pattern)) {}
  bool matches(const std::string& path) const;
  /// The path itself is in the list.
  bool names(const std::string& path) const;
  /// Those that mean none of the modules.
  std::vector<std::string> names_without(const std::vector<std::string>& paths) const;

 private:
  std::vector<std::string> names_;
  std::optional<Pattern> pattern_;
};

}  // namespace tt

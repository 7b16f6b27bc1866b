#include "common/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <exception>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/quote.h"
#include "common/size.h"

namespace tt {
namespace {

using Texts = std::vector<std::string>;

Texts split(std::string_view text, char separator) {
  Texts parts;
  for (size_t start = 0;;) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    if (end == text.size()) return parts;
    start = end + 1;
  }
}

std::string join(const Texts& parts, std::string_view separator) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += separator;
    out += part;
  }
  return out;
}

[[noreturn]] void refuse(const std::string& label, std::string_view text, const std::string& why,
                         const std::string& accepted) {
  throw UsageError(label + ": " + in_quotes(text) + " " + why + "; accepted: " + accepted);
}

/// The whole text as a number within the limits, whatever the locale.
template <class Number>
Number parse_number(const std::string& label, std::string_view text, Number min, Number max) {
  constexpr bool kWhole = std::is_integral_v<Number>;
  const std::string accepted =
      fmt::format("a {} from {} to {}", kWhole ? "whole number" : "number", min, max);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) refuse(label, text, "is out of range", accepted);
  if (error != std::errc{} || end != text.data() + text.size())
    refuse(label, text, kWhole ? "is not a whole number" : "is not a number", accepted);
  if (!(value >= min && value <= max)) refuse(label, text, "is out of range", accepted);  // NaN too
  return value;
}

void require_choice(const std::string& label, const std::string& text, const Texts& accepted) {
  if (std::find(accepted.begin(), accepted.end(), text) == accepted.end())
    refuse(label, text, "is unknown", join(accepted, ", "));
}

/// Single-character changes between two words (Levenshtein 1966).
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// Breaks text into lines of at most `width` at blanks; longer words stay whole.
Texts wrap(const std::string& text, size_t width) {
  Texts lines;
  for (const std::string& word : split(text, ' ')) {
    if (!lines.empty() && lines.back().size() + 1 + word.size() <= width)
      (lines.back() += ' ') += word;
    else
      lines.push_back(word);
  }
  return lines;
}

struct Entry {
  CLI::Option* option = nullptr;
  Texts names;              // "-b", "--minbytes"
  std::string label;        // "-b/--minbytes"
  std::string placeholder;  // "SIZE"; empty for a flag
  std::string help, shown_default, group;
  bool list = false;                      // may be given more than once
  std::function<void(const Texts&)> set;  // with what was given, at least one text
  std::function<std::string()> value;     // as it is now

  std::string long_name() const {
    for (const std::string& name : names)
      if (name.starts_with("--")) return name.substr(2);
    return names.front().substr(1);
  }
};

}  // namespace

// CLI11 finds options and their values on the command line; what a value means and how it is refused is
// decided here, so that every version of CLI11 gives the same words.
struct OptionSet::Impl {
  Impl(const std::string& tool, const std::string& description)
      : tool(tool), description(description), app(description, tool) {
    app.set_help_flag();
    app.allow_extras();
    help_flag = app.add_flag("-h,--help");
    version_flag = app.add_flag("--version");
  }

  Entry& add(const std::string& names, const std::string& placeholder, const std::string& help,
             std::function<void(const Texts&)> set, std::function<std::string()> value, bool list = false) {
    Entry e;
    e.names = split(names, ',');
    e.label = join(e.names, "/");
    e.placeholder = placeholder;
    e.help = help;
    e.shown_default = value();
    e.group = group;
    e.list = list;
    e.set = std::move(set);
    e.value = std::move(value);
    e.option = placeholder.empty() ? app.add_flag(names)->disable_flag_override()
                                   : app.add_option(names, [](const CLI::results_t&) { return true; });
    // All of them are kept, so that a repetition is refused here and not dropped there.
    e.option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    entries.push_back(std::move(e));
    return entries.back();
  }

  /// An option with exactly one value.
  Entry& add_single(const std::string& names, const std::string& placeholder, const std::string& help,
                    std::function<void(const std::string& label, const std::string&)> set,
                    std::function<std::string()> value) {
    const std::string label = join(split(names, ','), "/");
    return add(
        names, placeholder, help,
        [set = std::move(set), label](const Texts& given) { set(label, given.front()); }, std::move(value));
  }

  const Entry* find(std::string_view name) const {
    for (const Entry& e : entries)
      if (std::find(e.names.begin(), e.names.end(), name) != e.names.end()) return &e;
    return nullptr;
  }

  void check_spelling(const Texts& arguments) const;
  void run_cli(const Texts& arguments);
  void check_extras() const;
  void check_values(const Entry& e) const;
  void apply(const Entry& e) const;
  void take_values() const;
  void print_group(std::string& out, const std::string& title) const;

  std::string tool, description, group;
  CLI::App app;
  CLI::Option *help_flag = nullptr, *version_flag = nullptr;
  std::vector<Entry> entries;
  Texts groups;
};

/// Spellings that CLI11 takes for something else: "--json=" (it would take the next argument), "--list=0".
void OptionSet::Impl::check_spelling(const Texts& arguments) const {
  for (const std::string& a : arguments) {
    const size_t equals = a.find('=');
    const Entry* e =
        equals == std::string::npos || !a.starts_with("--") ? nullptr : find(a.substr(0, equals));
    if (e != nullptr && e->placeholder.empty()) refuse(e->label, a, "gives it a value", e->label + " alone");
    if (e != nullptr && equals + 1 == a.size())
      refuse(e->label, a, "has nothing behind the =", e->placeholder);
  }
}

void OptionSet::Impl::run_cli(const Texts& arguments) {
  try {
    app.parse(Texts(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // "--name: 1 required TEXT missing": only for the last argument, which is then the option itself.
    const std::string text = mismatch.what();
    if (const Entry* e = find(text.substr(0, text.find(':'))))
      throw UsageError(e->label + ": needs a value; accepted: " + e->placeholder);
    throw UsageError(join(split(text, '\n'), " "));
  } catch (const CLI::ParseError& error) {
    throw UsageError(join(split(error.what(), '\n'), " "));
  }
}

/// Words that CLI11 could not place.
void OptionSet::Impl::check_extras() const {
  const Texts extras = app.remaining();
  if (extras.empty()) return;
  const std::string& word = extras.front();
  if (word.size() < 2 || word[0] != '-')
    throw UsageError(in_quotes(word) + " is not expected here; accepted: options only, see --help");
  const std::string name = word.substr(0, word.find('='));
  std::string close;
  size_t best = 3;  // more changes than two make another word
  for (const Entry& e : entries)
    for (const std::string& known : e.names)
      if (const size_t d = distance(name, known); known.size() > 3 && d < best) {
        best = d;
        close = known;
      }
  throw UsageError("unknown option " + in_quotes(name) + "; accepted: " +
                   (close.empty() ? "those that --help lists" : close + " (--help lists all)"));
}

/// "-b -e 64": the second option was taken for the first one's value.
void OptionSet::Impl::check_values(const Entry& e) const {
  if (e.placeholder.empty()) return;
  for (const std::string& text : e.option->results())
    if (text.size() > 1 && find(text.substr(0, text.find('='))))
      refuse(e.label, text, "is an option, not its value", e.placeholder);
}

void OptionSet::Impl::apply(const Entry& e) const {
  const Texts& given = e.option->results();
  if (given.empty()) return;
  if (given.size() > 1 && !e.list)
    throw UsageError(e.label + ": given " + std::to_string(given.size()) + " times; accepted: once");
  e.set(given);
}

/// Good values are taken even when others are refused: where --json was given, the record can say what was
/// wrong.
void OptionSet::Impl::take_values() const {
  std::exception_ptr first;
  const auto attempt = [&first](const auto& action) {
    try {
      action();
    } catch (const UsageError&) {
      if (!first) first = std::current_exception();
    }
  };
  for (const Entry& e : entries) attempt([&] { check_values(e); });
  attempt([&] { check_extras(); });
  for (const Entry& e : entries) attempt([&] { apply(e); });
  if (first) std::rethrow_exception(first);
}

void OptionSet::Impl::print_group(std::string& out, const std::string& title) const {
  constexpr size_t kLeft = 30, kWidth = 100;
  out += "\n" + (title.empty() ? std::string("Options") : title) + ":\n";
  for (const Entry& e : entries) {
    if (e.group != title) continue;
    std::string left = "  " + join(e.names, ", ");
    if (!e.placeholder.empty()) left += " " + e.placeholder;
    std::string text = e.help;
    if (!e.placeholder.empty() && !e.shown_default.empty()) text += " [" + e.shown_default + "]";
    const Texts lines = wrap(text, kWidth - kLeft);
    if (left.size() + 2 > kLeft) {
      out += left + "\n";
      left.clear();
    }
    for (const std::string& line : lines) {
      out += fmt::format("{:<{}}{}\n", left, kLeft, line);
      left.clear();
    }
  }
}

OptionSet::OptionSet(const std::string& tool, const std::string& description)
    : impl_(std::make_unique<Impl>(tool, description)) {}
OptionSet::~OptionSet() = default;

void OptionSet::add_size(const std::string& names, int64_t& value, const std::string& help, int64_t min) {
  impl_->add_single(
      names, "SIZE", help,
      [&value, min](const std::string& label, const std::string& text) {
        const int64_t size = parse_size(label, text);
        if (size < min) refuse(label, text, "is too small", "a size of at least " + format_size(min));
        value = size;
      },
      [&value] { return format_size(value); });
}

namespace {
template <class Number, class Limit>
void add_number(auto& impl, const std::string& names, const std::string& placeholder, Number& value,
                const std::string& help, Limit min, Limit max) {
  impl.add_single(
      names, placeholder, help,
      [&value, min, max](const std::string& label, const std::string& text) {
        value = static_cast<Number>(parse_number<Limit>(label, text, min, max));
      },
      [&value] { return fmt::format("{}", value); });
}

template <class Number>
void add_optional(auto& impl, const std::string& names, const std::string& placeholder,
                  std::optional<Number>& value, const std::string& help, Number min, Number max) {
  impl.add_single(
      names, placeholder, help,
      [&value, min, max](const std::string& label, const std::string& text) {
        value = parse_number<Number>(label, text, min, max);
      },
      [&value] { return value ? fmt::format("{}", *value) : std::string(); });
}

/// An int's range, whatever limits were asked for.
int64_t clamp_to_int(int64_t limit) {
  return std::clamp<int64_t>(limit, std::numeric_limits<int>::min(), std::numeric_limits<int>::max());
}
}  // namespace

void OptionSet::add_int(const std::string& names, int& value, const std::string& help, int64_t min,
                        int64_t max, const std::string& placeholder) {
  add_number(*impl_, names, placeholder, value, help, clamp_to_int(min), clamp_to_int(max));
}

void OptionSet::add_int(const std::string& names, int64_t& value, const std::string& help, int64_t min,
                        int64_t max, const std::string& placeholder) {
  add_number(*impl_, names, placeholder, value, help, min, max);
}

void OptionSet::add_double(const std::string& names, double& value, const std::string& help, double min,
                           double max, const std::string& placeholder) {
  add_number(*impl_, names, placeholder, value, help, min, max);
}

void OptionSet::add_int(const std::string& names, std::optional<int64_t>& value, const std::string& help,
                        int64_t min, int64_t max, const std::string& placeholder) {
  add_optional(*impl_, names, placeholder, value, help, min, max);
}

void OptionSet::add_double(const std::string& names, std::optional<double>& value, const std::string& help,
                           double min, double max, const std::string& placeholder) {
  add_optional(*impl_, names, placeholder, value, help, min, max);
}

void OptionSet::add_bool(const std::string& names, bool& value, const std::string& help) {
  impl_->add_single(
      names, "0|1", help,
      [&value](const std::string& label, const std::string& text) {
        if (text != "0" && text != "1") refuse(label, text, "is neither 0 nor 1", "0 or 1");
        value = text == "1";
      },
      [&value] { return std::string(value ? "1" : "0"); });
}

void OptionSet::add_flag(const std::string& names, bool& value, const std::string& help) {
  impl_->add(
      names, "", help, [&value](const Texts&) { value = true; },
      [&value] { return std::string(value ? "1" : "0"); });
}

void OptionSet::add_text(const std::string& names, std::string& value, const std::string& help,
                         const std::string& placeholder) {
  impl_->add_single(
      names, placeholder, help,
      [&value](const std::string& label, const std::string& text) {
        if (text.empty()) refuse(label, text, "is empty", "any other text");
        value = text;
      },
      [&value] { return value; });
}

void OptionSet::add_texts(const std::string& names, std::vector<std::string>& values, const std::string& help,
                          const std::string& placeholder) {
  impl_->add(
      names, placeholder, help, [&values](const Texts& given) { values = given; },
      [&values] { return join(values, " "); }, true);
}

void OptionSet::add_choice(const std::string& names, std::string& value,
                           const std::vector<std::string>& accepted, const std::string& help) {
  impl_->add_single(
      names, join(accepted, "|"), help,
      [&value, accepted](const std::string& label, const std::string& text) {
        require_choice(label, text, accepted);
        value = text;
      },
      [&value] { return value; });
}

namespace {
/// The parts of comma-separated lists, none of them empty or there twice: it would be measured twice under
/// one key.
Texts list_of(const std::string& label, const Texts& given, const std::string& accepted) {
  Texts all;
  for (const std::string& text : given)
    for (const std::string& part : split(text, ',')) {
      if (part.empty()) refuse(label, text, "has an empty entry", accepted);
      if (std::find(all.begin(), all.end(), part) != all.end())
        refuse(label, text, "names " + in_quotes(part) + " twice", accepted);
      all.push_back(part);
    }
  return all;
}
}  // namespace

void OptionSet::add_choices(const std::string& names, std::vector<std::string>& values,
                            const std::vector<std::string>& accepted, const std::string& help, bool all) {
  const std::string label = join(split(names, ','), "/");
  const std::string words =
      accepted.empty() ? "a comma-separated list"
                       : "a comma-separated list of " + join(accepted, ", ") + (all ? ", or all" : "");
  impl_->add(
      names, "LIST", accepted.empty() ? help : help + " (" + join(accepted, ", ") + (all ? ", all)" : ")"),
      [&values, accepted, all, label, words](const Texts& given) {
        Texts list = list_of(label, given, words);
        if (all && list == Texts{"all"}) list = accepted;
        for (const std::string& text : list)
          if (!accepted.empty() && std::find(accepted.begin(), accepted.end(), text) == accepted.end())
            refuse(label, text, "is unknown", words);
        values = std::move(list);
      },
      [&values] { return join(values, ","); }, true);
}

void OptionSet::add_ints(const std::string& names, std::vector<int>& values, const std::string& help,
                         int64_t min, int64_t max) {
  const std::string label = join(split(names, ','), "/");
  min = clamp_to_int(min);
  max = clamp_to_int(max);
  impl_->add(
      names, "N,N,...", help,
      [&values, label, min, max](const Texts& given) {
        const std::string accepted =
            fmt::format("a comma-separated list of whole numbers from {} to {}", min, max);
        std::vector<int> list;
        for (const std::string& text : list_of(label, given, accepted)) {
          const int number = static_cast<int>(parse_number<int64_t>(label, text, min, max));
          // "1" and "01" are one number.
          if (std::find(list.begin(), list.end(), number) != list.end())
            refuse(label, text, "is there twice", accepted);
          list.push_back(number);
        }
        values = std::move(list);
      },
      [&values] { return fmt::format("{}", fmt::join(values, ",")); }, true);
}

void OptionSet::add_custom(const std::string& names, std::function<void(const std::string&)> parse,
                           const std::string& text, const std::string& help) {
  auto shown = std::make_shared<std::string>(text);
  impl_->add_single(
      names, "VALUE", help,
      [parse = std::move(parse), shown](const std::string&, const std::string& given) {
        parse(given);
        *shown = given;
      },
      [shown] { return *shown; });
}

void OptionSet::heading(const std::string& title) {
  impl_->group = title;
}

OptionSet::Outcome OptionSet::parse(int argc, const char* const* argv) {
  const Texts arguments(argv + std::min(argc, 1), argv + argc);
  impl_->check_spelling(arguments);
  impl_->run_cli(arguments);
  // Before anything else is refused: who asks for help may well have got something wrong.
  if (impl_->help_flag->count() > 0) return Outcome::help;
  if (impl_->version_flag->count() > 0) return Outcome::version;
  impl_->take_values();
  return Outcome::run;
}

std::string OptionSet::help() const {
  std::string out = impl_->tool + ": " + impl_->description + "\nUsage: " + impl_->tool + " [options]\n" +
                    "Sizes take a suffix K, M, G or T (powers of 1024). Defaults are in brackets.\n";
  Texts titles;  // in the order of their first option
  for (const Entry& e : impl_->entries)
    if (std::find(titles.begin(), titles.end(), e.group) == titles.end()) titles.push_back(e.group);
  for (const std::string& title : titles) impl_->print_group(out, title);
  return out + "\n" +
         fmt::format("{:<30}{}\n{:<30}{}\n", "  -h, --help", "this text", "  --version", "the version");
}

std::vector<std::pair<std::string, std::string>> OptionSet::settings() const {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Entry& e : impl_->entries) all.emplace_back(e.long_name(), e.value());
  return all;
}

}  // namespace tt

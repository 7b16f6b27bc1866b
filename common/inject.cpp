#include "common/inject.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

constexpr const char* kForms =
    "slow:rank=R[,factor=F], corrupt:rank=R[,iteration=I], hang:rank=R[,iteration=I|,phase=P], "
    "die:rank=R[,iteration=I|,phase=P]";

/// One fault's text, taken apart; every complaint names the whole text.
class FaultParser {
 public:
  explicit FaultParser(std::string_view text) : text_(text) {}

  Fault parse() {
    for (char c : text_)  // it is printed as a header line: no line breaks
      if (static_cast<unsigned char>(c) < 0x20) refuse("has a control character");
    const size_t colon = text_.find(':');
    fault_.kind = kind(text_.substr(0, colon));
    if (colon == std::string_view::npos) refuse("names no rank");
    for (std::string_view rest = text_.substr(colon + 1);;) {
      const size_t comma = rest.find(',');
      pair(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    if (!seen_.contains("rank")) refuse("names no rank");
    if (seen_.contains("phase") && seen_.contains("iteration")) refuse("has both a phase and an iteration");
    return fault_;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw UsageError("--inject: " + in_quotes(text_) + " " + why + "; accepted: " + kForms);
  }

  FaultKind kind(std::string_view name) const {
    if (name == "slow") return FaultKind::slow;
    if (name == "corrupt") return FaultKind::corrupt;
    if (name == "hang") return FaultKind::hang;
    if (name == "die") return FaultKind::die;
    refuse("has an unknown kind " + in_quotes(name));
  }

  bool takes(std::string_view key) const {
    const bool stops = fault_.kind == FaultKind::hang || fault_.kind == FaultKind::die;
    return key == "rank" || (key == "factor" && fault_.kind == FaultKind::slow) ||
           (key == "iteration" && fault_.kind != FaultKind::slow) || (key == "phase" && stops);
  }

  void pair(std::string_view item) {
    const size_t equals = item.find('=');
    const std::string key(item.substr(0, equals));
    if (!takes(key)) refuse("has a key that this kind does not take: " + in_quotes(key));
    if (equals == std::string_view::npos) refuse("gives no value for " + in_quotes(key));
    if (!seen_.insert(key).second) refuse("gives " + in_quotes(key) + " more than once");
    const std::string_view value = item.substr(equals + 1);
    if (key == "rank")
      fault_.rank = number<int>(key, value);
    else if (key == "iteration")
      fault_.iteration = number<int64_t>(key, value);
    else if (key == "factor")
      fault_.factor = factor(value);
    else if ((fault_.phase = value).empty())
      refuse("has an empty phase");
  }

  template <class Number>
  Number number(const std::string& key, std::string_view value) const {
    Number result{};
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc{} || end != value.data() + value.size() || result < 0)
      refuse("has a " + key + " that is not a whole number from 0 to " +
             std::to_string(std::numeric_limits<Number>::max()) + ": " + in_quotes(value));
    return result;
  }

  double factor(std::string_view value) const {
    double result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(result) || !(result > 1))
      refuse("has a factor that is not a number above 1: " + in_quotes(value));
    return result;
  }

  std::string_view text_;
  Fault fault_;
  std::set<std::string, std::less<>> seen_;
};

}  // namespace

Injection Injection::parse(const std::vector<std::string>& texts) {
  Injection all;
  for (const std::string& text : texts) {
    const Fault fault = FaultParser(text).parse();
    if (all.find(fault.kind, fault.rank))
      throw UsageError("--inject: " + in_quotes(text) + " repeats a kind for rank " +
                       std::to_string(fault.rank) + "; accepted: at most one fault of each kind per rank");
    all.faults_.push_back(fault);
    (all.text_ += all.text_.empty() ? "" : " ") += text;
  }
  return all;
}

std::optional<Fault> Injection::find(FaultKind kind, int rank) const {
  for (const Fault& fault : faults_)
    if (fault.kind == kind && fault.rank == rank) return fault;
  return std::nullopt;
}

void Injection::check_ranks(int ranks) const {
  for (const Fault& fault : faults_)
    if (fault.rank >= ranks)
      throw UsageError("--inject: rank " + std::to_string(fault.rank) + " does not exist; accepted: 0 to " +
                       std::to_string(ranks - 1) + " (this run has " + std::to_string(ranks) + " rank(s))");
}

}  // namespace tt

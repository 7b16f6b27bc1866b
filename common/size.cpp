#include "common/size.h"

#include <charconv>
#include <limits>
#include <system_error>

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

constexpr std::string_view kSuffixes = "KMGT";  // 1024^1 … 1024^4
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

/// Bits to shift by for a suffix; -1 when it is none.
int shift_of(char suffix) noexcept {
  const char upper = suffix >= 'a' && suffix <= 'z' ? static_cast<char>(suffix - 'a' + 'A') : suffix;
  const size_t at = kSuffixes.find(upper);
  return at == std::string_view::npos ? -1 : 10 * static_cast<int>(at + 1);
}

[[noreturn]] void refuse(std::string_view option, std::string_view text, const std::string& why) {
  throw UsageError(std::string(option) + ": " + in_quotes(text) + " " + why +
                   "; accepted: digits and at most one suffix K, M, G or T (1024, 1024^2, ...), below 2^63");
}

}  // namespace

int64_t parse_size(std::string_view option, std::string_view text) {
  if (text.empty()) refuse(option, text, "is not a size");
  uint64_t value = 0;
  // from_chars takes neither blanks nor a plus, and for unsigned types no minus either.
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument)
    refuse(option, text, text.front() == '-' ? "is negative" : "is not a size");
  if (error == std::errc::result_out_of_range) refuse(option, text, "is too large");
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  int shift = 0;
  if (!suffix.empty()) {
    shift = shift_of(suffix.front());
    if (shift < 0) refuse(option, text, "has an unknown suffix " + in_quotes(suffix));
    if (suffix.size() > 1) refuse(option, text, "has text after the suffix: " + in_quotes(suffix.substr(1)));
  }
  if (value > static_cast<uint64_t>(kMax) >> shift) refuse(option, text, "is too large");
  return static_cast<int64_t>(value << shift);
}

std::string format_size(int64_t bytes) {
  size_t power = 0;
  while (bytes != 0 && bytes % 1024 == 0 && power < kSuffixes.size()) {
    bytes /= 1024;
    ++power;
  }
  return std::to_string(bytes) + (power == 0 ? "" : std::string(1, kSuffixes[power - 1]));
}

}  // namespace tt

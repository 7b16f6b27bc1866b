// Sizes with K/M/G/T suffixes (powers of 1024), one parser for every size option.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tt {

/// "8", "64K", "4G" -> bytes (or elements). Digits, then at most one suffix of k K m M g G t T; nothing else.
/// Throws UsageError naming `option` and the text for an empty or negative value, another suffix, text behind the
/// suffix, and a value of 2^63 or more (which would wrap).
int64_t parse_size(std::string_view option, std::string_view text);

/// 65536 -> "64K", 67584 -> "66K", 1000 -> "1000": exact, never rounded; parse_size reads it back.
std::string format_size(int64_t bytes);

}  // namespace tt

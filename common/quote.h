// Text from outside inside a message: always one line, never long.
#pragma once

#include <string>
#include <string_view>

namespace tt {

/// "text" in double quotes; control characters, quotes and backslashes escaped, cut after 100 characters.
inline std::string in_quotes(std::string_view text) {
  constexpr size_t kLongest = 100;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (byte < 0x20 || byte == 0x7f)
      ((out += "\\x") += kHex[byte >> 4]) += kHex[byte & 15];
    else
      out += c;
  }
  return out + (text.size() > kLongest ? "...\"" : "\"");
}

}  // namespace tt

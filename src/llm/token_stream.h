// A long row of token ids, as files hold them.
#pragma once

#include <cstdint>
#include <string>

namespace tt {

/// How a token id is stored, little-endian.
enum class TokenType { u8, i8, i16, i32, i64, u16, u32 };
int64_t bytes_of(TokenType type) noexcept;
/// `count` ids from bytes of any alignment.
void widen(const char* from, TokenType type, int64_t count, int64_t* to) noexcept;

class TokenStream {
 public:
  virtual ~TokenStream() = default;
  /// The file that errors name.
  virtual const std::string& path() const = 0;
  virtual int64_t tokens() const = 0;
  /// Tokens first … first + count - 1; all of them are there.
  virtual void read(int64_t first, int64_t count, int64_t* to) const = 0;
};

}  // namespace tt

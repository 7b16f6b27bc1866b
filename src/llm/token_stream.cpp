#include "src/llm/token_stream.h"

#include <cstring>

namespace tt {
namespace {

template <class T>
void widen_as(const char* from, int64_t count, int64_t* to) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    to[i] = static_cast<int64_t>(value);
  }
}

}  // namespace

int64_t bytes_of(TokenType type) noexcept {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::i16:
    case TokenType::u16:
      return 2;
    case TokenType::i32:
    case TokenType::u32:
      return 4;
    case TokenType::i64:
      break;
  }
  return 8;
}

void widen(const char* from, TokenType type, int64_t count, int64_t* to) noexcept {
  switch (type) {
    case TokenType::u8:
      return widen_as<uint8_t>(from, count, to);
    case TokenType::i8:
      return widen_as<int8_t>(from, count, to);
    case TokenType::i16:
      return widen_as<int16_t>(from, count, to);
    case TokenType::i32:
      return widen_as<int32_t>(from, count, to);
    case TokenType::i64:
      return widen_as<int64_t>(from, count, to);
    case TokenType::u16:
      return widen_as<uint16_t>(from, count, to);
    case TokenType::u32:
      return widen_as<uint32_t>(from, count, to);
  }
}

}  // namespace tt

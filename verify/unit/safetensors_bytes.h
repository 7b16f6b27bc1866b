// Safetensors files put together byte by byte, right or wrong, for tests of their readers.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tt::test {

/// Header length, header, data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

template <class T>
std::string raw(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace tt::test

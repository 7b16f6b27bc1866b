// A value that was read, or the reason why it could not be: what is unreadable is never taken for good.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace tt {

template <class T>
struct Reading {
  std::optional<T> value;
  std::string why;  // only without a value: "nvmlDeviceGetSerial: Not Supported"

  static Reading of(T v) { return {std::move(v), {}}; }
  static Reading unknown(std::string reason) { return {std::nullopt, std::move(reason)}; }
  explicit operator bool() const noexcept { return value.has_value(); }
  const T& operator*() const { return *value; }
  const T* operator->() const { return &*value; }
};

}  // namespace tt

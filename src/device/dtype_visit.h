// From a DType at run time to the C++ type that stores it.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "common/dtype.h"
#include "src/device/convert.h"

namespace tt {

/// Calls f(std::type_identity<T>{}) with the storage type of `type` and returns what it returns.
template <class F>
decltype(auto) with_storage(DType type, F&& f) {
  switch (type) {
    case DType::int8:
      return f(std::type_identity<int8_t>{});
    case DType::uint8:
      return f(std::type_identity<uint8_t>{});
    case DType::int32:
      return f(std::type_identity<int32_t>{});
    case DType::uint32:
      return f(std::type_identity<uint32_t>{});
    case DType::int64:
      return f(std::type_identity<int64_t>{});
    case DType::uint64:
      return f(std::type_identity<uint64_t>{});
    case DType::f16:
      return f(std::type_identity<F16>{});
    case DType::f32:
      return f(std::type_identity<float>{});
    case DType::f64:
      return f(std::type_identity<double>{});
    case DType::bf16:
      return f(std::type_identity<Bf16>{});
    case DType::f8e4m3:
      return f(std::type_identity<E4M3>{});
    case DType::f8e5m2:
      return f(std::type_identity<E5M2>{});
  }
  throw std::logic_error("with_storage: not a DType");
}

}  // namespace tt

// What the host's operations share: rows of matrices, loops over parts of them, and checks of shapes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "common/error.h"
#include "src/device/convert.h"
#include "src/llm/ops.h"

namespace tt::host {

/// f(std::type_identity<float or Bf16>{}): the types of activations.
template <class F>
void with_activation(DType type, const char* operation, F&& f) {
  if (type == DType::f32) return f(std::type_identity<float>{});
  if (type == DType::bf16) return f(std::type_identity<Bf16>{});
  throw SkippedError(
      fmt::format("{} on the host takes float and bfloat16, not {}", operation, name_of(type)));
}
/// f(std::type_identity<…>{}) for every floating-point type of up to 32 bits.
template <class F>
void with_float(DType type, const char* operation, F&& f) {
  switch (type) {
    case DType::f32:
      return f(std::type_identity<float>{});
    case DType::bf16:
      return f(std::type_identity<Bf16>{});
    case DType::f16:
      return f(std::type_identity<F16>{});
    case DType::f8e4m3:
      return f(std::type_identity<E4M3>{});
    case DType::f8e5m2:
      return f(std::type_identity<E5M2>{});
    default:
      throw SkippedError(fmt::format("{} on the host takes types of floating point up to 32 bits, not {}",
                                     operation, name_of(type)));
  }
}

constexpr float to_float(float x) noexcept {
  return x;
}
using tt::to_float;

template <class T>
T* row(const Matrix& x, int64_t r) {
  return static_cast<T*>(x.data) + r * x.ld;
}

inline void expect(bool holds, const char* operation, const Matrix& x, int64_t rows, int64_t cols) {
  if (!holds || x.ld < x.cols)
    throw std::logic_error(fmt::format("{}: a matrix [{}, {}] (ld {}) of {} where [{}, {}] is needed",
                                       operation, x.rows, x.cols, x.ld, name_of(x.type), rows, cols));
}
/// The matrix has this shape and type.
inline void expect_shape(const char* operation, const Matrix& x, int64_t rows, int64_t cols, DType type) {
  expect(x.rows == rows && x.cols == cols && x.type == type, operation, x, rows, cols);
}

/// Each id lies below `end`, and not below `begin`.
inline void expect_ids(const char* operation, const int32_t* ids, int64_t count, int64_t begin, int64_t end) {
  for (int64_t i = 0; i < count; ++i)
    if (ids[i] < begin || ids[i] >= end)
      throw std::logic_error(
          fmt::format("{}: id {} in row {} with a vocabulary of {}", operation, ids[i], i, end));
}

/// Below this many elements a team of threads costs more than it saves.
inline constexpr int64_t kWorthThreads = 1 << 13;

/// f(row, first column, end column) over a [rows, cols] array in pieces of up to 4096 elements, in parallel.
template <class F>
void for_each_span(int threads, int64_t rows, int64_t cols, F&& f) {
  constexpr int64_t kPiece = 4096;
  const int64_t per_row = (cols + kPiece - 1) / kPiece, pieces = rows * per_row;
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * cols >= kWorthThreads)
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t first = i % per_row * kPiece;
    f(i / per_row, first, std::min(first + kPiece, cols));
  }
}

/// f(row) for each row of about `cost` elements' work, in parallel.
template <class F>
void for_each_row(int threads, int64_t rows, int64_t cost, F&& f) {
#pragma omp parallel for num_threads(threads) schedule(static) if (rows * cost >= kWorthThreads)
  for (int64_t r = 0; r < rows; ++r) f(r);
}

/// The sum of part(first, end) over pieces of a fixed length of [0, count), added up in order: the same
/// whatever the number of threads.
template <class Sum, class F>
Sum sum_of_pieces(int threads, int64_t count, F&& part) {
  constexpr int64_t kPiece = 4096;
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  std::vector<Sum> partial(static_cast<size_t>(pieces));
#pragma omp parallel for num_threads(threads) schedule(static) if (count >= kWorthThreads)
  for (int64_t i = 0; i < pieces; ++i)
    partial[static_cast<size_t>(i)] = part(i * kPiece, std::min((i + 1) * kPiece, count));
  Sum total{};
  for (const Sum& x : partial) total += x;
  return total;
}

}  // namespace tt::host

// Quantising to 8 bits with the current largest value, and transposes.
#include <bit>
#include <limits>

#include "src/llm/host_ops.h"
#include "src/llm/host_rows.h"

namespace tt {

using namespace host;

namespace {

constexpr int64_t kTile = 64;  // rows and columns; both sides of a transpose then stay in the cache

/// f(first row, end row, first column, end column) over tiles of a [rows, cols] array, in parallel.
template <class F>
void for_each_tile(int threads, int64_t rows, int64_t cols, F&& f) {
  const int64_t down = (rows + kTile - 1) / kTile, across = (cols + kTile - 1) / kTile;
  for_each_row(threads, down * across, kTile * kTile, [&](int64_t i) {
    const int64_t r = i / across * kTile, c = i % across * kTile;
    f(r, std::min(r + kTile, rows), c, std::min(c + kTile, cols));
  });
}

float largest_of(DType type) {
  return type == DType::f8e4m3 ? 448.0f : 57344.0f;
}

/// The largest magnitude. Magnitudes order as their bits do, and a NaN lies above infinity: it is not lost.
template <class T>
float largest_magnitude(const Matrix& x, int threads) {
  std::vector<uint32_t> of_row(static_cast<size_t>(x.rows));
  for_each_row(threads, x.rows, x.cols, [&](int64_t r) {
    const T* in = row<T>(x, r);
    uint32_t largest = 0;
    for (int64_t c = 0; c < x.cols; ++c)
      largest = std::max(largest, std::bit_cast<uint32_t>(static_cast<float>(to_float(in[c]))) & 0x7fffffffu);
    of_row[static_cast<size_t>(r)] = largest;
  });
  uint32_t largest = 0;
  for (uint32_t x_row : of_row) largest = std::max(largest, x_row);
  return std::bit_cast<float>(largest);
}

template <class T, class Q>
void quantize_tiles(const Matrix& x, const Matrix& out, const Matrix& out_t, float scale, int threads) {
  for_each_tile(threads, x.rows, x.cols, [&](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    Q tile[kTile][kTile];
    for (int64_t r = r0; r < r1; ++r) {
      const T* in = row<T>(x, r);
      for (int64_t c = c0; c < c1; ++c) tile[r - r0][c - c0] = from_float<Q>(to_float(in[c]) / scale);
      if (out.data) std::copy_n(tile[r - r0], c1 - c0, row<Q>(out, r) + c0);
    }
    if (!out_t.data) return;
    for (int64_t c = c0; c < c1; ++c) {
      Q* to = row<Q>(out_t, c);
      for (int64_t r = r0; r < r1; ++r) to[r] = tile[r - r0][c - c0];
    }
  });
}

}  // namespace

void HostOps::quantize(const Matrix& x, const Matrix& out, const Matrix& out_t, float* scale, Stream&) {
  const DType type = out.data ? out.type : out_t.type;
  if (type != DType::f8e4m3 && type != DType::f8e5m2)
    throw std::logic_error(fmt::format("quantize: into {}", name_of(type)));
  if (out.data) expect_shape("quantize, out", out, x.rows, x.cols, type);
  if (out_t.data) expect_shape("quantize, out_t", out_t, x.cols, x.rows, type);
  with_activation(x.type, "quantize", [&](auto tag) {
    using T = typename decltype(tag)::type;
    *scale = largest_magnitude<T>(x, threads_) / largest_of(type);
    if (*scale == 0) *scale = 1;  // nothing but zeros, or too small for the division
    if (type == DType::f8e4m3)
      quantize_tiles<T, E4M3>(x, out, out_t, *scale, threads_);
    else
      quantize_tiles<T, E5M2>(x, out, out_t, *scale, threads_);
  });
}

void HostOps::transpose8(const Matrix& from, const Matrix& to, Stream&) {
  if (size_of(from.type) != 1) throw std::logic_error(fmt::format("transpose8: of {}", name_of(from.type)));
  expect_shape("transpose8", to, from.cols, from.rows, from.type);
  for_each_tile(threads_, from.rows, from.cols, [&](int64_t r0, int64_t r1, int64_t c0, int64_t c1) {
    for (int64_t c = c0; c < c1; ++c)
      for (int64_t r = r0; r < r1; ++r) row<uint8_t>(to, c)[r] = row<uint8_t>(from, r)[c];
  });
}

}  // namespace tt

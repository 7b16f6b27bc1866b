#include "src/llm/small_product.h"

#include <algorithm>
#include <cstring>

namespace tt::host {
namespace {

/// Four floats in one register: SSE, NEON.
using Lanes = float __attribute__((vector_size(16)));
constexpr int kLanes = 4;

Lanes load(const float* from) {
  Lanes x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}

/// R rows by 2 kLanes columns of c, held in registers over all of k.
template <int R>
void tile(int64_t k, Strided a, const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  Lanes sum[R][2] = {};
  if (accumulate)
    for (int i = 0; i < R; ++i) sum[i][0] = load(c + i * ldc), sum[i][1] = load(c + i * ldc + kLanes);
  for (int64_t p = 0; p < k; ++p) {
    const Lanes b0 = load(b + p * ldb), b1 = load(b + p * ldb + kLanes);
    const float* at = a.data + p * a.col_step;
#pragma GCC unroll 4
    for (int i = 0; i < R; ++i) {
      const float x = at[i * a.row_step];
      sum[i][0] += x * b0;
      sum[i][1] += x * b1;
    }
  }
  for (int i = 0; i < R; ++i) {
    std::memcpy(c + i * ldc, &sum[i][0], sizeof(Lanes));
    std::memcpy(c + i * ldc + kLanes, &sum[i][1], sizeof(Lanes));
  }
}

/// The last columns, fewer than a tile has.
void edge(int64_t m, int64_t n, int64_t k, Strided a, const float* b, int64_t ldb, float* c, int64_t ldc,
          bool accumulate) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = accumulate ? c[i * ldc + j] : 0;
      for (int64_t p = 0; p < k; ++p) sum += a.data[i * a.row_step + p * a.col_step] * b[p * ldb + j];
      c[i * ldc + j] = sum;
    }
}

}  // namespace

void small_product(int64_t m, int64_t n, int64_t k, Strided a, const float* b, int64_t ldb, float* c,
                   int64_t ldc, bool accumulate) {
  constexpr int64_t kRows = 4, kCols = 2 * kLanes;
  int64_t j = 0;
  for (; j + kCols <= n; j += kCols) {
    int64_t i = 0;
    const auto rows = [&](int64_t first) {
      return Strided{a.data + first * a.row_step, a.row_step, a.col_step};
    };
    for (; i + kRows <= m; i += kRows) tile<4>(k, rows(i), b + j, ldb, c + i * ldc + j, ldc, accumulate);
    for (; i < m; ++i) tile<1>(k, rows(i), b + j, ldb, c + i * ldc + j, ldc, accumulate);
  }
  if (j < n) edge(m, n - j, k, a, b + j, ldb, c + j, ldc, accumulate);
}

}  // namespace tt::host

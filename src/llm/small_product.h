// Products of small f32 matrices inside one thread, for attention's blocks.
#pragma once

#include <cstdint>

namespace tt::host {

/// A of a product: element (i, p) at data[i * row_step + p * col_step], so that a transpose is a swap.
struct Strided {
  const float* data;
  int64_t row_step, col_step;
};

/// c[m,n] = a[m,k] b[k,n] (+ c if `accumulate`); rows of b and c contiguous, ldb and ldc floats apart. Each
/// element is summed in the order of k in f32.
void small_product(int64_t m, int64_t n, int64_t k, Strided a, const float* b, int64_t ldb, float* c,
                   int64_t ldc, bool accumulate);

}  // namespace tt::host

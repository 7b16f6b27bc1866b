#include "verify/reference/gemm.h"

#include <cstddef>

namespace tt::reference {

std::vector<double> gemm(const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t n,
                         int64_t k, bool ta, bool tb) {
  const auto at = [](const std::vector<double>& x, int64_t row, int64_t column, int64_t width) {
    return x.at(static_cast<size_t>(row * width + column));
  };
  std::vector<double> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p)
        sum += (ta ? at(a, p, i, m) : at(a, i, p, k)) * (tb ? at(b, j, p, k) : at(b, p, j, n));
      c[static_cast<size_t>(i * n + j)] = sum;
    }
  return c;
}

}  // namespace tt::reference

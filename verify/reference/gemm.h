// Naive matrix product in double precision: three loops, nothing shared with the code under test.
#pragma once

#include <cstdint>
#include <vector>

namespace tt::reference {

/// C[m,n] = op(A) op(B), row-major; A is stored [k,m] when ta, B is stored [n,k] when tb.
std::vector<double> gemm(const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t n,
                         int64_t k, bool ta, bool tb);

}  // namespace tt::reference

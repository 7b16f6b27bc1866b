// Products on either device against the naive reference. The rounding error of a sum of k products in f32 is
// at most about k 2^-24 times the sum of their magnitudes, in any order (Higham 2002, 3.1).
#include <cmath>

#include "common/error.h"
#include "verify/unit/llm_fixture.h"

using namespace tt;
using namespace tt::test;

namespace {

struct Case {
  DType a, b, c;
  int64_t m, n, k;
  bool ta, tb;
  float alpha = 1, beta = 0;
  bool add_elsewhere = false;
  int64_t padding = 0;
  bool tf32 = false;
};

double at(const Doubles& x, int64_t r, int64_t c, int64_t cols, bool transposed, int64_t rows) {
  return transposed ? x[static_cast<size_t>(c * rows + r)] : x[static_cast<size_t>(r * cols + c)];
}

/// The relative error of the terms' sum that the device's arithmetic may make.
double steps(OpsBench& bench, const Case& x) {
  const double sums = static_cast<double>(x.k) + 8;
  if (x.tf32 && !bench.on_host()) return sums + 0x1p14;  // operands of 11 bits: 2 * 2^-11 of each product
  // Tensor cores of compute capability 9.0 align 8-bit products to about 14 bits.
  if (size_of(x.a) == 1 && !bench.on_host()) return sums + 0x1p12;
  return sums;
}

void check_product(OpsBench& bench, const Case& x, uint64_t seed) {
  INFO(name_of(x.a) << " x " << name_of(x.b) << " -> " << name_of(x.c) << " [" << x.m << ", " << x.n << ", "
                    << x.k << "] ta " << x.ta << " tb " << x.tb << " alpha " << x.alpha << " beta " << x.beta
                    << " padding " << x.padding);
  const Doubles a = rounded(normals(x.m * x.k, seed), x.a), b = rounded(normals(x.k * x.n, seed + 1), x.b);
  const Doubles add = rounded(normals(x.m * x.n, seed + 2), x.c);
  const bool eight = size_of(x.a) == 1;
  const DeviceArray scales(bench, DType::f32, Doubles{eight ? 0.37 : 1, eight ? 2.5 : 1});
  const Doubles scale = scales.values();
  const double alpha = x.alpha * scale[0] * scale[1];

  const DeviceMatrix da(bench, x.a, x.ta ? x.k : x.m, x.ta ? x.m : x.k, a, x.padding);
  const DeviceMatrix db(bench, x.b, x.tb ? x.n : x.k, x.tb ? x.k : x.n, b, x.padding);
  const DeviceMatrix other(bench, x.c, x.m, x.n, add, x.padding);
  const DeviceMatrix dc = x.beta != 0 && !x.add_elsewhere
                              ? DeviceMatrix(bench, x.c, x.m, x.n, add, x.padding)
                              : DeviceMatrix(bench, x.c, x.m, x.n, x.padding);  // NaN: must not be read
  Product p;
  p.a = da.view(eight ? scales.as<float>() : nullptr);
  p.b = db.view(eight ? scales.as<float>() + 1 : nullptr);
  p.c = dc.view();
  p.ta = x.ta, p.tb = x.tb, p.alpha = x.alpha, p.beta = x.beta, p.tf32 = x.tf32;
  if (x.beta != 0) p.add = x.add_elsewhere ? other.view().data : p.c.data;
  try {
    bench.ops().multiply(p, bench.stream());
  } catch (const SkippedError& e) {
    WARN("SKIP: " << e.what());
    return;
  }

  Doubles expected, magnitude;
  for (int64_t i = 0; i < x.m; ++i)
    for (int64_t j = 0; j < x.n; ++j) {
      const double old = x.beta == 0 ? 0 : x.beta * at(add, i, j, x.n, false, x.m);
      double sum = 0, size = 0;
      for (int64_t l = 0; l < x.k; ++l) {
        const double term = at(a, i, l, x.k, x.ta, x.m) * at(b, l, j, x.n, x.tb, x.k);
        sum += term;
        size += std::abs(term);
      }
      expected.push_back(alpha * sum + old);
      magnitude.push_back(std::abs(alpha) * size + std::abs(old));
    }
  const Doubles got = dc.values();
  check_within("c", got, expected, allowed_error(x.c, expected, magnitude, steps(bench, x)));
  CHECK(dc.padding_untouched());
  if (x.beta == 0 || x.add_elsewhere) {
    const auto once = dc.bytes();
    bench.ops().multiply(p, bench.stream());
    CHECK((dc.bytes() == once));
  }
}

void sizes_and_layouts(OpsBench& bench) {
  const int64_t sizes[][3] = {{1, 16, 16},    {3, 80, 64},   {37, 64, 80},
                              {64, 48, 1000}, {5, 1000, 16}, {33, 16, 4096}};
  uint64_t seed = 100;
  for (const auto& s : sizes)
    for (const auto& types :
         {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          check_product(bench, {types.first, types.first, types.second, s[0], s[1], s[2], ta, tb}, seed += 3);
}

void alpha_beta_and_strides(OpsBench& bench) {
  uint64_t seed = 1000;
  for (const auto& types :
       {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}})
    for (const bool ta : {false, true})
      for (const int64_t padding : {0, 16})
        for (const auto& [alpha, beta] : {std::pair{0.5f, 0.0f}, {1.0f, 1.0f}, {-2.0f, 0.5f}})
          for (const bool elsewhere : {false, true})
            check_product(bench,
                          {types.first, types.first, types.second, 40, 48, 64, ta, !ta, alpha, beta,
                           elsewhere, padding},
                          seed += 3);
}

void eight_bits(OpsBench& bench) {
  uint64_t seed = 2000;
  for (const auto& [a, b] : {std::pair{DType::f8e4m3, DType::f8e4m3},
                             {DType::f8e5m2, DType::f8e4m3},
                             {DType::f8e4m3, DType::f8e5m2}})
    for (const DType c : {DType::bf16, DType::f32})
      for (const auto& [m, n, k] : {std::array<int64_t, 3>{16, 16, 16}, {48, 80, 1008}, {32, 1008, 64}})
        for (const auto& [alpha, beta] : {std::pair{1.0f, 0.0f}, {0.5f, 1.0f}})
          check_product(bench, {a, b, c, m, n, k, false, true, alpha, beta}, seed += 3);
}

void tf32(OpsBench& bench) {
  Case x{DType::f32, DType::f32, DType::f32, 64, 48, 1000, false, true};
  x.tf32 = true;
  check_product(bench, x, 3000);
}

}  // namespace

TEST_CASE("llm: products of every layout and odd size", "[llm]") {
  on_host(sizes_and_layouts);
}
TEST_CASE("cuda: llm: products of every layout and odd size", "[.cuda]") {
  on_cuda(sizes_and_layouts);
}
TEST_CASE("llm: products scaled, added and strided", "[llm]") {
  on_host(alpha_beta_and_strides);
}
TEST_CASE("cuda: llm: products scaled, added and strided", "[.cuda]") {
  on_cuda(alpha_beta_and_strides);
}
TEST_CASE("llm: products of 8-bit operands with scales", "[llm]") {
  on_host(eight_bits);
}
TEST_CASE("cuda: llm: products of 8-bit operands with scales", "[.cuda]") {
  on_cuda(eight_bits);
}
TEST_CASE("llm: products that may use tf32", "[llm]") {
  on_host(tf32);
}
TEST_CASE("cuda: llm: products that may use tf32", "[.cuda]") {
  on_cuda(tf32);
}

TEST_CASE("llm: a product whose shapes do not fit is refused before memory is touched", "[llm]") {
  OpsBench bench("host");
  const DeviceMatrix a(bench, DType::f32, 4, 8, 0), b(bench, DType::f32, 16, 9, 0),
      c(bench, DType::f32, 4, 16, 0);
  Product p;
  p.a = a.view(), p.b = b.view(), p.c = c.view();
  CHECK_THROWS_AS(bench.ops().multiply(p, bench.stream()), std::logic_error);
  CHECK(message_of<std::logic_error>([&] { bench.ops().multiply(p, bench.stream()); }).find("[16, 9]") !=
        std::string::npos);
}

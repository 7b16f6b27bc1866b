// The test of products must find planted errors, and nothing where nothing is wrong.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "src/device/device.h"
#include "src/device/random.h"
#include "src/gemm/freivalds.h"
#include "verify/reference/gemm.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

/// Operands with their values as doubles, and the product rounded to the result type, all on the host.
struct Product {
  std::unique_ptr<Device> device = open_host_device();
  std::unique_ptr<Stream> stream = device->make_stream();
  GemmProblem problem;
  Buffer a, b;
  std::vector<double> exact;
  std::vector<char> c;
  Freivalds freivalds;

  explicit Product(const GemmProblem& p, uint64_t seed = 3)
      : problem(p),
        a(device->allocate(p.m * p.k * 8)),
        b(device->allocate(p.k * p.n * 8)),
        freivalds(*device, freivalds_shape(p, 1, true), 1, 1, seed, *stream) {
    const auto values_a = fill(a, traits(p.kind).a, p.m * p.k, seed);
    const auto values_b = fill(b, traits(p.kind).b, p.k * p.n, seed + 1);
    exact = reference::gemm(values_a, values_b, p.m, p.n, p.k, p.ta, p.tb);
    c.resize(static_cast<size_t>(p.c_bytes()));
    for (size_t e = 0; e < exact.size(); ++e) put(e, exact[e]);
    freivalds.learn(0, view_a(p, operands()), view_b(p, operands()), *stream);
  }

  std::vector<double> fill(Buffer& to, Element e, int64_t count, uint64_t seed) {
    DType type = DType::f64;
    if (e == Element::f32) type = DType::f32;
    if (e == Element::f16) type = DType::f16;
    if (e == Element::bf16) type = DType::bf16;
    if (e == Element::e4m3) type = DType::f8e4m3;
    if (e == Element::e5m2) type = DType::f8e5m2;
    if (e == Element::s8) type = DType::int8;
    device->fill_random(to.data(), static_cast<size_t>(count), type, Fill::normal, seed, 0, *stream);
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(random_value(type, Fill::normal, seed, static_cast<uint64_t>(i)));
    return values;
  }
  GemmOperands operands() const { return {a.data(), b.data(), nullptr, nullptr}; }

  void put(size_t e, double value) {
    const auto store = [&](auto x) { std::memcpy(c.data() + e * sizeof(x), &x, sizeof(x)); };
    switch (traits(problem.kind).out) {
      case Element::f64:
        return store(value);
      case Element::f32:
        return store(static_cast<float>(value));
      case Element::f16:
        return store(from_double<F16>(value));
      case Element::bf16:
        return store(from_double<Bf16>(value));
      case Element::s32:
        return store(static_cast<int32_t>(value));
      default:
        FAIL("not a result type");
    }
  }
  void put(int64_t row, int64_t column, double value) {
    put(static_cast<size_t>(row * problem.n + column), value);
  }
  double at(int64_t row, int64_t column) const {
    return exact[static_cast<size_t>(row * problem.n + column)];
  }

  FreivaldsVerdict verdict() {
    freivalds.test(0, 0, c.data(), *stream);
    freivalds.collect(*stream);
    return freivalds.verdict(0, view_a(problem, operands()), view_b(problem, operands()), c.data(), *stream);
  }
};

/// A typical element: elements of a product of N(0,1) matrices have standard deviation sqrt(k).
double typical(const GemmProblem& p) {
  return std::sqrt(static_cast<double>(p.k));
}

}  // namespace

TEST_CASE("gemm: right products of every kind, layout and odd size pass", "[gemm]") {
  const auto kind = GENERATE(GemmKind::bf16, GemmKind::fp16, GemmKind::tf32, GemmKind::fp32, GemmKind::fp64,
                             GemmKind::int8, GemmKind::fp8, GemmKind::fp8_e5m2);
  struct Size {
    int64_t m, n, k;
  };
  const auto size = GENERATE(Size{1, 1, 1}, Size{1, 17, 33}, Size{33, 1, 257}, Size{5, 700, 3},
                             Size{127, 65, 129}, Size{129, 255, 3}, Size{40, 2000, 1});
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      Product product({kind, size.m, size.n, size.k, ta, tb, ""});
      const FreivaldsVerdict v = product.verdict();
      INFO(product.problem.key());
      CHECK(v.wrong == 0);
      CHECK(v.largest_ratio < 1);
    }
}

TEST_CASE("gemm: planted errors are found", "[gemm]") {
  const auto kind = GENERATE(GemmKind::bf16, GemmKind::fp16, GemmKind::fp32, GemmKind::fp64, GemmKind::fp8);
  Product product({kind, 300, 300, 64, false, true, ""});
  const double step = typical(product.problem);
  INFO(product.problem.key());
  REQUIRE(product.verdict().wrong == 0);

  SECTION("one element changed in each corner and inside, with its place and value") {
    const auto row = GENERATE(int64_t{0}, int64_t{299}, int64_t{151});
    const auto column = GENERATE(int64_t{0}, int64_t{299}, int64_t{255}, int64_t{256});
    product.put(row, column, product.at(row, column) + step);
    const FreivaldsVerdict v = product.verdict();
    REQUIRE(v.wrong > 0);
    CHECK(v.first->offset == row * 300 + column);
    CHECK(v.first->expected == Approx(product.at(row, column)));
    CHECK(v.first->got == Approx(product.at(row, column) + step).epsilon(0.01));
    CHECK(v.largest_ratio > 1);
  }
  SECTION("two elements of different rows swapped") {
    product.put(7, 40, product.at(8, 40) + 2 * step);
    product.put(8, 40, product.at(7, 40) - 2 * step);
    CHECK(product.verdict().wrong >= 2);
  }
  SECTION("a stale 128 x 128 tile: that of another product") {
    for (int64_t i = 128; i < 256; ++i)
      for (int64_t j = 128; j < 256; ++j) product.put(i, j, product.at(j, i));
    CHECK(product.verdict().wrong > 100);
  }
  SECTION("the transposed result") {
    for (int64_t i = 0; i < 300; ++i)
      for (int64_t j = 0; j < 300; ++j) product.put(i, j, product.at(j, i));
    CHECK(product.verdict().wrong > 250);
  }
  SECTION("one NaN, one infinity") {
    for (double bad :
         {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
      product.put(200, 100, bad);
      const FreivaldsVerdict v = product.verdict();
      REQUIRE(v.wrong > 0);
      CHECK(v.first->offset == 200 * 300 + 100);
      CHECK(!std::isfinite(v.first->got));
    }
  }
  SECTION("nothing written at all") {
    std::memset(product.c.data(), 0xff, product.c.size());
    CHECK(product.verdict().wrong >= 300);
    std::memset(product.c.data(), 0, product.c.size());
    CHECK(product.verdict().wrong >= 300);
  }
}

TEST_CASE("gemm: swaps inside a row escape a sign vector with one half, so most are found", "[gemm]") {
  Product product({GemmKind::fp32, 64, 128, 64, false, false, ""});
  int found = 0;
  for (int64_t row = 0; row < 64; ++row) {
    product.put(row, 2 * row % 128, product.at(row, (2 * row + 1) % 128));
    product.put(row, (2 * row + 1) % 128, product.at(row, 2 * row % 128));
    found += product.verdict().wrong > 0;
    product.put(row, 2 * row % 128, product.at(row, 2 * row % 128));
    product.put(row, (2 * row + 1) % 128, product.at(row, (2 * row + 1) % 128));
  }
  CHECK(found > 36);  // 3/4 of 64 expected, standard deviation 3.5
  CHECK(product.verdict().wrong == 0);
}

TEST_CASE("gemm: int8 is exact to the last unit", "[gemm]") {
  Product product({GemmKind::int8, 70, 90, 513, false, true, ""});
  REQUIRE(product.verdict().wrong == 0);
  product.put(69, 89, product.at(69, 89) + 1);
  const FreivaldsVerdict v = product.verdict();
  REQUIRE(v.wrong > 0);
  CHECK(v.first->offset == 70 * 90 - 1);
  CHECK(v.first->got - v.first->expected == 1);
}

TEST_CASE("gemm: a flipped exponent bit of one bf16 element among 1024 x 1024 is found", "[gemm]") {
  // The reference of this size is the slow part; one product serves all elements.
  Product product({GemmKind::bf16, 64, 1024, 1024, false, false, ""});
  int tried = 0, found = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const int64_t j = (i * 37) % 1024;
    if (std::abs(product.at(i, j)) < 0.5 * typical(product.problem))
      continue;  // a small element: below the noise of its row
    auto* bits = reinterpret_cast<uint16_t*>(product.c.data()) + i * 1024 + j;
    *bits ^= 1u << 7;  // the exponent's lowest bit: a factor of 2
    ++tried;
    const FreivaldsVerdict v = product.verdict();
    found += v.wrong > 0 && v.first->offset == i * 1024 + j;
    *bits ^= 1u << 7;
  }
  CHECK(tried > 20);
  CHECK(found == tried);
}

TEST_CASE("gemm: a bf16 result that was cut instead of rounded does not pass as rounded", "[gemm]") {
  Product product({GemmKind::bf16, 256, 512, 512, false, false, ""});
  for (size_t e = 0; e < product.exact.size(); ++e) {
    const float f = static_cast<float>(product.exact[e]);
    const auto cut = static_cast<uint16_t>(bits_as<uint32_t>(f) >> 16);
    std::memcpy(product.c.data() + 2 * e, &cut, 2);
  }
  // Still within 8 sigma of rounding (cutting doubles the error), but visibly nearer to the bound.
  CHECK(product.verdict().largest_ratio > 0.5);
}

TEST_CASE("gemm: block-scaled operands are read with their scales", "[gemm]") {
  const auto kind = GENERATE(GemmKind::mxfp8, GemmKind::nvfp4);
  const int64_t m = 130, n = 70, k = 160;
  const GemmProblem p{kind, m, n, k, false, true, ""};
  auto device = open_host_device();
  auto stream = device->make_stream();
  std::vector<uint8_t> a(static_cast<size_t>(p.a_bytes())), b(static_cast<size_t>(p.b_bytes()));
  std::vector<uint8_t> sa(static_cast<size_t>(scale_bytes(kind, m, k))),
      sb(static_cast<size_t>(scale_bytes(kind, n, k)));
  const bool fp4 = kind == GemmKind::nvfp4;
  // Values by independent tables: e2m1's eight magnitudes, e4m3's 1.0 … 1.875 (codes 0x38 + i); scales 1,
  // 2, 4.
  const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const int block = fp4 ? 16 : 32;
  const int64_t blocks = k / block;
  const auto make = [&](std::vector<uint8_t>& data, std::vector<uint8_t>& scales, int64_t rows,
                        uint64_t seed) {
    std::vector<double> values;
    for (int64_t x = 0; x < rows; ++x)
      for (int64_t q = 0; q < k; ++q) {
        const auto e = static_cast<size_t>(x * k + q);
        const uint64_t r = mix64(seed, e),
                       s = mix64(seed + 9, static_cast<uint64_t>(x * blocks + q / block)) % 3;
        const bool negative = r & 8;
        const double magnitude = fp4 ? e2m1[r & 7] : 1 + static_cast<double>(r & 7) / 8;
        if (fp4) data[e / 2] = static_cast<uint8_t>(data[e / 2] | (r & 15) << (e % 2 * 4));
        if (!fp4) data[e] = static_cast<uint8_t>((negative ? 0x80 : 0) | (0x38 + (r & 7)));
        // UE4M3: 1, 2, 4 are 0x38, 0x40, 0x48; UE8M0: 127, 128, 129.
        const auto at = static_cast<size_t>(x / 128 * ((blocks + 3) / 4) * 512 + q / block / 4 * 512 +
                                            x % 32 * 16 + x % 128 / 32 * 4 + q / block % 4);
        scales[at] = static_cast<uint8_t>(fp4 ? 0x38 + 8 * s : 127 + s);
        values.push_back((negative ? -magnitude : magnitude) * static_cast<double>(1 << s));
      }
    return values;
  };
  const auto va = make(a, sa, m, 1), vb = make(b, sb, n, 2);
  const auto exact = reference::gemm(va, vb, m, n, k, false, true);
  std::vector<uint16_t> c;
  for (double x : exact) c.push_back(from_double<Bf16>(x).bits);

  Freivalds freivalds(*device, freivalds_shape(p, 1, true), 1, 1, 5, *stream);
  const GemmOperands x{a.data(), b.data(), sa.data(), sb.data()};
  freivalds.learn(0, view_a(p, x), view_b(p, x), *stream);
  const auto wrong = [&] {
    freivalds.test(0, 0, c.data(), *stream);
    freivalds.collect(*stream);
    return freivalds.verdict(0, view_a(p, x), view_b(p, x), c.data(), *stream).wrong;
  };
  CHECK(wrong() == 0);
  c[static_cast<size_t>(m * n - 1)] ^= 0x80;  // a factor of 2 in the last element
  CHECK(wrong() > 0);
}

TEST_CASE("gemm: spacing of the representable numbers", "[gemm]") {
  CHECK(spacing_squared(1.0, 7, -126) == 0x1p-14);
  CHECK(spacing_squared(-1.99, 7, -126) == 0x1p-14);
  CHECK(spacing_squared(2.0, 7, -126) == 0x1p-12);
  CHECK(spacing_squared(0.0, 10, -14) == 0x1p-48);
  CHECK(spacing_squared(0x1p-20, 10, -14) == 0x1p-48);
  CHECK(spacing_squared(3.0, -1, 0) == 0);
  CHECK(spacing_squared(1.0, 52, -1022) == 0x1p-104);
  CHECK(std::isinf(spacing_squared(INFINITY, 7, -126)));
}

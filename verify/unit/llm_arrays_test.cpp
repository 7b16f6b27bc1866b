// Operations over whole arrays on either device: reductions, conversions, quantising, hashes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/device/random.h"
#include "verify/unit/llm_fixture.h"

using namespace tt;
using namespace tt::test;

namespace {

constexpr int64_t kCounts[] = {1, 37, 4097, 100003};
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Sums in double: the error of a few thousand roundings of 2^-53 at most.
void sums(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const int64_t count : kCounts)
      for (const bool squares : {false, true}) {
        INFO(name_of(type) << " " << count << " squares " << squares);
        const Doubles x = rounded(normals(count, 91), type);
        double expected = 0, size = 0;
        for (const double value : x) {
          expected += squares ? value * value : value;
          size += squares ? value * value : std::abs(value);
        }
        const DeviceArray dx(bench, type, x), sum(bench, DType::f64, Doubles{NAN});
        const auto run = [&](bool add) {
          bench.ops().sum(dx.data(), type, count, squares, add, sum.as<double>(), bench.stream());
          return sum.values()[0];
        };
        const double once = run(false);
        CHECK(std::abs(once - expected) <= 1e-12 * size);
        CHECK(run(false) == once);
        CHECK(std::abs(run(true) - 2 * expected) <= 2e-12 * size);
      }
}

void clip_factors(OpsBench& bench) {
  const auto run = [&](double squares, double max_norm) {
    const DeviceArray sum(bench, DType::f64, Doubles{squares}), out(bench, DType::f32, 2);
    bench.ops().clip_factor(sum.as<double>(), max_norm, out.as<float>(), out.as<float>() + 1, bench.stream());
    return out.values();
  };
  for (const auto& [squares, max_norm] :
       {std::pair{100.0, 1.0}, {100.0, 20.0}, {100.0, 0.0}, {0.0, 1.0}, {1e60, 1.0}}) {
    const Doubles got = run(squares, max_norm);
    CHECK(got[0] == Approx(reference::clip_factor(std::sqrt(squares), max_norm)).epsilon(1e-6));
    CHECK(got[1] == Approx(std::sqrt(squares)).epsilon(1e-6));
  }
  const Doubles nan = run(NAN, 1);
  CHECK(std::isnan(nan[1]));
}

void conversions(OpsBench& bench) {
  const DType types[] = {DType::f32, DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2};
  for (const DType from : types)
    for (const DType to : types)
      for (const int64_t count : {1, 37, 4097}) {
        INFO(name_of(from) << " -> " << name_of(to) << " " << count);
        Doubles x = normals(count, 95, 30);
        if (count > 8) x[1] = 1e6, x[2] = -1e6, x[3] = 1e-9, x[4] = 448, x[5] = 464, x[6] = 0, x[7] = 0x1p-9;
        x = rounded(x, from);
        const DeviceArray in(bench, from, x), out(bench, to, count);
        bench.ops().convert(in.data(), from, out.data(), to, count, bench.stream());
        CHECK((out.values() == rounded(x, to)));
      }
  for (const DType to : {DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2}) {
    INFO(name_of(to));
    const DeviceArray in(bench, DType::f32, Doubles{NAN, kInf, -kInf, -0.0}), out(bench, to, 4);
    bench.ops().convert(in.data(), DType::f32, out.data(), to, 4, bench.stream());
    const Doubles got = out.values();
    CHECK(std::isnan(got[0]));
    const double largest = to == DType::f8e4m3 ? 448 : to == DType::f8e5m2 ? 57344 : kInf;
    CHECK(got[1] == largest);
    CHECK(got[2] == -largest);
    CHECK(std::signbit(got[3]));
  }
}

void axpby(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const int64_t rows : {1, 3, 37})
      for (const int64_t cols : {16, 80, 1000})
        for (const auto& [alpha, beta] :
             {std::pair{1.0f, 1.0f}, {0.5f, 0.0f}, {-2.0f, 0.75f}, {0.0f, 0.5f}, {0.0f, 0.0f}}) {
          INFO(name_of(type) << " [" << rows << ", " << cols << "] " << alpha << " x + " << beta << " y");
          const Doubles x = rounded(normals(rows * cols, 101), type),
                        y = rounded(normals(rows * cols, 102), type);
          const DeviceMatrix dx(bench, type, rows, cols, x, 16);
          const DeviceMatrix dy = beta == 0
                                      ? DeviceMatrix(bench, type, rows, cols, 32)  // NaN: must not be read
                                      : DeviceMatrix(bench, type, rows, cols, y, 32);
          bench.ops().axpby(alpha, alpha == 0 ? Matrix{} : dx.view(), beta, dy.view(), bench.stream());
          Doubles expected, magnitude;
          for (size_t e = 0; e < x.size(); ++e) {
            const double a = static_cast<double>(alpha) * x[e], b = static_cast<double>(beta) * y[e];
            expected.push_back(a + b);
            magnitude.push_back(std::abs(a) + std::abs(b));
          }
          check_within("y", dy.values(), expected, allowed_error(type, expected, magnitude, 2));
          CHECK(dy.padding_untouched());
        }
}

/// |q scale - x| is at most half the spacing of the 8-bit type at x / scale: 2^-4 (e4m3) or 2^-3 (e5m2) of
/// it, or half a subnormal step of 2^-9 (2^-16), and a rounding or two of the division.
void check_quantized(const Doubles& q, const Doubles& x, double scale, DType type) {
  const double step = type == DType::f8e4m3 ? 0x1p-9 : 0x1p-16;
  Doubles values, allowed;
  for (size_t e = 0; e < x.size(); ++e) {
    values.push_back(q[e] * scale);
    allowed.push_back(std::max(unit_roundoff(type) * std::abs(x[e]), step / 2 * scale) * (1 + 1e-6));
  }
  check_within("quantized", values, x, allowed);
}

Doubles transposed(const Doubles& x, int64_t rows, int64_t cols) {
  Doubles y(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      y[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * cols + c)];
  return y;
}

void quantize(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const DType to : {DType::f8e4m3, DType::f8e5m2})
      for (const auto& [rows, cols] :
           {std::pair<int64_t, int64_t>{1, 16}, {3, 80}, {37, 1000}, {65, 4096}, {16, 64}})
        for (const double size : {1.0, 1e-6, 1e6}) {
          INFO(name_of(type) << " -> " << name_of(to) << " [" << rows << ", " << cols << "] x" << size);
          const int64_t padding = rows == 3 ? 16 : 0;
          const Doubles x = rounded(normals(rows * cols, 111, size), type);
          double amax = 0;
          for (const double value : x) amax = std::max(amax, std::abs(value));
          const DeviceMatrix in(bench, type, rows, cols, x, padding), out(bench, to, rows, cols, padding),
              out_t(bench, to, cols, rows, padding), only_t(bench, to, cols, rows);
          const DeviceArray scale(bench, DType::f32, 1);
          const float* s = scale.as<float>();
          bench.ops().quantize(in.view(), out.view(s), out_t.view(s), scale.as<float>(), bench.stream());
          const double got = scale.values()[0], largest = to == DType::f8e4m3 ? 448 : 57344;
          CHECK(got == Approx(amax / largest).epsilon(1e-6));
          const Doubles q = out.values();
          check_quantized(q, x, got, to);
          double largest_q = 0;
          for (const double value : q) largest_q = std::max(largest_q, std::abs(value));
          CHECK(largest_q == largest);
          CHECK((out_t.values() == transposed(q, rows, cols)));
          CHECK(out.padding_untouched());
          CHECK(out_t.padding_untouched());
          bench.ops().quantize(in.view(), Matrix{}, only_t.view(s), scale.as<float>(), bench.stream());
          CHECK((only_t.values() == out_t.values()));
          const DeviceMatrix back(bench, to, rows, cols, padding);
          bench.ops().transpose8(out_t.view(), back.view(), bench.stream());
          CHECK((back.values() == q));
          CHECK(back.padding_untouched());
        }
}

void quantize_zeros_and_nan(OpsBench& bench) {
  for (const DType type : kActivations) {
    const DeviceMatrix zeros(bench, type, 3, 80, Doubles(240)), out(bench, DType::f8e4m3, 3, 80);
    const DeviceArray scale(bench, DType::f32, 1);
    const auto run = [&](const DeviceMatrix& x) {
      bench.ops().quantize(x.view(), out.view(scale.as<float>()), Matrix{}, scale.as<float>(),
                           bench.stream());
    };
    run(zeros);
    CHECK(scale.values()[0] == 1);
    CHECK((out.values() == Doubles(240)));
    Doubles x = normals(240, 5);
    x[77] = NAN;
    run(DeviceMatrix(bench, type, 3, 80, x));
    CHECK(std::isnan(out.values()[77]));  // it must not vanish
  }
}

void nonfinite(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const int64_t count : kCounts) {
      INFO(name_of(type) << " " << count);
      Doubles x = normals(count, 121);
      x.back() = NAN;
      int64_t expected = 1;
      for (const auto& [at, value] : {std::pair<size_t, double>{0, kInf}, {5, -kInf}, {20, NAN}})
        if (at + 1 < x.size()) x[at] = value, ++expected;
      const DeviceArray dx(bench, type, x), result(bench, DType::int64, 1);
      const auto run = [&](int64_t n, bool add) {
        bench.ops().count_nonfinite(dx.data(), type, n, add, result.as<int64_t>(), bench.stream());
        return static_cast<int64_t>(result.values()[0]);
      };
      CHECK(run(count, false) == expected);
      CHECK(run(count - 1, true) == 2 * expected - 1);
    }
}

void hashes(OpsBench& bench) {
  for (const int64_t words : kCounts) {
    std::vector<int32_t> data;
    for (int64_t i = 0; i < words; ++i)
      data.push_back(static_cast<int32_t>(mix64(7, static_cast<uint64_t>(i))));
    uint64_t expected = 0;
    for (size_t i = 0; i < data.size(); ++i) expected += mix64(static_cast<uint32_t>(data[i]), i);
    const DeviceArray result(bench, DType::uint64, 1);
    const auto run = [&] {
      const DeviceArray d(bench, data);
      bench.ops().hash(d.data(), data.size() * 4, result.as<uint64_t>(), bench.stream());
      uint64_t value;
      std::memcpy(&value, result.bytes().data(), 8);
      return value;
    };
    CHECK(run() == expected);
    data.back() ^= 1 << 30;
    CHECK(run() != expected);
  }
}

}  // namespace

TEST_CASE("llm: sums", "[llm]") {
  on_host(sums);
}
TEST_CASE("cuda: llm: sums", "[.cuda]") {
  on_cuda(sums);
}
TEST_CASE("llm: clip_factor", "[llm]") {
  on_host(clip_factors);
}
TEST_CASE("cuda: llm: clip_factor", "[.cuda]") {
  on_cuda(clip_factors);
}
TEST_CASE("llm: conversions", "[llm]") {
  on_host(conversions);
}
TEST_CASE("cuda: llm: conversions", "[.cuda]") {
  on_cuda(conversions);
}
TEST_CASE("llm: axpby", "[llm]") {
  on_host(axpby);
}
TEST_CASE("cuda: llm: axpby", "[.cuda]") {
  on_cuda(axpby);
}
TEST_CASE("llm: quantize and transpose8", "[llm]") {
  on_host(quantize);
}
TEST_CASE("cuda: llm: quantize and transpose8", "[.cuda]") {
  on_cuda(quantize);
}
TEST_CASE("llm: quantize zeros and NaN", "[llm]") {
  on_host(quantize_zeros_and_nan);
}
TEST_CASE("cuda: llm: quantize zeros and NaN", "[.cuda]") {
  on_cuda(quantize_zeros_and_nan);
}
TEST_CASE("llm: count_nonfinite", "[llm]") {
  on_host(nonfinite);
}
TEST_CASE("cuda: llm: count_nonfinite", "[.cuda]") {
  on_cuda(nonfinite);
}
TEST_CASE("llm: hash", "[llm]") {
  on_host(hashes);
}
TEST_CASE("cuda: llm: hash", "[.cuda]") {
  on_cuda(hashes);
}

// What a layer has between its products, on either device, against the double-precision reference.
// Bounds: each result carries its own rounding and some tens of roundings to f32 on the way to it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/device/random.h"
#include "verify/unit/llm_fixture.h"

using namespace tt;
using namespace tt::test;

namespace {

constexpr int64_t kRows[] = {1, 3, 37}, kDims[] = {16, 64, 80, 1000, 4096};

/// Sums of up to 4096 terms, by 128 or more threads of a GPU or in double on the host.
constexpr double kSteps = 64;

Doubles sizes(const Doubles& x) {
  Doubles y;
  for (const double value : x) y.push_back(std::abs(value));
  return y;
}

void rms_norm(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const int64_t rows : kRows)
      for (const int64_t dim : kDims) {
        INFO(name_of(type) << " [" << rows << ", " << dim << "]");
        const int64_t padding = rows == 3 ? 16 : 0;
        const Doubles x = rounded(normals(rows * dim, 1, 3), type), w = rounded(normals(dim, 2), type);
        const float eps = 1e-5f;
        const DeviceMatrix dx(bench, type, rows, dim, x, padding), dy(bench, type, rows, dim, padding);
        const DeviceArray dw(bench, type, w), rstd(bench, DType::f32, rows);
        const auto run = [&] {
          bench.ops().rms_norm(dx.view(), dw.data(), dy.view(), rstd.as<float>(), eps, bench.stream());
        };
        run();
        const auto expected = reference::rms_norm(x, w, rows, dim, static_cast<double>(eps));
        check_within("y", dy.values(), expected.y, allowed_error(type, expected.y, kSteps));
        check_within("rstd", rstd.values(), expected.rstd, allowed_error(DType::f32, expected.rstd, kSteps));
        CHECK(dy.padding_untouched());
        const auto once = dy.bytes();
        run();
        CHECK((dy.bytes() == once));
      }
}

/// The sizes of dx's terms: r (|g| + |x| r^2 mean |g x|).
Doubles rms_norm_sizes(const Doubles& dy, const Doubles& x, const Doubles& w, const Doubles& rstd,
                       int64_t rows, int64_t dim) {
  Doubles sizes;
  for (int64_t r = 0; r < rows; ++r) {
    const double scale = rstd[static_cast<size_t>(r)];
    const auto g = [&](int64_t c) {
      return std::abs(dy[static_cast<size_t>(r * dim + c)] * w[static_cast<size_t>(c)]);
    };
    const auto x_size = [&](int64_t c) { return std::abs(x[static_cast<size_t>(r * dim + c)]); };
    double mean = 0;
    for (int64_t c = 0; c < dim; ++c) mean += g(c) * x_size(c) / static_cast<double>(dim);
    for (int64_t c = 0; c < dim; ++c) sizes.push_back(scale * (g(c) + x_size(c) * scale * scale * mean));
  }
  return sizes;
}

void rms_norm_backward(OpsBench& bench) {
  const float eps = 1e-5f;
  for (const DType type : kActivations)
    for (const int64_t rows : kRows)
      for (const int64_t dim : kDims)
        for (const bool accumulate : {false, true}) {
          INFO(name_of(type) << " [" << rows << ", " << dim << "] accumulate " << accumulate);
          const int64_t padding = rows == 3 ? 16 : 0;
          const Doubles x = rounded(normals(rows * dim, 1, 3), type), w = rounded(normals(dim, 2), type);
          const Doubles dy = rounded(normals(rows * dim, 3, 0.1), type);
          const Doubles old_dx = rounded(normals(rows * dim, 4, 0.1), type);
          const Doubles old_dw = rounded(normals(dim, 5), DType::f32);
          const auto forward = reference::rms_norm(x, w, rows, dim, static_cast<double>(eps));
          auto expected = reference::rms_norm_backward(dy, x, w, rows, dim, static_cast<double>(eps));
          Doubles dx_sizes = rms_norm_sizes(dy, x, w, forward.rstd, rows, dim), dw_sizes = sizes(old_dw);
          for (int64_t e = 0; e < rows * dim; ++e) {
            const size_t i = static_cast<size_t>(e);
            if (accumulate) expected.dx[i] += old_dx[i], dx_sizes[i] += std::abs(old_dx[i]);
            dw_sizes[static_cast<size_t>(e % dim)] +=
                std::abs(dy[i] * x[i] * forward.rstd[static_cast<size_t>(e / dim)]);
          }
          for (size_t c = 0; c < old_dw.size(); ++c) expected.dw[c] += old_dw[c];

          const DeviceMatrix ddy(bench, type, rows, dim, dy, padding), xx(bench, type, rows, dim, x, padding);
          const DeviceArray ww(bench, type, w), rstd(bench, DType::f32, forward.rstd);
          const auto run = [&](bool with_dw) {
            DeviceMatrix dx = accumulate ? DeviceMatrix(bench, type, rows, dim, old_dx, padding)
                                         : DeviceMatrix(bench, type, rows, dim, padding);
            DeviceArray dw(bench, DType::f32, old_dw);
            bench.ops().rms_norm_backward(ddy.view(), xx.view(), ww.data(), rstd.as<float>(), dx.view(),
                                          accumulate, with_dw ? dw.as<float>() : nullptr, bench.stream());
            return std::pair{std::move(dx), std::move(dw)};
          };
          const auto [dx, dw] = run(true);
          check_within("dx", dx.values(), expected.dx, allowed_error(type, expected.dx, dx_sizes, kSteps));
          check_within("dw", dw.values(), expected.dw,
                       allowed_error(DType::f32, expected.dw, dw_sizes, kSteps));
          CHECK(dx.padding_untouched());
          const auto again = run(true);
          CHECK((again.first.bytes() == dx.bytes()));
          CHECK((again.second.bytes() == dw.bytes()));
          const auto without = run(false);
          CHECK((without.first.bytes() == dx.bytes()));
          CHECK((without.second.values() == old_dw));
        }
}

void rope(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const int64_t dim : {16, 64, 128})
      for (const int64_t seq : {1, 5, 257}) {
        const int64_t batch = 2, heads = 3, rows = batch * seq, cols = heads * dim;
        INFO(name_of(type) << " head_dim " << dim << " seq " << seq);
        const Doubles frequencies = reference::rope_frequencies({500000, true, 8, 1, 4, 64}, dim);
        Doubles table(static_cast<size_t>(seq * dim));
        for (int64_t p = 0; p < seq; ++p)
          for (int64_t i = 0; i < dim / 2; ++i) {
            const double angle = static_cast<double>(p) * frequencies[static_cast<size_t>(i)];
            table[static_cast<size_t>(p * dim + i)] = std::cos(angle);
            table[static_cast<size_t>(p * dim + dim / 2 + i)] = std::sin(angle);
          }
        const DeviceArray dtable(bench, DType::f32, table);
        const Doubles x = rounded(normals(rows * cols, 7), type);
        AttentionShape shape;
        shape.batch = batch, shape.seq = seq, shape.heads = heads, shape.kv_heads = heads,
        shape.head_dim = dim;
        for (const bool inverse : {false, true}) {
          const DeviceMatrix y(bench, type, rows, cols, x, 32);
          bench.ops().rope(y.view(), shape, heads, dtable.as<float>(), inverse, bench.stream());
          const Doubles expected = reference::rope(x, rows, seq, heads, dim, frequencies, inverse);
          Doubles pair_sizes(x.size());
          for (size_t e = 0; e < x.size(); ++e) {
            const size_t i = e % static_cast<size_t>(dim), half = static_cast<size_t>(dim / 2);
            pair_sizes[e] = std::abs(x[e]) + std::abs(x[i < half ? e + half : e - half]);
          }
          check_within("y", y.values(), expected, allowed_error(type, expected, pair_sizes, 4));
          CHECK(y.padding_untouched());
        }
      }
}

/// d silu loses up to |g| times the rounding of exp's argument.
Doubles swiglu_sizes(const Doubles& gate_up, const Doubles& d_act, int64_t rows, int64_t inner) {
  Doubles sizes(gate_up.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < inner; ++c) {
      const size_t gate = static_cast<size_t>(r * 2 * inner + c), up = gate + static_cast<size_t>(inner);
      const double g = gate_up[gate], s = 1 / (1 + std::exp(-g)),
                   d = d_act[static_cast<size_t>(r * inner + c)];
      sizes[gate] = std::abs(d * gate_up[up]) * s * (1 + std::abs(g)) * (1 + std::abs(g));
      sizes[up] = std::abs(d * g) * s * (1 + std::abs(g));
    }
  return sizes;
}

void swiglu(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const int64_t rows : kRows)
      for (const int64_t inner : {16, 80, 1000, 4096}) {
        INFO(name_of(type) << " [" << rows << ", " << inner << "]");
        const int64_t padding = rows == 3 ? 16 : 0;
        Doubles gate_up = normals(rows * 2 * inner, 11, 2);
        gate_up[0] = -100, gate_up[1] = 100, gate_up[2] = 0;  // neither overflows nor is NaN
        gate_up = rounded(gate_up, type);
        const Doubles d_act = rounded(normals(rows * inner, 12), type);
        const Doubles act = reference::swiglu(gate_up, rows, inner);
        const Doubles expected = reference::swiglu_backward(d_act, gate_up, rows, inner);
        Doubles act_sizes;
        for (int64_t e = 0; e < rows * inner; ++e)
          act_sizes.push_back(
              act[static_cast<size_t>(e)] *
              (1 + std::abs(gate_up[static_cast<size_t>(e / inner * 2 * inner + e % inner)])));
        const Doubles d_sizes = swiglu_sizes(gate_up, d_act, rows, inner);

        const DeviceMatrix in(bench, type, rows, 2 * inner, gate_up, padding);
        const DeviceMatrix out(bench, type, rows, inner, padding), out2(bench, type, rows, inner, padding);
        const DeviceMatrix d(bench, type, rows, inner, d_act, padding),
            d_in(bench, type, rows, 2 * inner, padding);
        bench.ops().swiglu(in.view(), out.view(), bench.stream());
        check_within("act", out.values(), act, allowed_error(type, act, act_sizes, 16));
        CHECK(out.padding_untouched());
        bench.ops().swiglu_backward(d.view(), in.view(), d_in.view(), out2.view(), bench.stream());
        check_within("d_gate_up", d_in.values(), expected, allowed_error(type, expected, d_sizes, 16));
        check_within("act anew", out2.values(), act, allowed_error(type, act, act_sizes, 16));
        CHECK(d_in.padding_untouched());
        bench.ops().swiglu_backward(d.view(), in.view(), in.view(), Matrix{}, bench.stream());  // in place
        CHECK((in.values() == d_in.values()));
      }
}

void embedding(OpsBench& bench) {
  const int64_t vocabulary = 50;
  for (const DType type : kActivations)
    for (const int64_t rows : {1, 37, 513})
      for (const int64_t dim : {16, 80, 1000}) {
        INFO(name_of(type) << " [" << rows << ", " << dim << "]");
        const Doubles table = rounded(normals(vocabulary * dim, 21), type);
        std::vector<int32_t> ids, order(static_cast<size_t>(rows));
        for (int64_t r = 0; r < rows; ++r)  // a third of them one id, the last one among them
          ids.push_back(r % 3 == 0 ? 49
                                   : static_cast<int32_t>(mix64(3, static_cast<uint64_t>(r)) % vocabulary));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
          return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)];
        });
        const DeviceArray dids(bench, ids), dorder(bench, order);
        const TokenRows tokens{dids.as<int32_t>(), nullptr, dorder.as<int32_t>(), rows};
        const DeviceMatrix dtable(bench, type, vocabulary, dim, table), out(bench, type, rows, dim);
        bench.ops().embedding(tokens, dtable.view(), out.view(), bench.stream());
        Doubles looked_up;
        for (const int32_t id : ids)
          looked_up.insert(looked_up.end(), table.begin() + id * dim, table.begin() + (id + 1) * dim);
        CHECK((out.values() == looked_up));

        const Doubles d = rounded(normals(rows * dim, 22), type);
        const Doubles old = rounded(normals(vocabulary * dim, 23), DType::f32);
        Doubles expected = old, magnitude = sizes(old);
        for (int64_t e = 0; e < rows * dim; ++e) {
          const size_t to = static_cast<size_t>(ids[static_cast<size_t>(e / dim)] * dim + e % dim);
          expected[to] += d[static_cast<size_t>(e)];
          magnitude[to] += std::abs(d[static_cast<size_t>(e)]);
        }
        const DeviceMatrix dd(bench, type, rows, dim, d, 16), first(bench, DType::f32, vocabulary, dim, old),
            second(bench, DType::f32, vocabulary, dim, old);
        bench.ops().embedding_backward(tokens, dd.view(), first.view(), bench.stream());
        bench.ops().embedding_backward(tokens, dd.view(), second.view(), bench.stream());
        check_within("d_table", first.values(), expected,
                     allowed_error(DType::f32, expected, magnitude, static_cast<double>(rows) / 3 + 30));
        CHECK((first.bytes() == second.bytes()));
      }
}

void dropout(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const double p : {0.0, 0.1, 0.5, 1.0})
      for (const int64_t padding : {0, 16}) {
        const int64_t rows = 37, cols = 80;
        INFO(name_of(type) << " p " << p);
        const uint64_t seed = 77, first = (1ull << 40) + 5;
        const Doubles x = rounded(normals(rows * cols, 31), type);
        Doubles expected;
        for (size_t e = 0; e < x.size(); ++e) {
          const double u = static_cast<double>(mix64(seed, first + e) >> 40) / 16777216;
          expected.push_back(u >= p ? x[e] / (1 - p) : 0);
        }
        const DeviceMatrix in(bench, type, rows, cols, x, padding), out(bench, type, rows, cols);
        bench.ops().dropout(in.view(), out.view(), p, seed, first, bench.stream());
        check_within("y", out.values(), expected, allowed_error(type, expected, 3));
        bench.ops().dropout(in.view(), in.view(), p, seed, first, bench.stream());
        CHECK((in.values() == out.values()));
        CHECK(in.padding_untouched());
        const auto zeros = std::count(expected.begin(), expected.end(), 0.0);
        CHECK(std::abs(static_cast<double>(zeros) / 2960 - p) < 0.04);  // 4 standard deviations at most
      }
}

}  // namespace

TEST_CASE("llm: rms_norm", "[llm]") {
  on_host(rms_norm);
}
TEST_CASE("cuda: llm: rms_norm", "[.cuda]") {
  on_cuda(rms_norm);
}
TEST_CASE("llm: rms_norm_backward", "[llm]") {
  on_host(rms_norm_backward);
}
TEST_CASE("cuda: llm: rms_norm_backward", "[.cuda]") {
  on_cuda(rms_norm_backward);
}
TEST_CASE("llm: rope and its inverse", "[llm]") {
  on_host(rope);
}
TEST_CASE("cuda: llm: rope and its inverse", "[.cuda]") {
  on_cuda(rope);
}
TEST_CASE("llm: swiglu and its gradient", "[llm]") {
  on_host(swiglu);
}
TEST_CASE("cuda: llm: swiglu and its gradient", "[.cuda]") {
  on_cuda(swiglu);
}
TEST_CASE("llm: embedding and its gradient", "[llm]") {
  on_host(embedding);
}
TEST_CASE("cuda: llm: embedding and its gradient", "[.cuda]") {
  on_cuda(embedding);
}
TEST_CASE("llm: dropout", "[llm]") {
  on_host(dropout);
}
TEST_CASE("cuda: llm: dropout", "[.cuda]") {
  on_cuda(dropout);
}

TEST_CASE("llm: ids beyond the vocabulary are refused", "[llm]") {
  OpsBench bench("host");
  const DeviceArray ids(bench, std::vector<int32_t>{3, 50});
  const DeviceMatrix table(bench, DType::f32, 50, 16), out(bench, DType::f32, 2, 16);
  const TokenRows tokens{ids.as<int32_t>(), nullptr, nullptr, 2};
  CHECK_THROWS_AS(bench.ops().embedding(tokens, table.view(), out.view(), bench.stream()), std::logic_error);
}

// Losses, drawn targets and the optimiser on either device, against the double-precision reference.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/device/random.h"
#include "verify/unit/llm_fixture.h"

using namespace tt;
using namespace tt::test;

namespace {

struct LossCase {
  DType type;
  int64_t rows, vocabulary;
  double logit_scale;
  bool all_negative = false;
};

/// With lse rounded to f32 a probability is off by |lse| 2^-24 of itself; the loss is a difference of figures
/// of the size of lse and of the target's logit.
void check_cross_entropy(OpsBench& bench, const LossCase& x) {
  INFO(name_of(x.type) << " [" << x.rows << ", " << x.vocabulary << "] logits x" << x.logit_scale);
  const int64_t padding = x.rows == 3 ? 16 : 0;
  const Doubles logits = rounded(normals(x.rows * x.vocabulary, 41, x.logit_scale), x.type);
  std::vector<int32_t> targets;
  for (int64_t r = 0; r < x.rows; ++r)
    targets.push_back(
        x.all_negative || r % 5 == 2
            ? -1 - static_cast<int32_t>(r) * 7
            : static_cast<int32_t>(mix64(5, static_cast<uint64_t>(r)) % static_cast<uint64_t>(x.vocabulary)));
  const float scale = 0.125f;
  const auto expected =
      reference::cross_entropy(logits, targets, x.rows, x.vocabulary, static_cast<double>(scale));
  Doubles loss_sizes, gradient_sizes;
  for (int64_t r = 0; r < x.rows; ++r) {
    const int32_t target = targets[static_cast<size_t>(r)];
    const size_t first = static_cast<size_t>(r * x.vocabulary);
    const double at_target = target < 0 ? 0 : logits[first + static_cast<size_t>(target)];
    const double lse = expected.loss[static_cast<size_t>(r)] + at_target;
    loss_sizes.push_back(1 + std::abs(lse) + std::abs(at_target));
    for (int64_t j = 0; j < x.vocabulary; ++j) {
      const double p = target < 0 ? 0 : std::exp(logits[first + static_cast<size_t>(j)] - lse);
      gradient_sizes.push_back(static_cast<double>(scale) *
                               (p * (4 + std::abs(lse)) + (j == target ? 1.0 : 0.0)));
    }
  }
  const DeviceMatrix d(bench, x.type, x.rows, x.vocabulary, logits, padding);
  const DeviceArray dtargets(bench, targets), loss(bench, DType::f32, x.rows);
  const auto run = [&](bool gradient) {
    bench.ops().cross_entropy(d.view(), dtargets.as<int32_t>(), loss.as<float>(), scale, gradient,
                              bench.stream());
  };
  run(false);
  const Doubles only_loss = loss.values();
  check_within("loss", only_loss, expected.loss, allowed_error(DType::f32, expected.loss, loss_sizes, 16));
  CHECK((d.values() == logits));
  run(true);
  check_within("loss", loss.values(), expected.loss,
               allowed_error(DType::f32, expected.loss, loss_sizes, 16));
  check_within("gradient", d.values(), expected.gradient,
               allowed_error(x.type, expected.gradient, gradient_sizes, 16));
  CHECK(d.padding_untouched());
}

void cross_entropy(OpsBench& bench) {
  for (const DType type : kActivations) {
    for (const int64_t rows : {1, 3, 37})
      for (const int64_t vocabulary : {16, 80, 1000, 4096})
        check_cross_entropy(bench, {type, rows, vocabulary, 3});
    check_cross_entropy(bench, {type, 3, 50257, 2});
    check_cross_entropy(bench, {type, 37, 1000, 1e4});  // one token has all of it
    check_cross_entropy(bench, {type, 3, 1000, 1e30});  // exp of any difference is 0
    check_cross_entropy(bench, {type, 37, 80, 3, true});
  }
}

void cross_entropy_ignores_rows_without_target(OpsBench& bench) {
  for (const DType type : kActivations) {
    const DeviceMatrix d(bench, type, 2, 80);  // NaN
    const DeviceArray targets(bench, std::vector<int32_t>{-1, -100}), loss(bench, DType::f32, 2);
    bench.ops().cross_entropy(d.view(), targets.as<int32_t>(), loss.as<float>(), 1, true, bench.stream());
    CHECK((loss.values() == Doubles{0, 0}));
    CHECK((d.values() == Doubles(160)));
    const DeviceMatrix nan(bench, type, 1, 80);
    const DeviceArray target(bench, std::vector<int32_t>{4}), bad(bench, DType::f32, Doubles{0});
    bench.ops().cross_entropy(nan.view(), target.as<int32_t>(), bad.as<float>(), 1, false, bench.stream());
    CHECK(std::isnan(bad.values()[0]));  // a NaN is not lost on the way
  }
}

std::vector<int32_t> int32s(const DeviceArray& x) {
  std::vector<int32_t> values;
  for (const double value : x.values()) values.push_back(static_cast<int32_t>(value));
  return values;
}

/// The largest of logit + Gumbel noise from the top 24 bits k of mix64: -log(-log((k + 1/2) / 2^24)).
void sample(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const int64_t vocabulary : {16, 1000, 4096}) {
      INFO(name_of(type) << " vocabulary " << vocabulary);
      const int64_t rows = 37;
      const uint64_t seed = 9, counter = 1ull << 33;
      const Doubles logits = rounded(normals(rows * vocabulary, 51, 2), type);
      const DeviceMatrix d(bench, type, rows, vocabulary, logits, 16);
      const DeviceArray targets(bench, DType::int32, rows), entropy(bench, DType::f32, rows);
      bench.ops().sample(d.view(), seed, counter, targets.as<int32_t>(), entropy.as<float>(), bench.stream());
      const std::vector<int32_t> got = int32s(targets);
      for (int64_t r = 0; r < rows; ++r) {
        Doubles values;
        for (int64_t j = 0; j < vocabulary; ++j) {
          const uint64_t e = static_cast<uint64_t>(r * vocabulary + j);
          const double u = (static_cast<double>(mix64(seed, counter + e) >> 40) + 0.5) / 16777216;
          values.push_back(logits[e] - std::log(-std::log(u)));
        }
        const double best = *std::max_element(values.begin(), values.end());
        REQUIRE(got[static_cast<size_t>(r)] >= 0);
        REQUIRE(got[static_cast<size_t>(r)] < vocabulary);
        CHECK(values[static_cast<size_t>(got[static_cast<size_t>(r)])] >
              best - 1e-9);  // logarithms may differ
      }
      const Doubles expected = reference::entropy(logits, rows, vocabulary);
      check_within("entropy", entropy.values(), expected,
                   allowed_error(DType::f32, expected, Doubles(expected.size(), 10), 64));
      bench.ops().sample(d.view(), seed, counter, targets.as<int32_t>(), nullptr, bench.stream());
      CHECK((int32s(targets) == got));
      bench.ops().sample(d.view(), seed + 1, counter, targets.as<int32_t>(), nullptr, bench.stream());
      CHECK((int32s(targets) != got));
    }
}

/// 20,000 draws from five tokens: the chi-square of 4 degrees of freedom lies below 23.5 but once in 10^4.
void sample_follows_the_softmax(OpsBench& bench) {
  const int64_t rows = 20000, vocabulary = 5;
  const Doubles one = {0, 1, -1, 2, -std::numeric_limits<double>::infinity()};
  Doubles logits;
  for (int64_t r = 0; r < rows; ++r) logits.insert(logits.end(), one.begin(), one.end());
  const DeviceMatrix d(bench, DType::f32, rows, vocabulary, logits);
  const DeviceArray targets(bench, DType::int32, rows), entropy(bench, DType::f32, rows);
  bench.ops().sample(d.view(), 1, 0, targets.as<int32_t>(), entropy.as<float>(), bench.stream());
  Doubles counts(5);
  for (const int32_t t : int32s(targets)) counts.at(static_cast<size_t>(t)) += 1;
  const double z = 1 + std::exp(1.0) + std::exp(-1.0) + std::exp(2.0);
  double chi = 0;
  for (size_t j = 0; j < 4; ++j) {
    const double wanted = static_cast<double>(rows) * std::exp(one[j]) / z;
    chi += (counts[j] - wanted) * (counts[j] - wanted) / wanted;
  }
  CHECK(chi < 23.5);
  CHECK(counts[4] == 0);
  const double expected = reference::entropy(one, 1, vocabulary)[0];
  for (const double e : entropy.values())
    if (!(std::abs(e - expected) < 1e-5)) FAIL("entropy " << e << ", expected " << expected);
}

void squared_error(OpsBench& bench) {
  for (const DType type : kActivations)
    for (const int64_t rows : {1, 3, 37})
      for (const int64_t dim : {16, 1000, 4096}) {
        INFO(name_of(type) << " [" << rows << ", " << dim << "]");
        const Doubles y = rounded(normals(rows * dim, 61), type),
                      target = rounded(normals(rows * dim, 62), type);
        const float scale = 0.75f;
        Doubles loss(static_cast<size_t>(rows)), gradient;
        for (size_t e = 0; e < y.size(); ++e) {
          loss[e / static_cast<size_t>(dim)] += (y[e] - target[e]) * (y[e] - target[e]);
          gradient.push_back(2 * static_cast<double>(scale) * (y[e] - target[e]));
        }
        const DeviceMatrix a(bench, type, rows, dim, y, 16), b(bench, type, rows, dim, target),
            d(bench, type, rows, dim);
        const DeviceArray row_loss(bench, DType::f32, rows);
        bench.ops().squared_error(a.view(), b.view(), row_loss.as<float>(), d.view(), scale, bench.stream());
        check_within("loss", row_loss.values(), loss, allowed_error(DType::f32, loss, 64));
        check_within("dy", d.values(), gradient, allowed_error(type, gradient, 4));
      }
}

/// Each step rounds p, m and v a few times, and takes their update from g with a handful of roundings.
void adamw(OpsBench& bench) {
  for (const int64_t count : {1, 37, 4097})
    for (const DType copy_type : {DType::bf16, DType::f32})
      for (const bool clipped : {false, true}) {
        INFO(count << " parameters, copy " << name_of(copy_type) << ", clipped " << clipped);
        AdamWStep step;
        step.lr = 3e-3, step.weight_decay = 0.1, step.beta2 = 0.95;
        const reference::AdamW rule{step.lr, step.beta1, step.beta2, step.eps, step.weight_decay};
        Doubles p = rounded(normals(count, 71), DType::f32);
        const double factor = clipped ? 0.25 : 1;
        reference::AdamWState state;
        const DeviceArray dp(bench, DType::f32, p), m(bench, DType::f32, Doubles(p.size())),
            v(bench, DType::f32, Doubles(p.size())), dfactor(bench, DType::f32, Doubles{factor}),
            copy(bench, copy_type, count);
        for (step.t = 1; step.t <= 4; ++step.t) {
          Doubles g = rounded(normals(count, 80 + static_cast<uint64_t>(step.t), 0.01), DType::f32);
          if (count > 1) g[1] = 0;  // 0 / (0 + eps)
          const DeviceArray dg(bench, DType::f32, g);
          bench.ops().adamw(dp.as<float>(), m.as<float>(), v.as<float>(), dg.as<float>(),
                            clipped ? dfactor.as<float>() : nullptr, copy.data(), copy_type, count, step,
                            bench.stream());
          for (double& x : g) x *= factor;
          reference::adamw_step(rule, p, g, state);
          Doubles sizes;
          for (const double x : p) sizes.push_back(std::abs(x) + 8 * step.lr);
          check_within("parameters", dp.values(), p,
                       allowed_error(DType::f32, p, sizes, 8 * static_cast<double>(step.t)));
          check_within("m", m.values(), state.m,
                       allowed_error(DType::f32, state.m, Doubles(p.size(), 0.01), 16));
          check_within("v", v.values(), state.v,
                       allowed_error(DType::f32, state.v, Doubles(p.size(), 1e-4), 16));
          CHECK((copy.values() == rounded(dp.values(), copy_type)));
        }
        const DeviceArray g(bench, DType::f32, Doubles(p.size()));
        bench.ops().adamw(dp.as<float>(), m.as<float>(), v.as<float>(), g.as<float>(), nullptr, nullptr,
                          DType::f32, count, step, bench.stream());
        CHECK((dp.values() != p));
      }
}

}  // namespace

TEST_CASE("llm: cross_entropy", "[llm]") {
  on_host(cross_entropy);
}
TEST_CASE("cuda: llm: cross_entropy", "[.cuda]") {
  on_cuda(cross_entropy);
}
TEST_CASE("llm: cross_entropy of rows without a target, and of NaN", "[llm]") {
  on_host(cross_entropy_ignores_rows_without_target);
}
TEST_CASE("cuda: llm: cross_entropy of rows without a target, and of NaN", "[.cuda]") {
  on_cuda(cross_entropy_ignores_rows_without_target);
}
TEST_CASE("llm: sample", "[llm]") {
  on_host(sample);
}
TEST_CASE("cuda: llm: sample", "[.cuda]") {
  on_cuda(sample);
}
TEST_CASE("llm: samples follow the softmax", "[llm]") {
  on_host(sample_follows_the_softmax);
}
TEST_CASE("cuda: llm: samples follow the softmax", "[.cuda]") {
  on_cuda(sample_follows_the_softmax);
}
TEST_CASE("llm: squared_error", "[llm]") {
  on_host(squared_error);
}
TEST_CASE("cuda: llm: squared_error", "[.cuda]") {
  on_cuda(squared_error);
}
TEST_CASE("llm: adamw", "[llm]") {
  on_host(adamw);
}
TEST_CASE("cuda: llm: adamw", "[.cuda]") {
  on_cuda(adamw);
}

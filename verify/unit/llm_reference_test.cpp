// The reference itself: its gradients against central differences of its own forward pass. With a step of h
// the difference (f(x + h) - f(x - h)) / 2h is off by about h^2 f''' / 6 and 1e-16 f / h: some 1e-9 for
// h = 1e-5 and figures of the order of 1.
#include <cmath>
#include <functional>

#include "src/device/random.h"
#include "verify/reference/llama_reference.h"
#include "verify/unit/llm_fixture.h"

using namespace tt;
using namespace tt::test;

namespace {

constexpr double kStep = 1e-5;

double dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

/// The gradient of f at x, element by element where `every` divides the index, against `expected`.
void check_gradient(const std::string& what, Doubles x, const Doubles& expected,
                    const std::function<double(const Doubles&)>& f, size_t every = 1) {
  REQUIRE(x.size() == expected.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); i += every) {
    const double at = x[i];
    x[i] = at + kStep;
    const double above = f(x);
    x[i] = at - kStep;
    const double below = f(x);
    x[i] = at;
    worst = std::max(worst, std::abs((above - below) / (2 * kStep) - expected[i]));
  }
  INFO(what << ": off by " << worst);
  CHECK(worst < 1e-7);
}

}  // namespace

TEST_CASE("llm reference: gradients of norm, rotation, activation and loss by differences", "[llm]") {
  const int64_t rows = 3, dim = 6;
  const Doubles x = normals(rows * dim, 1), w = normals(dim, 2), dy = normals(rows * dim, 3);
  const auto g = reference::rms_norm_backward(dy, x, w, rows, dim, 1e-5);
  check_gradient("norm, x", x, g.dx,
                 [&](const Doubles& at) { return dot(dy, reference::rms_norm(at, w, rows, dim, 1e-5).y); });
  check_gradient("norm, w", w, g.dw,
                 [&](const Doubles& at) { return dot(dy, reference::rms_norm(x, at, rows, dim, 1e-5).y); });

  const Doubles f = reference::rope_frequencies({}, dim);
  check_gradient("rope", x, reference::rope(dy, rows, 2, 1, dim, f, true),
                 [&](const Doubles& at) { return dot(dy, reference::rope(at, rows, 2, 1, dim, f, false)); });

  const Doubles d_act = normals(rows * dim / 2, 4);
  check_gradient("swiglu", x, reference::swiglu_backward(d_act, x, rows, dim / 2),
                 [&](const Doubles& at) { return dot(d_act, reference::swiglu(at, rows, dim / 2)); });

  const std::vector<int32_t> targets{4, -1, 0};
  const auto total = [&](const Doubles& at) {
    double sum = 0;
    for (const double loss : reference::cross_entropy(at, targets, rows, dim, 1).loss) sum += 0.5 * loss;
    return sum;
  };
  check_gradient("cross entropy", x, reference::cross_entropy(x, targets, rows, dim, 0.5).gradient, total);
}

TEST_CASE("llm reference: attention's gradients by differences", "[llm]") {
  const reference::AttentionDims d{2, 5, 4, 2, 3};
  const Doubles q = normals(10 * 12, 1), k = normals(10 * 6, 2), v = normals(10 * 6, 3),
                dout = normals(10 * 12, 4);
  const auto g = reference::attention_backward(d, q, k, v, dout);
  check_gradient("dq", q, g.dq,
                 [&](const Doubles& x) { return dot(dout, reference::attention(d, x, k, v).out); });
  check_gradient("dk", k, g.dk,
                 [&](const Doubles& x) { return dot(dout, reference::attention(d, q, x, v).out); });
  check_gradient("dv", v, g.dv,
                 [&](const Doubles& x) { return dot(dout, reference::attention(d, q, k, x).out); });
}

TEST_CASE("llm reference: known values", "[llm]") {
  CHECK(reference::rms_norm({3, 4}, {1, 2}, 1, 2, 0).y[1] == Approx(8 / std::sqrt(12.5)));
  CHECK(reference::swiglu({1, 2}, 1, 1)[0] == Approx(2 / (1 + std::exp(-1.0))));
  CHECK(reference::cross_entropy({0, 0, 0, 0}, {2}, 1, 4, 1).loss[0] == Approx(std::log(4.0)));
  CHECK(reference::entropy({0, 0, 0, 0}, 1, 4)[0] == Approx(std::log(4.0)));
  // The first token sees itself only.
  CHECK(reference::attention({1, 2, 1, 1, 1}, {1, 1}, {5, 7}, {2, 4}).out[0] == Approx(2));
  // transformers' _compute_llama3_parameters for Llama 3.1: theta 500000, factor 8, 1, 4, 8192, head_dim 128.
  const Doubles f = reference::rope_frequencies({500000, true, 8, 1, 4, 8192}, 128);
  CHECK(f[0] == 1);
  CHECK(f[63] == Approx(std::pow(500000, -126.0 / 128) / 8));
  // One step of AdamW from zero moments moves by lr sign(g), besides the decay.
  Doubles p{1, -2};
  reference::AdamWState state;
  reference::adamw_step({0.1, 0.9, 0.999, 0, 0.5}, p, {3, -4}, state);
  CHECK(p[0] == Approx(0.95 - 0.1));
  CHECK(p[1] == Approx(-1.9 + 0.1));
  CHECK(reference::clip_factor(10, 1) == Approx(0.1).epsilon(1e-6));
  CHECK(reference::clip_factor(0.5, 1) == 1);
}

TEST_CASE("llm reference: a whole model's gradients by differences", "[llm]") {
  for (const bool tied : {false, true}) {
    reference::LlamaDims d;
    d.hidden = 8, d.intermediate = 12, d.layers = 2, d.heads = 4, d.kv_heads = 2, d.head_dim = 4,
    d.vocabulary = 11;
    d.tied = tied;
    d.rope = {10000, true, 8, 1, 4, 16};
    reference::Parameters p;
    uint64_t seed = 10;
    for (const auto& [name, size] : reference::llama_parameter_sizes(d)) p[name] = normals(size, ++seed, 0.5);
    const reference::LoraScales lora{{"model.layers.0.self_attn.q_proj", 2},
                                     {"model.layers.1.mlp.down_proj", 0.5}};
    for (const auto& [module, scale] : lora) {
      const auto [out, in] = reference::llama_linear_shapes(d).at(module.substr(15));
      p["base_model.model." + module + ".lora_A.weight"] = normals(3 * in, ++seed, 0.5);
      p["base_model.model." + module + ".lora_B.weight"] = normals(out * 3, ++seed, 0.5);
    }
    const reference::LlamaBatch batch{2, 4, {0, 3, 3, 10, 7, 0, 1, 2}, {3, 3, -1, 1, 0, -5, 2, 9}};
    const auto result = reference::llama(d, p, lora, batch);
    CHECK(result.trained == 6);
    REQUIRE(result.gradients.size() == p.size());
    for (const auto& [name, values] : p)
      check_gradient(
          name, values, result.gradients.at(name),
          [&, name = name](const Doubles& x) {
            reference::Parameters moved = p;
            moved[name] = x;
            return reference::llama(d, moved, lora, batch).loss;
          },
          5);
  }
}

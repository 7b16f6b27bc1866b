#include "verify/reference/llama_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tt::reference {
namespace {

void add(Doubles& to, const Doubles& x) {
  to.resize(std::max(to.size(), x.size()));
  for (size_t i = 0; i < x.size(); ++i) to[i] += x[i];
}

/// What a layer's forward pass leaves for its gradient.
struct LayerTrace {
  Doubles h_in, n1, q, k, v, heads, h_mid, n2, gate_up, act;
};

class Model {
 public:
  Model(const LlamaDims& dims, const Parameters& parameters, const LoraScales& lora, const LlamaBatch& batch)
      : d_(dims),
        p_(parameters),
        lora_(lora),
        b_(batch),
        rows_(batch.batch * batch.seq),
        shapes_(llama_linear_shapes(dims)),
        frequencies_(rope_frequencies(dims.rope, dims.head_dim)),
        attention_{batch.batch, batch.seq, dims.heads, dims.kv_heads, dims.head_dim} {}

  LlamaResult run() {
    Doubles h;
    const Doubles& embedding = p_.at("model.embed_tokens.weight");
    for (const int32_t id : b_.inputs) {
      const auto row = embedding.begin() + id * d_.hidden;
      h.insert(h.end(), row, row + d_.hidden);
    }
    for (int64_t layer = 0; layer < d_.layers; ++layer) h = layer_forward(layer, h);
    const Doubles& w = p_.at("model.norm.weight");
    const Doubles n = rms_norm(h, w, rows_, d_.hidden, d_.rms_eps).y;
    const std::string head = d_.tied ? "model.embed_tokens.weight" : "lm_head.weight";
    result_.logits = linear(n, p_.at(head), rows_, d_.hidden, d_.vocabulary);
    const Doubles dlogits = loss();

    add(result_.gradients[head], linear_weight_gradient(dlogits, n, rows_, d_.hidden, d_.vocabulary));
    const Doubles dn = linear_input_gradient(dlogits, p_.at(head), rows_, d_.hidden, d_.vocabulary);
    Doubles dh = norm_backward("model.norm.weight", dn, h);
    for (int64_t layer = d_.layers - 1; layer >= 0; --layer) dh = layer_backward(layer, dh);
    Doubles& dembedding = result_.gradients["model.embed_tokens.weight"];
    dembedding.resize(embedding.size());
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < d_.hidden; ++c)
        dembedding.at(static_cast<size_t>(b_.inputs.at(static_cast<size_t>(r)) * d_.hidden + c)) +=
            dh.at(static_cast<size_t>(r * d_.hidden + c));
    return std::move(result_);
  }

 private:
  Doubles loss() {
    result_.trained = std::count_if(b_.targets.begin(), b_.targets.end(), [](int32_t t) { return t >= 0; });
    const double share = result_.trained > 0 ? 1 / static_cast<double>(result_.trained) : 0;
    CrossEntropy ce = cross_entropy(result_.logits, b_.targets, rows_, d_.vocabulary, share);
    for (const double x : ce.loss) result_.loss += share * x;
    return std::move(ce.gradient);
  }

  static std::string name(int64_t layer, const std::string& part) {
    return "model.layers." + std::to_string(layer) + "." + part;
  }

  Doubles apply(int64_t layer, const std::string& part, const Doubles& x) const {
    const auto [out, in] = shapes_.at(part);
    const std::string module = name(layer, part);
    Doubles y = linear(x, p_.at(module + ".weight"), rows_, in, out);
    if (const auto scale = lora_.find(module); scale != lora_.end()) {
      const Doubles &a = p_.at("base_model.model." + module + ".lora_A.weight"),
                    &b = p_.at("base_model.model." + module + ".lora_B.weight");
      const int64_t rank = static_cast<int64_t>(a.size()) / in;
      const Doubles low = linear(x, a, rows_, in, rank), high = linear(low, b, rows_, rank, out);
      for (size_t i = 0; i < y.size(); ++i) y[i] += scale->second * high[i];
    }
    return y;
  }

  /// Adds the gradients of W, A and B; returns that of x. With u = A x: dB = scale dy u^T, du = scale B^T dy,
  /// dA = du x^T, dx = W^T dy + A^T du.
  Doubles apply_backward(int64_t layer, const std::string& part, const Doubles& dy, const Doubles& x) {
    const auto [out, in] = shapes_.at(part);
    const std::string module = name(layer, part), adapter = "base_model.model." + module;
    Doubles dx = linear_input_gradient(dy, p_.at(module + ".weight"), rows_, in, out);
    result_.gradients[module + ".weight"] = linear_weight_gradient(dy, x, rows_, in, out);
    if (const auto scale = lora_.find(module); scale != lora_.end()) {
      const Doubles &a = p_.at(adapter + ".lora_A.weight"), &b = p_.at(adapter + ".lora_B.weight");
      const int64_t rank = static_cast<int64_t>(a.size()) / in;
      Doubles scaled = dy;
      for (double& value : scaled) value *= scale->second;
      const Doubles u = linear(x, a, rows_, in, rank),
                    du = linear_input_gradient(scaled, b, rows_, rank, out);
      result_.gradients[adapter + ".lora_B.weight"] = linear_weight_gradient(scaled, u, rows_, rank, out);
      result_.gradients[adapter + ".lora_A.weight"] = linear_weight_gradient(du, x, rows_, in, rank);
      add(dx, linear_input_gradient(du, a, rows_, in, rank));
    }
    return dx;
  }

  Doubles norm_backward(const std::string& weight, const Doubles& dy, const Doubles& x) {
    RmsNormGradient g = rms_norm_backward(dy, x, p_.at(weight), rows_, d_.hidden, d_.rms_eps);
    result_.gradients[weight] = std::move(g.dw);
    return std::move(g.dx);
  }

  Doubles turn(const Doubles& x, int64_t heads, bool inverse) const {
    return rope(x, rows_, b_.seq, heads, d_.head_dim, frequencies_, inverse);
  }

  Doubles layer_forward(int64_t layer, const Doubles& h) {
    LayerTrace t;
    t.h_in = h;
    t.n1 = rms_norm(h, p_.at(name(layer, "input_layernorm.weight")), rows_, d_.hidden, d_.rms_eps).y;
    t.q = turn(apply(layer, "self_attn.q_proj", t.n1), d_.heads, false);
    t.k = turn(apply(layer, "self_attn.k_proj", t.n1), d_.kv_heads, false);
    t.v = apply(layer, "self_attn.v_proj", t.n1);
    t.heads = attention(attention_, t.q, t.k, t.v).out;
    t.h_mid = h;
    add(t.h_mid, apply(layer, "self_attn.o_proj", t.heads));
    t.n2 =
        rms_norm(t.h_mid, p_.at(name(layer, "post_attention_layernorm.weight")), rows_, d_.hidden, d_.rms_eps)
            .y;
    t.gate_up = side_by_side(apply(layer, "mlp.gate_proj", t.n2), apply(layer, "mlp.up_proj", t.n2));
    t.act = swiglu(t.gate_up, rows_, d_.intermediate);
    Doubles out = t.h_mid;
    add(out, apply(layer, "mlp.down_proj", t.act));
    traces_.push_back(std::move(t));
    return out;
  }

  Doubles layer_backward(int64_t layer, const Doubles& dout) {
    const LayerTrace& t = traces_.at(static_cast<size_t>(layer));
    const Doubles dact = apply_backward(layer, "mlp.down_proj", dout, t.act);
    const Doubles dgate_up = swiglu_backward(dact, t.gate_up, rows_, d_.intermediate);
    Doubles dn2 = apply_backward(layer, "mlp.gate_proj", half(dgate_up, 0), t.n2);
    add(dn2, apply_backward(layer, "mlp.up_proj", half(dgate_up, 1), t.n2));
    Doubles dh = dout;
    add(dh, norm_backward(name(layer, "post_attention_layernorm.weight"), dn2, t.h_mid));

    const Doubles dheads = apply_backward(layer, "self_attn.o_proj", dh, t.heads);
    const AttentionGradient g = attention_backward(attention_, t.q, t.k, t.v, dheads);
    Doubles dn1 = apply_backward(layer, "self_attn.q_proj", turn(g.dq, d_.heads, true), t.n1);
    add(dn1, apply_backward(layer, "self_attn.k_proj", turn(g.dk, d_.kv_heads, true), t.n1));
    add(dn1, apply_backward(layer, "self_attn.v_proj", g.dv, t.n1));
    add(dh, norm_backward(name(layer, "input_layernorm.weight"), dn1, t.h_in));
    return dh;
  }

  Doubles side_by_side(const Doubles& gate, const Doubles& up) const {
    Doubles both;
    for (int64_t r = 0; r < rows_; ++r)
      for (const Doubles* x : {&gate, &up})
        both.insert(both.end(), x->begin() + r * d_.intermediate, x->begin() + (r + 1) * d_.intermediate);
    return both;
  }
  Doubles half(const Doubles& both, int64_t which) const {
    Doubles part;
    for (int64_t r = 0; r < rows_; ++r) {
      const auto first = both.begin() + (2 * r + which) * d_.intermediate;
      part.insert(part.end(), first, first + d_.intermediate);
    }
    return part;
  }

  const LlamaDims& d_;
  const Parameters& p_;
  const LoraScales& lora_;
  const LlamaBatch& b_;
  int64_t rows_;
  std::map<std::string, std::pair<int64_t, int64_t>> shapes_;
  Doubles frequencies_;
  AttentionDims attention_;
  std::vector<LayerTrace> traces_;
  LlamaResult result_;
};

}  // namespace

LlamaResult llama(const LlamaDims& dims, const Parameters& parameters, const LoraScales& lora,
                  const LlamaBatch& batch) {
  return Model(dims, parameters, lora, batch).run();
}

std::map<std::string, std::pair<int64_t, int64_t>> llama_linear_shapes(const LlamaDims& d) {
  const int64_t q = d.heads * d.head_dim, kv = d.kv_heads * d.head_dim;
  return {{"self_attn.q_proj", {q, d.hidden}},           {"self_attn.k_proj", {kv, d.hidden}},
          {"self_attn.v_proj", {kv, d.hidden}},          {"self_attn.o_proj", {d.hidden, q}},
          {"mlp.gate_proj", {d.intermediate, d.hidden}}, {"mlp.up_proj", {d.intermediate, d.hidden}},
          {"mlp.down_proj", {d.hidden, d.intermediate}}};
}

std::map<std::string, int64_t> llama_parameter_sizes(const LlamaDims& d) {
  std::map<std::string, int64_t> sizes{{"model.embed_tokens.weight", d.vocabulary * d.hidden},
                                       {"model.norm.weight", d.hidden}};
  if (!d.tied) sizes["lm_head.weight"] = d.vocabulary * d.hidden;
  for (int64_t layer = 0; layer < d.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (const auto& [part, shape] : llama_linear_shapes(d))
      sizes[prefix + part + ".weight"] = shape.first * shape.second;
    sizes[prefix + "input_layernorm.weight"] = d.hidden;
    sizes[prefix + "post_attention_layernorm.weight"] = d.hidden;
  }
  return sizes;
}

double norm(const Parameters& gradients) {
  double sum = 0;
  for (const auto& [name, values] : gradients)
    for (const double x : values) sum += x * x;
  return std::sqrt(sum);
}

}  // namespace tt::reference

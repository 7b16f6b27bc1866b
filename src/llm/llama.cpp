#include "src/llm/llama.h"

#include <algorithm>

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

constexpr int64_t kLogitBytes = int64_t{512} << 20;

ProjectionOptions projection_options(const LlamaOptions& o) {
  return {o.batch * o.seq, o.dropout, o.dropout_seed, o.stale_scale};
}

const ProjectionRefs& projection(const LayerRefs& layer, Projection p) {
  return layer.projections[static_cast<size_t>(p)];
}

}  // namespace

const char* name_of(Recompute recompute) noexcept {
  return recompute == Recompute::none ? "none" : recompute == Recompute::attention ? "attention" : "layer";
}

Recompute parse_recompute(std::string_view option, std::string_view text) {
  for (const Recompute r : {Recompute::none, Recompute::attention, Recompute::layer})
    if (text == name_of(r)) return r;
  throw UsageError(std::string(option) + ": unknown kind " + in_quotes(text) +
                   "; accepted: none, attention, layer, auto");
}

Llama::Llama(const TrainContext& context, Parameters& parameters, const ModelConfig& config,
             const LlamaRefs& refs, const LlamaOptions& options)
    : context_(context),
      parameters_(parameters),
      config_(config),
      refs_(refs),
      options_(options),
      attention_{options.batch, options.seq, config.heads, config.kv_heads, config.head_dim},
      type_(parameters.compute_type()),
      projections_(context, parameters, refs, projection_options(options)) {
  Device& device = context.device;
  const auto matrix = [&](int64_t rows, int64_t cols) {
    return device.allocate(static_cast<size_t>(rows * cols) * size_of(type_));
  };
  const auto floats = [&](int64_t count) {
    return device.allocate(static_cast<size_t>(count) * sizeof(float));
  };
  const int64_t n = tokens(), h = config.hidden, inner = config.intermediate;
  const int64_t qkv = config.q_size() + 2 * config.kv_size();

  const std::vector<float> table = rope_table(config.rope, config.head_dim, options.seq);
  rope_ = floats(static_cast<int64_t>(table.size()));
  device.copy(rope_.data(), table.data(), rope_.bytes(), context.compute);
  context.compute.synchronize();  // the table is gone after this

  for (int64_t l = 0; l <= config.layers; ++l) residual_.push_back(matrix(n, h));
  const int64_t sets = options.recompute == Recompute::layer ? 1 : config.layers;
  if (options.recompute == Recompute::attention) {
    shared_.qkv = matrix(n, qkv);
    shared_.attention = matrix(n, config.q_size());
    shared_.lse = floats(options.batch * config.heads * options.seq);
    shared_.norm1 = floats(n);
  }
  for (int64_t l = 0; l < sets; ++l) kept_.push_back(make_kept());
  for (const LayerRefs& layer : refs.layers)
    down_u_.push_back(matrix(n, projection(layer, Projection::down).stacked_rank));

  row_loss_ = floats(n);
  final_rstd_ = floats(n);
  const int64_t row_bytes = config.vocabulary * static_cast<int64_t>(size_of(type_));
  if (options_.logit_rows <= 0) options_.logit_rows = std::max<int64_t>(1, kLogitBytes / row_bytes);
  options_.logit_rows = std::min(options_.logit_rows, n);
  logits_ = matrix(options_.logit_rows, config.vocabulary);
  normed_ = matrix(n, h);
  activation_ = matrix(n, inner);
  gradient_ = matrix(n, h);
  d_normed_ = matrix(n, h);
  d_attention_ = matrix(n, config.q_size());
  d_qkv_ = matrix(n, qkv);
  d_gate_up_ = matrix(n, 2 * inner);
  d_activation_ = matrix(n, inner);
}

Llama::Kept Llama::make_kept() const {
  Device& device = context_.device;
  const size_t n = static_cast<size_t>(tokens()), width = size_of(type_);
  const auto matrix = [&](int64_t cols) { return device.allocate(n * static_cast<size_t>(cols) * width); };
  Kept k;
  if (options_.recompute != Recompute::attention) {
    k.norm1 = device.allocate(n * sizeof(float));
    k.qkv = matrix(config_.q_size() + 2 * config_.kv_size());
    k.attention = matrix(config_.q_size());
    k.lse =
        device.allocate(static_cast<size_t>(options_.batch * config_.heads * options_.seq) * sizeof(float));
  }
  k.norm2 = device.allocate(n * sizeof(float));
  k.middle = matrix(config_.hidden);
  k.gate_up = matrix(2 * config_.intermediate);
  for (size_t p = 0; p < k.u.size(); ++p) {
    int64_t rank = 0;
    for (const LayerRefs& layer : refs_.layers) rank = std::max(rank, layer.projections[p].stacked_rank);
    k.u[p] = matrix(rank);
  }
  return k;
}

Matrix Llama::rows(const Buffer& buffer, int64_t cols) const {
  return Matrix::packed(buffer.data(), type_, tokens(), cols);
}

Matrix Llama::residual(int64_t l) const {
  return rows(residual_[static_cast<size_t>(l)], config_.hidden);
}

DropoutPlace Llama::place(const MicroBatch& batch, int64_t layer) const {
  DropoutPlace p = batch.place;
  p.layer = layer;
  return p;
}

int Llama::next_after(int unit, Pass pass) const {
  if (pass == Pass::forward) return unit < refs_.head_unit ? unit + 1 : -1;
  const bool wanted =
      unit > refs_.embedding_unit + 1 || (unit > refs_.embedding_unit && refs_.embedding.trained);
  return wanted ? unit - 1 : -1;
}

void Llama::norm(BlockRef weight, const Matrix& x, const Matrix& y, Buffer& rstd) {
  context_.ops.rms_norm(x, parameters_.weight(weight).data, y, static_cast<float*>(rstd.data()),
                        static_cast<float>(config_.rms_eps), context_.compute);
}

void Llama::norm_backward(BlockRef weight, const Matrix& dy, const Matrix& x, const Buffer& rstd,
                          const Matrix& dx, bool accumulate) {
  context_.ops.rms_norm_backward(dy, x, parameters_.weight(weight).data,
                                 static_cast<const float*>(rstd.data()), dx, accumulate,
                                 static_cast<float*>(parameters_.gradient(weight).data), context_.compute);
}

// ---- forward ----

void Llama::forward(const MicroBatch& batch) {
  const StepTimer::Scope scope(context_.timer, Phase::forward, context_.compute);
  parameters_.hold(refs_.embedding_unit, Pass::forward, next_after(refs_.embedding_unit, Pass::forward));
  context_.ops.embedding(batch.tokens, parameters_.weight(refs_.embedding), residual(0), context_.compute);
  parameters_.release(refs_.embedding_unit);
  for (int64_t l = 0; l < config_.layers; ++l) {
    const int unit = refs_.layers[static_cast<size_t>(l)].unit;
    parameters_.hold(unit, Pass::forward, next_after(unit, Pass::forward));
    attention_half(l, kept(l), batch, true);
    const Matrix out = residual(l + 1);
    feed_forward_half(l, kept(l), &out, batch);
    parameters_.release(unit);
  }
}

/// From the layer's input to the attention's result and, with `output`, to k.middle.
void Llama::attention_half(int64_t l, Kept& k, const MicroBatch& batch, bool output) {
  const LayerRefs& layer = refs_.layers[static_cast<size_t>(l)];
  Kept& a = options_.recompute == Recompute::attention ? shared_ : k;
  const Matrix x = residual(l), normed = rows(normed_, config_.hidden);
  const int64_t q = config_.q_size(), kv = config_.kv_size();
  const ProjectionRefs &in = projection(layer, Projection::qkv), &out = projection(layer, Projection::o);
  norm(layer.norm1, x, normed, a.norm1);
  const Matrix qkv = rows(a.qkv, in.out), attended = rows(a.attention, q);
  projections_.forward(in, normed, rows(k.u[0], in.stacked_rank), qkv, nullptr, place(batch, l));
  const auto* table = static_cast<const float*>(rope_.data());
  context_.ops.rope(qkv.columns(0, q), attention_, config_.heads, table, false, context_.compute);
  context_.ops.rope(qkv.columns(q, kv), attention_, config_.kv_heads, table, false, context_.compute);
  context_.ops.attention(attention_, qkv.columns(0, q), qkv.columns(q, kv), qkv.columns(q + kv, kv), attended,
                         static_cast<float*>(a.lse.data()), context_.compute);
  if (!output) return;
  projections_.forward(out, attended, rows(k.u[1], out.stacked_rank), rows(k.middle, config_.hidden), x.data,
                       place(batch, l));
}

/// From k.middle to the layer's output; without one (recomputation) the last projection is left out.
void Llama::feed_forward_half(int64_t l, Kept& k, const Matrix* out, const MicroBatch& batch) {
  const LayerRefs& layer = refs_.layers[static_cast<size_t>(l)];
  const ProjectionRefs &up = projection(layer, Projection::gate_up),
                       &down = projection(layer, Projection::down);
  const Matrix middle = rows(k.middle, config_.hidden), normed = rows(normed_, config_.hidden);
  const Matrix gate_up = rows(k.gate_up, up.out), activation = rows(activation_, config_.intermediate);
  norm(layer.norm2, middle, normed, k.norm2);
  projections_.forward(up, normed, rows(k.u[2], up.stacked_rank), gate_up, nullptr, place(batch, l));
  if (!out) return;
  context_.ops.swiglu(gate_up, activation, context_.compute);
  projections_.forward(down, activation, rows(down_u_[static_cast<size_t>(l)], down.stacked_rank), *out, middle.data, place(batch, l));
}

// ---- loss ----

/// Logits exist a stretch of rows at a time; their gradient goes back at once, into gradient_.
void Llama::head(const MicroBatch& batch, bool gradient) {
  const StepTimer::Scope scope(context_.timer, Phase::head, context_.compute);
  Ops& ops = context_.ops;
  Stream& stream = context_.compute;
  const Pass pass = gradient ? Pass::backward : Pass::forward;
  parameters_.hold(refs_.head_unit, pass, gradient ? next_after(refs_.head_unit, pass) : -1);
  const bool tied = refs_.lm_head.unit == refs_.embedding_unit;
  if (tied) parameters_.hold(refs_.embedding_unit, pass, -1);
  const Matrix x = residual(config_.layers), normed = rows(normed_, config_.hidden),
               d_normed = rows(d_normed_, config_.hidden);
  norm(refs_.final_norm, x, normed, final_rstd_);
  const Matrix weight = parameters_.weight(refs_.lm_head), d_weight = parameters_.gradient(refs_.lm_head);
  for (int64_t first = 0; first < tokens(); first += options_.logit_rows) {
    const int64_t count = std::min(options_.logit_rows, tokens() - first);
    const Matrix logits = Matrix::packed(logits_.data(), type_, count, config_.vocabulary);
    ops.multiply({normed.rows_from(first, count), weight, logits}, stream);
    if (visitor_ && !gradient) visitor_(first, logits);
    ops.cross_entropy(logits, batch.tokens.targets + first, row_losses() + first, batch.grad_scale, gradient,
                      stream);
    if (!gradient) continue;
    Product back{logits, weight, d_normed.rows_from(first, count)};
    back.tb = false;
    ops.multiply(back, stream);
    if (!d_weight.data) continue;
    Product wgrad{logits, normed.rows_from(first, count), d_weight};
    wgrad.ta = true;
    wgrad.tb = false;
    wgrad.beta = 1;
    wgrad.add = d_weight.data;
    ops.multiply(wgrad, stream);
  }
  if (gradient)
    norm_backward(refs_.final_norm, d_normed, x, final_rstd_, rows(gradient_, config_.hidden), false);
  if (tied) parameters_.release(refs_.embedding_unit);
  parameters_.release(refs_.head_unit);
}

// ---- backward ----

void Llama::layer_backward(int64_t l, const MicroBatch& batch) {
  const LayerRefs& layer = refs_.layers[static_cast<size_t>(l)];
  Kept& k = kept(l);
  const bool last_done = l == config_.layers - 1;  // what the layers share still holds the last layer's
  if (options_.recompute != Recompute::none && !last_done) {
    const StepTimer::Scope scope(context_.timer, Phase::recompute, context_.compute);
    attention_half(l, k, batch, options_.recompute == Recompute::layer);
    if (options_.recompute == Recompute::layer) feed_forward_half(l, k, nullptr, batch);
  }
  feed_forward_backward(l, k, place(batch, l));
  attention_backward(layer, residual(l), k, place(batch, l));
}

/// gradient_: from the layer's output's to k.middle's.
void Llama::feed_forward_backward(int64_t l, Kept& k, const DropoutPlace& place) {
  const LayerRefs& layer = refs_.layers[static_cast<size_t>(l)];
  const ProjectionRefs &up = projection(layer, Projection::gate_up),
                       &down = projection(layer, Projection::down);
  const Matrix middle = rows(k.middle, config_.hidden), normed = rows(normed_, config_.hidden);
  const Matrix gate_up = rows(k.gate_up, up.out), d_gate_up = rows(d_gate_up_, up.out);
  const Matrix activation = rows(activation_, config_.intermediate),
               d_activation = rows(d_activation_, config_.intermediate);
  const Matrix dy = rows(gradient_, config_.hidden), d_normed = rows(d_normed_, config_.hidden);
  projections_.input_gradient(down, dy, d_activation, place);
  context_.ops.swiglu_backward(d_activation, gate_up, d_gate_up, activation, context_.compute);
  projections_.weight_gradients(down, activation, rows(down_u_[static_cast<size_t>(l)], down.stacked_rank), dy, place);
  projections_.input_gradient(up, d_gate_up, d_normed, place);
  norm(layer.norm2, middle, normed, k.norm2);
  projections_.weight_gradients(up, normed, rows(k.u[2], up.stacked_rank), d_gate_up, place);
  norm_backward(layer.norm2, d_normed, middle, k.norm2, dy, true);
}

/// gradient_: from k.middle's to the layer's input's.
void Llama::attention_backward(const LayerRefs& layer, const Matrix& x, Kept& k, const DropoutPlace& place) {
  Kept& a = options_.recompute == Recompute::attention ? shared_ : k;
  const ProjectionRefs &in = projection(layer, Projection::qkv), &out = projection(layer, Projection::o);
  const int64_t q = config_.q_size(), kv = config_.kv_size();
  const Matrix qkv = rows(a.qkv, in.out), attended = rows(a.attention, q),
               normed = rows(normed_, config_.hidden);
  const Matrix d_qkv = rows(d_qkv_, in.out), d_attended = rows(d_attention_, q);
  const Matrix dy = rows(gradient_, config_.hidden), d_normed = rows(d_normed_, config_.hidden);
  projections_.input_gradient(out, dy, d_attended, place);
  projections_.weight_gradients(out, attended, rows(k.u[1], out.stacked_rank), dy, place);
  context_.ops.attention_backward(attention_, qkv.columns(0, q), qkv.columns(q, kv), qkv.columns(q + kv, kv),
                                  attended, static_cast<const float*>(a.lse.data()), d_attended,
                                  d_qkv.columns(0, q), d_qkv.columns(q, kv), d_qkv.columns(q + kv, kv),
                                  context_.compute);
  const auto* table = static_cast<const float*>(rope_.data());
  context_.ops.rope(d_qkv.columns(0, q), attention_, config_.heads, table, true, context_.compute);
  context_.ops.rope(d_qkv.columns(q, kv), attention_, config_.kv_heads, table, true, context_.compute);
  projections_.input_gradient(in, d_qkv, d_normed, place);
  norm(layer.norm1, x, normed, a.norm1);
  projections_.weight_gradients(in, normed, rows(k.u[0], in.stacked_rank), d_qkv, place);
  norm_backward(layer.norm1, d_normed, x, a.norm1, dy, true);
}

// ---- both ----

void Llama::train(const MicroBatch& batch, GradientExchange& exchange) {
  forward(batch);
  head(batch, true);
  const StepTimer::Scope scope(context_.timer, Phase::backward, context_.compute);
  const auto ready = [&](int unit) {
    if (batch.last) exchange.unit_ready(unit);
  };
  ready(refs_.head_unit);
  for (int64_t l = config_.layers - 1; l >= 0; --l) {
    const int unit = refs_.layers[static_cast<size_t>(l)].unit;
    parameters_.hold(unit, Pass::backward, next_after(unit, Pass::backward));
    layer_backward(l, batch);
    parameters_.release(unit);
    ready(unit);
  }
  if (refs_.embedding.trained) {
    parameters_.hold(refs_.embedding_unit, Pass::backward, -1);
    context_.ops.embedding_backward(batch.tokens, rows(gradient_, config_.hidden),
                                    parameters_.gradient(refs_.embedding), context_.compute);
    parameters_.release(refs_.embedding_unit);
  }
  ready(refs_.embedding_unit);
}

void Llama::evaluate(const MicroBatch& batch) {
  forward(batch);
  head(batch, false);
}

Llama::Memory Llama::memory() const {
  Memory m;
  const auto add = [](int64_t& sum, const Buffer& buffer) { sum += static_cast<int64_t>(buffer.bytes()); };
  for (const Buffer& buffer : residual_) add(m.activations, buffer);
  const auto add_kept = [&](const Kept& k) {
    for (const Buffer* b : {&k.norm1, &k.norm2, &k.qkv, &k.attention, &k.lse, &k.middle, &k.gate_up})
      add(m.activations, *b);
    for (const Buffer& b : k.u) add(m.activations, b);
  };
  for (const Kept& k : kept_) add_kept(k);
  for (const Buffer& buffer : down_u_) add(m.activations, buffer);
  add_kept(shared_);
  for (const Buffer* b : {&rope_, &row_loss_, &logits_, &final_rstd_, &normed_, &activation_, &gradient_,
                          &d_normed_, &d_attention_, &d_qkv_, &d_gate_up_, &d_activation_})
    add(m.workspace, *b);
  m.workspace += projections_.scratch_bytes() + context_.ops.attention_workspace(attention_, type_);
  return m;
}

}  // namespace tt

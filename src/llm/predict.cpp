#include "src/llm/predict.h"

#include <algorithm>

namespace tt {
namespace {

int64_t width_of(const TrainOptions& o) {
  return o.layout.precision == Precision::fp32 ? 4 : 2;
}

int64_t projection_parameters(const ModelConfig& c) {
  int64_t sum = 0;
  for (int l = 0; l < kLinears; ++l)
    sum += in_features(c, static_cast<Linear>(l)) * out_features(c, static_cast<Linear>(l));
  return sum;
}

int64_t lora_parameters(const TrainOptions& o) {
  int64_t sum = 0;
  for (const auto& layer : o.layout.lora)
    for (int l = 0; l < kLinears; ++l)
      if (const auto& module = layer[static_cast<size_t>(l)])
        sum += module->rank *
               (in_features(o.model, static_cast<Linear>(l)) + out_features(o.model, static_cast<Linear>(l)));
  return sum;
}

int64_t gather_buffers(const TrainOptions& o, const FlatLayout& layout) {
  return o.parallel == Parallel::fsdp
             ? 3 * (layout.largest_unit() * width_of(o) + layout.largest_frozen_bytes())
             : 0;
}

bool keeps_gradients(const TrainOptions& o) {
  return o.parallel != Parallel::fsdp || o.grad_accum > 1 || (o.model.tied_embeddings && o.layout.train_all);
}

FlatLayout layout_for(const TrainOptions& o, int ranks, LlamaRefs& refs) {
  return FlatLayout(llama_units(o.model, o.layout, refs), o.parallel == Parallel::ddp ? 1 : ranks,
                    o.parallel == Parallel::fsdp, o.bucket_bytes);
}

/// Largest stacked rank of each projection, over the layers.
std::array<int64_t, kProjections> stacked_ranks(const LlamaRefs& refs) {
  std::array<int64_t, kProjections> most{};
  for (const LayerRefs& layer : refs.layers)
    for (size_t p = 0; p < most.size(); ++p) most[p] = std::max(most[p], layer.projections[p].stacked_rank);
  return most;
}

}  // namespace

StepFlops step_flops(const TrainOptions& o) {
  const ModelConfig& c = o.model;
  StepFlops f;
  const double layers = static_cast<double>(c.layers), s = static_cast<double>(o.seq),
               q = static_cast<double>(c.q_size());
  const double per_layer = static_cast<double>(projection_parameters(c));
  const double n_mm = layers * per_layer + static_cast<double>(c.vocabulary * c.hidden);
  f.matrices = o.layout.train_all ? 6 * n_mm : 4 * n_mm + 6 * static_cast<double>(lora_parameters(o));
  f.attention_causal = 6 * s * q * layers;
  f.attention_full = 2 * f.attention_causal;
  // The last layer is still there when the backward pass begins; a layer's last projection need not be
  // repeated.
  const double again = std::max(0.0, layers - 1);
  const double down = static_cast<double>(c.intermediate * c.hidden);
  const double qkv = static_cast<double>((c.q_size() + 2 * c.kv_size()) * c.hidden);
  if (o.recompute == Recompute::layer)
    f.recompute = again * (2 * (per_layer - down) + 2 * s * q);
  else if (o.recompute == Recompute::attention)
    f.recompute = again * (2 * qkv + 2 * s * q);
  return f;
}

MemoryPrediction predict_memory(const TrainOptions& o, int ranks, int64_t device_workspace) {
  LlamaRefs refs;
  const FlatLayout layout = layout_for(o, ranks, refs);
  const ModelConfig& c = o.model;
  const int64_t width = width_of(o), n = layout.count(), shard = layout.shard_count();
  const bool fsdp = o.parallel == Parallel::fsdp, ddp = o.parallel == Parallel::ddp;
  MemoryPrediction m;
  const bool copies_are_masters = width == 4 && ddp;
  int64_t scales = 0;
  for (const Unit& unit : layout.units()) {
    m.weights += fsdp ? unit.frozen_bytes / layout.ranks() : unit.frozen_bytes;
    scales += static_cast<int64_t>(unit.frozen.size()) * 4;
  }
  m.weights += scales + (copies_are_masters ? n * 4 : (fsdp ? shard : n) * width) + gather_buffers(o, layout);
  m.masters = copies_are_masters ? 0 : shard * 4;
  m.optimizer = 2 * shard * 4;
  m.gradients = (keeps_gradients(o) ? n * 4 : 2 * layout.largest_unit() * 4) + (fsdp ? shard * 4 : 0);

  const int64_t tokens = o.batch * o.seq, h = c.hidden, q = c.q_size(), qkv = q + 2 * c.kv_size(),
                inner = c.intermediate;
  const auto ranks_of = stacked_ranks(refs);
  constexpr size_t kDown = static_cast<size_t>(Projection::down);
  int64_t stacked = 0, largest_rank = 0, down_ranks = 0;
  for (const int64_t r : ranks_of) stacked += r, largest_rank = std::max(largest_rank, r);
  stacked -= ranks_of[kDown];
  for (const LayerRefs& layer : refs.layers) down_ranks += layer.projections[kDown].stacked_rank;
  const int64_t attention_set = tokens * 4 + tokens * (qkv + q) * width + o.batch * c.heads * o.seq * 4;
  const int64_t rest = tokens * 4 + tokens * (h + 2 * inner + stacked) * width;
  m.activations = ((c.layers + 1) * h + down_ranks) * tokens * width;
  if (o.recompute == Recompute::layer)
    m.activations += attention_set + rest;
  else if (o.recompute == Recompute::attention)
    m.activations += attention_set + c.layers * rest;
  else
    m.activations += c.layers * (attention_set + rest);

  const int64_t logit_rows =
      std::min(tokens, std::max<int64_t>(1, (int64_t{512} << 20) / (c.vocabulary * width)));
  m.workspace = o.seq * c.head_dim * 4 + tokens * 8 + logit_rows * c.vocabulary * width +
                tokens * (3 * h + 2 * inner + q + qkv + 2 * inner) * width;
  m.workspace += tokens * largest_rank * width;
  int64_t in = 0, in8 = 0, out8 = 0, weight8 = 0;
  bool trained8 = false;
  for (const LayerRefs& layer : refs.layers)
    for (const ProjectionRefs& p : layer.projections) {
      if (p.a) in = std::max(in, p.in);
      if (!p.narrow) continue;
      in8 = std::max(in8, p.in), out8 = std::max(out8, p.out), weight8 = std::max(weight8, p.in * p.out);
      trained8 = trained8 || p.weight.trained;
    }
  if (o.dropout > 0) m.workspace += tokens * std::max(in, in8) * width;
  if (weight8 > 0) m.workspace += tokens * (std::max(in, in8) + out8) + weight8 * (trained8 ? 2 : 1) + 16;
  m.workspace += device_workspace;
  return m;
}

MemoryPrediction measured_memory(Trainer& trainer) {
  const Parameters::Memory p = trainer.parameters().memory();
  const Llama::Memory l = trainer.model().memory();
  MemoryPrediction m;
  const bool copies_are_masters = p.copies == 0;
  m.weights = p.copies + p.frozen + p.gathered + (copies_are_masters ? p.masters : 0);
  m.masters = copies_are_masters ? 0 : p.masters;
  m.optimizer = trainer.optimizer().state_bytes();
  m.gradients = p.gradients;
  m.activations = l.activations;
  m.workspace = l.workspace;
  return m;
}

CommPrediction predict_comm(const TrainOptions& o, int ranks) {
  CommPrediction c;
  if (ranks < 2) return c;
  LlamaRefs refs;
  const FlatLayout layout = layout_for(o, ranks, refs);
  c.gradients = layout.count() * 4;
  if (o.parallel == Parallel::zero1) c.parameters = layout.count() * width_of(o);
  if (o.parallel == Parallel::fsdp) {
    int64_t frozen = 0;
    for (const Unit& unit : layout.units()) frozen += unit.frozen_bytes;
    c.parameters = 2 * o.grad_accum * (layout.count() * width_of(o) + frozen);
  }
  return c;
}

}  // namespace tt

#include "src/llm/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tt {
namespace {

FlatLayout layout_of(const TrainOptions& o, int ranks, LlamaRefs& refs) {
  return FlatLayout(llama_units(o.model, o.layout, refs), o.parallel == Parallel::ddp ? 1 : ranks,
                    o.parallel == Parallel::fsdp, o.bucket_bytes);
}

/// Under fsdp gradients may not be forgotten between a unit's passes: with several micro-batches, and where
/// the head and the embedding share a matrix.
bool keep_gradients(const TrainOptions& o) {
  return o.grad_accum > 1 || (o.model.tied_embeddings && o.layout.train_all);
}

LlamaOptions llama_options(const TrainOptions& o) {
  LlamaOptions l;
  l.batch = o.batch;
  l.seq = o.seq;
  l.recompute = o.recompute;
  l.dropout = o.dropout;
  l.dropout_seed = o.seed;
  l.stale_scale = o.stale_scale;
  return l;
}

}  // namespace

Trainer::Trainer(Device& device, Ops& ops, Comm* comm, const Group& group, Stream& compute,
                 const TrainOptions& options, int64_t slots)
    : options_(options),
      group_(group),
      slots_(slots),
      exchange_stream_(device.make_stream()),
      timer_(device, slots),
      context_{device, ops, comm, compute, *exchange_stream_, timer_} {
  FlatLayout layout = layout_of(options, context_.ranks(), refs_);
  const DType type = options.layout.precision == Precision::fp32 ? DType::f32 : DType::bf16;
  parameters_ = std::make_unique<Parameters>(context_, std::move(layout), options.parallel, type,
                                             keep_gradients(options));
  model_ = std::make_unique<Llama>(context_, *parameters_, options.model, refs_, llama_options(options));
  exchange_ = std::make_unique<GradientExchange>(context_, *parameters_, options.overlap);
  optimizer_ = std::make_unique<Optimizer>(context_, *parameters_, options.optimizer);
  if (options.skip_bucket) exchange_->drop_bucket(*options.skip_bucket);
  if (options.bad_grad) exchange_->spoil(*options.bad_grad);

  const size_t micro_bytes = 3 * static_cast<size_t>(model_->tokens()) * sizeof(int32_t);
  staged_ = device.allocate_pinned(micro_bytes * static_cast<size_t>(slots * options.grad_accum));
  tokens_ = device.allocate(micro_bytes);
  loss_ = device.allocate(sizeof(double));
  norm_ = device.allocate(sizeof(float));
  results_ = device.allocate_pinned(sizeof(Fetched) * static_cast<size_t>(slots));
  facts_.resize(static_cast<size_t>(slots));
  compute.synchronize();
}

// ---- data ----

Trainer::Staging Trainer::staging(int64_t i, int64_t micro) const {
  const int64_t n = model_->tokens(), slot = (i % slots_) * options_.grad_accum + micro;
  auto* const base = static_cast<int32_t*>(staged_.data()) + slot * 3 * n;
  return {base, base + n, base + 2 * n};
}

/// Rank r of n takes samples r B … of each global micro-batch of n B.
int64_t Trainer::first_sample(int64_t i, int64_t micro) const {
  return ((i * options_.grad_accum + micro) * context_.ranks() + context_.rank()) * options_.batch;
}

/// Reads `batch` samples; returns how many targets are trained.
int64_t Trainer::load(int64_t first, SampleSource& data, const Staging& to) {
  const size_t s = static_cast<size_t>(options_.seq);
  for (int64_t b = 0; b < options_.batch; ++b)
    data.read((first + b) % data.samples(), {to.inputs + static_cast<size_t>(b) * s, s},
              {to.targets + static_cast<size_t>(b) * s, s});
  const int64_t n = model_->tokens();
  if (refs_.embedding.trained) {
    std::iota(to.order, to.order + n, 0);
    std::stable_sort(to.order, to.order + n,
                     [&](int32_t x, int32_t y) { return to.inputs[x] < to.inputs[y]; });
  }
  return std::count_if(to.targets, to.targets + n, [](int32_t t) { return t >= 0; });
}

/// All micro-batches of a step; returns the trained tokens of the global batch, which every gradient is
/// divided by.
int64_t Trainer::load_step(int64_t i, SampleSource& data) {
  int64_t trained = 0;
  for (int64_t micro = 0; micro < options_.grad_accum; ++micro)
    trained += load(first_sample(i, micro), data, staging(i, micro));
  return data.masked() ? group_.all_sum(trained) : tokens_per_step();
}

MicroBatch Trainer::enqueue(int64_t i, int64_t micro, int64_t trained) {
  const int64_t n = model_->tokens();
  const Staging from = staging(i, micro);
  auto* const to = static_cast<int32_t*>(tokens_.data());
  context_.device.copy(to, from.inputs, tokens_.bytes(), context_.compute);
  MicroBatch batch;
  batch.tokens = {to, to + n, to + 2 * n, n};
  batch.place.step = i;
  batch.place.first_row = ((micro * context_.ranks() + context_.rank()) * options_.batch) * options_.seq;
  batch.grad_scale = trained > 0 ? static_cast<float>(1.0 / static_cast<double>(trained)) : 0.0f;
  batch.last = micro == options_.grad_accum - 1;
  return batch;
}

// ---- steps ----

void Trainer::add_losses(bool first) {
  context_.ops.sum(model_->row_losses(), DType::f32, model_->tokens(), false, !first, loss_sum(),
                   context_.compute);
}

/// Forward and backward of all micro-batches; then the gradients are summed over the ranks.
void Trainer::accumulate(int64_t i, SampleSource& data) {
  timer_.start_step(i);
  const int64_t trained = load_step(i, data);
  StepResult& facts = facts_[static_cast<size_t>(i % slots_)];
  facts = {};
  facts.step = i;
  facts.tokens = trained;
  parameters_->zero_gradients();
  for (int64_t micro = 0; micro < options_.grad_accum; ++micro) {
    model_->train(enqueue(i, micro, trained), *exchange_);
    add_losses(micro == 0);
  }
  exchange_->finish();
  if (context_.comm)
    context_.comm->all_reduce(loss_sum(), loss_sum(), 1, DType::f64, ReduceOp::sum, context_.compute);
}

void Trainer::finish_result(int64_t i, double lr) {
  facts_[static_cast<size_t>(i % slots_)].lr = lr;
  Fetched* const to = static_cast<Fetched*>(results_.data()) + i % slots_;
  context_.device.copy(&to->loss, loss_.data(), sizeof(double), context_.compute);
  context_.device.copy(&to->norm, norm_.data(), sizeof(float), context_.compute);
}

void Trainer::step(int64_t i, SampleSource& data) {
  accumulate(i, data);
  const double lr = learning_rate(options_.optimizer, i, options_.steps);
  optimizer_->step(lr, i + 1, static_cast<float*>(norm_.data()));
  finish_result(i, lr);
}

void Trainer::gradients(int64_t i, SampleSource& data) {
  accumulate(i, data);
  optimizer_->norm(static_cast<float*>(norm_.data()));
  finish_result(i, 0);
}

StepResult Trainer::result(int64_t i) const {
  StepResult r = facts_[static_cast<size_t>(i % slots_)];
  const Fetched& fetched = static_cast<const Fetched*>(results_.data())[i % slots_];
  r.loss = fetched.loss / static_cast<double>(std::max<int64_t>(1, r.tokens));
  r.grad_norm = static_cast<double>(fetched.norm);
  return r;
}

void Trainer::poison(int64_t i) {
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  static_cast<Fetched*>(results_.data())[i % slots_] = {nan, static_cast<float>(nan)};
}

double Trainer::evaluate(int64_t i, SampleSource& data) {
  context_.compute.synchronize();  // the staging area is free
  int64_t trained = load((i * context_.ranks() + context_.rank()) * options_.batch, data, staging(0, 0));
  trained = group_.all_sum(trained);
  model_->evaluate(enqueue(0, 0, trained));
  add_losses(true);
  if (context_.comm)
    context_.comm->all_reduce(loss_sum(), loss_sum(), 1, DType::f64, ReduceOp::sum, context_.compute);
  double sum = 0;
  context_.device.copy(&sum, loss_.data(), sizeof(sum), context_.compute);
  context_.compute.synchronize();
  return sum / static_cast<double>(std::max<int64_t>(1, trained));
}

void Trainer::visit(int64_t i, SampleSource& data) {
  context_.compute.synchronize();
  load(first_sample(i, 0), data, staging(0, 0));
  model_->evaluate(enqueue(i, 0, 1));
  context_.compute.synchronize();
}

}  // namespace tt

#include "src/llm/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tt {
namespace {

/// Flat stretches without decay, in order of their beginnings.
std::vector<std::pair<int64_t, int64_t>> undecayed(const FlatLayout& layout) {
  std::vector<std::pair<int64_t, int64_t>> stretches;
  for (const Unit& unit : layout.units())
    for (const Block& block : unit.trained) {
      int64_t at = block.offset;
      for (const ParamSpec& p : block.params) {
        if (!p.decay) stretches.emplace_back(at, at + p.count());
        at += p.count();
      }
    }
  std::sort(stretches.begin(), stretches.end());
  return stretches;
}

Parameters::Own cut(const Parameters::Own& part, int64_t first, int64_t last, DType copy_type) {
  const int64_t by = first - part.flat;
  Parameters::Own piece = part;
  piece.flat = first;
  piece.count = last - first;
  piece.shard += by;
  piece.master += by;
  piece.grad += by;
  if (part.copy) piece.copy = static_cast<char*>(part.copy) + by * static_cast<int64_t>(size_of(copy_type));
  return piece;
}

}  // namespace

double learning_rate(const OptimizerOptions& o, int64_t i, int64_t steps) {
  if (i < o.warmup_steps) return o.lr * static_cast<double>(i) / static_cast<double>(o.warmup_steps);
  if (o.schedule == Schedule::constant) return o.lr;
  const double progress = static_cast<double>(i - o.warmup_steps) /
                          static_cast<double>(std::max<int64_t>(1, steps - o.warmup_steps));
  return o.lr * std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

Optimizer::Optimizer(const TrainContext& context, Parameters& parameters, const OptimizerOptions& options)
    : context_(context), parameters_(parameters), options_(options) {
  const auto plain = undecayed(parameters.layout());
  for (const Parameters::Own& part : parameters.own()) {
    int64_t at = part.flat;
    const int64_t end = part.flat + part.count;
    const auto add = [&](int64_t until, bool decay) {
      until = std::min(until, end);
      if (until > at) segments_.push_back({cut(part, at, until, parameters.compute_type()), decay});
      at = std::max(at, until);
    };
    for (const auto& [first, last] : plain) {
      if (last <= at || first >= end) continue;
      add(first, true);
      add(last, false);
    }
    add(end, true);
  }
  const size_t bytes = static_cast<size_t>(parameters.layout().shard_count()) * sizeof(float);
  m_ = context.device.allocate(bytes);
  v_ = context.device.allocate(bytes);
  squares_ = context.device.allocate(sizeof(double));
  factor_ = context.device.allocate(sizeof(float));
  if (bytes) {
    context.device.set_bytes(m_.data(), 0, bytes, context.compute);
    context.device.set_bytes(v_.data(), 0, bytes, context.compute);
  }
}

void Optimizer::norm(float* norm) {
  Stream& stream = context_.compute;
  auto* const squares = static_cast<double*>(squares_.data());
  context_.device.set_bytes(squares, 0, sizeof(double), stream);
  for (const Parameters::Own& part : parameters_.own())
    context_.ops.sum(part.grad, DType::f32, part.count, true, true, squares, stream);
  if (context_.comm && parameters_.parallel() != Parallel::ddp)
    context_.comm->all_reduce(squares, squares, 1, DType::f64, ReduceOp::sum, stream);
  context_.ops.clip_factor(squares, options_.clip, static_cast<float*>(factor_.data()), norm, stream);
}

void Optimizer::step(double lr, int64_t t, float* norm_out) {
  const StepTimer::Scope scope(context_.timer, Phase::optimizer, context_.compute);
  norm(norm_out);
  const auto* const factor = options_.clip > 0 ? static_cast<const float*>(factor_.data()) : nullptr;
  for (const Segment& s : segments_) {
    const AdamWStep step{
        lr, options_.beta1, options_.beta2, options_.eps, s.decay ? options_.weight_decay : 0, t};
    context_.ops.adamw(s.part.master, first_moments() + s.part.shard, second_moments() + s.part.shard,
                       s.part.grad, factor, s.part.copy, parameters_.compute_type(), s.part.count, step,
                       context_.compute);
  }
  parameters_.spread();
}

}  // namespace tt

// AdamW over what this rank owns, with the gradient's norm, clipping and the learning rate's schedule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/llm/parameters.h"

namespace tt {

enum class Schedule { constant, cosine };

struct OptimizerOptions {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  double clip = 0;  // of the global gradient norm; 0: none
  Schedule schedule = Schedule::constant;
  int64_t warmup_steps = 0;
};

/// Learning rate of step i (0, 1, …) of `steps`, as transformers' get_constant_schedule_with_warmup and
/// get_cosine_schedule_with_warmup give it: lr * i / warmup while i < warmup; then lr, or
/// lr * (1 + cos(pi * (i - warmup) / (steps - warmup))) / 2.
double learning_rate(const OptimizerOptions& options, int64_t i, int64_t steps);

class Optimizer {
 public:
  Optimizer(const TrainContext& context, Parameters& parameters, const OptimizerOptions& options);

  /// Updates masters and copies from the exchanged gradients, and spreads them. `t`: 1 at the first step.
  /// *norm (device, f32) becomes the gradient's global norm before clipping.
  void step(double lr, int64_t t, float* norm);
  /// The gradient's norm alone.
  void norm(float* norm);

  /// Of parameters().layout().shard_count() elements each.
  float* first_moments() const { return static_cast<float*>(m_.data()); }
  float* second_moments() const { return static_cast<float*>(v_.data()); }
  int64_t state_bytes() const { return static_cast<int64_t>(m_.bytes() + v_.bytes()); }

 private:
  /// A stretch of what this rank owns with one kind of decay.
  struct Segment {
    Parameters::Own part;
    bool decay = true;
  };
  TrainContext context_;
  Parameters& parameters_;
  OptimizerOptions options_;
  std::vector<Segment> segments_;
  Buffer m_, v_, squares_, factor_;
};

}  // namespace tt

// A training run: model, data, optimiser and ranks together, one optimiser step at a time. Steps are
// enqueued; their results can be read when the stream has ended them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/group.h"
#include "src/llm/gradient_exchange.h"
#include "src/llm/llama.h"
#include "src/llm/optimizer.h"
#include "src/llm/samples.h"
#include "src/llm/weights.h"

namespace tt {

struct TrainOptions {
  ModelConfig model;
  LlamaLayoutOptions layout;
  Parallel parallel = Parallel::ddp;
  int64_t bucket_bytes = int64_t{64} << 20;
  bool overlap = true;
  int64_t batch = 1, seq = 1, grad_accum = 1;
  Recompute recompute = Recompute::none;
  double dropout = 0;
  OptimizerOptions optimizer;
  int64_t steps = 1;  // in all, for the schedule
  uint64_t seed = 1;
  // Fault injection on this rank.
  bool stale_scale = false;
  std::optional<int64_t> skip_bucket;
  std::optional<float> bad_grad;
};

/// What one optimiser step did, the same on all ranks but for `grad_norm`, which each computed itself.
struct StepResult {
  int64_t step = 0;
  double loss = 0;       // mean over the trained tokens of the global batch
  double grad_norm = 0;  // before clipping
  double lr = 0;
  int64_t tokens = 0;  // trained ones, of the global batch
};

class Trainer {
 public:
  /// Parameters are zero until they are filled (weights.h). `slots`: how many steps' results are held. All
  /// references outlive the trainer.
  Trainer(Device& device, Ops& ops, Comm* comm, const Group& group, Stream& compute,
          const TrainOptions& options, int64_t slots);

  const TrainOptions& options() const { return options_; }
  const TrainContext& context() const { return context_; }
  Parameters& parameters() { return *parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  Llama& model() { return *model_; }
  const GradientExchange& exchange() const { return *exchange_; }
  const LlamaRefs& refs() const { return refs_; }
  const StepTimer& timer() const { return timer_; }

  /// Enqueues optimiser step i (0, 1, …).
  void step(int64_t i, SampleSource& data);
  /// Forward, backward and exchange of step i without changing a parameter; result(i) is that of the step.
  void gradients(int64_t i, SampleSource& data);
  /// Mean loss over global micro-batch `i` of a source, without gradients. Collective, waits.
  double evaluate(int64_t i, SampleSource& data);
  /// Runs the model on this rank's part of micro-batch 0 of step i; the model's logits visitor sees its
  /// logits.
  void visit(int64_t i, SampleSource& data);

  /// Of one of the last `slots` steps; its work has ended.
  StepResult result(int64_t i) const;
  /// Makes the result that will be of step i NaN until the step writes it.
  void poison(int64_t i);

  int64_t global_batch() const { return options_.batch * context_.ranks() * options_.grad_accum; }
  int64_t tokens_per_step() const { return global_batch() * options_.seq; }

 private:
  /// A micro-batch in pinned memory: inputs, targets, order, [tokens] each.
  struct Staging {
    int32_t *inputs = nullptr, *targets = nullptr, *order = nullptr;
  };
  Staging staging(int64_t i, int64_t micro) const;
  int64_t first_sample(int64_t i, int64_t micro) const;
  int64_t load(int64_t first, SampleSource& data, const Staging& to);
  int64_t load_step(int64_t i, SampleSource& data);
  MicroBatch enqueue(int64_t i, int64_t micro, int64_t trained);
  void accumulate(int64_t i, SampleSource& data);
  void add_losses(bool first);
  void finish_result(int64_t i, double lr);
  double* loss_sum() const { return static_cast<double*>(loss_.data()); }

  TrainOptions options_;
  const Group& group_;
  int64_t slots_;
  std::unique_ptr<Stream> exchange_stream_;
  StepTimer timer_;
  TrainContext context_;
  LlamaRefs refs_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Llama> model_;
  std::unique_ptr<GradientExchange> exchange_;
  std::unique_ptr<Optimizer> optimizer_;

  Buffer staged_, tokens_;  // pinned, device
  Buffer loss_, norm_;      // device: f64, f32
  Buffer results_;          // pinned: of each slot a Fetched
  struct Fetched {
    double loss = 0;
    float norm = 0;
  };
  std::vector<StepResult> facts_;  // of each slot, what the host knows
};

}  // namespace tt

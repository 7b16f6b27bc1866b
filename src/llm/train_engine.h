// A training run as something that is measured: an iteration is an optimiser step. Every step's loss and
// gradient norm are looked at; ranks are compared.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/engine.h"
#include "common/group.h"
#include "src/llm/predict.h"
#include "src/llm/trainer.h"

namespace tt {

struct TrainEngineOptions {
  std::string tool;                   // first word of the key: "lora_step", "pretrain_step"
  int64_t hash_every = 10;            // steps between comparisons of the replicas; 0: never
  std::optional<double> peak_tflops;  // of the device for this precision; MFU is against it
};

/// What an evaluation between steps found.
struct Evaluation {
  int64_t step = 0;  // steps done before it
  double loss = 0;
};

class TrainEngine final : public Engine {
 public:
  /// Steps of `trainer` on `data`. `evaluation` (may be null) is called after every `eval_every` steps,
  /// outside what is timed, and returns a loss.
  TrainEngine(Trainer& trainer, SampleSource& data, const Group& group, const TrainEngineOptions& options,
              int64_t eval_every, std::function<double()> evaluation);

  Row describe() const override;
  void step(Stream& stream, int64_t i) override;
  int64_t slots() const override;
  void prepare(Stream& stream, int64_t first, int64_t count) override;
  Check verify(Stream& stream, int64_t first, int64_t count) override;
  void corrupt(Stream& stream, int64_t i) override;
  std::vector<Rate> rates(double seconds) const override;
  bool collective() const override { return group_.size() > 1; }

  /// Called with each step's result when it is known, in order, warm-up included.
  void on_result(std::function<void(const StepResult&)> listener) { listener_ = std::move(listener); }

  /// Looks at the steps that have ended since the last look. prepare() and verify() do; after the last step
  /// the caller.
  void collect();

  const std::vector<StepResult>& results() const { return results_; }
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }
  /// Milliseconds by phase, distributions over the steps from `first` on, each step's the maximum over ranks:
  /// "forward_ms", … Collective.
  std::vector<Metric> phase_metrics(size_t first) const;
  /// What was found wrong, in words; on every rank alike.
  const std::vector<std::string>& findings() const { return findings_; }

  static constexpr int64_t kSlots = 4;  // steps that run without the host looking at their results

 private:
  void compare_norms(const std::vector<StepResult>& steps);
  void compare_replicas(int64_t step);
  void require_finite(const std::vector<StepResult>& steps);
  std::string first_bad_layer();
  void wrong(int64_t step, double expected, double got);
  void found(const std::string& text);

  Trainer& trainer_;
  SampleSource& data_;
  const Group& group_;
  TrainEngineOptions options_;
  int64_t eval_every_;
  std::function<double()> evaluation_;
  std::function<void(const StepResult&)> listener_;
  std::vector<StepResult> results_;
  std::vector<std::array<double, kPhases>> phases_;  // seconds, by step
  std::vector<Evaluation> evaluations_;
  std::vector<std::string> findings_;
  int64_t enqueued_ = 0, collected_ = 0;  // steps
  Check pending_;                         // found by collect(), for the next verify()
  Buffer counter_;                        // 8 bytes on the device
};

}  // namespace tt

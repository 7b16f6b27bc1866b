// The options that lora_step_perf and pretrain_step_perf share (and layer_perf in part).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/options.h"
#include "src/llm/llama.h"
#include "src/llm/optimizer.h"
#include "src/llm/parameters.h"

namespace tt {

struct TrainToolOptions {
  // model
  std::string model = "llama-tiny";
  int64_t layers = 0;  // 0: all
  std::string save_model;
  // adapters
  std::string adapter, save_adapter;
  std::optional<int64_t> lora_rank;
  std::optional<double> lora_alpha, lora_dropout;
  std::vector<std::string> lora_targets;
  bool rslora = false;
  // step
  int64_t batch = 1, seq = 0, grad_accum = 1;
  int64_t global_batch = 0;  // 0: follows from the others
  Precision precision = Precision::bf16;
  int64_t fp8_keep_layers = 0;
  std::string optimizer = "adamw";
  OptimizerOptions adamw;
  std::string schedule = "constant";
  bool decay_norms = true;
  Parallel parallel = Parallel::ddp;
  int64_t bucket_bytes = int64_t{64} << 20;
  bool overlap = true;
  std::string recompute = "none";  // or attention, layer, auto
  // run
  std::string data = "synthetic", data_dtype = "u16";
  int64_t steps = 20, warmup = 5;
  bool check = true;
  int64_t hash_every = 10;
  std::vector<int> scale;
  std::vector<double> min_speedup = {1.7, 3.4, 6.5};  // at 2, 4, 8 ranks
  bool strong = false;
  bool plan = false;
  int plan_ranks = 0;  // --plan for so many ranks; 0: those of the run
  // convergence
  int64_t eval_every = 0;
  std::optional<double> target_loss;
  std::optional<double> max_gap;  // of the final loss to the source's entropy, in nats
  double teacher_fraction = 0.5;  // of the way from the first loss to the teacher's entropy
  std::string compare_precision;
  double max_difference = 0;  // 0: by the number of steps
  // files
  std::string checkpoint;
  int64_t checkpoint_every = 0;
  bool resume = false;
  std::string save_grads, save_logits, loss_log;

  Recompute recompute_kind = Recompute::none;  // parsed; "auto" is chosen by the run
};

/// `lora`: the options of adapters too.
void add_train_options(OptionSet& set, TrainToolOptions& options, bool lora);
/// Combinations; parses what is left as text. UsageError.
void finish_train_options(TrainToolOptions& options, bool lora);

}  // namespace tt

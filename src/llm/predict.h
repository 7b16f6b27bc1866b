// What a training step takes, by formula: operations, memory, bytes exchanged. Pure; nothing is allocated.
#pragma once

#include <cstdint>

#include "src/llm/trainer.h"

namespace tt {

/// Floating-point operations per token, a multiply-add counted as two (docs/method.md has the derivation):
///   full training  6 N_mm + attention       LoRA  4 N_mm + 6 P_lora + attention
/// N_mm: parameters of matrices that every token is multiplied by (projections and lm_head, not the
/// embedding). Attention, forward and backward: causal 6 S q L, without the mask 12 S q L (PaLM's convention,
/// Chowdhery et al. 2022, appendix B); q = heads * head_dim. The recomputation that the attention's backward
/// itself does is not counted.
struct StepFlops {
  double matrices = 0;          // per token
  double attention_causal = 0;  // per token
  double attention_full = 0;    // per token
  double recompute = 0;         // per token: what is computed twice (HFU counts it, MFU does not)
  double model() const { return matrices + attention_causal; }
  double hardware() const { return model() + recompute; }
};
StepFlops step_flops(const TrainOptions& options);

/// Bytes on one rank, by kind; what the allocations of Trainer add up to.
struct MemoryPrediction {
  int64_t weights = 0;    // what is computed with: copies and frozen ones, gather buffers
  int64_t masters = 0;    // f32 masters, where they are not what is computed with
  int64_t optimizer = 0;  // AdamW's two moments
  int64_t gradients = 0;
  int64_t activations = 0;  // kept from forward to backward
  int64_t workspace = 0;    // everything else
  int64_t total() const { return weights + masters + optimizer + gradients + activations + workspace; }
};
/// `device_workspace`: what the device's libraries hold besides (attention, GEMM), 0 where unknown.
MemoryPrediction predict_memory(const TrainOptions& options, int ranks, int64_t device_workspace = 0);
/// The same kinds as they were allocated.
MemoryPrediction measured_memory(Trainer& trainer);

/// Bytes that one rank gives to collectives in a step, by kind.
struct CommPrediction {
  int64_t gradients = 0;   // all-reduced or reduce-scattered, f32
  int64_t parameters = 0;  // gathered: zero1 once, fsdp per micro-batch and pass
};
CommPrediction predict_comm(const TrainOptions& options, int ranks);

}  // namespace tt

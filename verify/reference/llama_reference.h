// A Llama model's loss and every gradient in double precision, from the naive operations: what the engine is
// compared with. For tiny models only.
//
//   h = embed[tokens];  per layer  h += o(attention(rope(q(n1)), rope(k(n1)), v(n1))),  n1 = rms_norm(h)
//                                  h += down(silu(gate(n2)) * up(n2)),                 n2 = rms_norm(h)
//   logits = head(rms_norm(h));  loss = mean over rows with a target >= 0 of the cross-entropy
//   LoRA (Hu et al. 2021): a linear layer's y = W x + scale B A x;  W of its layer keeps its gradient, too.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "verify/reference/llm_reference.h"

namespace tt::reference {

struct LlamaDims {
  int64_t hidden = 0, intermediate = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
  double rms_eps = 1e-5;
  bool tied = false;  // the head is the embedding; there is no lm_head.weight
  RopeScaling rope;
};

/// By Hugging Face's names (model.layers.0.mlp.up_proj.weight, [out, in]), adapters by PEFT's
/// (base_model.model.model.layers.0.mlp.up_proj.lora_A.weight [r, in], …lora_B.weight [out, r]).
using Parameters = std::map<std::string, Doubles>;

/// Scale of the adapter of each module that has one, by module name: "model.layers.0.self_attn.q_proj".
using LoraScales = std::map<std::string, double>;

struct LlamaBatch {
  int64_t batch = 1, seq = 1;
  std::vector<int32_t> inputs, targets;  // [batch * seq]; a negative target is not trained
};

struct LlamaResult {
  double loss = 0;       // mean over the trained rows; 0 without any
  int64_t trained = 0;   // rows
  Doubles logits;        // [batch * seq, vocabulary]
  Parameters gradients;  // of `loss`, for each parameter and adapter given
};

/// std::out_of_range for a parameter that is missing.
LlamaResult llama(const LlamaDims& dims, const Parameters& parameters, const LoraScales& lora,
                  const LlamaBatch& batch);

/// The names and sizes (elements) of a model's parameters, adapters left out.
std::map<std::string, int64_t> llama_parameter_sizes(const LlamaDims& dims);
/// "self_attn.q_proj" -> {out, in}.
std::map<std::string, std::pair<int64_t, int64_t>> llama_linear_shapes(const LlamaDims& dims);

/// Square root of the sum of squares of all.
double norm(const Parameters& gradients);

}  // namespace tt::reference

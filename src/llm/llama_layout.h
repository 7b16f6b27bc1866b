// Which units and blocks a Llama model's parameters make, and where its layers find them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "src/llm/model_config.h"
#include "src/llm/parameters.h"
#include "src/llm/units.h"

namespace tt {

enum class Precision { fp32, bf16, fp8 };
const char* name_of(Precision precision) noexcept;
/// "fp32", "bf16", "fp8".
Precision parse_precision(std::string_view option, std::string_view text);

/// An adapter on one linear layer: y += scale * (x A^T) B^T, A [rank, in], B [out, rank] (Hu et al. 2021).
struct LoraModule {
  int64_t rank = 0;
  double scale = 1;  // alpha / rank, or alpha / sqrt(rank) (rsLoRA)
};
/// For each layer and Linear, the adapter if there is one.
using LoraModules = std::vector<std::array<std::optional<LoraModule>, kLinears>>;

/// Linears that read the same input are one matrix: q, k, v; o; gate, up; down.
enum class Projection { qkv, o, gate_up, down };
inline constexpr int kProjections = 4;
/// Its linears, first to last.
std::vector<Linear> linears_of(Projection projection);

struct AdapterRefs {
  Linear linear = Linear::q;
  LoraModule module;
  int64_t row = 0;              // of its A in the stacked A's of the projection
  int64_t column = 0, out = 0;  // its columns of the projection's output
  BlockRef b;
};
struct ProjectionRefs {
  int64_t in = 0, out = 0;
  BlockRef weight;      // [out, in]
  bool narrow = false;  // multiplied in fp8
  BlockRef a;           // all adapters' A, [stacked rank, in]; none: no adapter
  int64_t stacked_rank = 0;
  std::vector<AdapterRefs> adapters;
};
struct LayerRefs {
  int unit = 0;
  BlockRef norm1, norm2;
  std::array<ProjectionRefs, kProjections> projections;
};
struct LlamaRefs {
  int embedding_unit = 0, head_unit = 0;
  BlockRef embedding, final_norm, lm_head;  // lm_head is the embedding where they are tied
  std::vector<LayerRefs> layers;
};

struct LlamaLayoutOptions {
  Precision precision = Precision::fp32;
  bool train_all = false;   // pre-training: everything trained, no adapters
  LoraModules lora;         // LoRA: only these are trained; empty with train_all
  bool decay_norms = true;  // weight decay on norm weights too
  int64_t fp8_keep = 0;     // the first and the last so many layers stay in bf16
};

/// Units in forward order: embedding, layers, head (final norm and lm_head). `config.layers` says how many.
std::vector<Unit> llama_units(const ModelConfig& config, const LlamaLayoutOptions& options, LlamaRefs& refs);

/// PEFT's name of a module's matrix: base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight
std::string lora_name(int64_t layer, Linear linear, char matrix);

}  // namespace tt

// LoRA adapters as PEFT has them: reading a folder (adapter_config.json, adapter_model.safetensors), making
// one up, writing one that PEFT loads. What counts is what PEFT 0.15 and later do with the same folder.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/llm/llama_layout.h"
#include "src/llm/model_config.h"
#include "src/llm/stored_tensors.h"

namespace tt {

struct Adapter {
  LoraModules modules;  // by layer and Linear
  /// alpha of each module, from which its scale is: alpha / rank, or alpha / sqrt(rank) (rsLoRA).
  std::vector<std::array<double, kLinears>> alpha;
  bool rslora = false;
  double dropout = 0;
  StoredTensors tensors;              // where A and B lie; empty for one that was made up
  std::vector<std::string> warnings;  // one line each

  int64_t module_count() const;
  /// "28 modules, rank 4, alpha 8, scale 2"; where modules differ, each combination with its count.
  std::string summary() const;
  /// Of every A and B. Only where `tensors` are.
  FillParameter fill(const TrainContext& context) const { return fill_from(context, tensors); }
};

/// EnvironmentError naming file, and field or tensor (with both shapes), for what is missing, malformed or
/// not implemented: DoRA, modules_to_save, biases, … and adapters on anything but the seven linear layers of
/// a decoder layer. `config`: of the layers that are used; `layers_of_model`: how many the adapter was made
/// for, where only the first are used (0: the same).
Adapter read_adapter(const std::string& dir, const ModelConfig& config, int64_t layers_of_model = 0);

/// What --lora-rank and so on say.
struct AdapterChoice {
  int64_t rank = 16;
  double alpha = 32;
  bool rslora = false;
  double dropout = 0;
  std::vector<std::string> targets = {"all-linear"};  // or "attention", or names such as q_proj
};
/// An adapter without files, to be filled by random_fill. UsageError naming the option.
Adapter make_adapter(const AdapterChoice& choice, const ModelConfig& config);

/// alpha / rank, or alpha / sqrt(rank) (rsLoRA, Kalajdzievski 2023).
double lora_scale(double alpha, int64_t rank, bool rslora);

/// PEFT's name of the module that an adapter is on: "model.layers.3.self_attn.q_proj".
std::string module_path(int64_t layer, Linear linear);

}  // namespace tt

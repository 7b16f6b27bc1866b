// Writing an adapter as a folder that PEFT loads.
#pragma once

#include <string>

#include "src/llm/peft.h"
#include "src/llm/weights.h"

namespace tt {

/// adapter_config.json's text. Modules that differ from the most frequent rank and alpha stand in
/// rank_pattern and alpha_pattern; `base_model` is what PEFT is told the adapter belongs to.
std::string adapter_config_text(const Adapter& adapter, const std::string& base_model);

/// adapter_config.json and adapter_model.safetensors with the masters of all A and B in f32. Collective; rank
/// 0 writes. std::invalid_argument when one is not among the trained parameters. The folder appears whole or
/// not at all (OutputFolder).
void write_adapter(const TrainContext& context, const Parameters& parameters, const ModelConfig& config,
                   const Adapter& adapter, const std::string& dir, const std::string& base_model);

}  // namespace tt

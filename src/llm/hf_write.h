// Writing a trained model as a Hugging Face folder that transformers loads.
#pragma once

#include <cstdint>
#include <string>

#include "src/llm/model_config.h"
#include "src/llm/weights.h"

namespace tt {

/// Bytes of a shard, beyond which the next one begins.
inline constexpr int64_t kShardBytes = 5'000'000'000;

/// The masters of all parameters, rounded to `type` (f32, bf16 or f16): config.json and model.safetensors, or
/// shards with model.safetensors.index.json where they take more than `shard_bytes`. Collective; rank 0
/// writes. `parameters` are those of pre-training: std::invalid_argument when one is not trained. The folder
/// appears whole or not at all (OutputFolder).
void write_hf_folder(const TrainContext& context, const Parameters& parameters, const ModelConfig& config,
                     const std::string& dir, DType type, int64_t shard_bytes = kShardBytes);

}  // namespace tt

#include "common/error.h"
#include "common/quote.h"
#include "src/llm/model_config.h"

namespace tt {
namespace {

RopeConfig plain_rope(double theta) {
  RopeConfig rope;
  rope.theta = theta;
  return rope;
}

RopeConfig llama3_rope(double factor) {
  RopeConfig rope;
  rope.theta = 500000;
  rope.type = "llama3";
  rope.factor = factor;
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  rope.original_max_position = 8192;
  return rope;
}

struct Dimensions {
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary, max_position;
};

ModelConfig preset_of(const char* name, const char* repository, const Dimensions& d, const RopeConfig& rope) {
  ModelConfig c;
  c.name = name;
  c.source = std::string("huggingface.co/meta-llama/") + repository + " config.json";
  c.hidden = d.hidden;
  c.intermediate = d.intermediate;
  c.layers = d.layers;
  c.heads = d.heads;
  c.kv_heads = d.kv_heads;
  c.head_dim = d.head_dim;
  c.vocabulary = d.vocabulary;
  c.max_position = d.max_position;
  c.rope = rope;
  return c;
}

std::vector<ModelConfig> make_presets() {
  const RopeConfig llama2 = plain_rope(10000);
  std::vector<ModelConfig> presets{
      preset_of("llama3.2-1b", "Llama-3.2-1B", {2048, 8192, 16, 32, 8, 64, 128256, 131072}, llama3_rope(32)),
      preset_of("llama2-7b", "Llama-2-7b-hf", {4096, 11008, 32, 32, 32, 128, 32000, 4096}, llama2),
      preset_of("llama2-13b", "Llama-2-13b-hf", {5120, 13824, 40, 40, 40, 128, 32000, 4096}, llama2),
      preset_of("llama2-70b", "Llama-2-70b-hf", {8192, 28672, 80, 64, 8, 128, 32000, 4096}, llama2),
      preset_of("llama3.1-8b", "Llama-3.1-8B", {4096, 14336, 32, 32, 8, 128, 128256, 131072}, llama3_rope(8)),
      preset_of("llama3.1-70b", "Llama-3.1-70B", {8192, 28672, 80, 64, 8, 128, 128256, 131072},
                llama3_rope(8)),
      preset_of("llama3.1-405b", "Llama-3.1-405B", {16384, 53248, 126, 128, 8, 128, 128256, 131072},
                llama3_rope(8)),
  };
  presets[0].tied_embeddings = true;
  return presets;
}

}  // namespace

const std::vector<ModelConfig>& model_presets() {
  static const std::vector<ModelConfig> presets = make_presets();
  return presets;
}

const ModelConfig* find_preset(std::string_view name) {
  for (const ModelConfig& preset : model_presets())
    if (preset.name == name) return &preset;
  return nullptr;
}

const ModelConfig& preset_named(std::string_view option, std::string_view name) {
  if (const ModelConfig* preset = find_preset(name)) return *preset;
  std::string accepted;
  for (const ModelConfig& preset : model_presets()) accepted += " " + preset.name;
  throw UsageError(std::string(option) + ": unknown model " + in_quotes(name) + "; accepted:" + accepted);
}

}  // namespace tt

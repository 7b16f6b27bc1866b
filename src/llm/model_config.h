// The description of a Llama model, as in the config.json of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tt {

/// Rotary embedding. "llama3" scales the frequencies as Llama 3.1 does (transformers'
/// _compute_llama3_parameters).
struct RopeConfig {
  double theta = 10000;
  bool theta_given = true;       // false: the folder names none, 10000 is the default; the header says so
  std::string type = "default";  // "default" or "llama3"
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  int64_t original_max_position = 8192;
};

struct ModelConfig {
  std::string name;    // preset's name or folder
  std::string source;  // where a preset's figures are from; "" for a folder
  int64_t hidden = 0, intermediate = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
  int64_t max_position = 0;
  double rms_eps = 1e-5, initializer_range = 0.02;
  bool tied_embeddings = false;
  RopeConfig rope;

  int64_t q_size() const { return heads * head_dim; }
  int64_t kv_size() const { return kv_heads * head_dim; }
  /// Parameters in all; a tied head counts once.
  int64_t parameters() const;
};

/// llama3.2-1b, llama2-7b, llama2-13b, llama2-70b, llama3.1-8b, llama3.1-70b, llama3.1-405b.
const std::vector<ModelConfig>& model_presets();
/// The preset of this name, or null.
const ModelConfig* find_preset(std::string_view name);
/// The preset of this name; UsageError naming `option`, the text and the accepted names.
const ModelConfig& preset_named(std::string_view option, std::string_view name);

/// config.json's text. `file` is named in errors. EnvironmentError naming file, field and value for what is
/// missing, malformed, inconsistent or not implemented (model_type other than llama, attention_bias,
/// mlp_bias, hidden_act other than silu, rope types other than default and llama3, …). Old (rope_theta,
/// rope_scaling with "type" or "rope_type") and new (rope_parameters) keys. Of fields that may be absent,
/// the values are those of transformers' LlamaConfig.
ModelConfig parse_model_config(const std::string& text, const std::string& file);
/// The inverse, for --save-model. Rope stands in both the new and the old keys, for readers of either.
std::string model_config_text(const ModelConfig& config);

/// cos and sin for positions 0 .. seq-1, as Ops::rope reads them: [seq, head_dim], computed in double.
std::vector<float> rope_table(const RopeConfig& rope, int64_t head_dim, int64_t seq);

/// The linear layers of a decoder layer, in the order of the Hugging Face names.
enum class Linear { q, k, v, o, gate, up, down };
inline constexpr int kLinears = 7;
const char* module_name(Linear linear);  // "self_attn.q_proj", …, "mlp.down_proj"
int64_t out_features(const ModelConfig& c, Linear linear);
int64_t in_features(const ModelConfig& c, Linear linear);

}  // namespace tt

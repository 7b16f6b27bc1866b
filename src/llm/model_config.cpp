#include "src/llm/model_config.h"

#include <initializer_list>

#include "src/llm/json.h"

namespace tt {
namespace {

using Json = nlohmann::json;

// No dimension may take parameters() or a matrix's byte count out of 64 bits.
constexpr int64_t kWidest = 1 << 20, kDeepest = 1 << 14, kLargestVocabulary = INT32_MAX;

/// What changes the computation and is not implemented: only this value of the field is accepted.
void require(const JsonFields& f, const char* name, const Json& only) {
  const Json* value = f.find(name);
  if (value && *value != only)
    f.fail(name, "is " + shown(*value) + ", which is not implemented; accepted: " + only.dump());
}

void refuse(const JsonFields& f, const char* name) {
  const Json* value = f.find(name);
  if (value) f.fail(name, "is " + shown(*value) + ", which is not implemented; accepted: null");
}

double positive(const JsonFields& f, const char* name, double min) {
  const double value = f.number(name);
  if (!(value > 0) || value < min)
    f.fail(name, "is " + shown(f.at(name)) + ", not " +
                     (min > 0 ? "at least " + std::to_string(static_cast<int>(min)) : "above 0"));
  return value;
}

/// "rope_type", or "type" as it was called; "default" without either.
std::string rope_type(const JsonFields& f) {
  const std::string type = f.text_or("rope_type", f.text_or("type", "default"));
  if (f.find("type") && f.text("type") != type)
    f.fail("type", "is " + shown(f.at("type")) + ", but rope_type is " + in_quotes(type));
  if (type != "default" && type != "llama3")
    f.fail(f.find("rope_type") ? "rope_type" : "type",
           "is " + in_quotes(type) + ", which is not implemented; accepted: default, llama3");
  return type;
}

void read_scaling(const JsonFields& f, RopeConfig& rope) {
  static constexpr const char* kKnown[] = {"rope_theta",
                                           "rope_type",
                                           "type",
                                           "factor",
                                           "low_freq_factor",
                                           "original_max_position_embeddings",
                                           "high_freq_factor",
                                           "partial_rotary_factor"};
  for (const auto& [name, value] : f.object().items()) {
    bool known = value.is_null();
    for (const char* k : kKnown) known = known || name == k;
    if (!known) f.fail(name, "is not known");
  }
  require(f, "partial_rotary_factor", 1.0);
  rope.type = rope_type(f);
  if (rope.type != "llama3") return;
  rope.factor = positive(f, "factor", 1);
  rope.low_freq_factor = positive(f, "low_freq_factor", 0);
  rope.high_freq_factor = positive(f, "high_freq_factor", 0);
  if (!(rope.high_freq_factor > rope.low_freq_factor))
    f.fail("high_freq_factor", "is " + shown(f.at("high_freq_factor")) + ", not above low_freq_factor " +
                                   shown(f.at("low_freq_factor")));
  rope.original_max_position = f.integer("original_max_position_embeddings", 1, int64_t{1} << 40);
}

/// theta and scaling where transformers 5 keeps them, in rope_parameters, or where they were before:
/// rope_theta and rope_scaling. A file that says both must say the same.
RopeConfig read_rope(const JsonFields& f) {
  RopeConfig rope;
  rope.theta_given = false;
  const auto theta_from = [&rope](const JsonFields& from) {
    if (!from.find("rope_theta")) return;
    const double theta = positive(from, "rope_theta", 0);
    if (rope.theta_given && theta != rope.theta)
      from.fail("rope_theta", "is " + shown(from.at("rope_theta")) + " here and another value elsewhere");
    rope.theta = theta;
    rope.theta_given = true;
  };
  bool scaling_given = false;
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    if (!f.find(name)) continue;
    const JsonFields parameters = f.fields(name);
    theta_from(parameters);
    RopeConfig read = rope;
    read_scaling(parameters, read);
    const bool same = read.type == rope.type && read.factor == rope.factor &&
                      read.low_freq_factor == rope.low_freq_factor &&
                      read.high_freq_factor == rope.high_freq_factor &&
                      read.original_max_position == rope.original_max_position;
    if (scaling_given && !same) f.fail(name, "says another scaling than rope_parameters");
    scaling_given = true;
    rope = read;
  }
  theta_from(f);
  return rope;
}

void check_implemented(const JsonFields& f) {
  if (f.text("model_type") != "llama")
    f.fail("model_type", "is " + shown(f.at("model_type")) + ", which is not implemented; accepted: llama");
  if (const Json* list = f.find("architectures"); list && !list->empty()) {
    bool causal = false;
    if (list->is_array())
      for (const Json& name : *list) causal = causal || name == "LlamaForCausalLM";
    if (!causal)
      f.fail("architectures",
             "is " + shown(*list) + ", which is not implemented; accepted: [\"LlamaForCausalLM\"]");
  }
  require(f, "hidden_act", "silu");
  require(f, "attention_bias", false);
  require(f, "mlp_bias", false);
  require(f, "attention_dropout", 0.0);
  require(f, "partial_rotary_factor", 1.0);
  for (const char* name : {"quantization_config", "sliding_window"}) refuse(f, name);
}

}  // namespace

int64_t ModelConfig::parameters() const {
  int64_t linears = 0;
  for (int i = 0; i < kLinears; ++i) {
    const auto linear = static_cast<Linear>(i);
    linears += out_features(*this, linear) * in_features(*this, linear);
  }
  return layers * (linears + 2 * hidden) + hidden + (tied_embeddings ? 1 : 2) * vocabulary * hidden;
}

ModelConfig parse_model_config(const std::string& text, const std::string& file) {
  const Json document = parse_json_file(text, file);
  const JsonFields f(document, file);
  check_implemented(f);
  ModelConfig c;
  c.name = file;
  c.hidden = f.integer("hidden_size", 1, kWidest);
  c.intermediate = f.integer("intermediate_size", 1, kWidest);
  c.layers = f.integer("num_hidden_layers", 1, kDeepest);
  c.heads = f.integer("num_attention_heads", 1, kWidest);
  c.kv_heads = f.integer_or("num_key_value_heads", 1, kWidest, c.heads);
  if (c.heads % c.kv_heads != 0)
    f.fail("num_key_value_heads", "is " + std::to_string(c.kv_heads) +
                                      ", which does not divide num_attention_heads " +
                                      std::to_string(c.heads));
  if (!f.find("head_dim") && c.hidden % c.heads != 0)
    f.fail("hidden_size", "is " + std::to_string(c.hidden) + ", not a multiple of num_attention_heads " +
                              std::to_string(c.heads) + ", and head_dim is missing");
  c.head_dim = f.integer_or("head_dim", 1, kWidest, c.hidden / c.heads);
  if (c.head_dim % 2 != 0 || c.q_size() > kWidest)
    f.fail("head_dim", "is " + std::to_string(c.head_dim) + " (hidden_size / num_attention_heads if not " +
                           "given), not even or too large");
  c.vocabulary = f.integer("vocab_size", 1, kLargestVocabulary);
  // Absent fields have the values that transformers' LlamaConfig gives them.
  c.max_position = f.integer_or("max_position_embeddings", 1, int64_t{1} << 40, 2048);
  c.rms_eps = f.find("rms_norm_eps") ? positive(f, "rms_norm_eps", 0) : 1e-6;
  c.initializer_range = f.number_or("initializer_range", 0.02);
  if (c.initializer_range < 0) f.fail("initializer_range", "is negative");
  c.tied_embeddings = f.flag_or("tie_word_embeddings", false);
  c.rope = read_rope(f);
  return c;
}

std::string model_config_text(const ModelConfig& c) {
  nlohmann::ordered_json rope{{"rope_type", c.rope.type}, {"rope_theta", c.rope.theta}};
  if (c.rope.type == "llama3") {
    rope["factor"] = c.rope.factor;
    rope["low_freq_factor"] = c.rope.low_freq_factor;
    rope["high_freq_factor"] = c.rope.high_freq_factor;
    rope["original_max_position_embeddings"] = c.rope.original_max_position;
  }
  nlohmann::ordered_json scaling = nullptr;
  if (c.rope.type != "default") {
    scaling = rope;
    scaling.erase("rope_theta");
  }
  const nlohmann::ordered_json document{{"architectures", {"LlamaForCausalLM"}},
                                        {"model_type", "llama"},
                                        {"hidden_size", c.hidden},
                                        {"intermediate_size", c.intermediate},
                                        {"num_hidden_layers", c.layers},
                                        {"num_attention_heads", c.heads},
                                        {"num_key_value_heads", c.kv_heads},
                                        {"head_dim", c.head_dim},
                                        {"vocab_size", c.vocabulary},
                                        {"max_position_embeddings", c.max_position},
                                        {"rms_norm_eps", c.rms_eps},
                                        {"initializer_range", c.initializer_range},
                                        {"tie_word_embeddings", c.tied_embeddings},
                                        {"hidden_act", "silu"},
                                        {"attention_bias", false},
                                        {"attention_dropout", 0.0},
                                        {"mlp_bias", false},
                                        {"use_cache", false},
                                        {"rope_parameters", rope},
                                        {"rope_theta", c.rope.theta},
                                        {"rope_scaling", scaling}};
  return document.dump(2) + "\n";
}

const char* module_name(Linear linear) {
  static constexpr const char* kNames[kLinears] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                   "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                                   "mlp.down_proj"};
  return kNames[static_cast<int>(linear)];
}

int64_t out_features(const ModelConfig& c, Linear linear) {
  switch (linear) {
    case Linear::q:
      return c.q_size();
    case Linear::k:
    case Linear::v:
      return c.kv_size();
    case Linear::gate:
    case Linear::up:
      return c.intermediate;
    case Linear::o:
    case Linear::down:
      break;
  }
  return c.hidden;
}

int64_t in_features(const ModelConfig& c, Linear linear) {
  return linear == Linear::o ? c.q_size() : linear == Linear::down ? c.intermediate : c.hidden;
}

}  // namespace tt

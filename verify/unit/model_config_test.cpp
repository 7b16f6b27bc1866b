// Presets, config.json old and new, and the rotary table against an independent reference.
#include "src/llm/model_config.h"

#include <cmath>
#include <numbers>

#include "common/error.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::has;
using tt::test::message_of;

namespace {

const std::string kTiny =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
 "attention_bias": false, "attention_dropout": 0.0, "mlp_bias": false, "hidden_size": 64, "head_dim": 32,
 "intermediate_size": 176, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
 "vocab_size": 256, "rms_norm_eps": 1e-05, "max_position_embeddings": 1024, "tie_word_embeddings": false,
 "pad_token_id": null, "transformers_version": "5.17.0")";

const std::string kLlama3 = R"("factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
 "original_max_position_embeddings": 64)";

ModelConfig parse(const std::string& more) {
  return parse_model_config(kTiny + more + "}", "DIR/config.json");
}

/// kTiny with the first `from` replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = kTiny + "}";
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& text) {
  return message_of<EnvironmentError>([&] { parse_model_config(text, "DIR/config.json"); });
}

void check_scaled(const ModelConfig& c) {
  CHECK(c.rope.theta == 500000);
  CHECK(c.rope.theta_given);
  CHECK(c.rope.type == "llama3");
  CHECK(c.rope.factor == 8);
  CHECK(c.rope.low_freq_factor == 1);
  CHECK(c.rope.high_freq_factor == 4);
  CHECK(c.rope.original_max_position == 64);
}

/// From the published description of the scaling: by wavelength, in long double.
long double reference_frequency(const RopeConfig& r, int64_t i, int64_t head_dim) {
  const long double plain = 1 / std::exp(std::log(static_cast<long double>(r.theta)) * (2.0L * i) / head_dim);
  if (r.type == "default") return plain;
  const long double wavelength = 2 * std::numbers::pi_v<long double> / plain;
  const long double shortest_scaled = r.original_max_position / static_cast<long double>(r.high_freq_factor);
  const long double longest_blended = r.original_max_position / static_cast<long double>(r.low_freq_factor);
  if (wavelength < shortest_scaled) return plain;
  if (wavelength > longest_blended) return plain / r.factor;
  const long double blend =
      (r.original_max_position / wavelength - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
  return (1 - blend) * plain / r.factor + blend * plain;
}

}  // namespace

TEST_CASE("model: presets have the published parameter counts and rope", "[model]") {
  struct Published {
    const char* name;
    int64_t parameters;
    double theta, factor;
  };
  const auto p =
      GENERATE(Published{"llama3.2-1b", 1235814400, 5e5, 32}, Published{"llama2-7b", 6738415616, 1e4, 1},
               Published{"llama2-13b", 13015864320, 1e4, 1}, Published{"llama2-70b", 68976648192, 1e4, 1},
               Published{"llama3.1-8b", 8030261248, 5e5, 8}, Published{"llama3.1-70b", 70553706496, 5e5, 8},
               Published{"llama3.1-405b", 405853388800, 5e5, 8});
  const ModelConfig& c = preset_named("--model", p.name);
  CHECK(c.parameters() == p.parameters);
  CHECK(c.rope.theta == p.theta);
  CHECK(c.rope.factor == p.factor);
  CHECK(c.rope.type == (p.factor > 1 ? "llama3" : "default"));
  CHECK(c.tied_embeddings == (std::string(p.name) == "llama3.2-1b"));
  const ModelConfig back = parse_model_config(model_config_text(c), "written");
  CHECK(back.parameters() == c.parameters());
  CHECK(back.rope.type == c.rope.type);
  CHECK(back.rope.factor == c.rope.factor);
  CHECK(back.rope.theta == c.rope.theta);
  CHECK(back.max_position == c.max_position);
  CHECK(back.tied_embeddings == c.tied_embeddings);
}

TEST_CASE("model: an unknown preset is refused with the list", "[model]") {
  CHECK(find_preset("llama9") == nullptr);
  const auto message = message_of<UsageError>([] { preset_named("--model", "llama9"); });
  CHECK(has(message, {"--model", "\"llama9\"", "llama3.1-8b", "llama2-70b"}));
}

TEST_CASE("model: config.json's fields arrive", "[model]") {
  const ModelConfig c = parse("");
  CHECK(c.hidden == 64);
  CHECK(c.intermediate == 176);
  CHECK(c.layers == 3);
  CHECK(c.q_size() == 128);
  CHECK(c.kv_size() == 64);
  CHECK(c.vocabulary == 256);
  CHECK(c.rms_eps == 1e-5);
  CHECK(out_features(c, Linear::k) == 64);
  CHECK(in_features(c, Linear::o) == 128);
  CHECK(out_features(c, Linear::o) == 64);
  CHECK(in_features(c, Linear::down) == 176);
  CHECK(std::string(module_name(Linear::down)) == "mlp.down_proj");
}

TEST_CASE("model: rope_parameters, rope_scaling with rope_type and with type say the same (C31)", "[model]") {
  check_scaled(
      parse(R"(, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, )" + kLlama3 + "}"));
  for (const char* key : {"rope_type", "type"})
    check_scaled(parse(R"(, "rope_theta": 500000.0, "rope_scaling": {")" + std::string(key) +
                       R"(": "llama3", )" + kLlama3 + "}"));
  const ModelConfig plain = parse(R"(, "rope_theta": 500000.0, "rope_scaling": null)");
  CHECK(plain.rope.theta == 500000);
  CHECK(plain.rope.type == "default");
}

TEST_CASE("model: no theta anywhere is 10000, and known to be the default", "[model]") {
  CHECK(parse("").rope.theta == 10000);
  CHECK_FALSE(parse("").rope.theta_given);
  CHECK(parse(R"(, "rope_theta": 10000)").rope.theta_given);
  CHECK_FALSE(parse(R"(, "rope_parameters": {"rope_type": "default"})").rope.theta_given);
}

TEST_CASE("model: what is not implemented or contradicts itself is refused by name", "[model]") {
  const auto refused = [](const std::string& more, std::initializer_list<std::string> parts) {
    const auto message = error_of(kTiny + more + "}");
    CHECK(has(message, {"DIR/config.json"}));
    CHECK(has(message, parts));
    CHECK(message.find('\n') == std::string::npos);
  };
  refused(R"(, "rope_parameters": {"rope_type": "yarn", "factor": 2})",
          {"rope_parameters.rope_type", "yarn", "llama3"});
  refused(R"(, "rope_scaling": {"type": "linear", "factor": 2})", {"rope_scaling.type", "linear"});
  refused(R"(, "rope_scaling": {"type": "llama3", "rope_type": "default"})", {"rope_scaling.type"});
  refused(R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8})", {"low_freq_factor", "missing"});
  refused(R"(, "rope_scaling": {"rope_type": "llama3", "factor": 0.5})", {"rope_scaling.factor", "0.5"});
  refused(
      R"(, "rope_scaling": {"rope_type": "llama3", "factor": 8, "high_freq_factor": 1, "low_freq_factor": 1,
             "original_max_position_embeddings": 64})",
      {"high_freq_factor"});
  refused(R"(, "rope_scaling": {"attention_factor": 2})", {"rope_scaling.attention_factor"});
  refused(R"(, "rope_scaling": 3)", {"rope_scaling", "not a JSON object"});
  refused(R"(, "rope_theta": 1, "rope_parameters": {"rope_theta": 2})", {"rope_theta"});
  refused(R"(, "rope_theta": -1)", {"rope_theta", "-1"});
  refused(R"(, "rope_theta": "x")", {"rope_theta", "\"x\""});
  refused(R"(, "quantization_config": {"bits": 4})", {"quantization_config"});
  refused(R"(, "vocab_size": 3)", {"\"vocab_size\"", "twice"});
}

TEST_CASE("model: missing and malformed fields are named with their value", "[model]") {
  struct Bad {
    std::string from, to, part;
  };
  for (const Bad& bad :
       std::vector<Bad>{{R"("model_type": "llama")", R"("model_type": "mistral")", "mistral"},
                        {R"("model_type": "llama", )", "", "\"model_type\" is missing"},
                        {"LlamaForCausalLM", "LlamaModel", "LlamaModel"},
                        {"\"silu\"", "\"gelu\"", "gelu"},
                        {R"("attention_bias": false)", R"("attention_bias": true)", "attention_bias"},
                        {R"("mlp_bias": false)", R"("mlp_bias": true)", "mlp_bias"},
                        {R"("hidden_size": 64)", R"("hidden_size": "64")", "\"64\""},
                        {R"("hidden_size": 64)", R"("hidden_size": 64.5)", "64.5"},
                        {R"("hidden_size": 64)", R"("hidden_size": -64)", "-64"},
                        {R"("hidden_size": 64)", R"("hidden_size": 18446744073709551615)", "1844674"},
                        {R"("vocab_size": 256)", R"("vocab_size": 1e400)", "JSON"},
                        {R"("vocab_size": 256, )", "", "\"vocab_size\" is missing"},
                        {R"("num_key_value_heads": 2)", R"("num_key_value_heads": 3)", "divide"},
                        {R"("head_dim": 32)", R"("head_dim": 33)", "head_dim"},
                        {R"("head_dim": 32)", R"("head_dim": 1048576)", "head_dim"},
                        {"1e-05", "0", "rms_norm_eps"},
                        {R"("num_attention_heads": 4)", R"("num_attention_heads": 0)", "heads"},
                        {R"("tie_word_embeddings": false)", R"("tie_word_embeddings": 1)", "tie_"}}) {
    INFO(bad.to);
    CHECK(has(error_of(changed(bad.from, bad.to)), {"DIR/config.json", bad.part}));
  }
  for (const std::string& text : std::vector<std::string>{
           "", "[]", "3", "{\"a\"", "{\"hidden_size\": \"\xff\"}", std::string(100000, '['), "{}" + kTiny})
    CHECK(has(error_of(text), {"DIR/config.json"}));
  const std::string whole = kTiny + "}";
  for (size_t length = 0; length < whole.size(); ++length)
    CHECK_THROWS_AS(parse_model_config(whole.substr(0, length), "f"), EnvironmentError);
}

TEST_CASE("model: absent fields have transformers' defaults", "[model]") {
  const ModelConfig c = parse_model_config(
      R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 176, "num_attention_heads": 4,
      "num_hidden_layers": 1, "vocab_size": 256})",
      "f");
  CHECK(c.head_dim == 16);
  CHECK(c.kv_heads == 4);
  CHECK(c.rms_eps == 1e-6);
  CHECK(c.max_position == 2048);
  CHECK_FALSE(c.tied_embeddings);
}

TEST_CASE("model: the rotary table agrees with a reference", "[model]") {
  RopeConfig rope;
  int64_t head_dim = 128, seq = 300;
  SECTION("llama2") {}
  SECTION("llama3.1") {
    rope = preset_named("--model", "llama3.1-8b").rope;
  }
  SECTION("llama3.2") {
    rope = preset_named("--model", "llama3.2-1b").rope, head_dim = 64;
  }
  SECTION("tiny") {
    rope = parse(R"(, "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, )" + kLlama3 + "}")
               .rope;
    head_dim = 32;
  }
  const std::vector<float> table = rope_table(rope, head_dim, seq);
  REQUIRE(table.size() == static_cast<size_t>(seq * head_dim));
  double worst = 0;
  for (int64_t p = 0; p < seq; ++p)
    for (int64_t i = 0; i < head_dim / 2; ++i) {
      const long double angle = p * reference_frequency(rope, i, head_dim);
      const float* row = table.data() + p * head_dim;
      worst = std::max(worst, std::fabs(static_cast<double>(row[i] - std::cos(angle))));
      worst = std::max(worst, std::fabs(static_cast<double>(row[head_dim / 2 + i] - std::sin(angle))));
    }
  // One rounding to float of a value of at most 1 (half of 2^-24), and an angle below 300 with a few 2^-53.
  CHECK(worst <= 0x1p-25 + 300 * 16 * 0x1p-53);
}

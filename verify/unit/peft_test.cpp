// PEFT adapters: settings mean what they mean to PEFT, what is damaged or not implemented is refused, and
// what is written is what PEFT would have written.
#include "src/llm/peft.h"

#include <chrono>
#include <cmath>
#include <set>

#include "src/llm/peft_config.h"
#include "src/llm/peft_write.h"
#include "verify/unit/known_run.h"

using namespace tt;
using namespace tt::test;

namespace {

using Fields = nlohmann::ordered_json;

std::vector<double> losses_of(const std::string& adapter, const KnownModel& known, int64_t steps) {
  OpsBench bench("host");
  return KnownRun(bench, known, "", adapter).losses(steps);
}

const std::string kLora = "llama3-tiny-lora";

ModelConfig tiny() {
  return HfFolder(KnownModel(kLora).model()).config();
}

/// The settings of an adapter with these fields changed, for a model of `layers` layers.
Adapter parse(const Fields& changes, int64_t layers = 2) {
  auto document = Fields::parse(read_text_file("verify/fixtures/" + kLora + "/adapter/adapter_config.json"));
  for (const auto& [key, value] : changes.items()) document[key] = value;
  return parse_adapter_config(document.dump(), "DIR/adapter_config.json", layers);
}
std::string error_of(const Fields& changes) {
  const std::string message = message_of<EnvironmentError>([&] { parse(changes); });
  CHECK(message.starts_with("DIR/adapter_config.json: "));
  CHECK(message.find('\n') == std::string::npos);
  return message;
}
double scale_of(const Adapter& adapter, size_t layer, Linear linear) {
  const auto& module = adapter.modules.at(layer)[static_cast<size_t>(linear)];
  return module ? module->scale : 0;
}
int64_t rank_of(const Adapter& adapter, size_t layer, Linear linear) {
  const auto& module = adapter.modules.at(layer)[static_cast<size_t>(linear)];
  return module ? module->rank : 0;
}

}  // namespace

TEST_CASE("peft: the rank-stabilised scale (C28)", "[peft][llm]") {
  const KnownModel known(kLora);
  const Copied stabilised(known.adapter()), doubled(known.adapter());
  stabilised.change("adapter_config.json", {{"use_rslora", true}});
  doubled.change("adapter_config.json", {{"lora_alpha", 16}});
  const Adapter a = read_adapter(stabilised.dir(), tiny()), b = read_adapter(doubled.dir(), tiny());
  CHECK(a.rslora);
  CHECK(scale_of(a, 1, Linear::down) == 4);
  CHECK(scale_of(b, 1, Linear::down) == 4);
  CHECK(a.summary() == "14 modules of rank 4, alpha 8, scale 4 (rsLoRA)");
  CHECK(b.summary() == "14 modules of rank 4, alpha 16, scale 4");
  CHECK(read_adapter(known.adapter(), tiny()).summary() == "14 modules of rank 4, alpha 8, scale 2");
  const std::vector<double> losses = losses_of(stabilised.dir(), known, 20);
  CHECK(losses == losses_of(doubled.dir(), known, 20));
  CHECK(std::abs(losses[19] - known.facts.at("losses")[19].get<double>()) > 1e-3);
}

TEST_CASE("peft: patterns of ranks and alphas (C29)", "[peft]") {
  SECTION("a general rank does not hide a special alpha") {
    const Adapter a =
        parse({{"rank_pattern", {{"q_proj", 4}}}, {"alpha_pattern", {{"layers.1.self_attn.q_proj", 32}}}});
    for (size_t l = 0; l < 2; ++l)
      for (int i = 0; i < kLinears; ++i) {
        const auto linear = static_cast<Linear>(i);
        CHECK(scale_of(a, l, linear) == (l == 1 && linear == Linear::q ? 8 : 2));
      }
    CHECK(a.warnings.empty());
    CHECK(a.summary() == "13 modules of rank 4, alpha 8, scale 2; 1 modules of rank 4, alpha 32, scale 8");
  }
  SECTION("a key counts from the start of the path or of a component") {
    const Adapter a = parse({{"alpha_pattern", {{"^q_proj", 100}}}});
    for (int i = 0; i < kLinears; ++i) CHECK(scale_of(a, 0, static_cast<Linear>(i)) == 2);
    REQUIRE(a.warnings.size() == 1);
    CHECK(has(a.warnings[0], {"\"alpha_pattern\"", "\"^q_proj\"", "matches no module"}));
  }
  SECTION("not part of a component, nor its beginning") {
    const Adapter a = parse({{"rank_pattern", {{"_proj", 9}, {"q_pro", 9}, {"attn.q_proj", 9}, {"", 9}}}});
    CHECK(rank_of(a, 0, Linear::q) == 4);
    CHECK(a.warnings.size() == 4);
  }
  SECTION("the first key in the file's order that matches counts") {
    const Adapter a = parse({{"rank_pattern", {{"z.*|.*q_proj", 3}, {"layers.0.self_attn.q_proj", 5}}}});
    CHECK(rank_of(a, 0, Linear::q) == 3);
    CHECK(a.warnings.empty());  // the second matches, too, though in vain
    const Adapter b = parse({{"rank_pattern", {{"layers.0.self_attn.q_proj", 5}, {".*q_proj", 3}}}});
    CHECK(rank_of(b, 0, Linear::q) == 5);
    CHECK(rank_of(b, 1, Linear::q) == 3);
    CHECK(scale_of(b, 0, Linear::q) == 8.0 / 5);
  }
  SECTION("whole paths, dots as any character, and expressions") {
    const Adapter a = parse({{"rank_pattern",
                              {{"model.layers.1.mlp.up_proj", 1},
                               {"self.attn.k_proj", 2},
                               {"layers\\.[01]\\.self_attn\\.(v|o)_proj", 3}}}});
    CHECK(rank_of(a, 1, Linear::up) == 1);
    CHECK(rank_of(a, 0, Linear::up) == 4);
    CHECK(rank_of(a, 0, Linear::k) == 2);
    CHECK(rank_of(a, 1, Linear::v) == 3);
    CHECK(rank_of(a, 1, Linear::o) == 3);
  }
  SECTION("layer 1 is not layer 11") {
    const Adapter a = parse({{"rank_pattern", {{"layers.1.self_attn.q_proj", 7}}}}, 12);
    for (size_t l = 0; l < 12; ++l) CHECK(rank_of(a, l, Linear::q) == (l == 1 ? 7 : 4));
  }
}

TEST_CASE("peft: missing, misnamed and misshapen tensors are refused (C30)", "[peft]") {
  const Copied copy(KnownModel(kLora).adapter());
  const std::string path = "adapter_model.safetensors";
  Loose file(copy.path(path));
  const std::string prefix = "base_model.model.model.layers.1.self_attn.q_proj.";
  const auto error = [&] {
    copy.put(path, file.bytes());
    return message_of<EnvironmentError>([&] { read_adapter(copy.dir(), tiny()); });
  };
  SECTION("missing") {
    file.drop(prefix + "lora_B.weight");
    CHECK(has(error(), {path, "\"" + prefix + "lora_B.weight\" is missing"}));
  }
  SECTION("unknown") {
    file.tensors.push_back({"base_model.model.model.layers.2.mlp.up_proj.lora_A.weight", "F32", {1}, "1234"});
    CHECK(has(error(), {path, "layers.2.mlp.up_proj.lora_A.weight\" belongs to no module"}));
  }
  SECTION("misnamed") {
    file.at(prefix + "lora_B.weight").name = prefix + "lora_B.default.weight";
    CHECK(has(error(), {path, "\"" + prefix + "lora_B.weight\" is missing"}));
  }
  SECTION("three rows") {
    auto& a = file.at(prefix + "lora_A.weight");
    a.shape = {3, 64}, a.bytes.resize(3 * 64 * 4);
    CHECK(has(error(), {path, "\"" + prefix + "lora_A.weight\"", "[3, 64] instead of [4, 64]"}));
  }
  SECTION("integers") {
    file.at(prefix + "lora_A.weight").dtype = "I32";
    CHECK(has(error(), {path, "\"" + prefix + "lora_A.weight\"", "\"I32\""}));
  }
  SECTION("no files") {
    std::filesystem::remove(copy.path(path));
    const auto read = [&] { return message_of<EnvironmentError>([&] { read_adapter(copy.dir(), tiny()); }); };
    CHECK(has(read(), {path, "No such file"}));
    copy.put("adapter_model.bin", "x");
    CHECK(has(read(), {path, "adapter_model.bin is not read"}));
    std::filesystem::remove(copy.path("adapter_config.json"));
    CHECK(has(read(), {"adapter_config.json", "No such file"}));
  }
}

TEST_CASE("peft: what is not implemented is refused by name", "[peft]") {
  CHECK(has(error_of({{"use_dora", true}}), {"\"use_dora\" is true", "not implemented"}));
  CHECK(has(error_of({{"peft_type", "IA3"}}), {"\"peft_type\" is \"IA3\"", "accepted: LORA"}));
  CHECK(has(error_of({{"bias", "lora_only"}}), {"\"bias\" is \"lora_only\"", "accepted: none"}));
  CHECK(has(error_of({{"modules_to_save", {"lm_head"}}}), {"\"modules_to_save\" is [\"lm_head\"]"}));
  CHECK(has(error_of({{"layer_replication", {{0, 2}, {1, 2}}}}), {"\"layer_replication\""}));
  CHECK(has(error_of({{"trainable_token_indices", {1}}}), {"\"trainable_token_indices\""}));
  CHECK(has(error_of({{"alora_invocation_tokens", {1}}}), {"\"alora_invocation_tokens\""}));
  CHECK(has(error_of({{"target_parameters", {"w"}}}), {"\"target_parameters\""}));
  CHECK(has(error_of({{"lora_bias", true}}), {"\"lora_bias\""}));
  CHECK(has(error_of({{"use_qalora", true}}), {"\"use_qalora\""}));
  CHECK(has(error_of({{"use_bdlora", {{"nblocks", 2}}}}), {"\"use_bdlora\""}));
  CHECK(has(error_of({{"invented_tomorrow", 1}}), {"\"invented_tomorrow\" is 1"}));
  for (const char* init : {"pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga", "mica", "new"})
    CHECK(has(error_of({{"init_lora_weights", init}}), {"\"init_lora_weights\" is \"" + std::string(init)}));
  // What does not change trained weights is accepted, and so is what is off.
  CHECK_NOTHROW(parse({{"init_lora_weights", "gaussian"}, {"loftq_config", {{"loftq_bits", 4}}}}));
  CHECK_NOTHROW(parse({{"init_lora_weights", false}, {"modules_to_save", Fields::array()}}));
  CHECK_NOTHROW(parse({{"invented_tomorrow", nullptr}, {"another", false}, {"peft_version", "9"}}));
}

TEST_CASE("peft: malformed settings are refused, naming field and value", "[peft]") {
  CHECK(has(error_of({{"r", 0}}), {"\"r\" is 0"}));
  CHECK(has(error_of({{"r", 4.5}}), {"\"r\" is 4.5"}));
  CHECK(has(error_of({{"r", "4"}}), {"\"r\" is \"4\""}));
  CHECK(has(error_of({{"lora_alpha", "8"}}), {"\"lora_alpha\" is \"8\""}));
  CHECK(has(error_of({{"lora_dropout", 1.0}}), {"\"lora_dropout\" is 1.0"}));
  CHECK(has(error_of({{"lora_dropout", -0.1}}), {"\"lora_dropout\" is -0.1"}));
  CHECK(has(error_of({{"use_rslora", "yes"}}), {"\"use_rslora\" is \"yes\""}));
  CHECK(has(error_of({{"rank_pattern", {{"q_proj", 0}}}}), {"\"rank_pattern.q_proj\" is 0"}));
  CHECK(has(error_of({{"rank_pattern", {"q_proj"}}}), {"\"rank_pattern\" is not a JSON object"}));
  CHECK(has(error_of({{"alpha_pattern", {{"q_proj", "x"}}}}), {"\"alpha_pattern.q_proj\" is \"x\""}));
  CHECK(has(error_of({{"alpha_pattern", {{"q_proj(", 1}}}}), {"\"alpha_pattern\"", "q_proj(", "malformed"}));
  CHECK(has(error_of({{"target_modules", 3}}), {"\"target_modules\" is 3"}));
  CHECK(has(error_of({{"target_modules", {1}}}), {"\"target_modules\" has the entry 1"}));
  CHECK(has(error_of({{"target_modules", Fields::array()}}), {"\"target_modules\" means no module"}));
  CHECK(has(error_of({{"target_modules", {"query"}}}), {"\"target_modules\" means no module"}));
  CHECK(has(error_of({{"layers_to_transform", {"0"}}}), {"\"layers_to_transform\" has the entry \"0\""}));
  CHECK(has(error_of({{"layers_pattern", "layers"}}), {"\"layers_pattern\"", "without layers_to_transform"}));
  CHECK(has(error_of({{"layers_to_transform", 1}, {"target_modules", ".*q_proj"}}),
            {"\"layers_to_transform\""}));
  CHECK(has(message_of<EnvironmentError>([] { parse_adapter_config("{\"r\":1,\"r\":2}", "F", 2); }),
            {"F: key \"r\" is there twice"}));
  CHECK(has(message_of<EnvironmentError>([] { parse_adapter_config("{", "F", 2); }), {"F: not valid JSON"}));
  CHECK(has(message_of<EnvironmentError>([] { parse_adapter_config("{}", "F", 2); }),
            {"\"peft_type\" is missing"}));
}

TEST_CASE("peft: target modules", "[peft]") {
  const auto on = [](const Fields& changes) {
    const Adapter adapter = parse(changes, 3);
    std::string text;
    for (size_t l = 0; l < 3; ++l)
      for (int i = 0; i < kLinears; ++i)
        if (adapter.modules[l][static_cast<size_t>(i)])
          text += (text.empty() ? "" : " ") + std::to_string(l) + "qkvogud"[i];
    return text;
  };
  CHECK(on({{"target_modules", {"q_proj"}}}) == "0q 1q 2q");
  CHECK(on({{"target_modules", {"self_attn.q_proj", "model.layers.1.mlp.up_proj"}}}) == "0q 1q 1u 2q");
  CHECK(on({{"target_modules", "all-linear"}}).size() == 3 * 21 - 1);
  CHECK(on({{"target_modules", "All-Linear"}}).size() == 3 * 21 - 1);
  CHECK(on({{"target_modules", ".*\\.(q|v)_proj"}}) == "0q 0v 1q 1v 2q 2v");
  CHECK(on({{"target_modules", "model\\.layers\\.\\d+\\.mlp\\.(?:up|down)_proj$"}}) == "0u 0d 1u 1d 2u 2d");
  CHECK(on({{"target_modules", ".*layers\\.(?!1\\.).*k_proj"}}) == "0k 2k");
  CHECK(on({{"target_modules", nullptr}}) == "0q 0v 1q 1v 2q 2v");
  CHECK(on({{"target_modules", {"q_proj"}}, {"layers_to_transform", {0, 2}}}) == "0q 2q");
  CHECK(on({{"target_modules", {"q_proj"}}, {"layers_to_transform", 1}}) == "1q");
  CHECK(on({{"target_modules", {"q_proj"}}, {"layers_to_transform", {1}}, {"layers_pattern", "layers"}}) ==
        "1q");
  CHECK(on({{"target_modules", {"q_proj"}}, {"layers_to_transform", Fields::array()}}) == "0q 1q 2q");
  // A whole path is not bound to the layers.
  CHECK(on({{"target_modules", {"q_proj", "model.layers.2.mlp.up_proj", "layers.2.self_attn.o_proj"}},
            {"layers_to_transform", 0}}) == "0q 2u");
  CHECK(on({{"target_modules", "all-linear"}, {"exclude_modules", ".*mlp.*"}}) ==
        "0q 0k 0v 0o 1q 1k 1v 1o 2q 2k 2v 2o");
  CHECK(on({{"target_modules", {"q_proj", "o_proj"}}, {"exclude_modules", {"layers.1.self_attn.o_proj"}}}) ==
        "0q 0o 1q 2q 2o");
  CHECK(has(error_of({{"target_modules", {"q_proj"}}, {"layers_to_transform", {1}}, {"layers_pattern", "h"}}),
            {"means no module"}));
  // Modules that cannot have an adapter here.
  CHECK(has(error_of({{"target_modules", {"q_proj", "lm_head"}}}), {"\"lm_head\"", "not implemented"}));
  CHECK(has(error_of({{"target_modules", {"embed_tokens"}}}), {"\"model.embed_tokens\"", "not implemented"}));
  CHECK(has(error_of({{"target_modules", ".*self_attn.*"}}), {"\"model.layers.0.self_attn\""}));
  CHECK(has(error_of({{"target_modules", {"mlp"}}}), {"\"model.layers.0.mlp\""}));
  // Names that mean nothing are said.
  const Adapter a = parse({{"target_modules", {"q_proj", "c_attn"}}, {"exclude_modules", {"lm_head", "x"}}});
  REQUIRE(a.warnings.size() == 2);
  CHECK(has(a.warnings[0], {"\"target_modules\"", "\"c_attn\" is no module"}));
  CHECK(has(a.warnings[1], {"\"exclude_modules\"", "\"x\" is no module"}));
  CHECK(has(parse({{"layers_to_transform", {1, 7}}}).warnings.at(0),
            {"\"layers_to_transform\"", "no layer 7"}));
  CHECK(has(parse({{"fan_in_fan_out", true}}).warnings.at(0), {"\"fan_in_fan_out\""}));
  CHECK(
      has(parse({{"target_modules", nullptr}}).warnings.at(0), {"\"target_modules\"", "q_proj and v_proj"}));
}

TEST_CASE("peft: regular expressions cannot take for ever", "[peft]") {
  const auto start = std::chrono::steady_clock::now();
  for (const char* expression :
       {"((.*)*)*z", "(a|aa|.)*(b|.)*(.*.*.*.*.*.*)z", "(x+x+)+y|(.+)+\\.z", "(.{0,10}){0,9}z"})
    CHECK(has(error_of({{"target_modules", expression}}), {"\"target_modules\" means no module"}));
  const auto refused = [](const std::string& expression) {
    CHECK(has(error_of({{"target_modules", expression}}),
              {"\"target_modules\"", "too long or repeats too often"}));
  };
  refused(std::string(3000, 'a'));
  refused("(.{0,1000}){0,1000}z");
  refused("a{99999999999999999999}");
  for (const char* expression : {"(", "[", "*a", "(?P<x>q_proj)", "(?<=x)q_proj", "(?i)q_proj", "\\Zq"})
    CHECK(has(error_of({{"target_modules", expression}}),
              {"\"target_modules\"", "malformed or not implemented"}));
  std::string deep = "q_proj";
  for (int i = 0; i < 1000; ++i) deep = "(" + deep + ")";
  CHECK_NOTHROW(parse({{"target_modules", ".*" + deep}}));
  std::string optional;
  for (int i = 0; i < 1000; ++i) optional += "a?";
  CHECK_NOTHROW(parse({{"target_modules", ".*" + optional + "q_proj"}}));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("peft: with only the first layers, tensors of the others are passed over", "[peft]") {
  const KnownModel known(kLora);
  ModelConfig config = tiny();
  config.layers = 1;
  const Adapter adapter = read_adapter(known.adapter(), config, 2);
  CHECK(adapter.modules.size() == 1);
  CHECK(adapter.module_count() == 7);
  CHECK(adapter.tensors.size() == 14);
  CHECK(has(message_of<EnvironmentError>([&] { read_adapter(known.adapter(), config); }), {"layers.1."}));
  const Copied copy(known.adapter());
  copy.change("adapter_config.json", {{"layers_to_transform", {1}}});
  Loose file(copy.path("adapter_model.safetensors"));
  std::erase_if(file.tensors, [](const auto& t) { return t.name.find("layers.0.") != std::string::npos; });
  copy.put("adapter_model.safetensors", file.bytes());
  CHECK(read_adapter(copy.dir(), tiny()).module_count() == 7);
  CHECK(has(message_of<EnvironmentError>([&] { read_adapter(copy.dir(), config, 2); }), {"first 1 layers"}));
}

TEST_CASE("peft: adapters without files", "[peft]") {
  const ModelConfig config = tiny();
  const Adapter plain = make_adapter({}, config);
  CHECK(plain.module_count() == 14);
  CHECK(plain.summary() == "14 modules of rank 16, alpha 32, scale 2");
  const Adapter attention = make_adapter({4, 8, true, 0.25, {"attention"}}, config);
  CHECK(attention.module_count() == 8);
  CHECK(attention.summary() == "8 modules of rank 4, alpha 8, scale 4 (rsLoRA), dropout 0.25");
  const Adapter named = make_adapter({4, 8, false, 0, {"up_proj", "q_proj", "q_proj"}}, config);
  CHECK(named.module_count() == 4);
  CHECK(scale_of(named, 1, Linear::up) == 2);
  CHECK(rank_of(named, 0, Linear::v) == 0);
  const auto refused = [&](const AdapterChoice& choice) {
    return message_of<UsageError>([&] { make_adapter(choice, config); });
  };
  CHECK(has(refused({4, 8, false, 0, {"q"}}),
            {"--lora-targets", "\"q\"", "accepted: all-linear, attention, q_proj"}));
  CHECK(has(refused({4, 8, false, 0, {}}), {"--lora-targets"}));
  CHECK(has(refused({0, 8, false, 0, {"q_proj"}}), {"--lora-rank: 0"}));
  CHECK(has(refused({4, 8, false, 1, {"q_proj"}}), {"--lora-dropout: 1"}));
}

TEST_CASE("peft: a written adapter has the keys, shapes and settings of PEFT's own", "[peft][llm]") {
  const std::string name = GENERATE(as<std::string>{}, "llama3-tiny-lora", "llama31-tiny-ropescaled-lora");
  const KnownModel known(name);
  OpsBench bench("host");
  KnownRun run(bench, known);
  Trainer& trainer = run.trainer();
  const HfFolder& folder = run.folder();
  const Adapter& adapter = run.adapter();
  const Tree tree;
  const std::string dir = tree.root() + "/out";
  const auto write = [&] {
    write_adapter(trainer.context(), trainer.parameters(), folder.config(), adapter, dir, "the/base");
  };
  write();
  CHECK(names_in(dir) == std::vector<std::string>{"adapter_config.json", "adapter_model.safetensors"});
  const SafetensorsFile own(known.adapter() + "/adapter_model.safetensors"),
      written(dir + "/adapter_model.safetensors");
  REQUIRE(written.tensors().size() == own.tensors().size());
  for (const TensorInfo& tensor : own.tensors()) {
    INFO(tensor.name);
    CHECK(written.at(tensor.name).dtype == "F32");
    CHECK(written.at(tensor.name).shape == tensor.shape);
    CHECK(written.bytes(written.at(tensor.name)) == own.bytes(tensor));
  }
  const auto settings = nlohmann::json::parse(read_text_file(dir + "/adapter_config.json"));
  const auto theirs = nlohmann::json::parse(read_text_file(known.adapter() + "/adapter_config.json"));
  for (const auto& [key, value] : settings.items()) {
    INFO(key);
    REQUIRE(theirs.contains(key));
    if (key == "target_modules")
      CHECK(value.get<std::set<std::string>>() == theirs[key].get<std::set<std::string>>());
    else if (key == "base_model_name_or_path")
      CHECK(value == "the/base");
    else if (key != "task_type")
      CHECK(value == theirs[key]);
  }
  CHECK(read_adapter(dir, folder.config()).summary() == adapter.summary());
  CHECK(has(message_of<EnvironmentError>(write), {dir, "not empty"}));
}

TEST_CASE("peft: settings that differ from module to module survive writing and reading", "[peft]") {
  const auto check = [](const Adapter& adapter) {
    const Adapter again = parse_adapter_config(adapter_config_text(adapter, "x"), "F", 12);
    CHECK(again.warnings.empty());
    CHECK(again.rslora == adapter.rslora);
    CHECK(again.dropout == adapter.dropout);
    CHECK(again.alpha == adapter.alpha);
    for (size_t l = 0; l < 12; ++l)
      for (int i = 0; i < kLinears; ++i) {
        const auto linear = static_cast<Linear>(i);
        CHECK(rank_of(again, l, linear) == rank_of(adapter, l, linear));
        CHECK(scale_of(again, l, linear) == scale_of(adapter, l, linear));
      }
  };
  check(parse({{"rank_pattern", {{"layers.1.mlp.up_proj", 3}, {".*v_proj", 7}}},
               {"alpha_pattern", {{"layers.(2|11).*", 2.5}}},
               {"use_rslora", true},
               {"lora_dropout", 0.125}},
              12));
  check(parse({{"target_modules", {"q_proj", "layers.1.mlp.up_proj"}},
               {"exclude_modules", {"layers.11.self_attn.q_proj"}}},
              12));
  check(make_adapter({5, 7, true, 0, {"attention"}}, [] {
    ModelConfig c = tiny();
    c.layers = 12;
    return c;
  }()));
}

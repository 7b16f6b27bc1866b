#include "src/llm/peft_config.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "src/llm/json.h"
#include "src/llm/peft_targets.h"

namespace tt {
namespace {

using Json = nlohmann::json;

constexpr int64_t kHighestRank = 1 << 16;

/// Fields that are honoured, and fields that change nothing about weights that have been trained.
constexpr const char* kHonoured[] = {"peft_type",         "r",
                                     "lora_alpha",        "lora_dropout",
                                     "use_rslora",        "target_modules",
                                     "fan_in_fan_out",    "bias",
                                     "init_lora_weights", "rank_pattern",
                                     "alpha_pattern",     "exclude_modules",
                                     "layers_pattern",    "layers_to_transform"};
constexpr const char* kHarmless[] = {
    "auto_mapping", "base_model_name_or_path", "revision",       "inference_mode",     "peft_version",
    "task_type",    "megatron_core",           "eva_config",     "corda_config",       "lora_ga_config",
    "loftq_config", "qalora_group_size",       "runtime_config", "ensure_weight_tying"};

bool is_off(const Json& value) {
  return value.is_null() || value == false || (value.is_structured() && value.empty());
}

/// How the weights began. PEFT computes a different base model for some when it loads them.
void check_init(const JsonFields& f) {
  const Json* init = f.find("init_lora_weights");
  if (!init || init->is_boolean()) return;
  const std::string name = init->is_string() ? init->get<std::string>() : "";
  for (const char* known : {"gaussian", "eva", "orthogonal"})
    if (name == known) return;
  f.fail("init_lora_weights",
         "is " + shown(*init) +
             ", which is not implemented; accepted: true, false, gaussian, eva, orthogonal "
             "(an initialisation that changes the base model can be converted when PEFT saves it, by "
             "path_initial_model_for_weight_conversion)");
}

void check_implemented(const JsonFields& f) {
  if (f.text("peft_type") != "LORA")
    f.fail("peft_type", "is " + shown(f.at("peft_type")) + ", which is not implemented; accepted: LORA");
  if (f.text_or("bias", "none") != "none")
    f.fail("bias", "is " + shown(f.at("bias")) + ", which is not implemented; accepted: none");
  check_init(f);
  const auto listed = [](const auto& names, const std::string& name) {
    return std::any_of(std::begin(names), std::end(names), [&](const char* n) { return name == n; });
  };
  for (const auto& [name, value] : f.object().items())
    if (!listed(kHonoured, name) && !listed(kHarmless, name) && !is_off(value))
      f.fail(name, "is " + shown(value) + ", which is not implemented; accepted: null");
}

/// A text or a list of texts.
std::vector<std::string> texts(const JsonFields& f, const std::string& name) {
  const Json& value = f.at(name);
  if (value.is_string()) return {value.get<std::string>()};
  std::vector<std::string> list;
  if (!value.is_array()) f.fail(name, "is " + shown(value) + ", neither a text nor a list of texts");
  for (const Json& entry : value) {
    if (!entry.is_string()) f.fail(name, "has the entry " + shown(entry) + ", not a text");
    list.push_back(entry.get<std::string>());
  }
  return list;
}

std::string place(const JsonFields& f, const char* name) {
  return f.file() + ": field " + in_quotes(name);
}

ModuleSelection selection(const JsonFields& f, const char* name) {
  if (f.at(name).is_string()) return ModuleSelection(Pattern(f.text(name), place(f, name)));
  return ModuleSelection(texts(f, name));
}

/// layers_to_transform with layers_pattern: which of the model's layers may have adapters.
std::vector<bool> chosen_layers(const JsonFields& f, int64_t layers, std::vector<std::string>& warnings) {
  std::vector<bool> chosen(static_cast<size_t>(layers), true);
  const Json* wanted = f.find("layers_to_transform");
  const bool has_pattern = f.find("layers_pattern") && !f.at("layers_pattern").empty();
  if (!wanted && has_pattern) f.fail("layers_pattern", "is there without layers_to_transform");
  if (!wanted) return chosen;
  if (f.find("target_modules") && f.at("target_modules").is_string())
    f.fail("layers_to_transform", "is there, but target_modules is a text");
  const Json list = wanted->is_array() ? *wanted : Json::array({*wanted});
  if (list.empty()) return chosen;
  bool fits = !has_pattern;
  if (has_pattern)
    for (const std::string& pattern : texts(f, "layers_pattern"))
      fits = fits || Pattern("(.*\\.)?(" + pattern + ")", place(f, "layers_pattern")).matches("model.layers");
  chosen.assign(chosen.size(), false);
  for (const Json& entry : list) {
    if (!entry.is_number_integer())
      f.fail("layers_to_transform", "has the entry " + shown(entry) + ", not a number");
    if (entry >= 0 && entry < layers)
      chosen[entry.get<size_t>()] = fits;
    else
      warnings.push_back(place(f, "layers_to_transform") + ": the model has no layer " + shown(entry));
  }
  return chosen;
}

/// rank_pattern or alpha_pattern: the first key in the file's order that matches a module counts.
template <class Value>
class ModulePattern {
 public:
  template <class Parse>
  ModulePattern(const JsonFields& f, const char* name, const nlohmann::ordered_json& in_order, Parse parse)
      : where_(place(f, name)) {
    if (!f.find(name)) return;
    const JsonFields values = f.fields(name);
    for (const auto& [key, value] : in_order.at(name).items()) {
      entries_.push_back({PatternKey(key, where_), parse(values, key), false});
    }
  }
  Value value_or(const std::string& path, Value otherwise) {
    bool found = false;
    for (Entry& entry : entries_) {
      if (!(entry.used && found) && entry.key.matches(path)) {
        entry.used = true;
        if (!found) otherwise = entry.value;
        found = true;
      }
    }
    return otherwise;
  }
  void warn(std::vector<std::string>& warnings) const {
    for (const Entry& entry : entries_)
      if (!entry.used)
        warnings.push_back(where_ + ": key " + in_quotes(entry.key.key()) +
                           " matches no module of the adapter and does nothing");
  }

 private:
  struct Entry {
    PatternKey key;
    Value value;
    bool used;
  };
  std::string where_;
  std::vector<Entry> entries_;
};

/// Modules of transformers' LlamaForCausalLM that an adapter cannot be on: PEFT takes linear layers (and the
/// embedding) only, and here neither embedding nor head can have one.
std::vector<std::string> other_modules(int64_t layers) {
  std::vector<std::string> paths{"model",      "model.embed_tokens", "model.layers",
                                 "model.norm", "model.rotary_emb",   "lm_head"};
  for (int64_t l = 0; l < layers; ++l)
    for (const char* name :
         {"", ".self_attn", ".mlp", ".mlp.act_fn", ".input_layernorm", ".post_attention_layernorm"})
      paths.push_back("model.layers." + std::to_string(l) + name);
  return paths;
}

/// What target_modules and exclude_modules say.
class Targets {
 public:
  Targets(const JsonFields& f, int64_t layers, std::vector<std::string>& warnings)
      : selection_(std::vector<std::string>{}) {
    if (!f.find("target_modules")) {
      selection_ = ModuleSelection(std::vector<std::string>{"q_proj", "v_proj"});
      warnings.push_back(place(f, "target_modules") +
                         ": is missing; PEFT's default for Llama, q_proj and v_proj, is taken");
    } else if (is_all_linear(f.at("target_modules"))) {
      all_linear_ = true;
    } else {
      selection_ = selection(f, "target_modules");
    }
    if (f.find("exclude_modules") && !f.at("exclude_modules").empty())
      exclude_ = selection(f, "exclude_modules");
    for (const std::string& path : all_linear_ ? std::vector<std::string>{} : other_modules(layers))
      if (means(path))
        f.fail("target_modules",
               "means module " + in_quotes(path) + ", on which adapters are not implemented");
  }
  bool means(const std::string& path) const {
    return (all_linear_ || selection_.matches(path)) && !(exclude_ && exclude_->matches(path));
  }
  /// The same with layers_to_transform, which does not bind modules that are listed by their whole path.
  bool means(const std::string& path, bool layer_chosen) const {
    return means(path) && (layer_chosen || selection_.names(path));
  }
  /// Names in lists that mean nothing.
  void warn(const JsonFields& f, const std::vector<std::string>& paths,
            std::vector<std::string>& warnings) const {
    const auto add = [&](const char* field, const ModuleSelection& s) {
      for (const std::string& name : s.names_without(paths))
        warnings.push_back(place(f, field) + ": " + in_quotes(name) + " is no module of the model");
    };
    if (!all_linear_) add("target_modules", selection_);
    if (exclude_) add("exclude_modules", *exclude_);
  }

 private:
  static bool is_all_linear(const Json& value) {
    if (!value.is_string()) return false;
    std::string text = value.get<std::string>();
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text == "all-linear";
  }
  bool all_linear_ = false;
  ModuleSelection selection_;
  std::optional<ModuleSelection> exclude_;
};

int64_t rank_in(const JsonFields& f, const std::string& name) {
  return f.integer(name, 1, kHighestRank);
}

}  // namespace

Adapter parse_adapter_config(const std::string& text, const std::string& file, int64_t layers) {
  const Json document = parse_json_file(text, file);
  const JsonFields f(document, file);
  check_implemented(f);
  Adapter adapter;
  adapter.rslora = f.flag_or("use_rslora", false);
  adapter.dropout = f.number_or("lora_dropout", 0);
  if (adapter.dropout < 0 || adapter.dropout >= 1)
    f.fail("lora_dropout", "is " + shown(f.at("lora_dropout")) + ", not from 0 to below 1");
  if (f.flag_or("fan_in_fan_out", false))
    adapter.warnings.push_back(
        place(f, "fan_in_fan_out") +
        ": is true, but Llama's layers are not stored so; taken as false, as PEFT does");
  const int64_t general_rank = f.find("r") ? rank_in(f, "r") : 8;  // PEFT's defaults
  const double general_alpha = f.number_or("lora_alpha", 8);
  const auto in_order = nlohmann::ordered_json::parse(text);
  ModulePattern<int64_t> ranks(f, "rank_pattern", in_order, rank_in);
  ModulePattern<double> alphas(
      f, "alpha_pattern", in_order,
      [](const JsonFields& values, const std::string& key) { return values.number(key); });
  const std::vector<bool> chosen = chosen_layers(f, layers, adapter.warnings);
  const Targets targets(f, layers, adapter.warnings);

  adapter.modules.resize(static_cast<size_t>(layers));
  adapter.alpha.resize(static_cast<size_t>(layers));
  std::vector<std::string> paths = other_modules(layers);
  for (int64_t l = 0; l < layers; ++l)
    for (size_t i = 0; i < kLinears; ++i) {
      const std::string path = module_path(l, static_cast<Linear>(i));
      paths.push_back(path);
      if (!targets.means(path, chosen[static_cast<size_t>(l)])) continue;
      const int64_t rank = ranks.value_or(path, general_rank);
      const double alpha = alphas.value_or(path, general_alpha);
      adapter.alpha[static_cast<size_t>(l)][i] = alpha;
      adapter.modules[static_cast<size_t>(l)][i] = LoraModule{rank, lora_scale(alpha, rank, adapter.rslora)};
    }
  if (adapter.module_count() == 0) f.fail("target_modules", "means no module of the model");
  targets.warn(f, paths, adapter.warnings);
  ranks.warn(adapter.warnings);
  alphas.warn(adapter.warnings);
  return adapter;
}

}  // namespace tt

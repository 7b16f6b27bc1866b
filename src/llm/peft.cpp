#include "src/llm/peft.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "common/error.h"
#include "common/quote.h"
#include "src/llm/peft_config.h"

namespace tt {
namespace {

std::string path_in(const std::string& dir, const char* name) {
  return (std::filesystem::path(dir) / name).string();
}

std::shared_ptr<const SafetensorsFile> open_weights(const std::string& dir) {
  const std::string path = path_in(dir, "adapter_model.safetensors");
  if (!std::filesystem::exists(path) && std::filesystem::exists(path_in(dir, "adapter_model.bin")))
    throw EnvironmentError(path +
                           ": is not there (adapter_model.bin is not read: convert it to safetensors)");
  return std::make_shared<const SafetensorsFile>(path);
}

/// Finds A and B of every module; what else is in the file is an error.
StoredTensors find_tensors(const Adapter& adapter, const ModelConfig& config, const std::string& dir) {
  const auto file = open_weights(dir);
  StoredTensors found;
  const auto find = [&](const std::string& name, const std::vector<int64_t>& shape) {
    const StoredTensor stored{file, &file->at(name)};
    check_stored(stored, shape);
    found[name] = stored;
  };
  for (size_t l = 0; l < adapter.modules.size(); ++l)
    for (size_t i = 0; i < kLinears; ++i) {
      const auto& module = adapter.modules[l][i];
      if (!module) continue;
      const auto linear = static_cast<Linear>(i);
      const int64_t layer = static_cast<int64_t>(l);
      find(lora_name(layer, linear, 'A'), {module->rank, in_features(config, linear)});
      find(lora_name(layer, linear, 'B'), {out_features(config, linear), module->rank});
    }
  for (const TensorInfo& tensor : file->tensors())
    if (!found.contains(tensor.name))
      file->fail(tensor, "belongs to no module that adapter_config.json puts an adapter on");
  return found;
}

/// The first layers of an adapter.
void cut(Adapter& adapter, int64_t layers) {
  adapter.modules.resize(static_cast<size_t>(layers));
  adapter.alpha.resize(static_cast<size_t>(layers));
  std::set<std::string> names;
  for (int64_t l = 0; l < layers; ++l)
    for (int i = 0; i < kLinears; ++i)
      for (const char matrix : {'A', 'B'}) names.insert(lora_name(l, static_cast<Linear>(i), matrix));
  std::erase_if(adapter.tensors, [&](const auto& entry) { return !names.contains(entry.first); });
}

constexpr Linear kAttention[] = {Linear::q, Linear::k, Linear::v, Linear::o};

/// "q_proj"
std::string short_name(Linear linear) {
  const std::string name = module_name(linear);
  return name.substr(name.find('.') + 1);
}

std::set<Linear> parse_targets(const std::vector<std::string>& targets) {
  std::set<Linear> chosen;
  for (const std::string& target : targets) {
    bool known = target == "all-linear" || target == "attention";
    if (target == "attention") chosen.insert(std::begin(kAttention), std::end(kAttention));
    std::string accepted = "all-linear, attention";
    for (int i = 0; i < kLinears; ++i) {
      const auto linear = static_cast<Linear>(i);
      accepted += ", " + short_name(linear);
      if (target != "all-linear" && target != short_name(linear)) continue;
      chosen.insert(linear);
      known = true;
    }
    if (!known)
      throw UsageError("--lora-targets: unknown module " + in_quotes(target) + "; accepted: " + accepted);
  }
  if (chosen.empty()) throw UsageError("--lora-targets: names no module");
  return chosen;
}

}  // namespace

double lora_scale(double alpha, int64_t rank, bool rslora) {
  const auto r = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(r) : r);
}

std::string module_path(int64_t layer, Linear linear) {
  return "model.layers." + std::to_string(layer) + "." + module_name(linear);
}

int64_t Adapter::module_count() const {
  int64_t count = 0;
  for (const auto& layer : modules)
    for (const auto& module : layer) count += module.has_value();
  return count;
}

std::string Adapter::summary() const {
  std::map<std::tuple<int64_t, double>, int64_t> kinds;
  for (size_t l = 0; l < modules.size(); ++l)
    for (size_t i = 0; i < kLinears; ++i)
      if (modules[l][i]) ++kinds[{modules[l][i]->rank, alpha[l][i]}];
  std::string text;
  for (const auto& [kind, count] : kinds) {
    const auto [rank, a] = kind;
    text += fmt::format("{}{} modules of rank {}, alpha {}, scale {:.6g}", text.empty() ? "" : "; ", count,
                        rank, a, lora_scale(a, rank, rslora));
  }
  return text + (rslora ? " (rsLoRA)" : "") + (dropout > 0 ? fmt::format(", dropout {}", dropout) : "");
}

Adapter read_adapter(const std::string& dir, const ModelConfig& config, int64_t layers_of_model) {
  const std::string file = path_in(dir, "adapter_config.json");
  Adapter adapter =
      parse_adapter_config(read_text_file(file), file, std::max(config.layers, layers_of_model));
  adapter.tensors = find_tensors(adapter, config, dir);
  cut(adapter, config.layers);
  if (adapter.module_count() == 0)
    throw EnvironmentError(file + ": has no adapter on the first " + std::to_string(config.layers) +
                           " layers");
  return adapter;
}

Adapter make_adapter(const AdapterChoice& choice, const ModelConfig& config) {
  if (choice.rank < 1)
    throw UsageError("--lora-rank: " + std::to_string(choice.rank) + " is not accepted; accepted: 1 or more");
  if (!(choice.dropout >= 0 && choice.dropout < 1))
    throw UsageError(
        fmt::format("--lora-dropout: {} is not accepted; accepted: 0 to below 1", choice.dropout));
  if (!std::isfinite(choice.alpha))
    throw UsageError(fmt::format("--lora-alpha: {} is not accepted; accepted: a number", choice.alpha));
  Adapter adapter;
  adapter.rslora = choice.rslora;
  adapter.dropout = choice.dropout;
  adapter.modules.resize(static_cast<size_t>(config.layers));
  adapter.alpha.resize(static_cast<size_t>(config.layers));
  for (const Linear linear : parse_targets(choice.targets))
    for (size_t l = 0; l < adapter.modules.size(); ++l) {
      const auto i = static_cast<size_t>(linear);
      adapter.modules[l][i] = LoraModule{choice.rank, lora_scale(choice.alpha, choice.rank, choice.rslora)};
      adapter.alpha[l][i] = choice.alpha;
    }
  return adapter;
}

}  // namespace tt

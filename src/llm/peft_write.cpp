#include "src/llm/peft_write.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "src/llm/safetensors_write.h"

namespace tt {
namespace {

using Json = nlohmann::ordered_json;

struct PlacedModule {
  int64_t layer;
  Linear linear;
  int64_t rank;
  double alpha;
};

std::vector<PlacedModule> modules_of(const Adapter& adapter) {
  std::vector<PlacedModule> modules;
  for (size_t l = 0; l < adapter.modules.size(); ++l)
    for (size_t i = 0; i < kLinears; ++i)
      if (const auto& module = adapter.modules[l][i])
        modules.push_back(
            {static_cast<int64_t>(l), static_cast<Linear>(i), module->rank, adapter.alpha[l][i]});
  return modules;
}

/// The value that most modules have.
template <class Value>
Value most_frequent(const std::vector<PlacedModule>& modules, Value PlacedModule::*field) {
  std::map<Value, int64_t> counts;
  for (const PlacedModule& m : modules) ++counts[m.*field];
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

/// "layers.3.self_attn.q_proj": what every version of PEFT takes as a key of a pattern, and as a target.
std::string key_of(const PlacedModule& m) {
  const std::string path = module_path(m.layer, m.linear);
  return path.substr(path.find('.') + 1);
}

/// "q_proj" where a linear layer has an adapter in all layers, else a key for each.
Json target_modules(const std::vector<PlacedModule>& modules, size_t layers) {
  std::map<Linear, size_t> counts;
  for (const PlacedModule& m : modules) ++counts[m.linear];
  Json targets = Json::array();
  std::set<std::string> names;
  for (const PlacedModule& m : modules) {
    const std::string key = key_of(m);
    const std::string name = counts[m.linear] == layers ? key.substr(key.rfind('.') + 1) : key;
    if (names.insert(name).second) targets.push_back(name);
  }
  return targets;
}

/// alpha as PEFT's users write it: an integer where it is one.
Json number(double value) {
  constexpr double kExact = 1e15;
  if (std::abs(value) < kExact && std::trunc(value) == value) return static_cast<int64_t>(value);
  return value;
}

std::vector<PlannedTensor> tensors_of(const Adapter& adapter, const ModelConfig& config) {
  std::vector<PlannedTensor> tensors;
  for (const PlacedModule& m : modules_of(adapter)) {
    tensors.push_back(
        {lora_name(m.layer, m.linear, 'A'), DType::f32, {m.rank, in_features(config, m.linear)}});
    tensors.push_back(
        {lora_name(m.layer, m.linear, 'B'), DType::f32, {out_features(config, m.linear), m.rank}});
  }
  return tensors;
}

}  // namespace

std::string adapter_config_text(const Adapter& adapter, const std::string& base_model) {
  const std::vector<PlacedModule> modules = modules_of(adapter);
  if (modules.empty()) throw std::invalid_argument("adapter_config_text: an adapter without modules");
  const int64_t rank = most_frequent(modules, &PlacedModule::rank);
  const double alpha = most_frequent(modules, &PlacedModule::alpha);
  Json ranks = Json::object(), alphas = Json::object();
  for (const PlacedModule& m : modules) {
    if (m.rank != rank) ranks[key_of(m)] = m.rank;
    if (m.alpha != alpha) alphas[key_of(m)] = number(m.alpha);
  }
  const Json document{{"peft_type", "LORA"},
                      {"task_type", "CAUSAL_LM"},
                      {"base_model_name_or_path", base_model},
                      {"r", rank},
                      {"lora_alpha", number(alpha)},
                      {"lora_dropout", adapter.dropout},
                      {"use_rslora", adapter.rslora},
                      {"target_modules", target_modules(modules, adapter.modules.size())},
                      {"rank_pattern", ranks},
                      {"alpha_pattern", alphas},
                      {"bias", "none"},
                      {"fan_in_fan_out", false},
                      {"init_lora_weights", true},
                      {"modules_to_save", nullptr},
                      {"layers_to_transform", nullptr},
                      {"layers_pattern", nullptr},
                      {"inference_mode", true}};
  return document.dump(2) + "\n";
}

void write_adapter(const TrainContext& context, const Parameters& parameters, const ModelConfig& config,
                   const Adapter& adapter, const std::string& dir, const std::string& base_model) {
  std::map<std::string, TrainedPlace> places;
  for (const TrainedPlace& place : trained_places(parameters.layout())) places[place.spec->name] = place;
  const std::vector<PlannedTensor> tensors = tensors_of(adapter, config);
  for (const PlannedTensor& tensor : tensors)
    if (!places.contains(tensor.name))
      throw std::invalid_argument("write_adapter: " + tensor.name + " is not trained");

  std::unique_ptr<OutputFolder> folder;
  std::unique_ptr<SafetensorsWriter> writer;
  if (context.rank() == 0) {
    folder = std::make_unique<OutputFolder>(dir);
    writer = std::make_unique<SafetensorsWriter>(folder->path_of("adapter_model.safetensors"), tensors);
  }
  for (const PlannedTensor& tensor : tensors) {
    const std::vector<float> values = fetch(context, parameters, places.at(tensor.name), Quantity::master);
    if (writer) writer->append(values);
  }
  if (!writer) return;
  writer->finish();
  OutputFile file(folder->path_of("adapter_config.json"));
  file.write(adapter_config_text(adapter, base_model));
  file.publish();
  folder->publish();
}

}  // namespace tt

#include "src/llm/hf_write.h"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "src/llm/hf_folder.h"
#include "src/llm/safetensors_write.h"

namespace tt {
namespace {

using Json = nlohmann::ordered_json;

struct Shard {
  std::string name;
  std::vector<PlannedTensor> tensors;
};

int64_t bytes_of(const PlannedTensor& tensor) {
  return tensor.count() * static_cast<int64_t>(size_of(tensor.type));
}

/// In forward order; a tensor that is larger than a shard has one for itself.
std::vector<Shard> plan_shards(const ModelConfig& config, DType type, int64_t shard_bytes) {
  std::vector<Shard> shards(1);
  int64_t bytes = 0;
  for (const ParamSpec& spec : model_parameters(config)) {
    const PlannedTensor tensor{spec.name, type, spec.shape};
    if (bytes > 0 && bytes + bytes_of(tensor) > shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().tensors.push_back(tensor);
    bytes += bytes_of(tensor);
  }
  for (size_t i = 0; i < shards.size(); ++i)
    shards[i].name = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.publish();
}

std::string config_text(const ModelConfig& config, DType type) {
  Json document = Json::parse(model_config_text(config));
  const char* const name = type == DType::f32 ? "float32" : type == DType::bf16 ? "bfloat16" : "float16";
  document["dtype"] = name;
  document["torch_dtype"] = name;  // as it was called before
  return document.dump(2) + "\n";
}

std::string index_text(const std::vector<Shard>& shards) {
  int64_t bytes = 0;
  Json map = Json::object();
  for (const Shard& shard : shards)
    for (const PlannedTensor& tensor : shard.tensors) {
      map[tensor.name] = shard.name;
      bytes += bytes_of(tensor);
    }
  return Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", map}}.dump(2) + "\n";
}

}  // namespace

void write_hf_folder(const TrainContext& context, const Parameters& parameters, const ModelConfig& config,
                     const std::string& dir, DType type, int64_t shard_bytes) {
  const std::vector<Shard> shards = plan_shards(config, type, shard_bytes);
  std::map<std::string, TrainedPlace> places;
  for (const TrainedPlace& place : trained_places(parameters.layout())) places[place.spec->name] = place;
  for (const Shard& shard : shards)
    for (const PlannedTensor& tensor : shard.tensors)
      if (!places.contains(tensor.name))
        throw std::invalid_argument("write_hf_folder: " + tensor.name + " is not trained");

  std::unique_ptr<OutputFolder> folder;
  if (context.rank() == 0) folder = std::make_unique<OutputFolder>(dir);
  for (const Shard& shard : shards) {
    std::unique_ptr<SafetensorsWriter> writer;
    if (folder) writer = std::make_unique<SafetensorsWriter>(folder->path_of(shard.name), shard.tensors);
    for (const PlannedTensor& tensor : shard.tensors) {
      const std::vector<float> values = fetch(context, parameters, places.at(tensor.name), Quantity::master);
      if (writer) writer->append(values);
    }
    if (writer) writer->finish();
  }
  if (!folder) return;
  if (shards.size() > 1) write_text(folder->path_of("model.safetensors.index.json"), index_text(shards));
  write_text(folder->path_of("config.json"), config_text(config, type));
  folder->publish();
}

}  // namespace tt

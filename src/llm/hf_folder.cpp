#include "src/llm/hf_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>

#include "src/llm/json.h"
#include "src/llm/llama_layout.h"

namespace tt {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

std::string path_in(const std::string& dir, const std::string& name) {
  return (std::filesystem::path(dir) / name).string();
}

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

/// The folder's files, opened when a tensor of theirs is wanted.
class Shards {
 public:
  explicit Shards(const std::string& dir) : dir_(dir) {
    const std::string single = path_in(dir, kSingle), index = path_in(dir, kIndex);
    if (exists(single))
      read_single(single);
    else if (exists(index))
      read_index(index);
    else
      throw EnvironmentError(dir + ": no weights: neither " + kSingle + " nor " + kIndex + " is there" +
                             (exists(path_in(dir, "pytorch_model.bin"))
                                  ? " (pytorch_model.bin is not read: convert it to safetensors)"
                                  : ""));
  }

  const std::map<std::string, std::string>& file_of_tensor() const { return file_of_tensor_; }

  /// The tensor, or nothing when the folder does not claim to have it.
  std::optional<StoredTensor> find(const std::string& name) {
    const auto it = file_of_tensor_.find(name);
    if (it == file_of_tensor_.end()) return std::nullopt;
    std::shared_ptr<const SafetensorsFile>& file = files_[it->second];
    if (!file) {
      const std::string path = path_in(dir_, it->second);
      if (!exists(path))
        throw EnvironmentError(path + ": is not there; by " + kIndex + " it has tensor " + in_quotes(name));
      file = std::make_shared<const SafetensorsFile>(path);
    }
    return StoredTensor{file, &file->at(name)};
  }

  /// Where tensors are said to be, for messages.
  std::string listing() const { return path_in(dir_, files_.contains(kSingle) ? kSingle : kIndex); }

 private:
  void read_single(const std::string& path) {
    const auto file = std::make_shared<const SafetensorsFile>(path);
    for (const TensorInfo& tensor : file->tensors()) file_of_tensor_[tensor.name] = kSingle;
    files_[kSingle] = file;
  }

  void read_index(const std::string& path) {
    const nlohmann::json document = parse_json_file(read_text_file(path), path);
    const JsonFields map = JsonFields(document, path).fields("weight_map");
    for (const auto& [name, value] : map.object().items()) {
      const std::string file = map.text(name);
      // A plain name: nothing outside the folder can be meant.
      if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos ||
          file.find('\0') != std::string::npos)
        map.fail(name, "is " + in_quotes(file) + ", not the name of a file in the folder");
      file_of_tensor_[name] = file;
    }
    if (file_of_tensor_.empty()) throw EnvironmentError(path + ": field \"weight_map\" is empty");
  }

  std::string dir_;
  std::map<std::string, std::string> file_of_tensor_;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> files_;
};

/// Tensors that readers may pass over without a word: tables that follow from config.json.
bool is_harmless(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".self_attn.masked_bias");
}

/// Of a layer from `first` to `last` - 1.
bool in_layers(const std::string& name, int64_t first, int64_t last) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return false;
  const size_t dot = name.find('.', kPrefix.size());
  const std::string digits = name.substr(kPrefix.size(), dot - kPrefix.size());
  if (dot == std::string::npos || digits.empty() || digits.size() > 9 ||
      !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return false;
  const int64_t layer = std::stoll(digits);
  return layer >= first && layer < last;
}

/// A head beside tied embeddings has to be the same matrix, or the folder contradicts itself.
void check_tied_head(Shards& shards, const StoredTensors& tensors, const std::string& config_file) {
  const std::optional<StoredTensor> head = shards.find(kHead);
  if (!head) return;
  const StoredTensor& embedding = tensors.at(kEmbedding);
  if (head->tensor->dtype != embedding.tensor->dtype || head->tensor->shape != embedding.tensor->shape ||
      head->file->bytes(*head->tensor) != embedding.file->bytes(*embedding.tensor))
    head->file->fail(*head->tensor, "is not the same as " + in_quotes(kEmbedding) + ", but " + config_file +
                                        " says tie_word_embeddings true");
}

std::string warning_of(const std::string& where, const std::vector<std::string>& unknown) {
  std::string text = where + ": " + std::to_string(unknown.size()) +
                     " tensors that a Llama model does not have are not read: ";
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(kShown, unknown.size()); ++i)
    text += (i ? ", " : "") + in_quotes(unknown[i]);
  return text + (unknown.size() > kShown ? ", ..." : "");
}

}  // namespace

std::vector<ParamSpec> model_parameters(const ModelConfig& config) {
  LlamaLayoutOptions options;
  options.train_all = true;
  LlamaRefs refs;
  std::vector<ParamSpec> specs;
  for (const Unit& unit : llama_units(config, options, refs))
    for (const Block& block : unit.trained)
      specs.insert(specs.end(), block.params.begin(), block.params.end());
  return specs;
}

HfFolder::HfFolder(const std::string& dir, int64_t layers) {
  const std::string config_file = path_in(dir, "config.json");
  config_ = parse_model_config(read_text_file(config_file), config_file);
  config_.name = dir;
  layers_of_model_ = config_.layers;
  if (layers > config_.layers)
    throw UsageError("--layers: " + std::to_string(layers) + " is not accepted; " + dir + " has " +
                     std::to_string(config_.layers) + " layers");
  if (layers > 0) config_.layers = layers;

  Shards shards(dir);
  std::set<std::string> known{kHead};
  for (const ParamSpec& spec : model_parameters(config_)) {
    known.insert(spec.name);
    const std::optional<StoredTensor> stored = shards.find(spec.name);
    if (!stored)
      throw EnvironmentError(
          shards.listing() + ": tensor " + in_quotes(spec.name) + " is missing" +
          (spec.name == kHead ? ", and " + config_file + " has tie_word_embeddings false" : ""));
    check_stored(*stored, spec.shape);
    tensors_[spec.name] = *stored;
  }
  if (config_.tied_embeddings) check_tied_head(shards, tensors_, config_file);
  std::vector<std::string> unknown;
  for (const auto& [name, file] : shards.file_of_tensor())
    if (!known.contains(name) && !is_harmless(name) && !in_layers(name, config_.layers, layers_of_model_))
      unknown.push_back(name);
  if (!unknown.empty()) warnings_.push_back(warning_of(shards.listing(), unknown));
}

}  // namespace tt

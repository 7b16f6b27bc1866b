// A Llama model as a Hugging Face folder: config.json, and model.safetensors or shards with
// model.safetensors.index.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/llm/model_config.h"
#include "src/llm/stored_tensors.h"

namespace tt {

class HfFolder {
 public:
  /// Everything that can be wrong is found here, before a weight is read: EnvironmentError naming file, and
  /// tensor or field, for a config that parse_model_config refuses, a missing or damaged file, a tensor that
  /// is missing or of a wrong shape or type. `layers`: only the first so many layers are wanted, and only
  /// the shards that hold them opened (0: all; UsageError naming --layers where the model has fewer).
  explicit HfFolder(const std::string& dir, int64_t layers = 0);

  /// Its `layers` are those wanted; its name is the folder's.
  const ModelConfig& config() const { return config_; }
  int64_t layers_of_model() const { return layers_of_model_; }
  /// What was passed over, one line each.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Of every parameter of the model proper.
  FillParameter fill(const TrainContext& context) const { return fill_from(context, tensors_); }
  const StoredTensors& tensors() const { return tensors_; }

 private:
  ModelConfig config_;
  int64_t layers_of_model_ = 0;
  StoredTensors tensors_;
  std::vector<std::string> warnings_;
};

/// Names and shapes of a model's parameters, in forward order; a tied head is not among them.
std::vector<ParamSpec> model_parameters(const ModelConfig& config);

}  // namespace tt

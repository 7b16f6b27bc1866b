// Parameters that lie in safetensors files: where each is, and how they get onto the device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/llm/safetensors.h"
#include "src/llm/weights.h"

namespace tt {

struct StoredTensor {
  std::shared_ptr<const SafetensorsFile> file;
  const TensorInfo* tensor = nullptr;  // of the file
};
/// By the parameter's name.
using StoredTensors = std::map<std::string, StoredTensor>;

/// EnvironmentError naming file, tensor and what is there and what should be, unless the tensor has this
/// shape and is of F32, BF16 or F16.
void check_stored(const StoredTensor& stored, const std::vector<int64_t>& shape);

/// Each rank reads the elements that it is asked for. The context outlives what is returned.
/// std::invalid_argument for a parameter that `tensors` does not have.
FillParameter fill_from(const TrainContext& context, StoredTensors tensors);

}  // namespace tt

// Writing safetensors files piece by piece: which tensors there will be is known first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/dtype.h"
#include "src/llm/output_files.h"

namespace tt {

struct PlannedTensor {
  std::string name;
  DType type = DType::f32;  // f32, bf16 or f16
  std::vector<int64_t> shape;
  int64_t count() const;
};

/// The file is at `path` once finish() has returned, and not before. Errors as of OutputFile.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::string& path, std::vector<PlannedTensor> tensors);

  /// The next elements, row-major, one tensor after the other in the order they were planned, rounded to the
  /// tensor's type (nearest even).
  void append(std::span<const float> values);
  /// std::logic_error unless all elements of all tensors were appended.
  void finish();

 private:
  void append_to(const PlannedTensor& tensor, std::span<const float> values);

  std::vector<PlannedTensor> tensors_;
  OutputFile file_;
  size_t tensor_ = 0;  // that the next element belongs to
  int64_t done_ = 0;   // elements of it
};

}  // namespace tt

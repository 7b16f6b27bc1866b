// Reading safetensors files: 8 bytes of header length (little-endian), a JSON header, the tensors' bytes
// (https://huggingface.co/docs/safetensors). The header is checked as a whole when the file is opened; the
// data is mapped and read where it is asked for. Errors are EnvironmentErrors naming file and tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/dtype.h"
#include "src/llm/mapped_file.h"

namespace tt {

struct TensorInfo {
  std::string name;
  std::string dtype;           // as the file has it: "F32", "BF16", "I64", …; perhaps one that nobody knows
  std::vector<int64_t> shape;  // empty: a scalar
  int64_t count = 0;           // elements
  int64_t begin = 0, end = 0;  // bytes, from the start of the data
};

/// "[4, 64]"
std::string shape_text(const std::vector<int64_t>& shape);

class SafetensorsFile {
 public:
  /// Refuses what is truncated or too long, no JSON, of a wrong form, a name twice or with control
  /// characters, ranges that overlap, leave holes or go beyond the file, and sizes that do not fit the shape.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  /// In the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// Null when there is none of this name.
  const TensorInfo* find(std::string_view name) const;
  /// The tensor of this name; it must be there.
  const TensorInfo& at(std::string_view name) const;

  /// "FILE: tensor "NAME" WHAT".
  [[noreturn]] void fail(const TensorInfo& tensor, const std::string& what) const;

  static bool is_float(const TensorInfo& tensor);    // F32, BF16 or F16
  static bool is_integer(const TensorInfo& tensor);  // I8, U8, … I64, U64
  /// Elements first … first + count - 1 (row-major) of a tensor of floats as f32, bf16 or f16, rounded to
  /// nearest even. `to` may have any alignment.
  void read(const TensorInfo& tensor, int64_t first, int64_t count, DType type, void* to) const;
  /// The same of a tensor of integers; a U64 beyond int64 is an error.
  void read(const TensorInfo& tensor, int64_t first, int64_t count, int64_t* to) const;
  /// All of a tensor of floats.
  std::vector<float> floats(std::string_view name) const;
  /// All of a tensor of integers.
  std::vector<int64_t> integers(std::string_view name) const;
  /// The stored bytes of a tensor, of no particular alignment.
  std::string_view bytes(const TensorInfo& tensor) const;

 private:
  void parse_header();
  void check_places() const;
  const char* elements(const TensorInfo& tensor, int64_t first, int64_t count) const;

  MappedFile file_;
  int64_t data_start_ = 0;
  std::vector<TensorInfo> tensors_;
  std::vector<size_t> by_name_;
};

}  // namespace tt

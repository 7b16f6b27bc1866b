#include "src/llm/safetensors_write.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <stdexcept>

#include "src/device/convert.h"

namespace tt {
namespace {

const char* stored_name(DType type) {
  switch (type) {
    case DType::f32:
      return "F32";
    case DType::bf16:
      return "BF16";
    case DType::f16:
      return "F16";
    default:
      throw std::invalid_argument(std::string("SafetensorsWriter: tensors of ") + name_of(type));
  }
}

/// 8 bytes of length and the header, padded with spaces so that the data begins at a multiple of 8 bytes.
std::string header_of(const std::vector<PlannedTensor>& tensors) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::set<std::string> names;
  int64_t at = 0;
  for (const PlannedTensor& t : tensors) {
    if (!names.insert(t.name).second)
      throw std::invalid_argument("SafetensorsWriter: tensor " + t.name + " twice");
    const int64_t end = at + t.count() * static_cast<int64_t>(size_of(t.type));
    header[t.name] = {{"dtype", stored_name(t.type)}, {"shape", t.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

}  // namespace

int64_t PlannedTensor::count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::vector<PlannedTensor> tensors)
    : tensors_(std::move(tensors)), file_(path) {
  file_.write(header_of(tensors_));
}

void SafetensorsWriter::append(std::span<const float> values) {
  while (!values.empty()) {
    while (tensor_ < tensors_.size() && done_ == tensors_[tensor_].count()) {
      ++tensor_;
      done_ = 0;
    }
    if (tensor_ == tensors_.size())
      throw std::logic_error("SafetensorsWriter: more elements than the tensors have");
    const PlannedTensor& tensor = tensors_[tensor_];
    const size_t n = std::min(values.size(), static_cast<size_t>(tensor.count() - done_));
    append_to(tensor, values.first(n));
    done_ += static_cast<int64_t>(n);
    values = values.subspan(n);
  }
}

void SafetensorsWriter::append_to(const PlannedTensor& tensor, std::span<const float> values) {
  if (tensor.type == DType::f32) {
    file_.write(values.data(), values.size_bytes());
    return;
  }
  constexpr size_t kPiece = 1 << 18;
  std::vector<uint16_t> narrow(std::min(kPiece, values.size()));
  for (size_t done = 0; done < values.size(); done += kPiece) {
    const size_t n = std::min(kPiece, values.size() - done);
    for (size_t i = 0; i < n; ++i)
      narrow[i] = tensor.type == DType::bf16 ? to_bf16(values[done + i]).bits : to_f16(values[done + i]).bits;
    file_.write(narrow.data(), n * sizeof(uint16_t));
  }
}

void SafetensorsWriter::finish() {
  for (; tensor_ < tensors_.size(); ++tensor_, done_ = 0)
    if (done_ != tensors_[tensor_].count())
      throw std::logic_error("SafetensorsWriter: tensor " + tensors_[tensor_].name + " is not complete");
  file_.publish();
}

}  // namespace tt

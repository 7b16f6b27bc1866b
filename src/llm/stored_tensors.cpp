#include "src/llm/stored_tensors.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

/// Two pieces of pinned memory: one is read into while the other is copied to the device.
class Staging {
 public:
  explicit Staging(const TrainContext& context) : context_(context) {}
  ~Staging() {
    try {
      context_.compute.synchronize();
    } catch (...) {  // the error has been or will be reported by what uses the stream
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void upload(const StoredTensor& from, int64_t first, int64_t count, void* to, DType type) {
    const int64_t width = static_cast<int64_t>(size_of(type)), most = kBytes / width;
    for (int64_t done = 0; done < count; done += most) {
      const int64_t n = std::min(most, count - done);
      Buffer& piece = pieces_[next_];
      next_ = 1 - next_;
      if (!piece) piece = context_.device.allocate_pinned(static_cast<size_t>(kBytes));
      from.file->read(*from.tensor, first + done, n, type, piece.data());
      context_.compute.synchronize();  // the copy of the other piece has ended: it is the next one's
      context_.device.copy(static_cast<char*>(to) + done * width, piece.data(),
                           static_cast<size_t>(n * width), context_.compute);
    }
  }

 private:
  static constexpr int64_t kBytes = 16 << 20;
  TrainContext context_;
  std::array<Buffer, 2> pieces_;
  size_t next_ = 0;
};

}  // namespace

void check_stored(const StoredTensor& stored, const std::vector<int64_t>& shape) {
  const TensorInfo& tensor = *stored.tensor;
  if (!SafetensorsFile::is_float(tensor))
    stored.file->fail(tensor, "has dtype " + in_quotes(tensor.dtype) +
                                  ", which is not implemented here; accepted: F32, BF16, F16");
  if (tensor.shape != shape)
    stored.file->fail(tensor, "has shape " + shape_text(tensor.shape) + " instead of " + shape_text(shape));
}

FillParameter fill_from(const TrainContext& context, StoredTensors tensors) {
  return [tensors = std::move(tensors), staging = std::make_shared<Staging>(context)](
             const ParamSpec& spec, int64_t first, int64_t count, void* to, DType type) {
    const auto it = tensors.find(spec.name);
    if (it == tensors.end())
      throw std::invalid_argument("fill_from: no tensor for parameter " + in_quotes(spec.name));
    staging->upload(it->second, first, count, to, type);
  };
}

}  // namespace tt

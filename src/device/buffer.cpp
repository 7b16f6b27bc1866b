#include <utility>

#include "src/device/device.h"

namespace tt {

Buffer::~Buffer() {
  if (data_ != nullptr) device_->free_memory(data_, pinned_host_);
}

void Buffer::swap(Buffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(pinned_host_, other.pinned_host_);
}

}  // namespace tt

// One NVIDIA GPU as a device.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "src/device/cuda/cuda_stream.h"
#include "src/device/device.h"
#include "src/device/nvml.h"

namespace tt {

class CudaDevice final : public Device {
 public:
  /// Opens visible device `index` and makes it current for this thread.
  explicit CudaDevice(int index);

  DeviceKind kind() const override { return DeviceKind::cuda; }
  const DeviceIdentity& identity() const override { return identity_; }
  MemoryInfo memory() const override;
  size_t last_level_cache_bytes() const override { return cache_bytes_; }
  void activate() override;
  Buffer allocate(size_t bytes) override;
  Buffer allocate_pinned(size_t bytes) override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override;
  void copy(void* to, const void* from, size_t bytes, Stream& stream) override;
  void set_bytes(void* to, int value, size_t bytes, Stream& stream) override;
  void fill_random(void* to, size_t count, DType type, Fill fill, uint64_t seed, uint64_t first_element,
                   Stream& stream) override;
  std::shared_ptr<TelemetrySource> telemetry() override;
  Versions versions() const override;
  void free_memory(void* data, bool pinned_host) noexcept override;

 private:
  void identify();
  CudaStream::Spin calibrate_spin() const;

  int index_;
  DeviceIdentity identity_;
  size_t cache_bytes_ = 0;
  CudaStream::Spin spin_;
  std::string nvml_why_;  // why there is no nvml_ or gpu_
  std::shared_ptr<const Nvml> nvml_;
  std::optional<NvmlDevice> gpu_;
};

}  // namespace tt

// What the executables look up by name in libtt_cuda.so.
#define TT_EXPORT extern "C" __attribute__((visibility("default")))

/// Visible devices that can be used; 0 (never an error) with the reason as text in `why`, cut to `size`
/// bytes.
TT_EXPORT int tt_cuda_device_count(char* why, size_t size);
/// A new device, the caller's to delete. Throws DeviceError.
TT_EXPORT tt::Device* tt_cuda_open_device(int index);

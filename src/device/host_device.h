// The CPU as a device. Work runs at once, in the caller's thread and its OpenMP team.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "src/device/device.h"

namespace tt {

class HostDevice final : public Device {
 public:
  /// The rank may allocate its share of what is available now: all of it / local_size.
  HostDevice(int local_rank, int local_size);

  DeviceKind kind() const override { return DeviceKind::host; }
  const DeviceIdentity& identity() const override { return identity_; }
  MemoryInfo memory() const override;
  size_t last_level_cache_bytes() const override { return cache_bytes_; }
  void activate() override {}
  Buffer allocate(size_t bytes) override { return allocate_memory(bytes, false); }
  Buffer allocate_pinned(size_t bytes) override { return allocate_memory(bytes, true); }
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
  Buffer allocate_memory(size_t bytes, bool pinned_host);

  DeviceIdentity identity_;
  size_t cache_bytes_ = 0;
  int64_t budget_ = 0;  // bytes that this rank may hold
  mutable std::mutex mutex_;
  int64_t held_ = 0;
  std::unordered_map<void*, size_t> sizes_;
};

}  // namespace tt

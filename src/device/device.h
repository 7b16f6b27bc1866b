// A device's memory, streams and copies, with two implementations: host (the CPU) and cuda (in
// libtt_cuda.so).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/dtype.h"
#include "common/error.h"
#include "common/identity.h"
#include "common/row.h"
#include "common/stream.h"
#include "common/telemetry.h"

namespace tt {

enum class DeviceKind { host, cuda };

struct DeviceError : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

class Device;

/// Owned memory. Move-only; freed by its device, which must outlive it. Freeing errors are swallowed.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, void* data, size_t bytes, bool pinned_host) noexcept
      : device_(&device), data_(data), bytes_(bytes), pinned_host_(pinned_host) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  void* data() const noexcept { return data_; }
  char* at(size_t byte_offset) const noexcept { return static_cast<char*>(data_) + byte_offset; }
  size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  void swap(Buffer& other) noexcept;

 private:
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
  bool pinned_host_ = false;
};

/// A point in a stream that other streams can wait for, and between two of which time can be read.
class Event {
 public:
  virtual ~Event() = default;
  /// Enqueues the point; forgets where it was before.
  virtual void record(Stream& stream) = 0;
  /// Enqueues: `stream` goes on when the recorded point has been passed.
  virtual void hold(Stream& stream) = 0;
  /// Seconds from `earlier` to this point; both are of one device and have been passed.
  virtual double seconds_since(const Event& earlier) const = 0;
};

struct MemoryInfo {
  int64_t total = 0,
          available = 0;  // bytes; host: MemAvailable, or what the cgroup leaves, shared by this host's ranks
};

enum class Fill { normal, uniform, small_integers };

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual const DeviceIdentity& identity() const = 0;
  virtual MemoryInfo memory() const = 0;
  virtual size_t last_level_cache_bytes() const = 0;  // L2 / L3; 0 = unknown

  /// Makes the device current for the calling thread (cuda); a no-op on the host.
  virtual void activate() = 0;

  /// Device memory, 512-byte aligned. DeviceError with device, bytes asked and bytes available. bytes = 0
  /// gives an empty buffer.
  virtual Buffer allocate(size_t bytes) = 0;
  /// Host memory that the device can copy from and to without staging.
  virtual Buffer allocate_pinned(size_t bytes) = 0;
  virtual std::unique_ptr<Stream> make_stream() = 0;
  virtual std::unique_ptr<Event> make_event() = 0;

  /// Enqueue. Any direction (device, pinned or plain host memory).
  virtual void copy(void* to, const void* from, size_t bytes, Stream& stream) = 0;
  virtual void set_bytes(void* to, int value, size_t bytes, Stream& stream) = 0;

  /// Element e of the array becomes random_value(type, fill, seed, first_element + e) (src/device/random.h):
  /// the same bits on host and cuda, so that a host reference knows them.
  virtual void fill_random(void* to, size_t count, DType type, Fill fill, uint64_t seed,
                           uint64_t first_element, Stream& stream) = 0;

  /// Readings of this device for the sampler; null when there is no source.
  virtual std::shared_ptr<TelemetrySource> telemetry() = 0;
  /// Versions that this backend knows (driver, CUDA, …).
  virtual Versions versions() const = 0;

  virtual void free_memory(void* data, bool pinned_host) noexcept = 0;  // Buffer's business
};

/// Opens the device that `wanted` ("auto", "cuda", "host") and the environment give this local rank: the
/// visible device local_rank mod visible devices (one visible device: device 0). `local_size` ranks share the
/// host's cores and memory. "auto" takes host when CUDA cannot be used; `why` then says which library or
/// device is missing. "cuda" throws an EnvironmentError with the same words.
struct Opened {
  std::unique_ptr<Device> device;
  std::string why;  // "" when nothing is worth saying
};
Opened open_device(const std::string& wanted, int local_rank, int local_size);

/// Implementation of the host device alone (tests).
std::unique_ptr<Device> open_host_device(int local_rank = 0, int local_size = 1);

}  // namespace tt

#include "src/device/host_device.h"

#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "src/device/host_info.h"
#include "src/device/host_stream.h"
#include "src/device/host_telemetry.h"
#include "src/device/random.h"

namespace tt {
namespace {

constexpr size_t kHugePage = 2 << 20;
constexpr size_t kAlignment = 512;
constexpr size_t kParallelBytes = 1 << 20;  // below this a second thread costs more than it brings

/// Calls f(begin, bytes) for parts of [0, bytes) on several threads.
template <class F>
void in_parts(size_t bytes, int threads, F&& f) {
  if (bytes < kParallelBytes || threads <= 1) {
    if (bytes > 0) f(size_t{0}, bytes);
    return;
  }
  const size_t part = (bytes / static_cast<size_t>(threads) + kHugePage) / 4096 * 4096;
  const size_t parts = (bytes + part - 1) / part;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (size_t i = 0; i < parts; ++i) f(i * part, std::min(part, bytes - i * part));
}

/// Threads for this call: the rank's share, or fewer when it has been bound more tightly since.
int threads_now(int compute_units) {
  const auto cpus = allowed_cpus();
  return std::max(1, std::min(compute_units, cpus.empty() ? compute_units : static_cast<int>(cpus.size())));
}

/// Writes to every page, so that the memory is there (and on this rank's NUMA node) before anything is
/// measured.
void touch(void* data, size_t bytes, int threads) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  in_parts(bytes, threads, [&](size_t begin, size_t count) {
    volatile char* at = static_cast<char*>(data) + begin;
    for (size_t offset = 0; offset < count; offset += page) at[offset] = 0;
  });
}

}  // namespace

HostDevice::HostDevice(int local_rank, int local_size) {
  (void)local_rank;  // every rank of a host has the same device
  const auto cpus = allowed_cpus();
  const MemoryInfo memory = read_host_memory();
  identity_.kind = "host";
  identity_.name = read_cpu_model();
  identity_.index = 0;
  identity_.memory_bytes = memory.total;
  identity_.compute_units = cores_for_rank(local_size);
  cache_bytes_ = read_last_level_cache(cpus);
  // A 32nd is left to page tables, MPI's buffers and whatever else grows while we run.
  budget_ = (memory.available - memory.available / 32) / std::max(1, local_size);
}

MemoryInfo HostDevice::memory() const {
  MemoryInfo now = read_host_memory();
  const std::lock_guard lock(mutex_);
  now.available = std::max<int64_t>(0, std::min(now.available - now.available / 32, budget_ - held_));
  return now;
}

Buffer HostDevice::allocate_memory(size_t bytes, bool pinned_host) {
  if (bytes == 0) return {};
  const int64_t available = memory().available;
  const auto refuse = [&](const char* why) {
    throw DeviceError(fmt::format("host memory: {} bytes asked, {} bytes available to this rank on {}{}",
                                  bytes, available, identity_.name, why));
  };
  // Linux grants more than there is and kills the process that touches it: refuse first.
  if (bytes > static_cast<size_t>(available)) refuse("");
  void* data = nullptr;
  if (posix_memalign(&data, bytes >= kHugePage ? kHugePage : kAlignment, bytes) != 0)
    refuse(", but the system refused them (ulimit -v?)");
  Buffer buffer(*this, data, bytes, pinned_host);
  {
    const std::lock_guard lock(mutex_);
    sizes_.emplace(data, bytes);
    held_ += static_cast<int64_t>(bytes);
  }
  if (bytes >= kHugePage)
    madvise(data, bytes, MADV_HUGEPAGE);  // advice: without huge pages it is slower, not wrong
  touch(data, bytes, threads_now(identity_.compute_units));
  return buffer;
}

void HostDevice::free_memory(void* data, bool) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = sizes_.find(data); it != sizes_.end()) {
      held_ -= static_cast<int64_t>(it->second);
      sizes_.erase(it);
    }
  }
  std::free(data);
}

std::unique_ptr<Stream> HostDevice::make_stream() {
  return std::make_unique<HostStream>();
}

std::unique_ptr<Event> HostDevice::make_event() {
  return std::make_unique<HostEvent>();
}

void HostDevice::copy(void* to, const void* from, size_t bytes, Stream&) {
  in_parts(bytes, threads_now(identity_.compute_units), [&](size_t begin, size_t count) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin, count);
  });
}

void HostDevice::set_bytes(void* to, int value, size_t bytes, Stream&) {
  in_parts(bytes, threads_now(identity_.compute_units),
           [&](size_t begin, size_t count) { std::memset(static_cast<char*>(to) + begin, value, count); });
}

void HostDevice::fill_random(void* to, size_t count, DType type, Fill fill, uint64_t seed,
                             uint64_t first_element, Stream&) {
  fill_random_on_host(to, count, type, fill, seed, first_element, threads_now(identity_.compute_units));
}

std::shared_ptr<TelemetrySource> HostDevice::telemetry() {
  return open_host_telemetry();
}

Versions HostDevice::versions() const {
  return {{"glibc", gnu_get_libc_version()}, {"compiler", "GCC " __VERSION__}};
}

std::unique_ptr<Device> open_host_device(int local_rank, int local_size) {
  return std::make_unique<HostDevice>(local_rank, local_size);
}

}  // namespace tt

// Generating and checking data of collectives on the GPU: src/comm/pattern.h's functions, one element per
// thread and step.
#include <algorithm>

#include "src/comm/cuda_entry.h"
#include "src/comm/pattern.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/cuda_device.h"
#include "src/device/dtype_visit.h"

namespace tt {
namespace {

/// A check's outcome as threads write it. `first` is the complement of the lowest wrong index, so that 0 is
/// "none" and the maximum is the lowest: a check's slot is cleared by zeroes.
struct DeviceFound {
  unsigned long long wrong;
  unsigned long long first;
};

constexpr unsigned kThreads = 256, kMostBlocks = 132 * 16;  // a few waves of blocks on the largest GPUs
constexpr size_t kMostChecks = 4096;                        // between two collect()

unsigned blocks_for(size_t count) {
  return static_cast<unsigned>(std::min<size_t>((count + kThreads - 1) / kThreads, kMostBlocks));
}

__device__ size_t first_index() {
  return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ size_t stride() {
  return static_cast<size_t>(gridDim.x) * blockDim.x;
}

template <class T>
__global__ void generate_kernel(T* to, size_t count, Pattern p, int rank, uint64_t first) {
  if (p.kind == PatternKind::copy) {
    const uint64_t key = pattern::source_key(p, rank);
    for (size_t i = first_index(); i < count; i += stride())
      to[i] = pattern::copied_element<T>(key, first + i);
  } else {
    for (size_t i = first_index(); i < count; i += stride())
      to[i] = pattern::store<T>(pattern::contribution(p, rank, first + i));
  }
}

template <class T>
__global__ void check_kernel(const T* data, size_t count, Pattern p, Expect expect, DeviceFound* found) {
  unsigned long long wrong = 0, first = 0;
  for (size_t i = first_index(); i < count; i += stride()) {
    if (pattern::matches(p, expect, data[i], i)) continue;
    if (wrong++ == 0) first = ~static_cast<unsigned long long>(i);  // a thread's indices grow
  }
  if (wrong == 0) return;
  atomicAdd(&found->wrong, wrong);
  atomicMax(&found->first, first);
}

class CudaRunner final : public PatternRunner {
 public:
  explicit CudaRunner(Device& device)
      : device_(device),
        found_(device.allocate(kMostChecks * sizeof(DeviceFound))),
        host_(device.allocate_pinned(kMostChecks * sizeof(DeviceFound))) {}

  void generate(void* to, size_t count, const Pattern& p, int rank, uint64_t first, Stream& s) override {
    if (count == 0) return;
    with_storage(p.type, [&](auto tag) {
      using T = typename decltype(tag)::type;
      generate_kernel<T>
          <<<blocks_for(count), kThreads, 0, native(s)>>>(static_cast<T*>(to), count, p, rank, first);
    });
    check_launch("generate_kernel");
  }

  size_t check(const void* data, size_t count, const Pattern& p, const Expect& expect, Stream& s) override {
    if (checks_ == kMostChecks)
      throw DeviceError("more than " + std::to_string(kMostChecks) +
                        " checks of data without collecting their outcomes");
    DeviceFound* slot = static_cast<DeviceFound*>(found_.data()) + checks_;
    device_.set_bytes(slot, 0, sizeof(DeviceFound), s);
    if (count > 0) {
      with_storage(p.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        check_kernel<T><<<blocks_for(count), kThreads, 0, native(s)>>>(static_cast<const T*>(data), count, p,
                                                                       expect, slot);
      });
      check_launch("check_kernel");
    }
    return checks_++;
  }

  std::vector<Found> collect(Stream& s) override {
    const size_t n = checks_;
    checks_ = 0;
    if (n == 0) return {};
    device_.copy(host_.data(), found_.data(), n * sizeof(DeviceFound), s);
    s.synchronize();
    std::vector<Found> all(n);
    const DeviceFound* from = static_cast<const DeviceFound*>(host_.data());
    for (size_t i = 0; i < n; ++i)
      if (from[i].wrong > 0)
        all[i] = {static_cast<int64_t>(from[i].wrong), static_cast<int64_t>(~from[i].first)};
    return all;
  }

 private:
  Device& device_;
  Buffer found_, host_;
  size_t checks_ = 0;
};

}  // namespace
}  // namespace tt

TT_EXPORT tt::PatternRunner* tt_make_pattern_runner(tt::Device& device) {
  return new tt::CudaRunner(device);
}

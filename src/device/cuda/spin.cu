#include "src/device/cuda/check.h"
#include "src/device/cuda/kernels.h"
#include "src/device/spin_timer.h"

namespace tt {
namespace {

__device__ uint64_t global_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void spin_kernel(double nanoseconds, double nominal_rate) {
  SpinTimer timer(nanoseconds, nominal_rate, global_ns(), static_cast<uint64_t>(clock64()));
  while (!timer.done(global_ns(), static_cast<uint64_t>(clock64()))) {
  }
}

}  // namespace

void launch_spin(double nanoseconds, double nominal_rate, cudaStream_t stream) {
  spin_kernel<<<1, 1, 0, stream>>>(nanoseconds, nominal_rate);
  check_launch("spin_kernel");
}

}  // namespace tt

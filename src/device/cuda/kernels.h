// Launchers of the device's own kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "src/device/device.h"

namespace tt {

/// Enqueues writing of random_value(type, fill, seed, first_element + i) to element i < count of `to`.
void launch_fill_random(void* to, size_t count, DType type, Fill fill, uint64_t seed, uint64_t first_element,
                        cudaStream_t stream);

/// Enqueues a busy wait of one thread. `nominal_rate`: SM cycles per ns, used only if the GPU's timer does
/// not advance.
void launch_spin(double nanoseconds, double nominal_rate, cudaStream_t stream);

}  // namespace tt

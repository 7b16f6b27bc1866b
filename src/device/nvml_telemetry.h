// Readings of one GPU for the sampler.
#pragma once

#include <memory>

#include "common/telemetry.h"
#include "src/device/nvml.h"

namespace tt {

/// What the GPU does not tell stays empty; sample() throws EnvironmentError when not even one reading was to
/// be had (a GPU that fell off the bus).
std::shared_ptr<TelemetrySource> open_nvml_telemetry(NvmlDevice device);

}  // namespace tt

// Readings of the CPUs from sysfs and procfs for the sampler.
#pragma once

#include <memory>
#include <string>

#include "common/telemetry.h"

namespace tt {

/// Mean clock of all CPUs (cpufreq, else /proc/cpuinfo), energy and power of the packages (RAPL, usually for
/// root alone), temperature of the hottest package sensor, and the busy share of all CPUs since the reading
/// before, 0 ... 1. Whatever cannot be read stays empty.
std::shared_ptr<TelemetrySource> open_host_telemetry(const std::string& root = "");

}  // namespace tt

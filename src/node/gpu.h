// The GPUs as NVML describes them: from the driver on a live node, from live/nvml.json in a recorded tree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/reading.h"
#include "src/node/sysroot.h"

namespace tt::node {

struct GpuInfo {
  int index = 0;
  Text name, uuid, pci, serial, vbios;
  Reading<int64_t> memory_MiB;
  Reading<bool> ecc, ecc_pending;                                       // mode now and after the next reset
  Reading<int64_t> ecc_volatile_corrected, ecc_volatile_uncorrected;    // since the driver was loaded
  Reading<int64_t> ecc_aggregate_corrected, ecc_aggregate_uncorrected;  // over the GPU's life
  Reading<int64_t> remapped_corrected, remapped_uncorrected;
  Reading<bool> remap_pending, remap_failure;
  Reading<int64_t> pcie_generation, pcie_max_generation, pcie_width, pcie_max_width, pcie_replays;
  Reading<int64_t> nvlinks, nvlinks_active, nvlink_MBps,
      nvlink_errors;  // errors: replay + recovery + CRC, all links
  Text fabric_state,
      fabric_status;  // "completed" "in progress" "not started" "not supported"; "success" or an error
  Reading<int64_t> utilization_percent, temperature_C, slowdown_temperature_C;
  Reading<int64_t> max_sm_MHz;
  Reading<double> power_limit_W, default_power_limit_W;
  Reading<bool> persistence, mig;
  Text compute_mode;                           // "default", "exclusive process", "prohibited"
  Reading<std::vector<std::string>> throttle;  // clock event reasons that hold now, "hw_slowdown" …
};

struct GpuSet {
  Text driver, cuda;  // "570.86.15", "12.8"
  std::vector<GpuInfo> gpus;
};

/// Unknown: NVML is not there or refuses to work; its own words.
Reading<GpuSet> read_gpus(const Sysroot& root);
Reading<GpuSet> read_gpus_nvml();

/// The JSON form. A field that is missing or null, or {"unreadable": "reason"}, is an unknown reading.
/// EnvironmentError naming `file` and the field for broken JSON or a field of another type.
Reading<GpuSet> parse_gpus(const std::string& json, const std::string& file);
std::string gpus_json(const Reading<GpuSet>& gpus);

}  // namespace tt::node

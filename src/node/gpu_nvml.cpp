// GPUs of this machine, by NVML.
#include <algorithm>
#include <cmath>

#include "src/device/nvml.h"
#include "src/node/gpu.h"

namespace tt::node {
namespace {

/// A part of a reading, or its reason.
template <class From, class Take>
auto part(const Reading<From>& from, Take take) {
  using To = decltype(take(*from));
  return from ? Reading<To>::of(take(*from)) : Reading<To>::unknown(from.why);
}

Reading<int64_t> whole(const Reading<double>& from) {
  return part(from, [](double x) { return static_cast<int64_t>(std::llround(x)); });
}

void read_memory_health(const NvmlDevice& device, GpuInfo& gpu) {
  gpu.ecc = part(device.ecc(), [](const NvmlSwitch& s) { return s.current; });
  gpu.ecc_pending = part(device.ecc(), [](const NvmlSwitch& s) { return s.pending; });
  gpu.ecc_volatile_corrected = device.ecc_corrected(true);
  gpu.ecc_volatile_uncorrected = device.ecc_uncorrected(true);
  gpu.ecc_aggregate_corrected = device.ecc_corrected(false);
  gpu.ecc_aggregate_uncorrected = device.ecc_uncorrected(false);
  const auto rows = device.remapped_rows();
  gpu.remapped_corrected = part(rows, [](const NvmlRemappedRows& r) { return r.correctable; });
  gpu.remapped_uncorrected = part(rows, [](const NvmlRemappedRows& r) { return r.uncorrectable; });
  gpu.remap_pending = part(rows, [](const NvmlRemappedRows& r) { return r.pending; });
  gpu.remap_failure = part(rows, [](const NvmlRemappedRows& r) { return r.failure; });
}

void read_links(const NvmlDevice& device, GpuInfo& gpu) {
  const auto now = device.pcie_current(), most = device.pcie_max();
  gpu.pcie_generation = part(now, [](const NvmlPcie& p) { return static_cast<int64_t>(p.generation); });
  gpu.pcie_width = part(now, [](const NvmlPcie& p) { return static_cast<int64_t>(p.width); });
  gpu.pcie_max_generation = part(most, [](const NvmlPcie& p) { return static_cast<int64_t>(p.generation); });
  gpu.pcie_max_width = part(most, [](const NvmlPcie& p) { return static_cast<int64_t>(p.width); });
  gpu.pcie_replays = device.pcie_replays();
  const auto links = device.nvlinks();
  gpu.nvlinks = part(links, [](const std::vector<bool>& l) { return static_cast<int64_t>(l.size()); });
  gpu.nvlinks_active = part(links, [](const std::vector<bool>& l) {
    return static_cast<int64_t>(std::count(l.begin(), l.end(), true));
  });
  gpu.nvlink_MBps = whole(device.nvlink_MBps());
  gpu.nvlink_errors = device.nvlink_errors();
  const auto fabric = device.fabric();
  gpu.fabric_state = part(fabric, [](const NvmlFabric& f) { return f.state; });
  gpu.fabric_status = part(fabric, [](const NvmlFabric& f) {
    return f.status == 0 ? std::string("success") : "error " + std::to_string(f.status);
  });
}

GpuInfo read_gpu(const NvmlDevice& device, int index) {
  GpuInfo gpu{};
  gpu.index = index;
  gpu.name = device.name();
  gpu.uuid = device.uuid();
  gpu.pci = device.pci();
  gpu.serial = device.serial();
  gpu.vbios = device.vbios();
  gpu.memory_MiB = part(device.memory(), [](const NvmlMemory& m) { return m.total >> 20; });
  read_memory_health(device, gpu);
  read_links(device, gpu);
  gpu.utilization_percent = part(
      device.utilization(), [](const NvmlUtilization& u) { return static_cast<int64_t>(u.gpu_percent); });
  gpu.temperature_C = whole(device.temperature_C());
  gpu.slowdown_temperature_C = whole(device.slowdown_temperature_C());
  gpu.max_sm_MHz = whole(device.max_clock_MHz(NvmlClock::sm));
  gpu.power_limit_W = device.power_limit_W();
  gpu.default_power_limit_W = device.default_power_limit_W();
  gpu.persistence = device.persistence();
  gpu.mig = part(device.mig(), [](const NvmlSwitch& s) { return s.current; });
  gpu.compute_mode = device.compute_mode();
  gpu.throttle = device.clock_reasons();
  return gpu;
}

}  // namespace

Reading<GpuSet> read_gpus_nvml() {
  std::string why;
  const auto nvml = Nvml::open(why);
  if (!nvml) return Reading<GpuSet>::unknown("NVML: " + why);
  const auto count = nvml->device_count();
  if (!count) return Reading<GpuSet>::unknown("NVML: " + count.why);
  GpuSet set{.driver = nvml->driver_version(), .cuda = nvml->cuda_driver_version(), .gpus = {}};
  for (int i = 0; i < *count; ++i) {
    const auto device = nvml->device(i);
    if (device) {
      set.gpus.push_back(read_gpu(*device, i));
      continue;
    }
    // A GPU that the driver lists but cannot open ("GPU is lost") stays in the list: all its values are
    // unknown.
    GpuInfo lost = parse_gpus(R"({"gpus": [{}]})", "")->gpus.front();
    lost.index = i;
    lost.name = Text::unknown(device.why);
    set.gpus.push_back(std::move(lost));
  }
  return Reading<GpuSet>::of(std::move(set));
}

}  // namespace tt::node

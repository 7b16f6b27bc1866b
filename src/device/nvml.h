// NVIDIA's management library (libnvidia-ml.so.1, part of the driver), loaded at run time with our own
// prototypes: no NVML header is needed to build, no driver to start. Reference: NVML API Reference Guide,
// docs.nvidia.com/deploy/nvml-api.
//
// Every getter gives a Reading: the value, or why it is not known. Unknown is never "ok".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/reading.h"

namespace tt {

enum class NvmlClock { graphics = 0, sm = 1, memory = 2 };

struct NvmlMemory {
  int64_t total = 0, free = 0, used = 0;  // bytes
};
struct NvmlUtilization {
  double gpu_percent = 0,
         memory_percent = 0;  // share of the last sample period in which a kernel ran, memory was accessed
};
struct NvmlSwitch {  // a setting and what it will be after the next reboot
  bool current = false, pending = false;
};
struct NvmlRemappedRows {
  int64_t correctable = 0, uncorrectable = 0;
  bool pending = false, failure = false;
};
struct NvmlPcie {
  int generation = 0, width = 0;
};

/// The GPU's place in its NVLink fabric. status: what the registration ended with, 0 is success; means something only when
/// the state is "completed".
struct NvmlFabric {
  std::string state;  // "not supported", "not started", "in progress", "completed"
  int status = 0;
};

class Nvml;

/// One GPU. Cheap to copy; keeps the library initialised.
class NvmlDevice {
 public:
  Reading<std::string> name() const;
  Reading<std::string> uuid() const;
  Reading<std::string> serial() const;
  Reading<std::string> vbios() const;
  Reading<std::string> inforom() const;  // image version
  Reading<std::string> pci() const;      // "0000:1b:00.0", lower case
  Reading<NvmlMemory> memory() const;
  Reading<NvmlSwitch> ecc() const;
  Reading<NvmlSwitch> mig() const;
  Reading<bool> persistence() const;
  Reading<std::string> compute_mode()
      const;  // "default", "prohibited", "exclusive process", "exclusive thread"

  Reading<double> clock_MHz(NvmlClock clock) const;
  Reading<double> max_clock_MHz(NvmlClock clock) const;
  Reading<double> power_W()
      const;  // of the moment where the driver tells that, else its mean of about a second
  Reading<double> power_limit_W() const;  // the one enforced
  Reading<double> default_power_limit_W() const;
  Reading<double> energy_J() const;  // since the driver was loaded
  Reading<double> temperature_C() const;
  Reading<double> slowdown_temperature_C() const;  // at which the hardware lowers the clock
  Reading<NvmlUtilization> utilization() const;
  /// Reasons that set the clock now, as names: see nvml_clock_reasons().
  Reading<std::vector<std::string>> clock_reasons() const;

  Reading<NvmlPcie> pcie_current() const;
  Reading<NvmlPcie> pcie_max() const;  // of GPU and slot together
  Reading<int64_t> pcie_replays() const;

  /// Whether each NVLink is up, by link number. A GPU without NVLink: a reading without a value.
  Reading<std::vector<bool>> nvlinks() const;
  /// Replay + recovery + CRC errors over all links since the driver was loaded.
  Reading<int64_t> nvlink_errors() const;
  Reading<double> nvlink_MBps() const;  // of one active link, each way
  Reading<NvmlFabric> fabric() const;

  Reading<int64_t> ecc_corrected(bool since_boot = true) const;  // false: over the GPU's life
  Reading<int64_t> ecc_uncorrected(bool since_boot = true) const;
  Reading<NvmlRemappedRows> remapped_rows() const;

 private:
  friend class Nvml;
  NvmlDevice(std::shared_ptr<const Nvml> library, void* handle)
      : library_(std::move(library)), handle_(handle) {}
  Reading<std::string> text(const char* function) const;
  Reading<double> number(const char* function, double unit = 1) const;
  Reading<double> field(unsigned id) const;
  Reading<NvmlSwitch> setting(const char* function) const;
  Reading<NvmlPcie> pcie(const char* generation, const char* width) const;
  Reading<int64_t> ecc_errors(int type, bool since_boot) const;

  std::shared_ptr<const Nvml> library_;
  void* handle_;
};

class Nvml : public std::enable_shared_from_this<Nvml> {
 public:
  /// Address of a function of the library by name; null when it has none of that name.
  using Symbols = std::function<void*(const char*)>;

  /// Loads and initialises the library; null with the reason in `why` (no driver, no permission, versions
  /// that differ).
  static std::shared_ptr<const Nvml> open(std::string& why);
  /// The same from any source of functions (tests).
  static std::shared_ptr<const Nvml> open(Symbols symbols, std::string& why);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  Reading<int> device_count() const;  // all GPUs that the driver runs, whatever CUDA_VISIBLE_DEVICES says
  Reading<NvmlDevice> device(int index) const;
  Reading<NvmlDevice> by_uuid(const std::string& uuid) const;  // "GPU-...", "MIG-..."
  Reading<NvmlDevice> by_pci(const std::string& address) const;
  Reading<std::string> driver_version() const;       // "580.65.06"
  Reading<std::string> cuda_driver_version() const;  // highest CUDA that the driver supports, "13.0"

 private:
  friend class NvmlDevice;
  explicit Nvml(Symbols symbols) : symbols_(std::move(symbols)) {}
  /// Calls the function of this name; "" on success, else why it failed.
  template <class... Args>
  std::string call(const char* name, Args... args) const;
  std::string error_text(int code) const;
  Reading<NvmlDevice> wrap(std::string why, void* handle) const;

  Symbols symbols_;
};

/// Bits of nvmlDeviceGetCurrentClocksEventReasons as names, "sw_power_cap", "hw_thermal_slowdown", ...; a bit
/// without a name as "reason_0x400".
std::vector<std::string> nvml_clock_reasons(uint64_t bits);

/// True for the names that mean the clock is held down: all but "gpu_idle".
bool is_throttle_reason(const std::string& name);

}  // namespace tt

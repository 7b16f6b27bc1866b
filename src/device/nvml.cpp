#include "src/device/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>

namespace tt {
namespace {

// NVML's C interface as far as it is used here: every function returns 0 or an error number, handles are
// pointers.
constexpr unsigned kMaxLinks = 36;
constexpr int kGpuTemperature = 0;
constexpr int kSlowdownThreshold = 1;

struct CMemory {
  unsigned long long total, free, used;
};
struct CUtilization {
  unsigned gpu, memory;
};
struct CPciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct CFabricInfo {
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique;
  unsigned char state;
};
union CValue {
  double d;
  int si;
  unsigned ui;
  unsigned long ul;
  unsigned long long ull;
  long long sll;
  unsigned short us;
};
struct CFieldValue {
  unsigned field, scope;
  long long timestamp, latency_us;
  int type, result;
  CValue value;
};
static_assert(sizeof(CFieldValue) == 40 && sizeof(CPciInfo) == 68 && sizeof(CFabricInfo) == 28);

enum Field : unsigned {
  kNvlinkCrcFlitTotal = 38,
  kNvlinkCrcDataTotal = 45,
  kNvlinkReplayTotal = 52,
  kNvlinkRecoveryTotal = 59,
  kNvlinkSpeedCommon = 90,
  kPowerInstant = 186,
};

std::optional<double> number_of(const CFieldValue& field) {
  switch (field.type) {
    case 0:
      return field.value.d;
    case 1:
      return field.value.ui;
    case 2:
      return static_cast<double>(field.value.ul);
    case 3:
      return static_cast<double>(field.value.ull);
    case 4:
      return static_cast<double>(field.value.sll);
    case 5:
      return field.value.si;
    case 6:
      return field.value.us;
    default:
      return std::nullopt;
  }
}

constexpr std::pair<uint64_t, const char*> kReasons[] = {
    {0x001, "gpu_idle"},
    {0x002, "applications_clocks_setting"},
    {0x004, "sw_power_cap"},
    {0x008, "hw_slowdown"},
    {0x010, "sync_boost"},
    {0x020, "sw_thermal_slowdown"},
    {0x040, "hw_thermal_slowdown"},
    {0x080, "hw_power_brake_slowdown"},
    {0x100, "display_clock_setting"},
};

}  // namespace

std::vector<std::string> nvml_clock_reasons(uint64_t bits) {
  std::vector<std::string> names;
  for (const auto& [bit, name] : kReasons) {
    if (bits & bit) names.emplace_back(name);
    bits &= ~bit;
  }
  for (uint64_t bit = 1; bits != 0; bits &= ~bit, bit <<= 1)
    if (bits & bit) names.push_back(fmt::format("reason_{:#x}", bit));
  return names;
}

bool is_throttle_reason(const std::string& name) {
  return name != "gpu_idle";
}

// ---- the library ----

template <class... Args>
std::string Nvml::call(const char* name, Args... args) const {
  auto* const function = reinterpret_cast<int (*)(Args...)>(symbols_(name));
  if (!function) return fmt::format("{}: not in this driver's library", name);
  const int code = function(args...);
  return code == 0 ? "" : fmt::format("{}: {}", name, error_text(code));
}

std::string Nvml::error_text(int code) const {
  auto* const text = reinterpret_cast<const char* (*)(int)>(symbols_("nvmlErrorString"));
  const char* words = text ? text(code) : nullptr;
  return words ? fmt::format("{} ({})", words, code) : fmt::format("error {}", code);
}

std::shared_ptr<const Nvml> Nvml::open(std::string& why) {
  void* const handle =
      dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);  // stays loaded: the driver keeps threads
  if (!handle) {
    why = dlerror();
    return nullptr;
  }
  return open([handle](const char* name) { return dlsym(handle, name); }, why);
}

std::shared_ptr<const Nvml> Nvml::open(Symbols symbols, std::string& why) {
  std::shared_ptr<Nvml> library(new Nvml(symbols));
  why = library->call<>("nvmlInit_v2");
  if (why.empty()) return library;
  library->symbols_ = [](const char*) -> void* { return nullptr; };  // nothing to shut down
  return nullptr;
}

Nvml::~Nvml() {
  call<>("nvmlShutdown");
}

Reading<int> Nvml::device_count() const {
  unsigned count = 0;
  const std::string why = call("nvmlDeviceGetCount_v2", &count);
  if (!why.empty()) return {std::nullopt, why};
  return {static_cast<int>(count), ""};
}

Reading<NvmlDevice> Nvml::wrap(std::string why, void* handle) const {
  if (!why.empty()) return {std::nullopt, std::move(why)};
  return {NvmlDevice(shared_from_this(), handle), ""};
}

Reading<NvmlDevice> Nvml::device(int index) const {
  void* handle = nullptr;
  std::string why = call("nvmlDeviceGetHandleByIndex_v2", static_cast<unsigned>(index), &handle);
  return wrap(std::move(why), handle);
}

Reading<NvmlDevice> Nvml::by_uuid(const std::string& uuid) const {
  void* handle = nullptr;
  std::string why = call("nvmlDeviceGetHandleByUUID", uuid.c_str(), &handle);
  return wrap(std::move(why), handle);
}

Reading<NvmlDevice> Nvml::by_pci(const std::string& address) const {
  void* handle = nullptr;
  std::string why = call("nvmlDeviceGetHandleByPciBusId_v2", address.c_str(), &handle);
  return wrap(std::move(why), handle);
}

Reading<std::string> Nvml::driver_version() const {
  std::array<char, 80> text{};
  std::string why = call("nvmlSystemGetDriverVersion", text.data(), static_cast<unsigned>(text.size()));
  if (!why.empty()) return {std::nullopt, std::move(why)};
  return {std::string(text.data()), ""};
}

Reading<std::string> Nvml::cuda_driver_version() const {
  int version = 0;  // 1000 * major + 10 * minor
  std::string why = call("nvmlSystemGetCudaDriverVersion_v2", &version);
  if (!why.empty()) return {std::nullopt, std::move(why)};
  return {fmt::format("{}.{}", version / 1000, version % 1000 / 10), ""};
}

// ---- a device ----

namespace {

template <class T>
Reading<T> reading(std::string why, T value) {
  if (!why.empty()) return {std::nullopt, std::move(why)};
  return {std::move(value), ""};
}

}  // namespace

Reading<std::string> NvmlDevice::text(const char* function) const {
  std::array<char, 128> buffer{};
  std::string why = library_->call(function, handle_, buffer.data(), static_cast<unsigned>(buffer.size()));
  return reading(std::move(why), std::string(buffer.data()));
}

Reading<double> NvmlDevice::number(const char* function, double unit) const {
  unsigned value = 0;
  std::string why = library_->call(function, handle_, &value);
  return reading(std::move(why), value * unit);
}

Reading<NvmlSwitch> NvmlDevice::setting(const char* function) const {
  int current = 0, pending = 0;
  std::string why = library_->call(function, handle_, &current, &pending);
  return reading(std::move(why), NvmlSwitch{current != 0, pending != 0});
}

Reading<NvmlPcie> NvmlDevice::pcie(const char* generation, const char* width) const {
  const Reading<double> g = number(generation), w = number(width);
  return reading(g.why.empty() ? w.why : g.why,
                 NvmlPcie{static_cast<int>(g.value.value_or(0)), static_cast<int>(w.value.value_or(0))});
}

Reading<double> NvmlDevice::field(unsigned id) const {
  CFieldValue value{};
  value.field = id;
  std::string why = library_->call("nvmlDeviceGetFieldValues", handle_, 1, &value);
  if (why.empty() && value.result != 0)
    why = fmt::format("nvmlDeviceGetFieldValues, field {}: {}", id, library_->error_text(value.result));
  const std::optional<double> result = number_of(value);
  if (why.empty() && !result)
    why = fmt::format("nvmlDeviceGetFieldValues, field {}: value of unknown type {}", id, value.type);
  return reading(std::move(why), result.value_or(0));
}

Reading<int64_t> NvmlDevice::ecc_errors(int type, bool since_boot) const {
  unsigned long long count = 0;
  std::string why = library_->call("nvmlDeviceGetTotalEccErrors", handle_, type, since_boot ? 0 : 1, &count);
  return reading(std::move(why), static_cast<int64_t>(count));
}

Reading<std::string> NvmlDevice::name() const {
  return text("nvmlDeviceGetName");
}
Reading<std::string> NvmlDevice::uuid() const {
  return text("nvmlDeviceGetUUID");
}
Reading<std::string> NvmlDevice::serial() const {
  return text("nvmlDeviceGetSerial");
}
Reading<std::string> NvmlDevice::vbios() const {
  return text("nvmlDeviceGetVbiosVersion");
}
Reading<std::string> NvmlDevice::inforom() const {
  return text("nvmlDeviceGetInforomImageVersion");
}

Reading<std::string> NvmlDevice::pci() const {
  CPciInfo info{};
  std::string why = library_->call("nvmlDeviceGetPciInfo_v3", handle_, &info);
  // NVML writes the domain with eight digits, Linux with four.
  return reading(std::move(why), fmt::format("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device));
}

Reading<NvmlMemory> NvmlDevice::memory() const {
  CMemory memory{};
  std::string why = library_->call("nvmlDeviceGetMemoryInfo", handle_, &memory);
  return reading(std::move(why),
                 NvmlMemory{static_cast<int64_t>(memory.total), static_cast<int64_t>(memory.free),
                            static_cast<int64_t>(memory.used)});
}

Reading<NvmlSwitch> NvmlDevice::ecc() const {
  return setting("nvmlDeviceGetEccMode");
}
Reading<NvmlSwitch> NvmlDevice::mig() const {
  return setting("nvmlDeviceGetMigMode");
}

Reading<bool> NvmlDevice::persistence() const {
  const Reading<double> on = number("nvmlDeviceGetPersistenceMode");
  return reading(on.why, on.value.value_or(0) != 0);
}

Reading<std::string> NvmlDevice::compute_mode() const {
  constexpr const char* names[] = {"default", "exclusive thread", "prohibited", "exclusive process"};
  const Reading<double> mode = number("nvmlDeviceGetComputeMode");
  const auto index = static_cast<size_t>(mode.value.value_or(0));
  return reading(mode.why,
                 index < std::size(names) ? std::string(names[index]) : fmt::format("mode {}", index));
}

Reading<double> NvmlDevice::clock_MHz(NvmlClock clock) const {
  unsigned MHz = 0;
  std::string why = library_->call("nvmlDeviceGetClockInfo", handle_, static_cast<int>(clock), &MHz);
  return reading(std::move(why), static_cast<double>(MHz));
}

Reading<double> NvmlDevice::max_clock_MHz(NvmlClock clock) const {
  unsigned MHz = 0;
  std::string why = library_->call("nvmlDeviceGetMaxClockInfo", handle_, static_cast<int>(clock), &MHz);
  return reading(std::move(why), static_cast<double>(MHz));
}

Reading<double> NvmlDevice::power_W() const {
  // nvmlDeviceGetPowerUsage is a mean over about a second on most data-centre GPUs since Ampere.
  if (Reading<double> now = field(kPowerInstant); now) return {*now * 1e-3, ""};
  return number("nvmlDeviceGetPowerUsage", 1e-3);
}

Reading<double> NvmlDevice::power_limit_W() const {
  return number("nvmlDeviceGetEnforcedPowerLimit", 1e-3);
}
Reading<double> NvmlDevice::default_power_limit_W() const {
  return number("nvmlDeviceGetPowerManagementDefaultLimit", 1e-3);
}

Reading<double> NvmlDevice::energy_J() const {
  unsigned long long mJ = 0;
  std::string why = library_->call("nvmlDeviceGetTotalEnergyConsumption", handle_, &mJ);
  return reading(std::move(why), static_cast<double>(mJ) * 1e-3);
}

Reading<double> NvmlDevice::temperature_C() const {
  unsigned celsius = 0;
  std::string why = library_->call("nvmlDeviceGetTemperature", handle_, kGpuTemperature, &celsius);
  return reading(std::move(why), static_cast<double>(celsius));
}

Reading<double> NvmlDevice::slowdown_temperature_C() const {
  unsigned celsius = 0;
  std::string why =
      library_->call("nvmlDeviceGetTemperatureThreshold", handle_, kSlowdownThreshold, &celsius);
  return reading(std::move(why), static_cast<double>(celsius));
}

Reading<NvmlUtilization> NvmlDevice::utilization() const {
  CUtilization percent{};
  std::string why = library_->call("nvmlDeviceGetUtilizationRates", handle_, &percent);
  return reading(std::move(why),
                 NvmlUtilization{static_cast<double>(percent.gpu), static_cast<double>(percent.memory)});
}

Reading<std::vector<std::string>> NvmlDevice::clock_reasons() const {
  unsigned long long bits = 0;
  std::string why = library_->call("nvmlDeviceGetCurrentClocksEventReasons", handle_, &bits);
  if (!why.empty())  // its name before driver 535
    why = library_->call("nvmlDeviceGetCurrentClocksThrottleReasons", handle_, &bits);
  return reading(std::move(why), nvml_clock_reasons(bits));
}

Reading<NvmlPcie> NvmlDevice::pcie_current() const {
  return pcie("nvmlDeviceGetCurrPcieLinkGeneration", "nvmlDeviceGetCurrPcieLinkWidth");
}
Reading<NvmlPcie> NvmlDevice::pcie_max() const {
  return pcie("nvmlDeviceGetMaxPcieLinkGeneration", "nvmlDeviceGetMaxPcieLinkWidth");
}
Reading<int64_t> NvmlDevice::pcie_replays() const {
  const Reading<double> replays = number("nvmlDeviceGetPcieReplayCounter");
  return reading(replays.why, static_cast<int64_t>(replays.value.value_or(0)));
}

Reading<std::vector<bool>> NvmlDevice::nvlinks() const {
  std::vector<bool> links;
  std::string why;
  for (unsigned link = 0; link < kMaxLinks; ++link) {
    int active = 0;
    why = library_->call("nvmlDeviceGetNvLinkState", handle_, link, &active);
    if (!why.empty()) break;  // beyond the last link that this GPU has
    links.push_back(active != 0);
  }
  return reading(links.empty() ? why : "", links);
}

Reading<int64_t> NvmlDevice::nvlink_errors() const {
  double sum = 0;
  for (unsigned id : {kNvlinkReplayTotal, kNvlinkRecoveryTotal, kNvlinkCrcFlitTotal, kNvlinkCrcDataTotal}) {
    const Reading<double> count = field(id);
    if (!count) return {std::nullopt, count.why};
    sum += *count;
  }
  return {static_cast<int64_t>(sum), ""};
}

Reading<double> NvmlDevice::nvlink_MBps() const {
  return field(kNvlinkSpeedCommon);
}

Reading<NvmlFabric> NvmlDevice::fabric() const {
  constexpr const char* states[] = {"not supported", "not started", "in progress", "completed"};
  CFabricInfo info{};
  std::string why = library_->call("nvmlDeviceGetGpuFabricInfo", handle_, &info);
  if (!why.empty()) return {std::nullopt, std::move(why)};
  if (info.state >= std::size(states))
    return {std::nullopt, fmt::format("nvmlDeviceGetGpuFabricInfo: unknown state {}", info.state)};
  return {NvmlFabric{states[info.state], info.status}, ""};
}

Reading<int64_t> NvmlDevice::ecc_corrected(bool since_boot) const {
  return ecc_errors(0, since_boot);
}
Reading<int64_t> NvmlDevice::ecc_uncorrected(bool since_boot) const {
  return ecc_errors(1, since_boot);
}

Reading<NvmlRemappedRows> NvmlDevice::remapped_rows() const {
  unsigned correctable = 0, uncorrectable = 0, pending = 0, failure = 0;
  std::string why =
      library_->call("nvmlDeviceGetRemappedRows", handle_, &correctable, &uncorrectable, &pending, &failure);
  return reading(std::move(why), NvmlRemappedRows{correctable, uncorrectable, pending != 0, failure != 0});
}

}  // namespace tt

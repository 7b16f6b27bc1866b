// NVML is tested against made-up libraries: functions of this file, looked up by name.
#include "src/device/nvml.h"

#include <cstring>
#include <map>
#include <string>

#include "common/error.h"
#include "src/device/nvml_telemetry.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

using Table = std::map<std::string, void*>;

template <class R, class... A>
void* address(R (*function)(A...)) {
  return reinterpret_cast<void*>(function);
}

int ok() {
  return 0;
}
int refuse() {
  return 9;
}
const char* error_string(int code) {
  return code == 9 ? "Driver Not Loaded" : code == 3 ? "Not Supported" : "other";
}
int count(unsigned* n) {
  return *n = 8, 0;
}
int handle(unsigned index, void** h) {
  return *h = reinterpret_cast<void*>(uintptr_t{index} + 100), 0;
}
int name(void* h, char* text, unsigned size) {
  return std::snprintf(text, size, "GPU %d", static_cast<int>(reinterpret_cast<uintptr_t>(h))), 0;
}
int serial(void*, char*, unsigned) {
  return 3;
}
int power(void*, unsigned* mW) {
  return *mW = 412000, 0;
}
int clock_info(void*, int type, unsigned* MHz) {
  return *MHz = type == 1 ? 1785 : 3201, 0;
}
int energy(void*, unsigned long long* mJ) {
  return *mJ = 5000000000000ull, 0;
}
int reasons(void*, unsigned long long* bits) {
  return *bits = 0x405, 0;
}
int link_state(void*, unsigned link, int* active) {
  return link < 18 ? (*active = link != 7, 0) : 2;
}
int cuda_version(int* version) {
  return *version = 13010, 0;
}
int version_text(char* text, unsigned size) {
  return std::snprintf(text, size, "580.65.06"), 0;
}
int ecc(void*, int* current, int* pending) {
  return *current = 1, *pending = 0, 0;
}
int rows(void*, unsigned* c, unsigned* u, unsigned* p, unsigned* f) {
  return *c = 1, *u = 2, *p = 1, *f = 0, 0;
}

struct Field {
  unsigned field, scope;
  long long timestamp, latency;
  int type, result;
  union {
    double d;
    unsigned ui;
    unsigned long long ull;
  };
};
int fields(void*, int n, Field* f) {
  if (n != 1) return 2;
  f->result = 0;
  if (f->field == 186)
    f->type = 1, f->ui = 699500;
  else if (f->field == 45)
    f->result = 3;
  else
    f->type = 3, f->ull = 5;
  return 0;
}
struct Pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};
int pci(void*, Pci* p) {
  return p->domain = 0, p->bus = 0x1b, p->device = 0, 0;
}

Table whole() {
  return {{"nvmlInit_v2", address(ok)},
          {"nvmlShutdown", address(ok)},
          {"nvmlErrorString", address(error_string)},
          {"nvmlDeviceGetCount_v2", address(count)},
          {"nvmlDeviceGetHandleByIndex_v2", address(handle)},
          {"nvmlDeviceGetName", address(name)},
          {"nvmlDeviceGetSerial", address(serial)},
          {"nvmlDeviceGetPowerUsage", address(power)},
          {"nvmlDeviceGetClockInfo", address(clock_info)},
          {"nvmlDeviceGetTotalEnergyConsumption", address(energy)},
          {"nvmlDeviceGetCurrentClocksEventReasons", address(reasons)},
          {"nvmlDeviceGetNvLinkState", address(link_state)},
          {"nvmlDeviceGetFieldValues", address(fields)},
          {"nvmlDeviceGetPciInfo_v3", address(pci)},
          {"nvmlDeviceGetEccMode", address(ecc)},
          {"nvmlDeviceGetRemappedRows", address(rows)},
          {"nvmlSystemGetCudaDriverVersion_v2", address(cuda_version)},
          {"nvmlSystemGetDriverVersion", address(version_text)}};
}

std::shared_ptr<const Nvml> open(Table table, std::string& why) {
  return Nvml::open(
      [table](const char* name) {
        const auto it = table.find(name);
        return it == table.end() ? nullptr : it->second;
      },
      why);
}

}  // namespace

TEST_CASE("NVML readings have their units") {
  std::string why;
  const auto nvml = open(whole(), why);
  REQUIRE(nvml);
  CHECK(why.empty());
  CHECK(*nvml->device_count() == 8);
  CHECK(*nvml->driver_version() == "580.65.06");
  CHECK(*nvml->cuda_driver_version() == "13.1");
  const auto device = nvml->device(2);
  REQUIRE(device);
  CHECK(*device->name() == "GPU 102");
  CHECK(*device->pci() == "0000:1b:00.0");
  CHECK(*device->power_W() == Approx(699.5));
  CHECK(*device->clock_MHz(NvmlClock::sm) == 1785);
  CHECK(*device->clock_MHz(NvmlClock::memory) == 3201);
  CHECK(*device->energy_J() == Approx(5e9));
  CHECK(device->ecc()->current);
  CHECK(!device->ecc()->pending);
  CHECK(device->remapped_rows()->uncorrectable == 2);
  CHECK(device->remapped_rows()->pending);
  CHECK(!device->remapped_rows()->failure);
  CHECK(device->nvlinks()->size() == 18);
  CHECK(!(*device->nvlinks())[7]);
  CHECK(*device->clock_reasons() == std::vector<std::string>{"gpu_idle", "sw_power_cap", "reason_0x400"});
}

TEST_CASE("what NVML does not tell has no value, but a reason") {
  std::string why;
  const auto nvml = open(whole(), why);
  const auto device = *nvml->device(0);
  CHECK(!device.serial());
  CHECK(device.serial().why == "nvmlDeviceGetSerial: Not Supported (3)");
  CHECK(!device.vbios());
  CHECK(device.vbios().why == "nvmlDeviceGetVbiosVersion: not in this driver's library");
  CHECK(!device.nvlink_errors());  // one of its four counters is not supported
  CHECK(!nvml->by_uuid("GPU-deadbeef"));
}

TEST_CASE("power is the mean where the driver has no instantaneous figure") {
  Table table = whole();
  table.erase("nvmlDeviceGetFieldValues");
  std::string why;
  CHECK(*open(table, why)->device(0)->power_W() == Approx(412));
}

TEST_CASE("clock reasons by their older name") {
  Table table = whole();
  table["nvmlDeviceGetCurrentClocksThrottleReasons"] = table["nvmlDeviceGetCurrentClocksEventReasons"];
  table.erase("nvmlDeviceGetCurrentClocksEventReasons");
  std::string why;
  CHECK(open(table, why)->device(0)->clock_reasons()->size() == 3);
}

TEST_CASE("a driver that is not loaded is a reason, not a crash") {
  Table table = whole();
  table["nvmlInit_v2"] = address(refuse);
  std::string why;
  CHECK(!open(table, why));
  CHECK(why == "nvmlInit_v2: Driver Not Loaded (9)");
  CHECK(!open({}, why));
  CHECK(why == "nvmlInit_v2: not in this driver's library");
}

TEST_CASE("GPU telemetry: idle is no throttling; a GPU that answers nothing is an error") {
  std::string why;
  const TelemetrySample s = open_nvml_telemetry(*open(whole(), why)->device(0))->sample();
  CHECK(*s.power_W == Approx(699.5));
  CHECK(*s.sm_MHz == 1785);
  CHECK(!s.temperature_C);
  CHECK(s.throttle == std::vector<std::string>{"sw_power_cap", "reason_0x400"});
  const Table dead = {{"nvmlInit_v2", address(ok)}, {"nvmlDeviceGetHandleByIndex_v2", address(handle)}};
  CHECK_THROWS_AS(open_nvml_telemetry(*open(dead, why)->device(0))->sample(), EnvironmentError);
}

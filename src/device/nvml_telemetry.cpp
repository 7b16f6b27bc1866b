#include "src/device/nvml_telemetry.h"

#include <utility>

#include "common/clock.h"
#include "common/error.h"

namespace tt {
namespace {

class NvmlTelemetry final : public TelemetrySource {
 public:
  explicit NvmlTelemetry(NvmlDevice device) : device_(std::move(device)) {}

  std::string name() const override { return "nvml"; }

  TelemetrySample sample() override {
    TelemetrySample s;
    s.t = monotonic_seconds();
    const Reading<double> clock = device_.clock_MHz(NvmlClock::sm);
    s.sm_MHz = clock.value;
    s.mem_MHz = device_.clock_MHz(NvmlClock::memory).value;
    s.power_W = device_.power_W().value;
    s.temperature_C = device_.temperature_C().value;
    s.energy_J = device_.energy_J().value;
    if (const auto busy = device_.utilization()) s.gpu_util_percent = busy->gpu_percent;
    const auto reasons = device_.clock_reasons();
    if (reasons)
      for (const std::string& reason : *reasons)
        if (is_throttle_reason(reason)) s.throttle.push_back(reason);
    if (!s.sm_MHz && !s.mem_MHz && !s.power_W && !s.temperature_C && !s.energy_J && !s.gpu_util_percent &&
        !reasons)
      throw EnvironmentError("the GPU no longer answers: " + clock.why);
    return s;
  }

 private:
  NvmlDevice device_;
};

}  // namespace

std::shared_ptr<TelemetrySource> open_nvml_telemetry(NvmlDevice device) {
  return std::make_shared<NvmlTelemetry>(std::move(device));
}

}  // namespace tt

// Sampling of clocks, power, temperature, throttle reasons and counters by a thread of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/row.h"

namespace tt {

/// One reading. Empty members: this source does not tell.
struct TelemetrySample {
  double t = 0;  // monotonic seconds
  std::optional<double> sm_MHz, mem_MHz, power_W, temperature_C, gpu_util_percent, host_load;
  std::optional<double> energy_J;     // counter since some fixed point
  std::vector<std::string> throttle;  // reasons that hold the clock down now
};

/// Where readings come from; implemented by src/device (NVML, the host's sysfs).
class TelemetrySource {
 public:
  virtual ~TelemetrySource() = default;
  virtual std::string name() const = 0;
  /// One reading; called by the sampler's thread only. Throws Error when the source stops answering.
  virtual TelemetrySample sample() = 0;
};

/// Samples every `interval_ms` until destroyed. A source that throws or takes longer than 5 s is given up:
/// trouble() then says so, and a measurement is never stopped or delayed by it (a stuck thread is left
/// behind, not joined).
class Sampler {
 public:
  Sampler(std::shared_ptr<TelemetrySource> source, int interval_ms);
  ~Sampler();
  /// Readings between two monotonic times, summed up; samples = 0 when there are none.
  TelemetrySummary summarize(double t0, double t1) const;
  std::vector<TelemetrySample> series() const;  // thinned to at most 1,000 readings, evenly
  std::string source_name() const;
  std::string trouble() const;  // empty when all is well

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Pure: what Sampler::summarize does, on any series. Energy: from the counter if there is one, else by the
/// trapezoid rule over power.
TelemetrySummary summarize_samples(const std::vector<TelemetrySample>& samples, double t0, double t1);

}  // namespace tt

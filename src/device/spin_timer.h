// When a busy wait on the GPU is over, from its two clocks. Pure, so that it is tested on made-up clocks.
#pragma once

#include <cstdint>

#include "src/device/convert.h"

namespace tt {

/// Waits `target_ns` by %globaltimer (nanoseconds, but advancing in steps of 32 ns to about 1 us depending on
/// the GPU) and clock64 (every cycle, but of a clock that moves). The cycles between the first and last step
/// of the timer that were seen give cycles per nanosecond, so the wait ends to the cycle. Until two steps
/// were seen the nominal rate stands in. Rates above kMaxRate are not believed: whatever the timer does, the
/// wait ends within kMaxRate * target_ns cycles.
struct SpinTimer {
  static constexpr double kMaxRate = 4;  // cycles per ns; GPUs run below 3 GHz

  double target_ns = 0, nominal_rate = 1;
  uint64_t first_cycle = 0, edge_ns = 0, edge_cycle = 0, last_ns = 0, last_cycle = 0;
  int edges = 0;

  TT_HD constexpr SpinTimer(double target_nanoseconds, double nominal_cycles_per_ns, uint64_t ns,
                            uint64_t cycle) noexcept
      : target_ns(target_nanoseconds), nominal_rate(nominal_cycles_per_ns), first_cycle(cycle), last_ns(ns) {}

  TT_HD constexpr bool done(uint64_t ns, uint64_t cycle) noexcept {
    if (ns != last_ns) {
      if (edges == 0) edge_ns = ns, edge_cycle = cycle;
      if (edges < 2) ++edges;
      last_ns = ns;
      last_cycle = cycle;
    }
    double rate = nominal_rate;
    if (edges >= 2)
      rate = static_cast<double>(last_cycle - edge_cycle) /
             static_cast<double>(static_cast<int64_t>(last_ns - edge_ns));
    if (!(rate > 0)) rate = nominal_rate;  // a timer that ran backwards
    if (rate > kMaxRate) rate = kMaxRate;
    return static_cast<double>(cycle - first_cycle) >= target_ns * rate;
  }
};

}  // namespace tt

// Where the time of a training step goes: intervals between points in streams, added up by phase.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/device/device.h"

namespace tt {

/// `exchange`: collectives, in their own stream or not. `exposed`: what of them the computation had to wait
/// for. `recompute` is part of `backward`. `head`: the loss with its gradient, from the last layer's output
/// to its gradient.
enum class Phase { forward, head, backward, recompute, exchange, exposed, optimizer };
inline constexpr int kPhases = 7;
const char* name_of(Phase phase) noexcept;

class StepTimer {
 public:
  /// Keeps the intervals of the last `steps` steps.
  StepTimer(Device& device, int64_t steps);

  /// What is begun from now on belongs to step i; the intervals of step i - steps are forgotten.
  void start_step(int64_t i);

  /// An interval of the current step, from its making to its end in the order of the stream's work.
  class Scope {
   public:
    Scope(StepTimer& timer, Phase phase, Stream& stream);
    ~Scope() noexcept(false);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepTimer& timer_;
    Stream& stream_;
    size_t slot_, index_;
  };

  /// Seconds spent in a phase in step i, one of the last; its work has ended. 0 for a phase that did not
  /// occur.
  double seconds(int64_t i, Phase phase) const;

 private:
  struct Interval {
    Phase phase = Phase::forward;
    std::unique_ptr<Event> begin, end;
  };
  struct Step {
    std::vector<Interval> intervals;  // events are kept for the next time
    size_t used = 0;
  };
  Device& device_;
  std::vector<Step> steps_;
  size_t current_ = 0;
};

}  // namespace tt

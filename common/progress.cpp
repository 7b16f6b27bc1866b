#include "common/progress.h"

#include "common/clock.h"

namespace tt {

void Progress::enter_phase(const std::string& name) {
  const std::lock_guard lock(mutex_);
  ++phase_number_;
  phase_ = name;
  phase_started_ = monotonic_seconds();
  iteration_.store(-1, std::memory_order_relaxed);
}

Progress::Snapshot Progress::snapshot() const {
  const std::lock_guard lock(mutex_);
  Snapshot s;
  s.phase_number = phase_number_;
  s.phase = phase_;
  s.phase_started = phase_started_;
  s.iteration = iteration_.load(std::memory_order_relaxed);
  s.activity = activity_.load(std::memory_order_relaxed);
  return s;
}

}  // namespace tt

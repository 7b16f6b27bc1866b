// The host's stream: work has ended when the call that enqueues it returns, so marks are readings of the
// clock.
#pragma once

#include <atomic>
#include <vector>

#include "common/stream.h"
#include "src/device/device.h"

namespace tt {

class HostStream final : public Stream {
 public:
  void begin_marks(size_t count) override;
  void mark(size_t slot) override;
  double mark_seconds(size_t slot) const override;
  size_t marks_passed() const override { return passed_.load(std::memory_order_acquire); }
  void synchronize() override {}
  void delay(double seconds) override;
  double mark_cost() const override { return 1e-7; }

 private:
  std::vector<double> marks_;  // NaN: not marked yet
  std::atomic<size_t> passed_{0};
};

/// Work has ended when it is enqueued: nothing ever has to wait.
class HostEvent final : public Event {
 public:
  void record(Stream& stream) override;
  void hold(Stream&) override {}
  double seconds_since(const Event& earlier) const override;

 private:
  double seconds_ = 0;
};

}  // namespace tt

// A stream's marks as times at which the host enqueued them (-C): what launching costs, not how long the work
// takes.
#pragma once

#include <atomic>
#include <vector>

#include "common/stream.h"

namespace tt {

class CpuTimeStream final : public Stream {
 public:
  explicit CpuTimeStream(Stream& stream) : stream_(stream) {}
  void begin_marks(size_t count) override;
  void mark(size_t slot) override;
  double mark_seconds(size_t slot) const override { return marks_.at(slot); }
  size_t marks_passed() const override { return passed_.load(std::memory_order_acquire); }
  void synchronize() override { stream_.synchronize(); }
  void delay(double seconds) override { stream_.delay(seconds); }
  double mark_cost() const override { return 1e-7; }

 private:
  Stream& stream_;
  std::vector<double> marks_;
  std::atomic<size_t> passed_{0};
};

}  // namespace tt

#include "bench/support/cpu_time_stream.h"

#include "common/clock.h"

namespace tt {

void CpuTimeStream::begin_marks(size_t count) {
  stream_.synchronize();
  marks_.assign(count, 0);
  passed_.store(0, std::memory_order_release);
}

void CpuTimeStream::mark(size_t slot) {
  marks_.at(slot) = monotonic_seconds();
  passed_.fetch_add(1, std::memory_order_release);
}

}  // namespace tt

#include "src/device/host_stream.h"

#include <cmath>
#include <limits>
#include <string>

#include "common/clock.h"

namespace tt {
namespace {

[[noreturn]] void bad_mark(const char* what, size_t slot, size_t count) {
  throw DeviceError("host stream: mark " + std::to_string(slot) + " of " + std::to_string(count) + " " +
                    what);
}

}  // namespace

void HostStream::begin_marks(size_t count) {
  passed_.store(0, std::memory_order_release);
  marks_.assign(count, std::numeric_limits<double>::quiet_NaN());
}

void HostStream::mark(size_t slot) {
  if (slot >= marks_.size()) bad_mark("does not exist", slot, marks_.size());
  marks_[slot] = monotonic_seconds();
  passed_.fetch_add(1, std::memory_order_release);
}

double HostStream::mark_seconds(size_t slot) const {
  if (slot >= marks_.size()) bad_mark("does not exist", slot, marks_.size());
  if (std::isnan(marks_[slot])) bad_mark("was not set", slot, marks_.size());
  return marks_[slot];
}

void HostStream::delay(double seconds) {
  if (!(seconds >= 0)) throw DeviceError("host stream: a delay of " + std::to_string(seconds) + " s");
  const double end = monotonic_seconds() + seconds;
  while (monotonic_seconds() < end) {
  }
}

void HostEvent::record(Stream&) {
  seconds_ = monotonic_seconds();
}

double HostEvent::seconds_since(const Event& earlier) const {
  return seconds_ - dynamic_cast<const HostEvent&>(earlier).seconds_;
}

}  // namespace tt

// The harness's view of a queue of device work: it orders work and marks points in time in it.
// Implemented by src/device (host: work runs at once in the caller; cuda: a CUDA stream and events).
#pragma once

#include <cstddef>

namespace tt {

class Stream {
 public:
  virtual ~Stream() = default;

  /// Forgets earlier marks and makes room for `count` marks, 0 .. count-1. Waits for earlier work to end and anchors
  /// the device's time to CLOCK_MONOTONIC.
  virtual void begin_marks(size_t count) = 0;

  /// Enqueues mark `slot`: it is passed when all work enqueued before it has ended.
  virtual void mark(size_t slot) = 0;

  /// CLOCK_MONOTONIC seconds at which mark `slot` was passed. Valid after synchronize(). Between two marks of one
  /// begin_marks() the difference is exact to the device's timer (cuda events: 0.5 us); the absolute value to a few us.
  virtual double mark_seconds(size_t slot) const = 0;

  /// How many of the marks so far have been passed; callable from another thread (the watchdog) while work runs.
  virtual size_t marks_passed() const = 0;

  /// Waits until all enqueued work has ended. Throws DeviceError with the library's text.
  virtual void synchronize() = 0;

  /// Enqueues a busy wait of this length in the stream (fault injection "slow").
  virtual void delay(double seconds) = 0;

  /// Seconds that one mark itself takes out of the stream (host about 1e-7, cuda about 1.5e-6): the harness puts so
  /// many iterations between two marks that this stays below half a per cent.
  virtual double mark_cost() const = 0;
};

}  // namespace tt

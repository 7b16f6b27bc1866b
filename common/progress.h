// Where this rank is, written by the main thread, read by the watchdog's: what it would have to say if it got stuck.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace tt {

enum class Activity : int { own_work = 0, in_step = 1, waiting = 2 };

class Progress {
 public:
  struct Snapshot {
    uint64_t phase_number = 0;   // counts phases; equal on ranks that are in the same phase
    std::string phase;           // "MPI_Init", "allocate", "warm-up all_reduce/float/sum/8", ...
    int64_t iteration = -1;
    Activity activity = Activity::own_work;
    double phase_started = 0;    // monotonic seconds
  };

  /// The iteration is forgotten (-1); the activity stays as it is.
  void enter_phase(const std::string& name);
  void at_iteration(int64_t i) noexcept { iteration_.store(i, std::memory_order_relaxed); }
  void set(Activity activity) noexcept { activity_.store(activity, std::memory_order_relaxed); }
  Activity activity() const noexcept { return activity_.load(std::memory_order_relaxed); }
  Snapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  uint64_t phase_number_ = 0;
  std::string phase_ = "start";
  double phase_started_ = 0;
  std::atomic<int64_t> iteration_{-1};
  std::atomic<Activity> activity_{Activity::own_work};
};

/// Sets an activity for the length of a scope and puts the former one back.
class ActivityScope {
 public:
  ActivityScope(Progress& progress, Activity activity) : progress_(progress), before_(progress.activity()) {
    progress_.set(activity);
  }
  ~ActivityScope() { progress_.set(before_); }
  ActivityScope(const ActivityScope&) = delete;
  ActivityScope& operator=(const ActivityScope&) = delete;

 private:
  Progress& progress_;
  Activity before_;
};

}  // namespace tt

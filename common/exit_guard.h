// MPI_Init that fails does not return: Open MPI prints its reason and calls _exit(1), which would say "a gate
// fell short".
#pragma once

#include <functional>

#include "common/exit_code.h"

namespace tt {

/// While it lives, a library that calls _exit() gets `instead` called first, once, in its thread. One at a
/// time.
class ExitGuard {
 public:
  explicit ExitGuard(std::function<void()> instead);
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;

 private:
  std::function<void()> instead_;
};

/// Ends the process here and now, past any guard. Flushes nothing.
[[noreturn]] void exit_process(ExitCode code) noexcept;

}  // namespace tt

// Ends a run that is stuck, and says who is to blame.
//
// Every rank has one watchdog thread that needs neither MPI nor the main thread. The threads are joined by
// TCP (on one host by loopback) to the coordinator, rank 0's: each sends a heartbeat with its Progress. When
// a phase or row outlasts the deadline, the coordinator names the ranks that went silent, or else those least
// far on, and every rank exits with
// 5. A connection that closes without a goodbye is a dead rank: the run ends with 3 at once, and names it.
// When the coordinator itself goes silent, the lowest remaining rank takes over the report.
// docs/architecture.md has the protocol.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/exit_code.h"
#include "common/progress.h"

namespace tt {

class World;

/// Why the run ended early; the text names rank, host, device and phase.
struct EarlyEnd {
  ExitCode code = ExitCode::timeout;
  std::string reason;
  int rank = -1;  // culprit, if one is known
};

class Watchdog {
 public:
  /// Starts the thread in its lone form (MPI is not up yet): only this process's own deadline counts.
  /// SIGTERM, SIGINT and SIGHUP are blocked in all threads from here on and handled in the watchdog's.
  /// timeout_s = 0: no deadline, but dead ranks and signals are still handled.
  Watchdog(Progress& progress, double timeout_s);
  ~Watchdog();

  /// Joins the ranks. Collective. `device` is how this rank's device is called in messages.
  void join(const World& world);
  void set_device(const std::string& device);
  /// After join(), on rank 0: which ranks could not reach the coordinator (they watch themselves only); ""
  /// when all did.
  std::string trouble() const;

  /// Called in the watchdog's thread on the rank that reports (rank 0 unless it is the one that is silent),
  /// before the process exits: writes the record. The watchdog has already printed the reason to stderr. It
  /// must not use MPI. Bounded: the process ends 2 s later regardless.
  void on_early_end(std::function<void(const EarlyEnd&)> report);

  /// This rank failed with an exception that others may not share: tells the coordinator, which collects what
  /// other ranks say for 0.5 s, reports once, and ends every rank with the worst code. Does not return.
  [[noreturn]] void fail(ExitCode code, const std::string& reason);

  /// Phases that began before `seconds` from now are not over time until then (a soak of known length, a long
  /// allocation). Once such a phase counts iterations, the deadline is that of a single one: it ends when
  /// they stop.
  void extend_phase(double seconds);

  /// All ranks know that they will exit with `code` and only MPI_Finalize is left: should another rank's exit
  /// make the launcher end this one with a signal, it exits with `code` all the same.
  void ending(ExitCode code);

  /// The run ends well: no more deadlines; says goodbye so that closing the connection is not taken for a
  /// death.
  void leave();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tt

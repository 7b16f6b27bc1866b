#include <fmt/format.h>

#include "common/watchdog_role.h"

namespace tt::watchdog {
namespace {

// Before MPI is up nobody knows who is to blame. A rank that merely waits in MPI_Init lets the one that does
// not come speak first; when that one ends, the launcher ends the rest.
constexpr double kWaitingPatience = 3.0;
constexpr double kQuietPatience = 4.0;

}  // namespace

std::optional<Ending> LoneRole::step(double, const Message& mine) {
  if (failure_) return failure_;
  const double over = mine.age_s - mine.limit_s;
  const bool overdue = mine.limit_s > 0 && over > 0;
  const bool waits = self_.size > 1 && mine.activity == Activity::waiting;
  if (signal_) {
    const std::string reason = fmt::format("ended by {} while {} was {}", signal_name(*signal_),
                                           name_of(self_.rank, self_.host, mine.more), place_of(mine));
    // Time is up for the others as well: whoever does not merely wait has reported it, and that brought the
    // signal.
    if (overdue) return Ending{{ExitCode::timeout, reason, -1}, Cause::timeout, reports_ && !waits};
    return Ending{{ExitCode::environment, reason, -1}, Cause::signal, reports_};
  }
  if (!overdue) return std::nullopt;
  if (waits && over < (reports_ ? kWaitingPatience : kQuietPatience)) return std::nullopt;
  const std::string reason = fmt::format("{} {} for {:.1f} s", name_of(self_.rank, self_.host, mine.more),
                                         place_of(mine), mine.age_s);
  return Ending{{ExitCode::timeout, reason, waits ? -1 : self_.rank}, Cause::timeout, reports_ || !waits};
}

void LoneRole::failed(ExitCode code, const std::string& reason, double) {
  failure_ = Ending{{code, reason, self_.size > 1 ? self_.rank : -1}, Cause::failure, true};
}

void LoneRole::signalled(int number, double) {
  signal_ = number;
}

}  // namespace tt::watchdog

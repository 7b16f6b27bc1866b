// What the coordinator knows of every rank, and what follows from it. No sockets, no clock: times are passed
// in, so that the rules are tested on made-up runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/watchdog.h"
#include "common/watchdog_wire.h"

namespace tt::watchdog {

inline constexpr double kBeatInterval = 0.5;
inline constexpr double kSilentAfter = 2.5;    // five beats
inline constexpr double kFailureWindow = 0.5;  // how long the others' reasons are waited for
inline constexpr double kLossWindow =
    0.3;  // also after a signal: launchers signal the rest when one rank dies

enum class Cause { timeout, failure, loss, signal, told };

/// The run is over. `report` false: another rank reports it, or nobody needs to.
struct Ending {
  EarlyEnd end;
  Cause cause = Cause::timeout;
  bool report = true;
};

/// Who to blame when time is up: how far each rank is.
struct Standing {
  int rank = 0;
  bool silent = false;
  uint64_t phase_number = 0;
  int64_t iteration = -1;
  Activity activity = Activity::own_work;
};

/// The silent ones; else those least far on by phase, then iteration, then activity (own work < in step <
/// waiting). All ranks when they are equally far. In the order given.
std::vector<int> find_culprits(const std::vector<Standing>& standings);

/// "own work", "its step", "the others": completes "doing ..." / "waiting for ...".
std::string words_of(Activity activity);
/// "SIGTERM".
std::string signal_name(int number);
/// `rank 1 (host a, device b)`; `rank 1 (host a)` when the device is not known.
std::string name_of(int rank, const std::string& host, const std::string& device);
/// `in phase "allocate", iteration 3, doing own work`.
std::string place_of(const Message& beat);

class Roster {
 public:
  explicit Roster(int ranks);

  void joined(int rank, const std::string& host, double now);
  /// A beat; anything else that is heard of a rank counts as a sign of life only.
  void heard(int rank, const Message& beat, double now);
  void failed(int rank, ExitCode code, const std::string& reason, double now);
  void signalled(int rank, int number, double now);
  /// The connection ended without a goodbye.
  void lost(int rank, double now);
  void left(int rank);
  bool is_joined(int rank) const { return ranks_[static_cast<size_t>(rank)].joined; }

  /// The end, once it is certain. Before it judges a deadline it wants every rank to be asked: see
  /// take_ping().
  std::optional<Ending> decide(double now);
  /// True once when all ranks should be asked for a beat.
  bool take_ping();

 private:
  struct Failure {
    ExitCode code;
    std::string reason;
  };
  struct State {
    int rank = 0;
    std::string host, device;
    bool joined = false, left = false, lost = false;
    double heard_at = 0;
    Message beat;
    std::optional<Failure> failure;
    std::optional<int> signal;
    double age(double now) const { return beat.age_s + (now - heard_at); }
    bool watched() const { return joined && !left && !lost; }
    std::string name() const { return name_of(rank, host, device); }
  };
  State& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  void event(double now);
  bool overdue(double now) const;
  bool everyone_spoke() const;
  bool all_answered(double now) const;
  Ending conclude() const;
  std::string losses(Ending& ending) const;
  std::string failures(Ending& ending) const;
  std::string signals() const;
  Ending time_out(double now) const;

  std::vector<State> ranks_;
  std::optional<double> first_event_, asked_;
  bool ping_ = false;
};

}  // namespace tt::watchdog

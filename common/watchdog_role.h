// What a rank's watchdog does, by its part in the run: alone before the ranks are joined, then the
// coordinator or a peer. Used by one thread. Nothing here ends the process: it returns how the run ended.
#pragma once

#include <poll.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/watchdog_net.h"
#include "common/watchdog_roster.h"

namespace tt::watchdog {

/// How this rank calls itself, and its turn when the coordinator is gone.
struct Self {
  int rank = 0, size = 1;
  int node = 0, local_rank = 0;
  std::string host;
};

class Role {
 public:
  virtual ~Role() = default;
  /// Adds what poll() should wait for.
  virtual void add_fds(std::vector<pollfd>& fds) const { (void)fds; }
  /// Does what is due. `mine` is this rank's own beat.
  virtual std::optional<Ending> step(double now, const Message& mine) = 0;
  virtual void failed(ExitCode code, const std::string& reason, double now) = 0;
  virtual void signalled(int number, double now) = 0;
  /// This rank's part of the run ended well.
  virtual void leave() {}
  /// Passes the end on to whom it concerns, before this process ends.
  virtual void pass_on(const Ending& ending) { (void)ending; }
};

/// No one to talk to. `reports`: prints and writes the record (other ranks may do it as well as long as MPI
/// is not up).
class LoneRole final : public Role {
 public:
  LoneRole(Self self, bool reports) : self_(std::move(self)), reports_(reports) {}
  std::optional<Ending> step(double now, const Message& mine) override;
  void failed(ExitCode code, const std::string& reason, double now) override;
  void signalled(int number, double now) override;

 private:
  Self self_;
  bool reports_;
  std::optional<Ending> failure_;
  std::optional<int> signal_;
};

/// Rank 0: hears all, decides.
class CoordinatorRole final : public Role {
 public:
  /// `listener` is bound and listening; ranks introduce themselves with `token`.
  CoordinatorRole(Self self, Socket listener, std::string token);
  void add_fds(std::vector<pollfd>& fds) const override;
  std::optional<Ending> step(double now, const Message& mine) override;
  void failed(ExitCode code, const std::string& reason, double now) override;
  void signalled(int number, double now) override;
  void leave() override;
  void pass_on(const Ending& ending) override;

 private:
  struct Stranger {
    Connection connection;
    double since;
  };
  void accept_all(double now);
  void meet_strangers(double now);
  bool introduce(Stranger& stranger, const Message& hello, double now);
  std::optional<Ending> hear(int rank, const Message& message, double now);
  void tell_all(const Message& message);

  Self self_;
  Socket listener_;
  std::string token_;
  Roster roster_;
  std::vector<Stranger> strangers_;
  std::map<int, Connection> peers_;
  double next_beat_ = 0;
  uint64_t told_phase_ = 0;  // a new phase or device is told at once
  std::string told_device_;
};

/// Any other rank: tells the coordinator how it is; takes over the report when the coordinator is gone.
class PeerRole final : public Role {
 public:
  PeerRole(Self self, std::unique_ptr<Connection> coordinator, std::string token,
           std::string coordinator_host, double now);
  void add_fds(std::vector<pollfd>& fds) const override;
  std::optional<Ending> step(double now, const Message& mine) override;
  void failed(ExitCode code, const std::string& reason, double now) override;
  void signalled(int number, double now) override;
  void leave() override;
  void pass_on(const Ending& ending) override;

 private:
  std::optional<Ending> hear(const Message& message, double now);
  std::optional<Ending> look_after_coordinator(double now, const Message& mine);
  std::optional<Ending> take_over(double now);
  void begin_take_over(double now, ExitCode code, Cause cause, const std::string& reason);

  Self self_;
  std::unique_ptr<Connection> coordinator_;
  std::string token_, coordinator_host_, coordinator_device_;
  Message coordinator_beat_;
  double heard_at_, next_beat_ = 0;
  uint64_t told_phase_ = 0;
  std::string told_device_;
  bool coordinator_left_ = false;
  std::optional<double> failed_at_, signalled_at_, taking_over_since_;
  std::optional<Ending> failure_, verdict_;
  Socket claim_;
};

}  // namespace tt::watchdog

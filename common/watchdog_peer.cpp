#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/watchdog_role.h"

namespace tt::watchdog {
namespace {

// A coordinator that lives asks everybody when time is up, so its silence shows soon after the deadline.
constexpr double kTakeOverAfter = 1.0;
// It lives but does not decide (it cannot know better): this rank ends by itself.
constexpr double kOwnDeadline = 8.0;
// Turns of those who could report, lowest rank first: time to claim the report before the next one tries.
constexpr double kNodeTurn = 0.4, kMostNodeTurns = 4, kRankTurn = 0.1, kMostRankTurns = 5;
constexpr double kHoldClaim = 0.8;  // until the last rank of this host has had its turn
constexpr double kLeaveToReporter = 3.0;
constexpr double kAnswerToFailure = 2.5;
constexpr double kAnswerToSignal = 1.5;  // mpirun kills for good one second after SIGTERM

}  // namespace

PeerRole::PeerRole(Self self, std::unique_ptr<Connection> coordinator, std::string token,
                   std::string coordinator_host, double now)
    : self_(std::move(self)),
      coordinator_(std::move(coordinator)),
      token_(std::move(token)),
      coordinator_host_(std::move(coordinator_host)),
      heard_at_(now) {
  coordinator_beat_.text = "start";
}

void PeerRole::add_fds(std::vector<pollfd>& fds) const {
  if (!coordinator_->closed())
    fds.push_back(
        {coordinator_->fd(), static_cast<short>(POLLIN | (coordinator_->wants_to_write() ? POLLOUT : 0)), 0});
}

std::optional<Ending> PeerRole::hear(const Message& m, double now) {
  heard_at_ = now;
  if (m.kind == Kind::ping) next_beat_ = now;
  if (m.kind == Kind::goodbye) coordinator_left_ = true;
  if (m.kind == Kind::beat) {
    coordinator_beat_ = m;
    if (!m.more.empty()) coordinator_device_ = m.more;
  }
  if (m.kind != Kind::end) return std::nullopt;
  return Ending{{static_cast<ExitCode>(m.code), m.text, m.rank}, Cause::told, false};
}

std::optional<Ending> PeerRole::step(double now, const Message& mine) {
  std::optional<Ending> told;
  coordinator_->flush();
  for (const Message& message : coordinator_->receive())
    if (auto ending = hear(message, now)) told = ending;
  if (told) return told;
  if (now >= next_beat_ || mine.phase_number != told_phase_ || mine.more != told_device_) {
    next_beat_ = now + kBeatInterval;
    told_phase_ = mine.phase_number;
    told_device_ = mine.more;
    coordinator_->send(mine);
  }
  if (auto ending = look_after_coordinator(now, mine)) return ending;
  if (failed_at_ && now - *failed_at_ > kAnswerToFailure && !taking_over_since_) return failure_;
  if (signalled_at_ && now - *signalled_at_ > kAnswerToSignal && !taking_over_since_)
    return Ending{{ExitCode::environment, "ended by a signal", -1}, Cause::signal, false};
  return std::nullopt;
}

std::optional<Ending> PeerRole::look_after_coordinator(double now, const Message& mine) {
  const double over = mine.age_s - mine.limit_s;
  const bool overdue = mine.limit_s > 0 && over > 0;
  if (!taking_over_since_ && !coordinator_left_) {
    const std::string name = name_of(0, coordinator_host_, coordinator_device_);
    const double silent = now - heard_at_;
    if (coordinator_->closed()) {
      begin_take_over(now, ExitCode::environment, Cause::loss,
                      fmt::format("{} died, last seen {}", name, place_of(coordinator_beat_)));
    } else if (overdue && over > kTakeOverAfter && silent > kSilentAfter) {
      begin_take_over(now, ExitCode::timeout, Cause::timeout,
                      fmt::format("{} silent for {:.1f} s, last seen {}; the others wait", name, silent,
                                  place_of(coordinator_beat_)));
    }
  }
  if (taking_over_since_) return take_over(now);
  if (overdue && over > kOwnDeadline)
    return Ending{{ExitCode::timeout,
                   fmt::format("{} {} for {:.1f} s", name_of(self_.rank, self_.host, mine.more),
                               place_of(mine), mine.age_s),
                   self_.rank},
                  Cause::timeout,
                  true};
  return std::nullopt;
}

void PeerRole::begin_take_over(double now, ExitCode code, Cause cause, const std::string& reason) {
  taking_over_since_ = now;
  verdict_ = Ending{{code, reason, 0}, cause, true};
}

std::optional<Ending> PeerRole::take_over(double now) {
  const double turn = kNodeTurn * std::min<double>(self_.node, kMostNodeTurns) +
                      kRankTurn * std::min<double>(self_.local_rank, kMostRankTurns);
  const double waited = now - *taking_over_since_;
  if (waited < kLossWindow + turn) return std::nullopt;
  if (failure_) verdict_->end.code = worst(verdict_->end.code, failure_->end.code);
  if (!claim_) {
    verdict_->report = claim(token_, claim_);
    if (verdict_->report) return verdict_;
  }
  // Another rank of this host reports. Its exit makes the launcher end this one; without a launcher we follow
  // it.
  return waited > kLeaveToReporter ? verdict_ : std::nullopt;
}

void PeerRole::failed(ExitCode code, const std::string& reason, double now) {
  failed_at_ = now;
  failure_ = Ending{{code, reason, self_.rank}, Cause::failure, true};
  Message message;
  message.kind = Kind::failed;
  message.code = static_cast<int32_t>(code);
  message.text = reason;
  coordinator_->send(message);
}

void PeerRole::signalled(int number, double now) {
  if (!signalled_at_) signalled_at_ = now;
  Message message;
  message.kind = Kind::signalled;
  message.code = number;
  coordinator_->send(message);
}

void PeerRole::leave() {
  Message goodbye;
  goodbye.kind = Kind::goodbye;
  coordinator_->send(goodbye);
}

// A coordinator that was only stopped finds this when it goes on, and does not report a second time.
void PeerRole::pass_on(const Ending& ending) {
  Message end;
  end.kind = Kind::end;
  end.code = static_cast<int32_t>(ending.end.code);
  end.rank = ending.end.rank;
  end.text = ending.end.reason;
  if (ending.cause != Cause::told && ending.cause != Cause::signal) coordinator_->send(end);
  if (claim_ && ending.report) std::this_thread::sleep_for(std::chrono::duration<double>(kHoldClaim));
}

}  // namespace tt::watchdog

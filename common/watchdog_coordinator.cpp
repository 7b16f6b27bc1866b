#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/watchdog_role.h"

namespace tt::watchdog {
namespace {

constexpr double kStrangerPatience = 10.0;  // to say hello; a rank on an overloaded host may be slow
constexpr size_t kMaxStrangers = 256;       // beyond the ranks still missing
constexpr double kPassOnTime = 0.5;

short events_of(const Connection& connection) {
  return static_cast<short>(POLLIN | (connection.wants_to_write() ? POLLOUT : 0));
}

}  // namespace

CoordinatorRole::CoordinatorRole(Self self, Socket listener, std::string token)
    : self_(std::move(self)), listener_(std::move(listener)), token_(std::move(token)), roster_(self_.size) {
  roster_.joined(self_.rank, self_.host, monotonic_seconds());
}

void CoordinatorRole::add_fds(std::vector<pollfd>& fds) const {
  fds.push_back({listener_.fd(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) fds.push_back({stranger.connection.fd(), POLLIN, 0});
  for (const auto& [rank, peer] : peers_) fds.push_back({peer.fd(), events_of(peer), 0});
}

void CoordinatorRole::accept_all(double now) {
  const size_t most = kMaxStrangers + static_cast<size_t>(self_.size) - peers_.size();
  for (Socket socket = accept_one(listener_); socket; socket = accept_one(listener_)) {
    if (strangers_.size() >= most) strangers_.erase(strangers_.begin());  // the oldest has had its chance
    strangers_.push_back({Connection(std::move(socket)), now});
  }
}

bool CoordinatorRole::introduce(Stranger& stranger, const Message& hello, double now) {
  const bool ours = hello.kind == Kind::hello && hello.text == token_ && hello.rank > 0 &&
                    hello.rank < self_.size && !roster_.is_joined(hello.rank);
  if (!ours) return false;
  Message welcome;
  welcome.kind = Kind::welcome;
  welcome.more = self_.host;
  stranger.connection.send(welcome);
  roster_.joined(hello.rank, hello.more, now);
  peers_.emplace(hello.rank, std::move(stranger.connection));
  return true;
}

// A port that is open to the network hears from scanners and from other runs: all but a hello with our token
// is let go without a word and without a trace.
void CoordinatorRole::meet_strangers(double now) {
  std::erase_if(strangers_, [&](Stranger& stranger) {
    const std::vector<Message> messages = stranger.connection.receive();
    if (messages.empty()) return stranger.connection.closed() || now - stranger.since > kStrangerPatience;
    introduce(stranger, messages.front(), now);
    return true;  // a peer says nothing more before it is welcomed
  });
}

std::optional<Ending> CoordinatorRole::hear(int rank, const Message& m, double now) {
  switch (m.kind) {
    case Kind::beat:
      roster_.heard(rank, m, now);
      break;
    case Kind::failed:
      roster_.failed(rank, static_cast<ExitCode>(m.code), m.text, now);
      break;
    case Kind::signalled:
      roster_.signalled(rank, m.code, now);
      break;
    case Kind::goodbye:
      roster_.left(rank);
      break;
    case Kind::end:  // this process was stopped, others have reported meanwhile
      return Ending{{static_cast<ExitCode>(m.code), m.text, m.rank}, Cause::told, false};
    default:
      break;
  }
  return std::nullopt;
}

std::optional<Ending> CoordinatorRole::step(double now, const Message& mine) {
  roster_.heard(self_.rank, mine, now);
  accept_all(now);
  meet_strangers(now);
  std::optional<Ending> told;
  for (auto it = peers_.begin(); it != peers_.end();) {
    auto& [rank, peer] = *it;
    peer.flush();
    for (const Message& message : peer.receive())
      if (auto ending = hear(rank, message, now)) told = ending;
    if (peer.closed()) roster_.lost(rank, now);
    it = peer.closed() ? peers_.erase(it) : std::next(it);
  }
  if (told) return told;
  if (now >= next_beat_ || mine.phase_number != told_phase_ || mine.more != told_device_) {
    next_beat_ = now + kBeatInterval;
    told_phase_ = mine.phase_number;
    told_device_ = mine.more;
    tell_all(mine);
  }
  std::optional<Ending> ending = roster_.decide(now);
  if (roster_.take_ping()) {
    Message ping;
    ping.kind = Kind::ping;
    tell_all(ping);
  }
  return ending;
}

void CoordinatorRole::tell_all(const Message& message) {
  for (auto& [rank, peer] : peers_) peer.send(message);
}

void CoordinatorRole::failed(ExitCode code, const std::string& reason, double now) {
  roster_.failed(self_.rank, code, reason, now);
}

void CoordinatorRole::signalled(int number, double now) {
  roster_.signalled(self_.rank, number, now);
}

void CoordinatorRole::leave() {
  Message goodbye;
  goodbye.kind = Kind::goodbye;
  tell_all(goodbye);
}

void CoordinatorRole::pass_on(const Ending& ending) {
  Message end;
  end.kind = Kind::end;
  end.code = static_cast<int32_t>(ending.end.code);
  end.rank = ending.end.rank;
  end.text = ending.end.reason;
  tell_all(end);
  // Almost always written by now; a full socket belongs to a rank that reads nothing.
  const double until = monotonic_seconds() + kPassOnTime;
  while (monotonic_seconds() < until) {
    std::vector<pollfd> fds;
    for (auto& [rank, peer] : peers_) {
      peer.flush();
      if (peer.wants_to_write()) fds.push_back({peer.fd(), POLLOUT, 0});
    }
    if (fds.empty()) return;
    poll(fds.data(), fds.size(), 50);
  }
}

}  // namespace tt::watchdog

#include "common/watchdog_net.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <sstream>

#include "common/clock.h"
#include "common/error.h"

namespace tt::watchdog {
namespace {

constexpr size_t kMaxUnsent = 1 << 20;  // a peer that reads nothing must not eat our memory

Socket new_socket(int family) {
  return Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

void tune(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket.fd(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

// Dual-stack where there is IPv6, IPv4 alone elsewhere.
Socket bound_socket() {
  Socket six = new_socket(AF_INET6);
  const int off = 0;
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  if (six && setsockopt(six.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
      bind(six.fd(), reinterpret_cast<sockaddr*>(&any6), sizeof any6) == 0)
    return six;
  Socket four = new_socket(AF_INET);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  if (four && bind(four.fd(), reinterpret_cast<sockaddr*>(&any4), sizeof any4) == 0) return four;
  throw EnvironmentError(std::string("watchdog: cannot bind a TCP socket: ") + std::strerror(errno));
}

std::string numeric(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text, sizeof text);
  else
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text, sizeof text);
  return text;
}

// Null when the address is none or cannot be reached at all.
std::unique_ptr<Connection> begin_connect(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return nullptr;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  Socket socket = new_socket(found->ai_family);
  if (!socket) return nullptr;
  if (connect(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) return nullptr;
  tune(socket);
  return std::make_unique<Connection>(std::move(socket));
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

void Connection::send(const Message& message) {
  if (closed_) return;
  out_ += encode(message);
  if (out_.size() > kMaxUnsent) closed_ = true;
  flush();
}

void Connection::flush() {
  while (wants_to_write()) {
    const ssize_t n = ::send(fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      out_.erase(0, static_cast<size_t>(n));
    } else {
      // Not connected yet, or full: later. A broken connection shows when reading, after what had arrived
      // before.
      return;
    }
  }
}

std::vector<Message> Connection::receive() {
  std::vector<Message> messages = std::exchange(unread_, {});
  char bytes[4096];
  bool end = false;
  // Bounded, so that one sender that never stops does not keep us from the others.
  for (int i = 0; i < 64 && !closed_ && !end; ++i) {
    const ssize_t n = ::recv(fd(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (n > 0)
      reader_.feed({bytes, static_cast<size_t>(n)});
    else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
      end = true;
    else
      break;
    try {
      while (auto message = reader_.next()) messages.push_back(std::move(*message));
    } catch (const WireError&) {
      end = true;
    }
  }
  closed_ = closed_ || end;
  return messages;
}

std::string Meeting::text() const {
  return fmt::format("{} {} {} {}", port, token, host, fmt::join(addresses, " "));
}

Meeting Meeting::parse(const std::string& text) {
  Meeting meeting;
  std::istringstream in(text);
  if (!(in >> meeting.port >> meeting.token >> meeting.host) || meeting.port <= 0 || meeting.port > 65535)
    throw WireError("not a meeting place: " + text);
  for (std::string address; in >> address;) meeting.addresses.push_back(address);
  return meeting;
}

std::string random_token() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", random());
  return token;
}

std::vector<std::string> own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  std::vector<std::string> four, six;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK)) continue;
    if (i->ifa_addr->sa_family == AF_INET) four.push_back(numeric(i->ifa_addr));
    if (i->ifa_addr->sa_family == AF_INET6 &&
        !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr))
      six.push_back(numeric(i->ifa_addr));
  }
  four.insert(four.end(), six.begin(), six.end());
  return four;
}

Socket listen_anywhere(int backlog, int& port) {
  Socket socket = bound_socket();
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (listen(socket.fd(), backlog) != 0 ||
      getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&bound), &length) != 0)
    throw EnvironmentError(std::string("watchdog: cannot listen: ") + std::strerror(errno));
  port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return socket;
}

Socket accept_one(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket) tune(socket);
  return socket;
}

std::unique_ptr<Connection> dial(const Meeting& meeting, bool local, const Message& hello, double seconds) {
  std::vector<std::unique_ptr<Connection>> tries;
  for (const std::string& address : local ? std::vector<std::string>{"127.0.0.1"} : meeting.addresses) {
    if (auto started = begin_connect(address, meeting.port)) {
      started->send(hello);
      tries.push_back(std::move(started));
    }
  }
  const double until = monotonic_seconds() + seconds;
  while (!tries.empty() && monotonic_seconds() < until) {
    std::vector<pollfd> fds;
    for (const auto& t : tries)
      fds.push_back({t->fd(), static_cast<short>(POLLIN | (t->wants_to_write() ? POLLOUT : 0)), 0});
    poll(fds.data(), fds.size(), 100);
    for (size_t i = 0; i < tries.size(); ++i) {
      if (fds[i].revents == 0) continue;
      tries[i]->flush();
      std::vector<Message> messages = tries[i]->receive();
      if (messages.empty() || messages.front().kind != Kind::welcome) continue;
      messages.erase(messages.begin());
      tries[i]->unread(std::move(messages));
      return std::move(tries[i]);
    }
    std::erase_if(tries, [](const auto& t) { return t->closed(); });
  }
  return nullptr;
}

bool claim(const std::string& token, Socket& held) {
  held = Socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  const std::string text = "train-tests-" + token;  // behind a 0: abstract, gone with the process
  std::memcpy(name.sun_path + 1, text.data(), std::min(text.size(), sizeof name.sun_path - 1));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return held && bind(held.fd(), reinterpret_cast<sockaddr*>(&name), length) == 0;
}

void raise_file_limit(int connections) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = static_cast<rlim_t>(connections) + 512;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace tt::watchdog

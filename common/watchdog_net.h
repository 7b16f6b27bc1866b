// TCP between watchdogs: sockets, connections that carry messages, and how a rank finds the coordinator.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/watchdog_wire.h"

namespace tt::watchdog {

/// A file descriptor that closes itself.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A non-blocking connection. A fault of any kind closes it; nothing here throws.
class Connection {
 public:
  explicit Connection(Socket socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.fd(); }
  bool closed() const { return closed_; }
  bool wants_to_write() const { return !closed_ && !out_.empty(); }
  void send(const Message& message);
  /// Writes what the socket takes now.
  void flush();
  /// Everything that has arrived; what was read before the end of the stream still counts.
  std::vector<Message> receive();
  /// Puts these back in front of what receive() returns next.
  void unread(std::vector<Message> messages) { unread_ = std::move(messages); }

 private:
  Socket socket_;
  MessageReader reader_;
  std::vector<Message> unread_;
  std::string out_;
  bool closed_ = false;
};

/// Where the coordinator can be met; travels to the others by MPI.
struct Meeting {
  int port = 0;
  std::string token;  // 128 random bits in hex: who has it belongs to this run
  std::string host;
  std::vector<std::string> addresses;  // numeric, without loopback

  std::string text() const;
  /// Throws WireError.
  static Meeting parse(const std::string& text);
};

std::string random_token();
/// Addresses of the interfaces that are up: IPv4 first, then IPv6; no loopback, no link-local.
std::vector<std::string> own_addresses();

/// Listens on all addresses at a port of the system's choice. Throws EnvironmentError.
Socket listen_anywhere(int backlog, int& port);
Socket accept_one(const Socket& listener);  // empty when nobody is waiting

/// Tries all addresses (loopback alone when `local`) at once, says hello on each that answers, and keeps the
/// first that is welcomed. Null when none is within `seconds`.
std::unique_ptr<Connection> dial(const Meeting& meeting, bool local, const Message& hello, double seconds);

/// True for the first process of this host (network namespace) that asks, as long as `held` lives.
bool claim(const std::string& token, Socket& held);

/// Room for a connection to every rank.
void raise_file_limit(int connections);

}  // namespace tt::watchdog

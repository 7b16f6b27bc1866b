// The watchdogs' wire format and rules, without processes; the coordinator against hostile connections.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <random>
#include <string>
#include <thread>

#include "common/clock.h"
#include "common/watchdog_role.h"
#include "verify/unit/catch.h"

using namespace tt::watchdog;
using tt::Activity;
using tt::ExitCode;

namespace {

Message sample(Kind kind) {
  Message m;
  m.kind = kind;
  m.rank = 63;
  m.code = -7;
  m.phase_number = 0xfedcba9876543210ull;
  m.iteration = -1;
  m.activity = Activity::waiting;
  m.age_s = 12.25;
  m.limit_s = 600;
  m.text = "warm-up \"all_reduce\"\n";
  m.more = std::string("zero \0 inside", 13);
  return m;
}

void require_equal(const Message& a, const Message& b) {
  REQUIRE(a.kind == b.kind);
  REQUIRE(a.rank == b.rank);
  REQUIRE(a.code == b.code);
  REQUIRE(a.phase_number == b.phase_number);
  REQUIRE(a.iteration == b.iteration);
  REQUIRE(a.activity == b.activity);
  REQUIRE(a.age_s == b.age_s);
  REQUIRE(a.limit_s == b.limit_s);
  REQUIRE(a.text == b.text);
  REQUIRE(a.more == b.more);
}

Message beat_in(const std::string& phase, uint64_t number, int64_t iteration, Activity activity, double age,
                double limit = 10) {
  Message m;
  m.phase_number = number;
  m.text = phase;
  m.iteration = iteration;
  m.activity = activity;
  m.age_s = age;
  m.limit_s = limit;
  m.more = "host";
  return m;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Four ranks on two hosts, all of them waiting in phase 3 since t = 0.
Roster four_waiting() {
  Roster roster(4);
  for (int r = 0; r < 4; ++r) {
    roster.joined(r, r < 2 ? "a" : "b", 0);
    roster.heard(r, beat_in("measure", 3, 5, Activity::waiting, 0), 0);
  }
  return roster;
}

}  // namespace

TEST_CASE("watchdog messages survive the wire, whole and byte by byte") {
  for (int kind = 1; kind <= 8; ++kind) {
    const Message sent = sample(static_cast<Kind>(kind));
    const std::string bytes = encode(sent) + encode(sent);
    MessageReader reader;
    int messages = 0;
    for (const char byte : bytes) {
      reader.feed({&byte, 1});
      while (const auto got = reader.next()) {
        require_equal(*got, sent);
        ++messages;
      }
    }
    REQUIRE(messages == 2);
  }
}

TEST_CASE("an overlong text is cut, not refused") {
  Message m;
  m.text.assign(kMaxText + 5, 'x');
  MessageReader reader;
  reader.feed(encode(m));
  REQUIRE(reader.next()->text.size() == kMaxText);
}

TEST_CASE("what is no watchdog's message is refused at its first wrong field") {
  const std::string good = encode(sample(Kind::beat));
  const auto refused = [](std::string bytes) {
    MessageReader reader;
    reader.feed(bytes);
    REQUIRE_THROWS_AS(reader.next(), WireError);
  };
  refused("GET / HTTP/1.1\r\n\r\n");
  std::string bad = good;
  bad[3] = '2';  // another version
  refused(bad);
  bad = good;
  bad[7] = '\x7f';  // 2 GiB
  refused(bad);
  bad = good;
  bad[8] = 0;  // kind
  refused(bad);
  bad[8] = 9;
  refused(bad);
  bad = good;
  bad[8 + 25] = 3;  // activity
  refused(bad);
  bad = good;
  bad[8 + 42] = '\xff';  // length of the text
  bad[8 + 43] = '\xff';
  refused(bad);
  bad = good;
  bad[4] = static_cast<char>(bad[4] - 1);  // body shorter than its fields
  refused(bad);
  Message m = sample(Kind::beat);
  for (const double age : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    m.age_s = age;
    refused(encode(m));
  }
}

TEST_CASE("random bytes behind a right beginning never crash the reader") {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = encode(sample(Kind::failed));
    for (int k = 0; k < 4; ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    MessageReader reader;
    reader.feed(bytes);
    try {
      while (reader.next()) {
      }
    } catch (const WireError&) {
    }
  }
  SUCCEED();
}

TEST_CASE("the culprit: silent before slow, then least far on") {
  using V = std::vector<int>;
  const Activity own = Activity::own_work, step = Activity::in_step, wait = Activity::waiting;
  REQUIRE(find_culprits({}) == V{});
  // One hangs in its own work, the others wait for it in the same iteration.
  REQUIRE(find_culprits({{0, false, 3, 5, wait}, {1, false, 3, 5, own}, {2, false, 3, 5, wait}}) == V{1});
  REQUIRE(find_culprits({{0, false, 3, 5, step}, {1, false, 3, 5, own}}) == V{1});
  REQUIRE(find_culprits({{0, false, 3, 5, wait}, {1, false, 3, 5, step}}) == V{1});
  // Iteration before activity, phase before iteration: whoever is ahead and busy is not to blame.
  REQUIRE(find_culprits({{0, false, 3, 4, wait}, {1, false, 3, 5, own}}) == V{0});
  REQUIRE(find_culprits({{0, false, 2, 9, wait}, {1, false, 3, -1, own}}) == V{0});
  // A silent rank is to blame even when its last word was that it is ahead.
  REQUIRE(find_culprits({{0, false, 2, 1, own}, {1, true, 9, 9, wait}}) == V{1});
  REQUIRE(find_culprits({{0, true, 2, 1, own}, {1, false, 2, 1, own}, {2, true, 2, 1, own}}) == V{0, 2});
  // Equal: all.
  REQUIRE(find_culprits({{0, false, 3, 5, wait}, {1, false, 3, 5, wait}}) == V{0, 1});
}

TEST_CASE("nothing is judged before the deadline, and not before everyone was asked") {
  Roster roster = four_waiting();
  REQUIRE_FALSE(roster.decide(9.9));
  REQUIRE_FALSE(roster.take_ping());
  REQUIRE_FALSE(roster.decide(10.1));
  REQUIRE(roster.take_ping());
  REQUIRE_FALSE(roster.take_ping());
  // Rank 2 does not answer: one missing among many is waited for 1.5 s.
  for (const int r : {0, 1, 3}) roster.heard(r, beat_in("measure", 3, 5, Activity::waiting, 10.2), 10.2);
  REQUIRE_FALSE(roster.decide(11.5));
  const auto ending = roster.decide(11.7);
  REQUIRE(ending);
  REQUIRE(ending->end.code == ExitCode::timeout);
  REQUIRE(ending->end.rank == 2);
  REQUIRE(contains(ending->end.reason, "rank 2 (host b, device host) silent for 11.7 s"));
  REQUIRE(contains(ending->end.reason, "in phase \"measure\", iteration 5"));
  REQUIRE(contains(ending->end.reason, "the others wait"));
}

TEST_CASE("a rank that hangs in its own work is named with phase, iteration and time") {
  Roster roster = four_waiting();
  roster.heard(1, beat_in("measure", 3, 5, Activity::own_work, 10.1), 10.1);
  REQUIRE_FALSE(roster.decide(10.1));
  for (int r = 0; r < 4; ++r)
    roster.heard(r, beat_in("measure", 3, 5, r == 1 ? Activity::own_work : Activity::waiting, 10.2), 10.2);
  const auto ending = roster.decide(10.3);
  REQUIRE(ending);
  REQUIRE(ending->end.rank == 1);
  REQUIRE(ending->end.reason ==
          "rank 1 (host a, device host) in phase \"measure\", iteration 5, doing own work for 10.3 s; the "
          "others wait");
}

TEST_CASE("a phase that ends while the ranks are asked is no timeout") {
  Roster roster = four_waiting();
  REQUIRE_FALSE(roster.decide(10.1));
  REQUIRE(roster.take_ping());
  for (int r = 0; r < 4; ++r) roster.heard(r, beat_in("verify", 4, -1, Activity::own_work, 0.1), 10.2);
  REQUIRE_FALSE(roster.decide(10.3));
  REQUIRE_FALSE(roster.decide(19));
  REQUIRE_FALSE(roster.take_ping());
}

TEST_CASE("beats that are late by seconds on an overloaded host blame nobody wrongly") {
  Roster roster = four_waiting();
  roster.heard(3, beat_in("measure", 3, 5, Activity::own_work, 7), 7);
  REQUIRE_FALSE(roster.decide(10.1));
  // Two are missing at first: more patience, and the late answers clear them.
  roster.heard(0, beat_in("measure", 3, 5, Activity::waiting, 10.2), 10.2);
  roster.heard(3, beat_in("measure", 3, 5, Activity::own_work, 10.2), 10.2);
  REQUIRE_FALSE(roster.decide(12));
  roster.heard(1, beat_in("measure", 3, 5, Activity::waiting, 12.1), 12.1);
  roster.heard(2, beat_in("measure", 3, 5, Activity::waiting, 12.2), 12.2);
  const auto ending = roster.decide(12.3);
  REQUIRE(ending);
  REQUIRE(ending->end.rank == 3);
}

TEST_CASE("without a deadline only deaths and signals end the run") {
  Roster roster(2);
  for (int r = 0; r < 2; ++r) {
    roster.joined(r, "a", 0);
    roster.heard(r, beat_in("measure", 1, 0, Activity::waiting, 0, 0), 0);
  }
  REQUIRE_FALSE(roster.decide(1e6));
  roster.lost(1, 1e6);
  REQUIRE(roster.decide(1e6 + 0.4)->end.code == ExitCode::environment);
}

TEST_CASE("all ranks stuck alike: all are named, none is blamed") {
  Roster roster = four_waiting();
  REQUIRE_FALSE(roster.decide(10.1));
  for (int r = 0; r < 4; ++r) roster.heard(r, beat_in("measure", 3, 5, Activity::waiting, 10.2), 10.2);
  const auto ending = roster.decide(10.3);
  REQUIRE(ending->end.rank == -1);
  REQUIRE(contains(ending->end.reason, "all 4 ranks"));
}

TEST_CASE("a dead rank ends the run at once; its own last words explain it") {
  Roster roster = four_waiting();
  SECTION("no words") {
    roster.lost(2, 1.0);
    REQUIRE_FALSE(roster.decide(1.1));
    const auto ending = roster.decide(1.4);
    REQUIRE(ending->end.code == ExitCode::environment);
    REQUIRE(ending->end.rank == 2);
    REQUIRE(
        contains(ending->end.reason, "rank 2 (host b, device host) died, last seen in phase \"measure\""));
  }
  SECTION("the launcher's signal to the survivors comes first") {
    for (const int r : {0, 1, 3}) roster.signalled(r, SIGTERM, 1.0);
    roster.lost(2, 1.2);
    const auto ending = roster.decide(1.35);
    REQUIRE(ending->end.rank == 2);
    REQUIRE_FALSE(contains(ending->end.reason, "SIGTERM"));
  }
  SECTION("words") {
    roster.failed(2, ExitCode::wrong_data, "lost its memory", 1.0);
    roster.lost(2, 1.1);
    REQUIRE_FALSE(roster.decide(1.4));
    const auto ending = roster.decide(1.6);
    REQUIRE(ending->end.code == ExitCode::wrong_data);
    REQUIRE(ending->end.reason == "rank 2 (host b, device host): lost its memory");
  }
  SECTION("after a goodbye it may close") {
    roster.left(2);
    roster.lost(2, 1.0);
    REQUIRE_FALSE(roster.decide(2.0));
  }
}

TEST_CASE("failures: equal words once, the worst code") {
  Roster roster = four_waiting();
  SECTION("all alike are reported without waiting") {
    for (int r = 0; r < 4; ++r) roster.failed(r, ExitCode::skipped, "no fp4 here", 1.0);
    const auto ending = roster.decide(1.0);
    REQUIRE(ending->end.code == ExitCode::skipped);
    REQUIRE(ending->end.reason == "no fp4 here");
    REQUIRE(ending->end.rank == -1);
  }
  SECTION("different ones") {
    roster.failed(0, ExitCode::environment, "disk full", 1.0);
    roster.failed(3, ExitCode::wrong_data, "NaN", 1.2);
    roster.failed(1, ExitCode::environment, "disk full", 1.3);
    const auto ending = roster.decide(1.6);
    REQUIRE(ending->end.code == ExitCode::wrong_data);
    REQUIRE(ending->end.reason ==
            "rank 0 (host a, device host) and 1 more ranks: disk full; rank 3 (host b, device host): NaN");
  }
}

TEST_CASE("a signal") {
  Roster roster = four_waiting();
  SECTION("to all") {
    for (int r = 0; r < 4; ++r) roster.signalled(r, SIGINT, 1.0);
    const auto ending = roster.decide(1.4);
    REQUIRE(ending->end.code == ExitCode::environment);
    REQUIRE(contains(ending->end.reason, "ended by SIGINT"));
  }
  SECTION("to one") {
    roster.signalled(3, SIGTERM, 1.0);
    REQUIRE(contains(roster.decide(1.4)->end.reason, "rank 3 (host b, device host) ended by SIGTERM"));
  }
}

TEST_CASE("a meeting place survives its text; nonsense is refused") {
  const Meeting meeting{40123, random_token(), "node1", {"10.0.0.1", "fd00::1"}};
  const Meeting got = Meeting::parse(meeting.text());
  REQUIRE(got.port == 40123);
  REQUIRE(got.token == meeting.token);
  REQUIRE(got.token.size() == 32);
  REQUIRE(got.host == "node1");
  REQUIRE(got.addresses == meeting.addresses);
  REQUIRE(Meeting::parse("1 t h").addresses.empty());
  for (const char* bad : {"", "0 t h", "70000 t h", "x t h", "5 t"})
    REQUIRE_THROWS_AS(Meeting::parse(bad), WireError);
}

namespace {

// A coordinator of `ranks` ranks in a thread of its own, stepping until the run is over or `stop`.
class RunningCoordinator {
 public:
  explicit RunningCoordinator(int ranks) {
    meeting.token = random_token();
    meeting.host = "here";
    Socket listener = listen_anywhere(128, meeting.port);
    Self self;
    self.size = ranks;
    self.host = "here";
    role_ = std::make_unique<CoordinatorRole>(self, std::move(listener), meeting.token);
    thread_ = std::thread([this] { loop(); });
  }
  ~RunningCoordinator() { finish(); }
  std::optional<Ending> finish() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return ending_;
  }
  std::optional<Ending> wait_for_end() {
    if (thread_.joinable()) thread_.join();
    return ending_;
  }
  Meeting meeting;

 private:
  void loop() {
    const double begin = tt::monotonic_seconds();
    while (!stop_ && !ending_ && tt::monotonic_seconds() - begin < 20) {
      std::vector<pollfd> fds;
      role_->add_fds(fds);
      poll(fds.data(), fds.size(), 20);
      const double now = tt::monotonic_seconds();
      ending_ = role_->step(now, beat_in("measure", 1, 0, Activity::waiting, 0.1));
    }
    if (ending_) role_->pass_on(*ending_);
  }
  std::unique_ptr<CoordinatorRole> role_;
  std::optional<Ending> ending_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

Message hello_of(int rank, const std::string& token) {
  Message hello;
  hello.kind = Kind::hello;
  hello.rank = rank;
  hello.text = token;
  hello.more = "there";
  return hello;
}

Socket raw_connection(int port, const std::string& bytes) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(socket.fd(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  [[maybe_unused]] const ssize_t n = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return socket;
}

}  // namespace

TEST_CASE("hostile connections do not disturb the coordinator") {
  RunningCoordinator coordinator(3);
  const Meeting& meeting = coordinator.meeting;
  std::vector<Socket> hostile;
  hostile.push_back(raw_connection(meeting.port, ""));  // says nothing
  hostile.push_back(raw_connection(meeting.port, "GET / HTTP/1.1\r\n\r\n"));
  hostile.push_back(raw_connection(meeting.port, std::string(100000, '\xff')));
  hostile.push_back(raw_connection(meeting.port, encode(hello_of(1, random_token()))));  // wrong token
  hostile.push_back(raw_connection(meeting.port, encode(hello_of(7, meeting.token))));   // no such rank
  hostile.push_back(
      raw_connection(meeting.port, encode(hello_of(0, meeting.token))));  // the coordinator's own
  hostile.push_back(raw_connection(meeting.port, encode(hello_of(-1, meeting.token))));
  hostile.push_back(raw_connection(meeting.port, encode(sample(Kind::failed))));  // without a hello
  hostile.push_back(
      raw_connection(meeting.port, encode(hello_of(1, meeting.token)).substr(0, 30)));  // half a hello
  for (int i = 0; i < 400; ++i) hostile.push_back(raw_connection(meeting.port, ""));    // more than it keeps

  auto first = dial(meeting, true, hello_of(1, meeting.token), 5);
  REQUIRE(first);
  REQUIRE_FALSE(dial(meeting, true, hello_of(1, meeting.token), 1));  // rank 1 is taken
  auto second = dial(meeting, true, hello_of(2, meeting.token), 5);
  REQUIRE(second);
  for (Socket& socket : hostile) socket = Socket();
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  REQUIRE_FALSE(coordinator.finish());
}

TEST_CASE("a peer's closed connection ends the run within a second, and the others are told") {
  RunningCoordinator coordinator(3);
  auto dying = dial(coordinator.meeting, true, hello_of(1, coordinator.meeting.token), 5);
  auto other = dial(coordinator.meeting, true, hello_of(2, coordinator.meeting.token), 5);
  REQUIRE(dying);
  REQUIRE(other);
  dying->send(beat_in("allocate", 1, -1, Activity::own_work, 0.1));
  const double begin = tt::monotonic_seconds();
  dying.reset();
  const auto ending = coordinator.wait_for_end();
  REQUIRE(ending);
  REQUIRE(tt::monotonic_seconds() - begin < 5);
  REQUIRE(ending->end.rank == 1);
  REQUIRE(ending->end.code == ExitCode::environment);
  REQUIRE(
      contains(ending->end.reason, "rank 1 (host there, device host) died, last seen in phase \"allocate\""));
  bool told = false;
  for (int i = 0; i < 50 && !told; ++i) {
    for (const Message& message : other->receive())
      told = told || (message.kind == Kind::end && message.code == 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  REQUIRE(told);
}

TEST_CASE("a peer that sends garbage after its hello is a dead rank, not a crash") {
  RunningCoordinator coordinator(2);
  const Meeting& meeting = coordinator.meeting;
  Socket socket = raw_connection(meeting.port, encode(hello_of(1, meeting.token)));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  REQUIRE(::send(socket.fd(), "garbage garbage", 15, MSG_NOSIGNAL) == 15);
  const auto ending = coordinator.wait_for_end();
  REQUIRE(ending);
  REQUIRE(ending->end.rank == 1);
}

TEST_CASE("nobody at the meeting place: dialling gives up in time") {
  int port = 0;
  Socket deaf = listen_anywhere(8, port);  // accepts by the kernel, never answers
  const Meeting meeting{port, random_token(), "here", {"not-an-address", "127.0.0.1"}};
  const double begin = tt::monotonic_seconds();
  REQUIRE_FALSE(dial(meeting, false, hello_of(1, meeting.token), 0.5));
  REQUIRE(tt::monotonic_seconds() - begin < 3);
  REQUIRE_FALSE(dial(Meeting{1, "t", "h", {}}, false, hello_of(1, "t"), 5));
}

TEST_CASE("one process of a host claims the report") {
  const std::string token = random_token();
  Socket first, second, other;
  REQUIRE(claim(token, first));
  REQUIRE_FALSE(claim(token, second));
  REQUIRE(claim(random_token(), other));
  first = Socket();
  second = Socket();
  REQUIRE(claim(token, second));
}

// The watchdog's thread: waits for sockets, signals and the main thread's words, lets the role decide, and
// ends the process when it is over.
#include "common/watchdog.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/exit_guard.h"
#include "common/watchdog_role.h"
#include "common/world.h"

namespace tt {

using namespace watchdog;

namespace {

constexpr int kTick_ms = 100;
constexpr double kReportTime = 2.0;  // to print and write the record
constexpr double kJoinTime = 15.0;   // to reach the coordinator
constexpr double kFailAnswer = 6.0;  // the thread ends the process within this time after fail()

std::string host_name() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

// Signals that end the run. One that is ignored (nohup, a shell's background job) stays ignored: a blocked
// signal would come through all the same.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&set, number);
  }
  return set;
}

const char* prefix_of(ExitCode code) {
  return code == ExitCode::timeout ? "timeout" : code == ExitCode::skipped ? "skipped" : "error";
}

}  // namespace

struct Watchdog::Impl {
  Impl(Progress& progress_, double timeout_s);
  ~Impl();

  void loop();
  std::optional<Ending> step();
  std::optional<int> read_signal();
  Message beat(double now);
  void wake();
  void leave();
  [[noreturn]] void end(Ending ending);

  Progress& progress;
  const double timeout;
  Self self;
  Socket signals, words;  // signalfd; eventfd
  std::atomic<bool> stop{false};

  std::mutex mutex;  // guards what follows: the main thread's words to the watchdog's
  std::unique_ptr<Role> next_role;
  std::optional<EarlyEnd> failure;
  std::string device;
  std::function<void(const EarlyEnd&)> report;
  std::optional<ExitCode> final_code;
  double extended_until = 0;

  // The watchdog's thread's own:
  std::unique_ptr<Role> role;
  uint64_t moved_phase = 0;  // where the main thread was when it last moved
  int64_t moved_iteration = -1;
  double moved_at = 0;

  std::string trouble;  // the main thread's own
  std::thread thread;
};

Watchdog::Impl::Impl(Progress& progress_, double timeout_s) : progress(progress_), timeout(timeout_s) {
  const Launcher launcher = detect_launcher();
  self.rank = launcher.rank.value_or(0);
  self.size = launcher.size.value_or(launcher.name == "none" ? 1 : 2);
  self.host = host_name();
  role = std::make_unique<LoneRole>(self, self.rank == 0);
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals = Socket(signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  words = Socket(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!signals || !words)
    throw EnvironmentError(std::string("watchdog: signalfd or eventfd failed: ") + std::strerror(errno));
  thread = std::thread([this] { loop(); });
}

Watchdog::Impl::~Impl() {
  leave();
}

void Watchdog::Impl::leave() {
  stop = true;
  wake();
  if (thread.joinable()) thread.join();
}

void Watchdog::Impl::wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the thread is awake anyhow.
  [[maybe_unused]] const ssize_t n = write(words.fd(), &one, sizeof one);
}

std::optional<int> Watchdog::Impl::read_signal() {
  signalfd_siginfo info;
  if (read(signals.fd(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

Message Watchdog::Impl::beat(double now) {
  const Progress::Snapshot snapshot = progress.snapshot();
  Message mine;
  mine.kind = Kind::beat;
  mine.phase_number = snapshot.phase_number;
  mine.iteration = snapshot.iteration;
  mine.activity = snapshot.activity;
  mine.age_s = std::max(0.0, now - snapshot.phase_started);
  mine.limit_s = timeout;
  mine.text = snapshot.phase;
  if (mine.phase_number != moved_phase || mine.iteration != moved_iteration) {
    moved_phase = mine.phase_number;
    moved_iteration = mine.iteration;
    moved_at = now;
  }
  const std::lock_guard lock(mutex);
  if (timeout > 0 && snapshot.phase_started < extended_until) {
    // As long as its iterations go on, a soak is not stuck; one that stops is found within the usual time.
    if (mine.iteration >= 0)
      mine.age_s = std::min(mine.age_s, now - moved_at);
    else
      mine.limit_s = std::max(timeout, extended_until - snapshot.phase_started);
  }
  mine.rank = self.rank;
  mine.more = device;
  return mine;
}

std::optional<Ending> Watchdog::Impl::step() {
  const double now = monotonic_seconds();
  {
    const std::lock_guard lock(mutex);
    if (next_role) role = std::move(next_role);
    if (failure) role->failed(failure->code, failure->reason, now);
    failure.reset();
  }
  // Sockets before signals: a launcher signals the survivors when one rank has died, and may do so after an
  // end that we have been told of.
  std::optional<Ending> ending = role->step(now, beat(now));
  if (!ending)
    while (const auto number = read_signal()) role->signalled(*number, now);
  return ending;
}

void Watchdog::Impl::loop() {
  while (!stop) {
    std::vector<pollfd> fds = {{signals.fd(), POLLIN, 0}, {words.fd(), POLLIN, 0}};
    role->add_fds(fds);
    poll(fds.data(), fds.size(), kTick_ms);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = read(words.fd(), &count, sizeof count);
    if (stop) break;
    if (auto ending = step()) end(std::move(*ending));
  }
  role->leave();
}

void Watchdog::Impl::end(Ending ending) {
  EarlyEnd& early = ending.end;
  std::function<void(const EarlyEnd&)> write_record;
  {
    const std::lock_guard lock(mutex);
    const bool swept_away = ending.cause == Cause::signal || ending.cause == Cause::loss;
    if (final_code.value_or(ExitCode::pass) != ExitCode::pass && swept_away) {
      early.code = *final_code;
      ending.report = false;
    }
    write_record = report;
  }
  // Printing and writing may block (a full pipe, a dead file system): the process ends all the same.
  std::thread([code = early.code] {
    std::this_thread::sleep_for(std::chrono::duration<double>(kReportTime));
    exit_process(code);
  }).detach();
  if (ending.report) {
    std::fflush(stdout);
    std::fprintf(stderr, "%s: %s\n", prefix_of(early.code), early.reason.c_str());
    try {
      if (write_record) write_record(early);
    } catch (const std::exception& e) {
      // The record may be just what could not be written.
      if (early.reason.find(e.what()) == std::string::npos) std::fprintf(stderr, "error: %s\n", e.what());
    }
  }
  role->pass_on(ending);
  std::fflush(nullptr);
  exit_process(early.code);
}

Watchdog::Watchdog(Progress& progress, double timeout_s)
    : impl_(std::make_unique<Impl>(progress, timeout_s)) {}

Watchdog::~Watchdog() = default;

void Watchdog::join(const World& world) {
  impl_->progress.enter_phase("join the watchdogs");
  const ActivityScope waiting(impl_->progress, Activity::waiting);
  Self self = impl_->self;
  self.rank = world.rank();
  self.size = world.size();
  self.node = world.node();
  self.local_rank = world.local_rank();
  self.host = world.host();
  std::unique_ptr<Role> role;
  Meeting meeting;
  if (self.size == 1) {
    role = std::make_unique<LoneRole>(self, true);
  } else if (self.rank == 0) {
    raise_file_limit(self.size);
    Socket listener = listen_anywhere(std::max(128, self.size + 64), meeting.port);
    meeting.token = random_token();
    meeting.host = self.host;
    meeting.addresses = own_addresses();
    role = std::make_unique<CoordinatorRole>(self, std::move(listener), meeting.token);
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->self = self;
    impl_->next_role = std::move(role);
  }
  impl_->wake();
  if (self.size == 1) return;

  meeting = Meeting::parse(world.all().broadcast(meeting.text(), 0));
  double joined = 1;
  if (self.rank != 0) {
    Message hello;
    hello.kind = Kind::hello;
    hello.rank = self.rank;
    hello.text = meeting.token;
    hello.more = self.host;
    auto connection = dial(meeting, self.node == 0, hello, kJoinTime);
    joined = connection ? 1 : 0;
    if (connection)
      role = std::make_unique<PeerRole>(self, std::move(connection), meeting.token, meeting.host,
                                        monotonic_seconds());
    else
      role = std::make_unique<LoneRole>(self, false);
    const std::lock_guard lock(impl_->mutex);
    impl_->next_role = std::move(role);
  }
  impl_->wake();
  const std::vector<double> all = world.all().all_gather(std::span(&joined, 1));
  std::vector<int> apart;
  for (size_t r = 0; r < all.size(); ++r)
    if (all[r] == 0) apart.push_back(static_cast<int>(r));
  if (!apart.empty())
    impl_->trouble =
        fmt::format("ranks {} cannot reach port {} of {} ({}) and watch only themselves",
                    fmt::join(apart, ", "), meeting.port, meeting.host, fmt::join(meeting.addresses, ", "));
}

void Watchdog::set_device(const std::string& device) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->device = device;
  }
  impl_->wake();
}

std::string Watchdog::trouble() const {
  return impl_->trouble;
}

void Watchdog::on_early_end(std::function<void(const EarlyEnd&)> report) {
  const std::lock_guard lock(impl_->mutex);
  impl_->report = std::move(report);
}

void Watchdog::fail(ExitCode code, const std::string& reason) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->failure = EarlyEnd{code, reason, -1};
  }
  impl_->wake();
  std::this_thread::sleep_for(std::chrono::duration<double>(kFailAnswer));
  std::fprintf(stderr, "%s: %s\n", prefix_of(code), reason.c_str());
  exit_process(code);
}

void Watchdog::extend_phase(double seconds) {
  const double now = monotonic_seconds();
  const std::lock_guard lock(impl_->mutex);
  impl_->extended_until = now + seconds;
}

void Watchdog::ending(ExitCode code) {
  const std::lock_guard lock(impl_->mutex);
  impl_->final_code = code;
}

void Watchdog::leave() {
  impl_->leave();
}

}  // namespace tt

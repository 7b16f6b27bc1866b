#include "common/telemetry.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "common/clock.h"

namespace tt {
namespace {

constexpr double kStuckSeconds = 5;
constexpr size_t kMostSamples = 1 << 16;  // 1.8 h at 100 ms; then every second one goes
constexpr size_t kSeriesLength = 1000;

template <class T>
std::vector<T> every(const std::vector<T>& all, size_t stride) {
  std::vector<T> kept;
  for (size_t i = 0; i < all.size(); i += stride) kept.push_back(all[i]);
  return kept;
}

/// Mean of the readings that there are.
class Mean {
 public:
  void add(const std::optional<double>& value) {
    if (!value) return;
    sum_ += *value;
    ++n_;
  }
  std::optional<double> value() const { return n_ ? std::optional(sum_ / n_) : std::nullopt; }

 private:
  double sum_ = 0;
  int64_t n_ = 0;
};

void keep_max(std::optional<double>& most, const std::optional<double>& value) {
  if (value && (!most || *value > *most)) most = value;
}

std::optional<double> energy_by_counter(const std::vector<const TelemetrySample*>& inside) {
  std::optional<double> first, last;
  int64_t readings = 0;
  for (const TelemetrySample* s : inside) {
    if (!s->energy_J) continue;
    ++readings;
    if (!first) first = s->energy_J;
    if (last && *s->energy_J < *last) return std::nullopt;  // the counter was reset
    last = s->energy_J;
  }
  if (readings < 2) return std::nullopt;
  return *last - *first;
}

std::optional<double> energy_by_power(const std::vector<const TelemetrySample*>& inside) {
  double sum = 0;
  const TelemetrySample* before = nullptr;
  int64_t pieces = 0;
  for (const TelemetrySample* s : inside) {
    if (!s->power_W) continue;
    if (before) {
      sum += 0.5 * (*before->power_W + *s->power_W) * (s->t - before->t);
      ++pieces;
    }
    before = s;
  }
  return pieces ? std::optional(sum) : std::nullopt;
}

}  // namespace

TelemetrySummary summarize_samples(const std::vector<TelemetrySample>& samples, double t0, double t1) {
  std::vector<const TelemetrySample*> inside;
  for (const TelemetrySample& s : samples)
    if (s.t >= t0 && s.t <= t1) inside.push_back(&s);
  TelemetrySummary out;
  out.samples = static_cast<int64_t>(inside.size());
  Mean sm, mem, power, util, load;
  for (const TelemetrySample* s : inside) {
    sm.add(s->sm_MHz);
    mem.add(s->mem_MHz);
    power.add(s->power_W);
    util.add(s->gpu_util_percent);
    load.add(s->host_load);
    keep_max(out.power_max_W, s->power_W);
    keep_max(out.temperature_C, s->temperature_C);
    for (const std::string& reason : s->throttle)
      if (std::find(out.throttle.begin(), out.throttle.end(), reason) == out.throttle.end())
        out.throttle.push_back(reason);
  }
  out.sm_MHz = sm.value();
  out.mem_MHz = mem.value();
  out.power_W = power.value();
  out.gpu_util_percent = util.value();
  out.host_load = load.value();
  out.energy_J = energy_by_counter(inside);
  if (!out.energy_J) out.energy_J = energy_by_power(inside);
  out.throttled = !out.throttle.empty();
  return out;
}

/// Outlives the Sampler when the source is stuck: the thread holds a share of it.
struct Sampler::Shared {
  std::shared_ptr<TelemetrySource> source;
  std::string name;
  std::chrono::milliseconds interval{100};

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool stop = false, ended = false;
  std::optional<double> asked_at;  // a reading is under way since
  std::string trouble;
  std::vector<TelemetrySample> samples;

  std::thread thread;

  void run();
  bool take_one();
};

/// One reading, without the lock held while the source works. False when the source is given up.
bool Sampler::Shared::take_one() {
  const double asked = monotonic_seconds();
  {
    std::scoped_lock lock(mutex);
    asked_at = asked;
  }
  std::string failed;
  TelemetrySample sample;
  try {
    sample = source->sample();
    if (sample.t == 0) sample.t = 0.5 * (asked + monotonic_seconds());
  } catch (const std::exception& e) {
    failed = e.what();
    if (failed.empty()) failed = "unknown error";
  }
  std::scoped_lock lock(mutex);
  asked_at.reset();
  if (failed.empty() && monotonic_seconds() - asked > kStuckSeconds)
    failed = "took more than 5 s for a reading";
  if (!failed.empty()) {
    trouble = name + ": given up: " + failed;
    return false;
  }
  if (samples.size() >= kMostSamples) samples = every(samples, 2);
  samples.push_back(std::move(sample));
  return true;
}

void Sampler::Shared::run() {
  auto next = std::chrono::steady_clock::now();
  while (take_one()) {
    // Deadlines are absolute, so that the source's own time does not add up; those missed are left out.
    next = std::max(next + interval, std::chrono::steady_clock::now());
    std::unique_lock lock(mutex);
    if (changed.wait_until(lock, next, [this] { return stop; })) break;
  }
  std::scoped_lock lock(mutex);
  ended = true;
  changed.notify_all();
}

Sampler::Sampler(std::shared_ptr<TelemetrySource> source, int interval_ms)
    : shared_(std::make_shared<Shared>()) {
  if (!source) return;
  shared_->name = source->name();
  shared_->source = std::move(source);
  shared_->interval = std::chrono::milliseconds(std::max(1, interval_ms));
  shared_->thread = std::thread([shared = shared_] { shared->run(); });
}

Sampler::~Sampler() {
  if (!shared_->thread.joinable()) return;
  std::unique_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->changed.notify_all();
  const bool ended =
      shared_->changed.wait_for(lock, std::chrono::seconds(1), [this] { return shared_->ended; });
  // The handle is moved out, for the thread may hold the last share of what it stood in.
  std::thread thread = std::move(shared_->thread);
  lock.unlock();
  if (ended)
    thread.join();
  else
    thread.detach();
}

TelemetrySummary Sampler::summarize(double t0, double t1) const {
  std::scoped_lock lock(shared_->mutex);
  return summarize_samples(shared_->samples, t0, t1);
}

std::vector<TelemetrySample> Sampler::series() const {
  std::scoped_lock lock(shared_->mutex);
  const size_t n = shared_->samples.size();
  return every(shared_->samples, std::max<size_t>(1, (n + kSeriesLength - 1) / kSeriesLength));
}

std::string Sampler::source_name() const {
  return shared_->name;
}

std::string Sampler::trouble() const {
  std::scoped_lock lock(shared_->mutex);
  if (shared_->trouble.empty() && shared_->asked_at &&
      monotonic_seconds() - *shared_->asked_at > kStuckSeconds)
    return shared_->name + ": has not answered for more than 5 s";
  return shared_->trouble;
}

}  // namespace tt

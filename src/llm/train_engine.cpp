#include "src/llm/train_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace tt {
namespace {

constexpr double kNormTolerance = 1e-5;  // relative; the same sums in the same order on every rank

std::string join(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

TrainEngine::TrainEngine(Trainer& trainer, SampleSource& data, const Group& group,
                         const TrainEngineOptions& options, int64_t eval_every,
                         std::function<double()> evaluation)
    : trainer_(trainer),
      data_(data),
      group_(group),
      options_(options),
      eval_every_(evaluation ? eval_every : 0),
      evaluation_(std::move(evaluation)),
      counter_(trainer.context().device.allocate(sizeof(int64_t))) {
  pending_.method = "finite loss and gradient norm of every step";
  if (group.size() > 1) pending_.method += ", equal norms on all ranks";
  if (group.size() > 1 && options.hash_every > 0 && trainer.options().parallel != Parallel::fsdp)
    pending_.method += fmt::format(", equal replicas every {} steps", options.hash_every);
}

Row TrainEngine::describe() const {
  const TrainOptions& o = trainer_.options();
  Row row;
  row.group = fmt::format("{}/{}/{}", options_.tool, o.model.name, name_of(o.layout.precision));
  row.key = fmt::format("{}/B{}xA{}/S{}/{}/n{}", row.group, o.batch, o.grad_accum, o.seq, name_of(o.parallel),
                        group_.size());
  row.params = {{"model", o.model.name},
                {"layers", o.model.layers},
                {"precision", std::string(name_of(o.layout.precision))},
                {"parallel", std::string(name_of(o.parallel))},
                {"ranks", static_cast<int64_t>(group_.size())},
                {"batch", o.batch},
                {"seq_length", o.seq},
                {"grad_accum", o.grad_accum},
                {"global_batch", trainer_.global_batch()},
                {"recompute", std::string(name_of(o.recompute))}};
  row.main_metric = "tokens_per_s_per_gpu";
  return row;
}

int64_t TrainEngine::slots() const {
  return eval_every_ > 0 ? 1 : kSlots;  // an evaluation belongs behind its step
}

void TrainEngine::step(Stream&, int64_t i) {
  trainer_.step(i, data_);
  enqueued_ = i + 1;
}

void TrainEngine::prepare(Stream&, int64_t first, int64_t count) {
  collect();
  for (int64_t i = first; i < first + count; ++i) trainer_.poison(i);
}

Check TrainEngine::verify(Stream&, int64_t, int64_t count) {
  collect();
  Check check = pending_;
  check.checked = count;
  pending_.wrong = 0;
  pending_.first.reset();
  return check;
}

/// The loss of a step is what is left of it in the end; a weight that is not a number must show in it, in the
/// replicas' comparison, or both.
void TrainEngine::corrupt(Stream& stream, int64_t) {
  const Parameters::Own part = trainer_.parameters().own().front();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  trainer_.context().device.copy(part.master, &nan, sizeof(nan), stream);
  stream.synchronize();
  trainer_.poison(enqueued_ - 1);
}

void TrainEngine::wrong(int64_t step, double expected, double got) {
  ++pending_.wrong;
  if (!pending_.first) pending_.first = Mismatch{group_.rank(), step, 0, expected, got};
}

void TrainEngine::found(const std::string& text) {
  constexpr size_t kMost = 8;
  if (findings_.size() < kMost) findings_.push_back(text);
}

void TrainEngine::collect() {
  if (collected_ == enqueued_) return;
  trainer_.context().compute.synchronize();
  std::vector<StepResult> steps;
  for (int64_t i = std::max(collected_, enqueued_ - kSlots); i < enqueued_; ++i) {
    steps.push_back(trainer_.result(i));
    auto& seconds = phases_.emplace_back();
    for (int p = 0; p < kPhases; ++p)
      seconds[static_cast<size_t>(p)] = trainer_.timer().seconds(i, static_cast<Phase>(p));
  }
  const int64_t before = collected_;
  collected_ = enqueued_;
  for (const StepResult& s : steps) {
    results_.push_back(s);
    if (listener_) listener_(s);
  }
  require_finite(steps);
  if (group_.size() > 1) {
    compare_norms(steps);
    if (options_.hash_every > 0 && before / options_.hash_every != collected_ / options_.hash_every)
      compare_replicas(collected_ - 1);
  }
  if (eval_every_ > 0 && collected_ % eval_every_ == 0) evaluations_.push_back({collected_, evaluation_()});
}

void TrainEngine::require_finite(const std::vector<StepResult>& steps) {
  for (const StepResult& s : steps) {
    if (std::isfinite(s.loss) && std::isfinite(s.grad_norm)) continue;
    const bool loss = !std::isfinite(s.loss);
    if (findings_.empty())
      found(fmt::format("step {}: {} is {}; {}", s.step, loss ? "the loss" : "the gradient norm",
                        loss ? s.loss : s.grad_norm, first_bad_layer()));
    wrong(s.step, 0, loss ? s.loss : s.grad_norm);
  }
}

/// Where the last forward pass first made something that is not a number, on this rank.
std::string TrainEngine::first_bad_layer() {
  const TrainContext& c = trainer_.context();
  for (int64_t l = 0; l <= trainer_.options().model.layers; ++l) {
    const Matrix x = trainer_.model().residual(l);
    auto* const count = static_cast<int64_t*>(counter_.data());
    c.ops.count_nonfinite(x.data, x.type, x.count(), false, count, c.compute);
    int64_t bad = 0;
    c.device.copy(&bad, count, sizeof(bad), c.compute);
    c.compute.synchronize();
    if (bad > 0)
      return fmt::format("{} of {} values behind {} are not finite", bad, x.count(),
                         l == 0 ? std::string("the embedding") : "layer " + std::to_string(l - 1));
  }
  return "all layers' outputs are finite";
}

void TrainEngine::compare_norms(const std::vector<StepResult>& steps) {
  std::vector<double> mine;
  for (const StepResult& s : steps) mine.push_back(s.grad_norm);
  const std::vector<double> all = group_.all_gather(mine);
  const size_t n = steps.size(), ranks = static_cast<size_t>(group_.size());
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> norms;
    for (size_t r = 0; r < ranks; ++r) norms.push_back(all[r * n + i]);
    if (!std::all_of(norms.begin(), norms.end(), [](double x) { return std::isfinite(x); })) continue;
    const double median = *median_of(norms);
    std::vector<int> off;
    for (size_t r = 0; r < ranks; ++r)
      if (!(std::abs(norms[r] - median) <= kNormTolerance * median)) off.push_back(group_.world_ranks()[r]);
    if (off.empty()) continue;
    found(fmt::format("step {}: the gradient norm of {} differs from the others' ({:.9g}, median {:.9g})",
                      steps[i].step, join(off), norms[static_cast<size_t>(group_.rank())], median));
    if (!(std::abs(mine[i] - median) <= kNormTolerance * median)) wrong(steps[i].step, median, mine[i]);
  }
}

/// Replicas that have seen the same gradients are the same bits; the majority is right.
void TrainEngine::compare_replicas(int64_t step) {
  const Matrix replica = trainer_.parameters().replicated();
  if (!replica.data || replica.count() == 0) return;
  const TrainContext& c = trainer_.context();
  c.ops.hash(replica.data, static_cast<size_t>(replica.count()) * size_of(replica.type),
             static_cast<uint64_t*>(counter_.data()), c.compute);
  uint64_t hash = 0;
  c.device.copy(&hash, counter_.data(), sizeof(hash), c.compute);
  c.compute.synchronize();
  const std::string mine = fmt::format("{:016x}", hash);
  const std::vector<std::string> all = group_.all_gather(mine);
  std::map<std::string, int> votes;
  for (const std::string& h : all) ++votes[h];
  if (votes.size() == 1) return;
  const auto most = std::max_element(votes.begin(), votes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool majority = 2 * most->second > group_.size();
  std::vector<int> off;
  for (size_t r = 0; r < all.size(); ++r)
    if (!majority || all[r] != most->first) off.push_back(group_.world_ranks()[r]);
  found(fmt::format("after step {}: the weights of {} differ from the others'", step, join(off)));
  if (!majority || mine != most->first) wrong(step, 0, 1);
}

std::vector<Rate> TrainEngine::rates(double seconds) const {
  const double ranks = group_.size(), tokens = static_cast<double>(trainer_.tokens_per_step());
  const StepFlops f = step_flops(trainer_.options());
  const double tflops = f.model() * tokens / ranks / seconds / 1e12;
  std::vector<Rate> rates{{"tokens_per_s_per_gpu", tokens / ranks / seconds},
                          {"tokens_per_s", tokens / seconds},
                          {"samples_per_s", static_cast<double>(trainer_.global_batch()) / seconds},
                          {"tflops_per_gpu", tflops}};
  if (options_.peak_tflops) {
    rates.push_back({"mfu_percent", 100 * tflops / *options_.peak_tflops});
    rates.push_back(
        {"hfu_percent", 100 * f.hardware() * tokens / ranks / seconds / 1e12 / *options_.peak_tflops});
  }
  return rates;
}

std::vector<Metric> TrainEngine::phase_metrics(size_t first) const {
  std::vector<Metric> metrics;
  for (int p = 0; p < kPhases; ++p) {
    std::vector<double> ms;
    for (size_t i = first; i < phases_.size(); ++i) ms.push_back(1e3 * phases_[i][static_cast<size_t>(p)]);
    group_.all_max(ms);
    if (std::all_of(ms.begin(), ms.end(), [](double x) { return x == 0; })) continue;
    metrics.push_back({std::string(name_of(static_cast<Phase>(p))) + "_ms", summarize(ms)});
  }
  return metrics;
}

}  // namespace tt

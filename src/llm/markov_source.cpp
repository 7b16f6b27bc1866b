#include "src/llm/markov_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/device/random.h"

namespace tt {
namespace {

constexpr uint64_t kChainKey = 0x6d61726b6f76, kSampleKey = 0x73616d706c65;  // streams of their own

/// Numbers one after the other from a seed.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  double uniform() { return static_cast<double>(mix64(seed_, counter_++) >> 11) * 0x1p-53; }  // [0, 1)
  /// 0 … count - 1.
  size_t below(size_t count) { return static_cast<size_t>(uniform() * static_cast<double>(count)); }

 private:
  uint64_t seed_, counter_ = 0;
};

void shuffle(std::vector<uint32_t>& values, size_t first, Draws& draws) {
  for (size_t n = values.size() - first; n > 1; --n)
    std::swap(values[first + n - 1], values[first + draws.below(n)]);
}

/// Which of `count` probabilities a uniform number falls into.
size_t pick(const double* probability, size_t count, double uniform) {
  for (size_t j = 0; j + 1 < count; ++j) {
    if (uniform < probability[j]) return j;
    uniform -= probability[j];
  }
  return count - 1;
}

}  // namespace

MarkovSource::MarkovSource(int64_t vocabulary, uint64_t seed, const MarkovOptions& options)
    : states_(static_cast<size_t>(std::min(vocabulary, options.states))),
      successors_(std::min(states_, static_cast<size_t>(options.successors))),
      sample_seed_(mix64(seed, kSampleKey)) {
  Draws draws(mix64(seed, kChainKey ^ 1));
  for (size_t s = 0; s < states_; ++s) {  // one token from each of as many equal parts of the vocabulary
    const size_t first = s * static_cast<size_t>(vocabulary) / states_;
    const size_t end = (s + 1) * static_cast<size_t>(vocabulary) / states_;
    tokens_.push_back(static_cast<int32_t>(first + draws.below(end - first)));
  }
  make_chain(seed, options.spread);
  find_stationary();
  for (size_t s = 0; s < states_; ++s)
    for (size_t j = 0; j < successors_; ++j) {
      const double p = probability_[place(s, j)];
      entropy_ -= stationary_[s] * p * std::log(p);
    }
}

/// The first successor of each state is the next on a random ring through all, so that every state can be
/// reached from every other; the rest are any others.
void MarkovSource::make_chain(uint64_t seed, double spread) {
  Draws draws(mix64(seed, kChainKey));
  std::vector<uint32_t> ring(states_);
  std::iota(ring.begin(), ring.end(), 0u);
  shuffle(ring, 0, draws);
  next_.resize(states_ * successors_);
  probability_.resize(next_.size());
  for (size_t r = 0; r < states_; ++r) {
    const size_t s = ring[r];
    std::vector<uint32_t> others(states_);
    std::iota(others.begin(), others.end(), 0u);
    std::swap(others[0], others[ring[(r + 1) % states_]]);
    shuffle(others, 1, draws);
    std::copy_n(others.begin(), successors_, next_.begin() + static_cast<std::ptrdiff_t>(place(s, 0)));
    double sum = 0;
    for (size_t j = 0; j < successors_; ++j)
      sum += probability_[place(s, j)] = 1 + (spread - 1) * draws.uniform();
    for (size_t j = 0; j < successors_; ++j) probability_[place(s, j)] /= sum;
  }
}

/// Power iteration with (1 + P) / 2, which has the same fixed point and no periods.
void MarkovSource::find_stationary() {
  stationary_.assign(states_, 1.0 / static_cast<double>(states_));
  constexpr int kAtMost = 1'000'000;
  for (int round = 0; round < kAtMost; ++round) {
    std::vector<double> after(states_, 0.0);
    for (size_t s = 0; s < states_; ++s)
      for (size_t j = 0; j < successors_; ++j)
        after[next_[place(s, j)]] += stationary_[s] * probability_[place(s, j)];
    double change = 0, sum = 0;
    for (size_t s = 0; s < states_; ++s) {
      after[s] = (after[s] + stationary_[s]) / 2;
      change += std::abs(after[s] - stationary_[s]);
      sum += after[s];
    }
    for (double& p : after) p /= sum;
    stationary_ = std::move(after);
    if (change < 1e-15) return;
  }
}

void MarkovSource::read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) {
  Draws draws(mix64(sample_seed_, static_cast<uint64_t>(i)));
  size_t state = pick(stationary_.data(), states_, draws.uniform());
  for (size_t p = 0; p < inputs.size(); ++p) {
    inputs[p] = tokens_[state];
    state = next_[place(state, pick(&probability_[place(state, 0)], successors_, draws.uniform()))];
    targets[p] = tokens_[state];
  }
}

std::string MarkovSource::description() const {
  return fmt::format("{} states with {} successors each", states_, successors_);
}

}  // namespace tt

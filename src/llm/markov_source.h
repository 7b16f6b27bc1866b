// Text with a known entropy: a random Markov chain of order 1 on a few of the vocabulary's tokens, so that a
// model of any size can learn it in a few hundred steps, and never to better than its entropy.
#pragma once

#include <string>
#include <vector>

#include "src/llm/samples.h"

namespace tt {

struct MarkovOptions {
  int64_t states = 32;     // so many tokens occur; at most the vocabulary
  int64_t successors = 4;  // of each state; at most the states
  double spread = 4;       // how much likelier than the least likely successor another may be; 1: all alike
};

/// Each state, one token of the vocabulary, is followed by one of its successors with that one's probability.
/// The first token of a sample is drawn from the stationary distribution pi (pi = pi P), so every position
/// has the same distribution. A model that has read tokens 0 … t can predict token t + 1 with a mean loss of
/// no less than the entropy rate  H = sum_s pi_s sum_j -p_sj ln p_sj  (Cover and Thomas, Elements of
/// Information Theory, 4.2), and one that knows the chain has it at every position of a sample of any length.
class MarkovSource final : public SampleSource {
 public:
  /// The chain depends on vocabulary, seed and options alone, sample i on these and i.
  MarkovSource(int64_t vocabulary, uint64_t seed, const MarkovOptions& options = {});

  int64_t samples() const override { return int64_t{1} << 40; }
  void read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) override;

  /// H in nats per token: the mean loss, over any number of positions, of a model that knows the chain.
  double entropy() const { return entropy_; }
  /// "32 states with 4 successors each"
  std::string description() const;

 private:
  void make_chain(uint64_t seed, double spread);
  void find_stationary();
  size_t place(size_t state, size_t successor) const { return state * successors_ + successor; }

  size_t states_, successors_;
  uint64_t sample_seed_;
  std::vector<int32_t> tokens_;      // of each state
  std::vector<uint32_t> next_;       // [states, successors]
  std::vector<double> probability_;  // of these
  std::vector<double> stationary_;   // of each state
  double entropy_ = 0;
};

}  // namespace tt

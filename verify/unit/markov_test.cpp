// Sources of made-up tokens: what they claim about themselves is held against what they give.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "src/llm/markov_source.h"
#include "src/llm/synthetic_source.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

struct Sample {
  std::vector<int32_t> inputs, targets;
};
Sample sample(SampleSource& source, int64_t i, size_t seq) {
  Sample s{std::vector<int32_t>(seq, -9), std::vector<int32_t>(seq, -9)};
  source.read(i, s.inputs, s.targets);
  return s;
}

/// Conditional entropy of a target given its input, from counts over many samples; the estimate's bias is
/// about pairs / (2 n) (Miller 1955).
double counted_entropy(SampleSource& source, int64_t samples, size_t seq) {
  std::map<int32_t, std::map<int32_t, double>> pairs;
  for (int64_t i = 0; i < samples; ++i) {
    const Sample s = sample(source, i, seq);
    for (size_t p = 0; p < seq; ++p) pairs[s.inputs[p]][s.targets[p]] += 1;
  }
  double sum = 0;
  for (const auto& [input, targets] : pairs) {
    double all = 0;
    for (const auto& [target, count] : targets) all += count;
    for (const auto& [target, count] : targets) sum -= count * std::log(count / all);
  }
  return sum / (static_cast<double>(samples) * static_cast<double>(seq));
}

}  // namespace

TEST_CASE("a Markov source has the entropy that it states", "[markov]") {
  const int64_t vocabulary = GENERATE(2, 3, 10, 32000);
  const uint64_t seed = GENERATE(1, 77);
  MarkovSource source(vocabulary, seed);
  // -ln p of one pair has a deviation below 1 nat: of the mean over 400,000 below 0.002.
  REQUIRE(counted_entropy(source, 4000, 100) == Approx(source.entropy()).margin(0.008));
  REQUIRE(source.entropy() <= std::log(std::min<double>(4, static_cast<double>(vocabulary))));
}

TEST_CASE("a chain's entropy is that of its closed form", "[markov]") {
  for (const int64_t successors :
       {1, 2, 8}) {  // equally likely successors, whatever the stationary distribution
    MarkovSource source(500, 3, {.states = 20, .successors = successors, .spread = 1});
    REQUIRE(source.entropy() == Approx(std::log(static_cast<double>(successors))).margin(1e-12));
  }
  MarkovSource all(16, 5, {.states = 16, .successors = 16, .spread = 1});  // uniform over everything
  REQUIRE(all.entropy() == Approx(std::log(16.0)).epsilon(1e-12));
  MarkovSource one(1, 5);
  REQUIRE(one.entropy() == 0);
  REQUIRE(sample(one, 7, 3).targets == std::vector<int32_t>{0, 0, 0});
  MarkovSource two(2, 9);  // of two states with P(0->1) = a, P(1->0) = b: pi = (b, a) / (a + b)
  double count[2][2] = {};
  for (int64_t i = 0; i < 4000; ++i) {
    const Sample s = sample(two, i, 100);
    for (size_t p = 0; p < 100; ++p) count[s.inputs[p]][s.targets[p]] += 1;
  }
  const double a = count[0][1] / (count[0][0] + count[0][1]), b = count[1][0] / (count[1][0] + count[1][1]);
  const auto h = [](double p) { return -p * std::log(p) - (1 - p) * std::log(1 - p); };
  REQUIRE(two.entropy() == Approx((b * h(a) + a * h(b)) / (a + b)).margin(0.003));
}

TEST_CASE("a deterministic chain goes round all its states", "[markov]") {
  MarkovSource source(1000, 4, {.states = 12, .successors = 1, .spread = 1});
  const Sample s = sample(source, 0, 24);
  REQUIRE(std::set<int32_t>(s.inputs.begin(), s.inputs.end()).size() == 12);
  for (size_t p = 0; p < 12; ++p) REQUIRE(s.inputs[p] == s.inputs[p + 12]);
}

TEST_CASE("a sample begins as it goes on: in the stationary distribution", "[markov]") {
  MarkovSource source(64, 11);
  std::map<int32_t, double> first, last;
  constexpr int64_t kSamples = 40000;
  for (int64_t i = 0; i < kSamples; ++i) {
    const Sample s = sample(source, i, 6);
    first[s.inputs[0]] += 1;
    last[s.targets[5]] += 1;
  }
  REQUIRE(first.size() == 32);
  double distance = 0;  // the sum of 32 differences of about sqrt(2 p / n) each: 0.06
  for (const auto& [token, count] : first) distance += std::abs(count - last[token]) / kSamples;
  REQUIRE(distance < 0.09);
}

TEST_CASE("samples depend on seed and number alone", "[markov]") {
  MarkovSource markov(300, 1), markov_again(300, 1), markov_other(300, 2);
  SyntheticSource synthetic(300, 1), synthetic_again(300, 1), synthetic_other(300, 2);
  struct Trio {
    SampleSource &source, &again, &other;
  };
  for (const Trio& t :
       {Trio{markov, markov_again, markov_other}, Trio{synthetic, synthetic_again, synthetic_other}}) {
    sample(t.source, 5, 64);
    std::set<std::vector<int32_t>> seen;
    for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1} << 39, (int64_t{1} << 40) - 1}) {
      const Sample s = sample(t.source, i, 64);
      REQUIRE(i < t.source.samples());
      REQUIRE(s.inputs == sample(t.again, i, 64).inputs);
      REQUIRE(s.targets == sample(t.again, i, 64).targets);
      REQUIRE(s.inputs != sample(t.other, i, 64).inputs);
      REQUIRE(std::equal(s.inputs.begin() + 1, s.inputs.end(), s.targets.begin()));
      REQUIRE(seen.insert(s.inputs).second);  // no two samples, so no two ranks' either, are the same
    }
  }
}

TEST_CASE("synthetic tokens are uniform over the vocabulary", "[markov]") {
  SyntheticSource source(10, 3);
  std::vector<double> count(10, 0.0);
  for (int64_t i = 0; i < 1000; ++i)
    for (const int32_t id : sample(source, i, 100).targets) count.at(static_cast<size_t>(id)) += 1;
  double chi = 0;
  for (const double c : count) chi += (c - 1e4) * (c - 1e4) / 1e4;
  REQUIRE(chi < 27.9);  // 9 degrees of freedom: one seed in a thousand is beyond
  SyntheticSource one(1, 3);
  REQUIRE(sample(one, 0, 2).inputs == std::vector<int32_t>{0, 0});
}

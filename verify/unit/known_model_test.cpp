// The small models in verify/fixtures give here what transformers and PEFT computed from them: first logits,
// first gradients, every loss and gradient norm, final parameters.
#include <cmath>

#include "verify/unit/known_run.h"

using namespace tt;
using namespace tt::test;

namespace {

/// |got - expected| / |expected|, Euclidean norms.
double distance(const std::vector<float>& got, const std::vector<float>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

/// The fixtures' name of a parameter: without PEFT's prefix, with the adapter's name.
std::string known_name(const KnownModel& known, const std::string& what, std::string name) {
  constexpr std::string_view kPrefix = "base_model.model.", kEnd = ".weight";
  if (name.starts_with(kPrefix)) {
    name.erase(0, kPrefix.size());
    name.insert(name.size() - kEnd.size(), ".default");
  }
  INFO(what << name);
  REQUIRE(known.expected.find(what + name));
  return what + name;
}

void check_known(OpsBench& bench, const std::string& fixture) {
  INFO(fixture);
  const KnownModel known(fixture);
  KnownRun run(bench, known);
  CHECK(distance(run.logits(), known.expected.floats("logits_step0")) <= 1e-4);

  Trainer& trainer = run.trainer();
  const auto compare = [&](const std::string& what, Quantity quantity, double bound) {
    for (const TrainedPlace& place : trained_places(trainer.parameters().layout())) {
      const std::string name = known_name(known, what, place.spec->name);
      INFO(name);
      CHECK(distance(fetch(trainer.context(), trainer.parameters(), place, quantity),
                     known.expected.floats(name)) <= bound);
    }
  };
  trainer.gradients(0, run.samples());
  compare("grad_step0.", Quantity::gradient, 1e-4);

  const int64_t steps = known.facts.at("steps");
  for (int64_t i = 0; i < steps; ++i) {
    const double loss = run.losses(1)[0], norm = trainer.result(i).grad_norm;
    const double expected = known.facts.at("losses")[i], expected_norm = known.facts.at("grad_norms")[i];
    INFO("step " << i << ": loss " << loss << " for " << expected << ", norm " << norm << " for "
                 << expected_norm);
    CHECK(std::abs(loss - expected) <= 1e-4 * expected);
    CHECK(std::abs(norm - expected_norm) <= 1e-3 * expected_norm);
  }
  compare("final.", Quantity::master, 1e-3);
}

constexpr const char* kFixtures[] = {"llama3-tiny-full", "llama3-tiny-lora", "llama31-tiny-ropescaled-lora"};

}  // namespace

TEST_CASE("known models: logits, gradients, losses and final parameters on the host", "[known][llm]") {
  for (const char* fixture : kFixtures) on_host([&](OpsBench& bench) { check_known(bench, fixture); });
}
TEST_CASE("known models: logits, gradients, losses and final parameters on a GPU", "[.cuda]") {
  for (const char* fixture : kFixtures) on_cuda([&](OpsBench& bench) { check_known(bench, fixture); });
}

// A whole training run on one rank against the double-precision model: first gradients, and the losses and
// parameters of several steps, for models of different shapes and everything that must not change them.
#include <cmath>
#include <map>

#include "src/llm/trainer.h"
#include "src/llm/predict.h"
#include "verify/reference/llama_reference.h"
#include "verify/unit/alone.h"
#include "verify/unit/llm_fixture.h"

using namespace tt;
using namespace tt::test;

namespace {

ModelConfig model_of(bool tied, int64_t heads, int64_t kv_heads, int64_t head_dim) {
  ModelConfig c;
  c.name = "tiny";
  c.hidden = 16, c.intermediate = 24, c.layers = 2, c.vocabulary = 37;
  c.heads = heads, c.kv_heads = kv_heads, c.head_dim = head_dim;
  c.tied_embeddings = tied;
  c.rope.type = "llama3";
  c.rope.factor = 8;
  c.rope.original_max_position = 16;
  return c;
}

reference::LlamaDims dims_of(const ModelConfig& c) {
  reference::LlamaDims d;
  d.hidden = c.hidden, d.intermediate = c.intermediate, d.layers = c.layers, d.heads = c.heads;
  d.kv_heads = c.kv_heads, d.head_dim = c.head_dim, d.vocabulary = c.vocabulary;
  d.rms_eps = c.rms_eps;
  d.tied = c.tied_embeddings;
  d.rope = {
      c.rope.theta,           c.rope.type == "llama3", c.rope.factor,
      c.rope.low_freq_factor, c.rope.high_freq_factor, static_cast<double>(c.rope.original_max_position)};
  return d;
}

/// Tokens that are known everywhere; a few targets are left out if `masked`.
class TestSamples final : public SampleSource {
 public:
  TestSamples(int64_t seq, int64_t vocabulary, bool masked)
      : seq_(seq), vocabulary_(vocabulary), masked_(masked) {}
  int64_t samples() const override { return 1000; }
  bool masked() const override { return masked_; }
  void read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) override {
    for (int64_t s = 0; s < seq_; ++s) {
      inputs[static_cast<size_t>(s)] = token(i, s);
      const bool left_out = masked_ && (i * 7 + s * 3) % 5 < 2;
      targets[static_cast<size_t>(s)] = left_out ? -1 : token(i, s + 1);
    }
  }

 private:
  int32_t token(int64_t i, int64_t s) const {
    return static_cast<int32_t>((i * 31 + s * s * 17 + s * 5 + 3) % vocabulary_);
  }
  int64_t seq_, vocabulary_;
  bool masked_;
};

struct Case {
  std::string name;
  ModelConfig model;
  bool lora = false, masked = false;
  int64_t batch = 2, accum = 1;
};

TrainOptions options_of(const Case& c) {
  TrainOptions o;
  o.model = c.model;
  o.layout.train_all = !c.lora;
  if (c.lora) {
    o.layout.lora.resize(static_cast<size_t>(c.model.layers));
    for (auto& layer : o.layout.lora)
      for (const Linear l : {Linear::q, Linear::v, Linear::o, Linear::up, Linear::down})
        layer[static_cast<size_t>(l)] = LoraModule{3, 1.5};
    o.layout.lora[1][static_cast<size_t>(Linear::q)] = LoraModule{5, 0.25};
    o.layout.lora[0][static_cast<size_t>(Linear::v)].reset();
  }
  o.batch = c.batch, o.grad_accum = c.accum, o.seq = 9, o.steps = 4;
  o.optimizer = {1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5, Schedule::cosine, 1};
  return o;
}

/// Parameters that the engine and the reference share: by name alone.
Doubles values_of(const ParamSpec& spec) {
  uint64_t seed = 1;
  for (const char ch : spec.name) seed = seed * 131 + static_cast<unsigned char>(ch);
  Doubles values = normals(spec.count(), seed, 0.3);
  if (spec.shape.size() == 1)
    for (double& x : values) x += 1;
  return rounded(std::move(values), DType::f32);
}

FillParameter filler(const TrainContext& context) {
  return [context](const ParamSpec& spec, int64_t first, int64_t count, void* to, DType type) {
    const Doubles all = values_of(spec);
    std::vector<float> values(all.begin() + first, all.begin() + first + count);
    const Buffer wide = context.device.allocate(values.size() * sizeof(float));
    context.device.copy(wide.data(), values.data(), wide.bytes(), context.compute);
    context.ops.convert(wide.data(), DType::f32, to, type, count, context.compute);
    context.compute.synchronize();
  };
}

class Run {
 public:
  Run(OpsBench& bench, const TrainOptions& options, bool masked)
      : samples(options.seq, options.model.vocabulary, masked),
        trainer(bench.device(), bench.ops(), nullptr, alone(), bench.stream(), options, 2) {
    fill_parameters(trainer.context(), trainer.parameters(), true, true, filler(trainer.context()));
  }
  StepResult step(int64_t i) {
    trainer.poison(i);
    trainer.step(i, samples);
    trainer.context().compute.synchronize();
    return trainer.result(i);
  }
  std::map<std::string, std::vector<float>> fetch_all(Quantity quantity) {
    std::map<std::string, std::vector<float>> all;
    for (const TrainedPlace& place : trained_places(trainer.parameters().layout()))
      all[place.spec->name] = fetch(trainer.context(), trainer.parameters(), place, quantity);
    return all;
  }
  TestSamples samples;
  Trainer trainer;
};

/// The same run in double precision.
class Reference {
 public:
  Reference(const TrainOptions& options, bool masked)
      : options_(options), samples_(options.seq, options.model.vocabulary, masked) {
    LlamaRefs refs;
    for (const Unit& unit : llama_units(options.model, options.layout, refs))
      for (const bool trained : {true, false})
        for (const Block& block : trained ? unit.trained : unit.frozen)
          for (const ParamSpec& spec : block.params) {
            parameters[spec.name] = values_of(spec);
            if (trained) states_[spec.name] = {};
          }
    for (int64_t l = 0; l < options.model.layers && !options.layout.lora.empty(); ++l)
      for (int k = 0; k < kLinears; ++k)
        if (const auto& module = options.layout.lora[static_cast<size_t>(l)][static_cast<size_t>(k)])
          lora_["model.layers." + std::to_string(l) + "." + module_name(static_cast<Linear>(k))] =
              module->scale;
  }

  /// All micro-batches of step i as one batch.
  reference::LlamaResult gradients(int64_t i) {
    reference::LlamaBatch batch;
    batch.batch = options_.batch * options_.grad_accum;
    batch.seq = options_.seq;
    const size_t s = static_cast<size_t>(options_.seq), n = static_cast<size_t>(batch.batch) * s;
    batch.inputs.resize(n);
    batch.targets.resize(n);
    for (int64_t b = 0; b < batch.batch; ++b)
      samples_.read(i * batch.batch + b, std::span(batch.inputs).subspan(static_cast<size_t>(b) * s, s),
                    std::span(batch.targets).subspan(static_cast<size_t>(b) * s, s));
    return reference::llama(dims_of(options_.model), parameters, lora_, batch);
  }

  struct Step {
    double loss = 0, norm = 0;
  };
  Step step(int64_t i) {
    const reference::LlamaResult result = gradients(i);
    double squares = 0;
    for (const auto& [name, state] : states_)
      for (const double g : result.gradients.at(name)) squares += g * g;
    const double norm = std::sqrt(squares), factor = reference::clip_factor(norm, options_.optimizer.clip);
    const OptimizerOptions& o = options_.optimizer;
    const reference::AdamW rule{learning_rate(o, i, options_.steps), o.beta1, o.beta2, o.eps, o.weight_decay};
    for (auto& [name, state] : states_) {
      Doubles gradient = result.gradients.at(name);
      for (double& g : gradient) g *= factor;
      reference::adamw_step(rule, parameters.at(name), gradient, state);
    }
    return {result.loss, norm};
  }
  reference::Parameters parameters;

 private:
  TrainOptions options_;
  TestSamples samples_;
  reference::LoraScales lora_;
  std::map<std::string, reference::AdamWState> states_;
};

/// |got - expected| / |expected| in the Euclidean norm.
double relative_error(const std::vector<float>& got, const Doubles& expected) {
  REQUIRE(got.size() == expected.size());
  double off = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    off += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    size += expected[i] * expected[i];
  }
  return std::sqrt(off / size);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool lora : {false, true})
    for (const bool tied : {false, true}) {
      const std::string name = std::string(lora ? "lora" : "full") + (tied ? ", tied" : "");
      all.push_back({name + ", GQA", model_of(tied, 4, 2, 4), lora});
      all.push_back({name + ", head_dim is not hidden / heads, masked, accumulated", model_of(tied, 2, 1, 6),
                     lora, true, 1, 3});
    }
  return all;
}

void first_gradients(OpsBench& bench) {
  for (const Case& c : cases())
    for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::layer}) {
      TrainOptions options = options_of(c);
      options.recompute = recompute;
      INFO(c.name << ", recompute " << name_of(recompute));
      Run run(bench, options, c.masked);
      run.trainer.poison(0);
      run.trainer.gradients(0, run.samples);
      bench.stream().synchronize();
      const auto expected = Reference(options, c.masked).gradients(0);
      CHECK(run.trainer.result(0).loss == Approx(expected.loss).epsilon(1e-5));
      CHECK(run.trainer.result(0).tokens == expected.trained);
      for (const auto& [name, values] : run.fetch_all(Quantity::gradient)) {
        INFO(name);
        CHECK(relative_error(values, expected.gradients.at(name)) < 1e-5);
      }
    }
}

void several_steps(OpsBench& bench) {
  for (const Case& c : cases()) {
    const TrainOptions options = options_of(c);
    INFO(c.name);
    Run run(bench, options, c.masked);
    Reference reference(options, c.masked);
    for (int64_t i = 0; i < options.steps; ++i) {
      const StepResult got = run.step(i);
      const Reference::Step expected = reference.step(i);
      INFO("step " << i);
      CHECK(got.loss == Approx(expected.loss).epsilon(2e-5));
      CHECK(got.grad_norm == Approx(expected.norm).epsilon(1e-4));
    }
    for (const auto& [name, values] : run.fetch_all(Quantity::master)) {
      INFO(name);
      CHECK(relative_error(values, reference.parameters.at(name)) < 1e-4);
    }
  }
}

}  // namespace

TEST_CASE("a trainer allocates what is predicted", "[llm]") {
  OpsBench bench("host");
  for (const Case& c : cases())
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp8})
      for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::layer}) {
        TrainOptions options = options_of(c);
        options.recompute = recompute;
        options.layout.precision = precision;
        options.dropout = c.lora ? 0.1 : 0;
        INFO(c.name << ", " << name_of(precision) << ", recompute " << name_of(recompute));
        Run run(bench, options, c.masked);
        const MemoryPrediction expected = predict_memory(options, 1), got = measured_memory(run.trainer);
        CHECK(got.weights == expected.weights);
        CHECK(got.masters == expected.masters);
        CHECK(got.optimizer == expected.optimizer);
        CHECK(got.gradients == expected.gradients);
        CHECK(got.activations == expected.activations);
        CHECK(got.workspace == expected.workspace);
      }
}

TEST_CASE("a trainer's first gradients are the reference's", "[llm]") {
  on_host(first_gradients);
}
TEST_CASE("cuda: a trainer's first gradients are the reference's", "[.cuda]") {
  on_cuda(first_gradients);
}
TEST_CASE("a trainer's steps are the reference's", "[llm]") {
  on_host(several_steps);
}
TEST_CASE("cuda: a trainer's steps are the reference's", "[.cuda]") {
  on_cuda(several_steps);
}

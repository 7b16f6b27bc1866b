// Writes trained adapters and models with the logits they give here, for verify/e2e/test_peft.py to load with
// PEFT and transformers. Hidden: it is run with TT_WRITE_FILES naming the folder.
#include <cstdlib>

#include "src/llm/hf_write.h"
#include "src/llm/peft_write.h"
#include "src/llm/safetensors_write.h"
#include "verify/unit/alone.h"
#include "verify/unit/known_run.h"

using namespace tt;
using namespace tt::test;

namespace {

/// Ranks, alphas and modules that differ, and the rank-stabilised scale.
Adapter mixed(const ModelConfig& config) {
  Adapter adapter = make_adapter({4, 8, true, 0, {"all-linear"}}, config);
  const auto set = [&](size_t layer, Linear linear, int64_t rank, double alpha) {
    adapter.modules[layer][static_cast<size_t>(linear)] = LoraModule{rank, lora_scale(alpha, rank, true)};
    adapter.alpha[layer][static_cast<size_t>(linear)] = alpha;
  };
  set(1, Linear::q, 7, 20);
  set(1, Linear::v, 4, 2.5);
  adapter.modules[0][static_cast<size_t>(Linear::up)].reset();
  return adapter;
}

class Written {
 public:
  Written(const std::string& fixture, const std::string& kind)
      : known_(fixture), bench_("host"), folder_(known_.model()) {
    if (kind == "mixed") adapter_ = mixed(folder_.config());
    if (kind == "adapter") adapter_ = read_adapter(known_.adapter(), folder_.config());
    TrainOptions o = known_options(known_, folder_.config(), adapter_.modules);
    o.optimizer.lr = 1e-2;
    trainer_ =
        std::make_unique<Trainer>(bench_.device(), bench_.ops(), nullptr, alone(), bench_.stream(), o, 1);
    const TrainContext& context = trainer_->context();
    fill_parameters(context, trainer_->parameters(), kind == "full", true, folder_.fill(context));
    if (kind == "mixed")
      fill_parameters(context, trainer_->parameters(), true, false,
                      random_fill(context, 1, [](const ParamSpec& spec) { return initial_of(spec, 0.02); }));
    if (kind == "adapter")
      fill_parameters(context, trainer_->parameters(), true, false, adapter_.fill(context));
    KnownSamples samples(known_);
    for (int64_t i = 0; i < 3; ++i) trainer_->step(i, samples);
    context.compute.synchronize();
  }

  void write_model(const std::string& dir, DType type, int64_t shard_bytes) {
    write_hf_folder(trainer_->context(), trainer_->parameters(), folder_.config(), dir, type, shard_bytes);
  }
  void write_adapter_to(const std::string& dir) {
    write_adapter(trainer_->context(), trainer_->parameters(), folder_.config(), adapter_, dir,
                  known_.model());
  }
  /// Of the first micro-batch.
  void write_logits(const std::string& path) {
    KnownSamples samples(known_);
    const std::vector<float> logits = logits_of(*trainer_, samples);
    const int64_t vocabulary = folder_.config().vocabulary;
    SafetensorsWriter writer(
        path, {{"logits", DType::f32, {static_cast<int64_t>(logits.size()) / vocabulary, vocabulary}}});
    writer.append(logits);
    writer.finish();
  }

 private:
  KnownModel known_;
  OpsBench bench_;
  HfFolder folder_;
  Adapter adapter_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace

TEST_CASE("peft: files for PEFT and transformers to load", "[.peft_files]") {
  const char* const out = std::getenv("TT_WRITE_FILES");
  REQUIRE(out);
  const std::string dir = std::string(out) + "/";
  struct {
    const char *fixture, *kind, *name;
  } const cases[] = {{"llama3-tiny-lora", "adapter", "plain"},
                     {"llama31-tiny-ropescaled-lora", "adapter", "scaled"},
                     {"llama3-tiny-lora", "mixed", "mixed"}};
  for (const auto& c : cases) {
    Written written(c.fixture, c.kind);
    written.write_adapter_to(dir + c.name);
    written.write_logits(dir + c.name + ".safetensors");
  }
  Written full("llama3-tiny-full", "full");
  full.write_model(dir + "full", DType::f32, kShardBytes);
  full.write_model(dir + "shards", DType::bf16, 40000);
  full.write_logits(dir + "full.safetensors");
}

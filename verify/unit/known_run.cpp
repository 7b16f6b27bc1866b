#include "verify/unit/known_run.h"

#include "verify/unit/alone.h"

namespace tt::test {

TrainOptions known_options(const KnownModel& known, const ModelConfig& config, const LoraModules& lora) {
  const auto& adamw = known.facts.at("optimizer");
  TrainOptions o;
  o.model = config;
  o.layout.train_all = lora.empty();
  o.layout.lora = lora;
  o.batch = known.facts.at("batch"), o.seq = known.facts.at("seq");
  o.grad_accum = known.facts.at("grad_accum"), o.steps = known.facts.at("steps");
  o.optimizer.lr = adamw.at("lr"), o.optimizer.eps = adamw.at("eps");
  o.optimizer.beta1 = adamw.at("betas")[0], o.optimizer.beta2 = adamw.at("betas")[1];
  o.optimizer.weight_decay = adamw.at("weight_decay");
  return o;
}

KnownRun::KnownRun(OpsBench& bench, const KnownModel& known, const std::string& model,
                   const std::string& adapter)
    : folder_(model.empty() ? known.model() : model), samples_(known) {
  const bool full = known.facts.at("lora").is_null();
  if (!full) adapter_ = read_adapter(adapter.empty() ? known.adapter() : adapter, folder_.config());
  trainer_ = std::make_unique<Trainer>(bench.device(), bench.ops(), nullptr, alone(), bench.stream(),
                                       known_options(known, folder_.config(), adapter_.modules), 1);
  const TrainContext& context = trainer_->context();
  fill_parameters(context, trainer_->parameters(), full, true, folder_.fill(context));
  if (!full) fill_parameters(context, trainer_->parameters(), true, false, adapter_.fill(context));
}

std::vector<double> KnownRun::losses(int64_t steps) {
  std::vector<double> losses;
  for (int64_t i = 0; i < steps; ++i, ++step_) {
    trainer_->step(step_, samples_);
    trainer_->context().compute.synchronize();
    losses.push_back(trainer_->result(step_).loss);
  }
  return losses;
}

std::vector<float> logits_of(Trainer& trainer, KnownSamples& samples) {
  const TrainContext& context = trainer.context();
  std::vector<float> logits;
  trainer.model().visit_logits([&](int64_t, const Matrix& stretch) {
    REQUIRE(stretch.contiguous());
    REQUIRE(stretch.type == DType::f32);
    std::vector<float> values(static_cast<size_t>(stretch.count()));
    context.device.copy(values.data(), stretch.data, values.size() * sizeof(float), context.compute);
    context.compute.synchronize();
    logits.insert(logits.end(), values.begin(), values.end());
  });
  trainer.visit(0, samples);
  context.compute.synchronize();
  trainer.model().visit_logits({});
  return logits;
}

}  // namespace tt::test

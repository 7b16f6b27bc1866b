// A training run of one of the small models with known results, from its files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/llm/hf_folder.h"
#include "src/llm/peft.h"
#include "src/llm/trainer.h"
#include "verify/unit/llm_files.h"
#include "verify/unit/llm_fixture.h"

namespace tt::test {

/// The settings that a model's known results were made with.
TrainOptions known_options(const KnownModel& known, const ModelConfig& config, const LoraModules& lora);

/// Of the first micro-batch, as the model is now: [tokens, vocabulary].
std::vector<float> logits_of(Trainer& trainer, KnownSamples& samples);

class KnownRun {
 public:
  /// With files of its own or, where a folder is named, those in their place.
  KnownRun(OpsBench& bench, const KnownModel& known, const std::string& model = "",
           const std::string& adapter = "");

  /// Takes so many steps and returns their losses.
  std::vector<double> losses(int64_t steps);
  std::vector<float> logits() { return logits_of(*trainer_, samples_); }

  const HfFolder& folder() const { return folder_; }
  const Adapter& adapter() const { return adapter_; }  // without modules in a full training
  Trainer& trainer() { return *trainer_; }
  KnownSamples& samples() { return samples_; }

 private:
  HfFolder folder_;
  Adapter adapter_;
  KnownSamples samples_;
  std::unique_ptr<Trainer> trainer_;
  int64_t step_ = 0;
};

}  // namespace tt::test

// Uniformly random tokens: nothing to learn, for measuring speed.
#pragma once

#include "src/llm/samples.h"

namespace tt {

/// Each token depends on (seed, sample, position) alone. 2^40 samples: no run comes to the end of them.
class SyntheticSource final : public SampleSource {
 public:
  SyntheticSource(int64_t vocabulary, uint64_t seed);
  int64_t samples() const override { return int64_t{1} << 40; }
  void read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) override;

 private:
  uint64_t vocabulary_, seed_;
};

}  // namespace tt

#include "src/llm/synthetic_source.h"

#include "src/device/random.h"

namespace tt {

SyntheticSource::SyntheticSource(int64_t vocabulary, uint64_t seed)
    : vocabulary_(static_cast<uint64_t>(vocabulary)), seed_(seed) {}

void SyntheticSource::read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) {
  const uint64_t key = mix64(seed_, static_cast<uint64_t>(i));
  // The topmost 32 bits, scaled to 0 … vocabulary - 1.
  const auto token = [&](size_t position) {
    return static_cast<int32_t>(((mix64(key, position) >> 32) * vocabulary_) >> 32);
  };
  for (size_t p = 0; p < inputs.size(); ++p) {
    inputs[p] = token(p);
    targets[p] = token(p + 1);
  }
}

}  // namespace tt

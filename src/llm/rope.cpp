#include <cmath>
#include <numbers>

#include "src/llm/model_config.h"

namespace tt {
namespace {

/// transformers' _compute_llama3_parameters: waves longer than original / low_freq_factor are slowed down by
/// `factor`, those shorter than original / high_freq_factor stay, and in between the two are blended.
double scaled_frequency(const RopeConfig& rope, double frequency) {
  if (rope.type != "llama3") return frequency;
  const double turns = static_cast<double>(rope.original_max_position) * frequency / (2 * std::numbers::pi);
  if (turns > rope.high_freq_factor) return frequency;
  if (turns < rope.low_freq_factor) return frequency / rope.factor;
  const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<float> rope_table(const RopeConfig& rope, int64_t head_dim, int64_t seq) {
  const int64_t half = head_dim / 2;
  std::vector<float> table(static_cast<size_t>(seq * head_dim));
  for (int64_t i = 0; i < half; ++i) {
    const double exponent = -2 * static_cast<double>(i) / static_cast<double>(head_dim);
    const double frequency = scaled_frequency(rope, std::pow(rope.theta, exponent));
    for (int64_t position = 0; position < seq; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      float* row = table.data() + position * head_dim;
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace tt

// What is trained on: samples of a sequence's inputs and the targets that belong to them.
#pragma once

#include <cstdint>
#include <span>

namespace tt {

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// How many there are; the caller goes round after the last. Never 0.
  virtual int64_t samples() const = 0;
  /// Whether some targets may be negative (not trained): the loss's denominator then has to be counted.
  virtual bool masked() const { return false; }
  /// Fills both from sample i < samples(); they are of the sequence length that the source was made for.
  virtual void read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) = 0;
};

}  // namespace tt

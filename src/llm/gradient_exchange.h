// The gradients' way over the ranks: bucket by bucket while the backward pass goes on (Li et al. 2020,
// "PyTorch Distributed"; Rajbhandari et al. 2020), summed. All-reduce in ddp, reduce-scatter where optimiser
// states are sharded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/llm/parameters.h"

namespace tt {

class GradientExchange {
 public:
  /// `overlap` false: everything is exchanged after the backward pass, in the compute stream.
  GradientExchange(const TrainContext& context, Parameters& parameters, bool overlap);

  /// The unit's gradients of the last micro-batch are enqueued: buckets that are complete with it are sent
  /// off.
  void unit_ready(int unit);
  /// What is computed after this has all sums.
  void finish();

  /// Bytes that this rank puts into collectives per step.
  int64_t bytes_per_step() const;

  /// Fault injection: this rank's contribution to this bucket (mod their number) is lost.
  void drop_bucket(int64_t bucket) { dropped_ = bucket; }
  /// Fault injection: after the exchange this rank's gradients are multiplied by `factor`.
  void spoil(float factor) { spoilt_ = factor; }

 private:
  void send(const Bucket& bucket, Stream& stream);

  TrainContext context_;
  Parameters& parameters_;
  bool overlap_;
  std::unique_ptr<Event> ready_, done_;
  std::vector<const Bucket*> waiting_;  // overlap off: to be sent at the end
  std::optional<int64_t> dropped_;
  std::optional<float> spoilt_;
};

}  // namespace tt

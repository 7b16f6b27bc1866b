// A model's parameters on this rank: where they are stored, whole or sharded, and how a unit's are made whole
// while it computes.
//
//   ddp    everything whole on every rank
//   zero1  masters (f32) and optimiser states sharded; the copies that are computed with and the gradients
//   whole
//          (Rajbhandari et al. 2020, P_os)
//   fsdp   all sharded, frozen ones too; a unit is gathered before use, the next one while it computes, and
//   forgotten
//          after use (ZeRO-3)
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/comm/comm.h"
#include "src/device/device.h"
#include "src/llm/ops.h"
#include "src/llm/step_timer.h"
#include "src/llm/units.h"

namespace tt {

enum class Parallel { ddp, zero1, fsdp };
const char* name_of(Parallel parallel) noexcept;
/// "ddp", "zero1", "fsdp".
Parallel parse_parallel(std::string_view option, std::string_view text);

enum class Pass { forward, backward };

/// A block of a unit.
struct BlockRef {
  int unit = -1;
  bool trained = false;
  int index = 0;
  explicit operator bool() const { return unit >= 0; }
};

/// The devices and queues that training works with. All outlive what is made of them.
struct TrainContext {
  Device& device;
  Ops& ops;
  Comm* comm = nullptr;  // null: one rank
  Stream& compute;
  Stream& exchange;  // a stream of its own for collectives
  StepTimer& timer;

  int ranks() const { return comm ? comm->size() : 1; }
  int rank() const { return comm ? comm->rank() : 0; }
};

class Parameters {
 public:
  /// `layout` was made for ranks() shards, in ddp for one. `compute`: what trained parameters are computed
  /// with, f32 or bf16. `keep_gradients`: gradients of all units stay until the step's end (several
  /// micro-batches).
  Parameters(const TrainContext& context, FlatLayout layout, Parallel parallel, DType compute,
             bool keep_gradients);

  const FlatLayout& layout() const { return layout_; }
  Parallel parallel() const { return parallel_; }
  DType compute_type() const { return compute_; }
  const Block& block(BlockRef ref) const;

  /// Between these the unit's weights can be used in the context's compute stream, and in the backward pass
  /// its gradients; they are zero at first (or hold what earlier micro-batches added, with keep_gradients).
  /// `next`: the unit that will be held afterwards, or -1.
  void hold(int unit, Pass pass, int next);
  void release(int unit);

  /// Valid while the unit is held. A frozen block of 8 bits has its scale.
  Matrix weight(BlockRef ref) const;
  /// f32; empty (data null) for a frozen block.
  Matrix gradient(BlockRef ref) const;

  /// What this rank's optimiser works on: of each bucket its own part. `copy` is what is computed with; null
  /// where that is the master itself.
  struct Own {
    int64_t flat = 0, count = 0;  // flat elements
    float* master = nullptr;
    const float* grad = nullptr;
    void* copy = nullptr;
    int64_t shard = 0;  // offset of the part in arrays of shard_count() elements
  };
  std::vector<Own> own() const;

  /// The whole gradient of a bucket, to be exchanged; and where this rank's part of the sum belongs.
  float* whole_gradient(const Bucket& bucket) const;
  float* own_gradient(const Bucket& bucket) const;
  void zero_gradients();

  /// After an optimiser step: the new parameters reach all ranks (zero1: now, in the compute stream; fsdp:
  /// when they are gathered next).
  void spread();

  /// What every rank should hold alike: all copies that are computed with, with their padding. Empty under
  /// fsdp.
  Matrix replicated() const;

  // ---- for loading and saving (weights.h) ----
  float* masters() const { return static_cast<float*>(master_.data()); }
  /// This rank's bytes of a unit's frozen part: all of it, or under fsdp the rank's n-th.
  char* frozen_bytes(int unit) const;
  int64_t frozen_share(int unit) const;  // how many bytes that is
  float* frozen_scale(BlockRef ref) const;
  /// Fills the copies from the masters, and spreads them.
  void refresh_copies();

  /// Bytes held: weights (copies, frozen, masters), gradients, gather buffers.
  struct Memory {
    int64_t masters = 0, copies = 0, frozen = 0, gradients = 0, gathered = 0;
  };
  Memory memory() const;

 private:
  /// A place where a unit is put together (fsdp).
  struct Slot {
    int unit = -1;
    bool held = false;
    int64_t age = 0;  // when it was last used
    Buffer trained, frozen;
    std::unique_ptr<Event> ready, free;
  };
  /// Where a unit's gradient is collected (fsdp without keep_gradients).
  struct GradSlot {
    int unit = -1;
    Buffer grad;
    std::unique_ptr<Event> free;
  };
  bool sharded() const { return parallel_ == Parallel::fsdp; }
  bool copies_are_masters() const { return compute_ == DType::f32 && parallel_ == Parallel::ddp; }
  Slot& gather(int unit);
  Slot* find_slot(int unit);
  void hold_gradient(int unit);
  const GradSlot& grad_slot(int unit) const;
  const Bucket& bucket_of_unit(int unit) const;

  TrainContext context_;
  FlatLayout layout_;
  Parallel parallel_;
  DType compute_;
  bool keep_gradients_;
  Buffer master_, copy_, grad_, own_grad_, frozen_, scales_;
  std::vector<int64_t> frozen_offset_;  // by unit, in frozen_
  std::vector<int> first_scale_;        // by unit
  std::vector<Slot> slots_;
  std::array<GradSlot, 2> grad_slots_;
  int64_t clock_ = 0;

  friend class GradientExchange;
};

}  // namespace tt

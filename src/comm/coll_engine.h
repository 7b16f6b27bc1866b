// One collective of one size as an engine, the same for all operations (src/comm/coll_op.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/engine.h"
#include "common/group.h"
#include "src/comm/coll_op.h"
#include "src/comm/comm.h"
#include "src/comm/pattern.h"
#include "src/comm/step_graph.h"

namespace tt {

/// Two areas of device memory of one size, for the send and receive buffers of all sizes of a sweep;
/// registered as a whole.
class CollArena {
 public:
  /// `register_as`: 0 not, 1 local (-R 1), 2 symmetric (-R 2). The comm, the device and the arena end in the
  /// order arena, comm, device. Collective when registering.
  CollArena(Comm& comm, Device& device, size_t bytes_each, int register_as);
  char* send() const { return static_cast<char*>(send_); }
  char* recv() const { return static_cast<char*>(recv_); }
  size_t bytes_each() const { return bytes_; }

 private:
  void* take(Comm& comm, Device& device, Buffer& own) const;
  size_t bytes_;
  Buffer own_send_, own_recv_;  // where the comm has no memory of its own
  void *send_ = nullptr, *recv_ = nullptr;
};

/// -z: what follows an operation.
enum class Blocking { none = 0, wait_and_barrier = 1, wait = 2, barrier_per_step = 3 };

struct CollSpec {
  Collective op = Collective::all_reduce;
  DType type = DType::f32;
  ReduceOp redop = ReduceOp::sum;
  int root = 0;
  size_t bytes = 0;  // as asked for; counts_of() rounds
  bool in_place = false;
  int64_t aggregate = 1;  // -m: operations in one launch
  int64_t unalign = 0;    // -u: elements by which the buffers are off their alignment
  Blocking blocking = Blocking::none;
  int64_t graph_steps = 0;  // -G: steps in one recorded graph; 0: no graph
  uint64_t seed = 1;
  std::string key_suffix;  // "/ranks=2": what else tells this row from others
};

/// Bytes between the buffers of two operations, and how many operations' buffers fit into an arena.
size_t slot_stride(const CollSpec& spec, int ranks) noexcept;
int64_t slots_in(const CollSpec& spec, int ranks, size_t arena_bytes) noexcept;
/// The least arena for this: one buffer, or those of all aggregated operations where using one again would
/// change what comes out (reductions in place).
size_t least_arena(const CollSpec& spec, int ranks) noexcept;

/// The row's key, "all_reduce/float/sum/1048576/out-of-place", and its key without the size.
std::string row_group(const CollSpec& spec);
std::string row_key(const CollSpec& spec, int ranks);

/// A step is spec.aggregate operations in one group (and with a graph, graph_steps times that). Each
/// operation has buffers of its own in the arena as far as it is large enough; data differ by operation, so
/// that a result of another iteration is found.
class CollEngine final : public Engine {
 public:
  /// The references outlive the engine. `stream` is where work goes: what step() and the others are given is
  /// the same queue, perhaps with another notion of time.
  CollEngine(const CollSpec& spec, const Group& group, Comm& comm, Device& device, Stream& stream,
             CollArena& arena, PatternRunner& runner);

  Row describe() const override;
  void step(Stream&, int64_t i) override;
  int64_t slots() const override;
  bool goes_round() const override { return !spec_.in_place; }
  void prepare(Stream&, int64_t first, int64_t count) override;
  Check verify(Stream&, int64_t first, int64_t count) override;
  void corrupt(Stream&, int64_t i) override;
  std::vector<Rate> rates(double seconds) const override;
  bool collective() const override { return true; }
  int64_t operations() const override;

 private:
  int64_t slot_of(int64_t operation) const { return operation % ring_; }
  char* send_buffer(int64_t slot) const;
  char* recv_buffer(int64_t slot) const;
  char* output(int64_t slot) const;
  Pattern pattern_of_operation(int64_t operation) const;
  void fill(int64_t operation);
  void run_operations(int64_t first);
  void record();
  Mismatch describe_mismatch(int64_t operation, int64_t at) const;

  CollSpec spec_;
  const Group& group_;
  Comm& comm_;
  Device& device_;
  Stream& stream_;
  CollArena& arena_;
  PatternRunner& runner_;
  CollCounts counts_;
  CollOutput output_;
  size_t stride_ = 0;
  int64_t ring_ = 1;      // operations with buffers of their own
  bool refresh_ = false;  // inputs are made anew for each use, not once per slot
  Pattern pattern_;
  std::vector<bool> filled_;  // by slot
  std::unique_ptr<StepGraph> graph_;
};

}  // namespace tt

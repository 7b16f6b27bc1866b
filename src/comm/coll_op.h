// The nine collectives as data: what they are called, how much each rank sends and receives, where in-place
// data lies, what comes out, and what their bus bandwidth is. Counts and factors are those of nccl-tests
// (doc/PERFORMANCE.md).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/comm/comm.h"
#include "src/comm/pattern.h"

namespace tt {

enum class Collective {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  alltoall,
  sendrecv,
  gather,
  scatter
};

const char* name_of(Collective op) noexcept;  // "all_reduce"; the executable is this and "_perf"
std::vector<Collective> all_collectives();
std::vector<std::string> collective_names();
std::optional<Collective> find_collective(std::string_view name);

bool reduces(Collective op) noexcept;  // takes a ReduceOp
bool has_root(Collective op) noexcept;
bool has_in_place(Collective op) noexcept;  // alltoall and sendrecv have none

/// Elements. send, recv: the buffers of one rank (for rooted operations those of the root). count: what the
/// call is given. send_at, recv_at: where in the one buffer of an in-place call rank r's send and recv begin
/// is r times this.
struct CollCounts {
  size_t send = 0, recv = 0, count = 0;
  size_t send_at = 0, recv_at = 0;
};

/// Of a size in bytes. Operations with one block per rank round the block down to whole 16 bytes, as
/// nccl-tests does, so a small size over many ranks is 0.
CollCounts counts_of(Collective op, size_t bytes, DType type, int ranks) noexcept;

/// The bytes that the table's size column shows and algbw is about: the larger of send and recv.
size_t size_bytes(Collective op, const CollCounts& counts, DType type) noexcept;

/// busbw / algbw: with S bytes in t seconds each of n ranks must move at least factor * S bytes over its
/// link.
///
/// all_reduce: 2 (n-1)/n, since (n-1)/n of S comes in to be summed and as much goes out summed.
///
/// all_gather, reduce_scatter, alltoall, gather, scatter: (n-1)/n, since a rank's own block stays.
///
/// broadcast, reduce, sendrecv: 1.
///
/// One rank has no bus: nullopt, never 0.
std::optional<double> bus_factor(Collective op, int ranks) noexcept;

/// What a rank of a group has to hold after the operation.
struct CollOutput {
  size_t at = 0;     // first element, from the begin of the recv buffer (in place: of the one buffer)
  size_t count = 0;  // elements
  Expect expect;
};
CollOutput output_of(Collective op, const CollCounts& counts, int rank, int ranks, int root,
                     bool in_place) noexcept;

/// True when this rank's input takes part.
bool has_input(Collective op, int rank, int root) noexcept;

/// Enqueues the operation once; `redop` is of use to reductions, `root` to rooted operations only.
void launch(Collective op, Comm& comm, const void* send, void* recv, size_t count, DType type, ReduceOp redop,
            int root, Stream& stream);

}  // namespace tt

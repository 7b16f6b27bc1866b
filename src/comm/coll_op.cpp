#include "src/comm/coll_op.h"

#include <algorithm>
#include <array>

namespace tt {
namespace {

/// How a block per rank lies: none (whole buffer everywhere), in recv (gathering), in send (scattering), in
/// both.
enum class Blocks { none, in_recv, in_send, both };

struct Traits {
  Collective op;
  const char* name;
  Blocks blocks;
  bool reduces, has_root, has_in_place;
};

constexpr std::array<Traits, 9> kTraits{{
    {Collective::all_reduce, "all_reduce", Blocks::none, true, false, true},
    {Collective::all_gather, "all_gather", Blocks::in_recv, false, false, true},
    {Collective::reduce_scatter, "reduce_scatter", Blocks::in_send, true, false, true},
    {Collective::broadcast, "broadcast", Blocks::none, false, true, true},
    {Collective::reduce, "reduce", Blocks::none, true, true, true},
    {Collective::alltoall, "alltoall", Blocks::both, false, false, false},
    {Collective::sendrecv, "sendrecv", Blocks::none, false, false, false},
    {Collective::gather, "gather", Blocks::in_recv, false, true, true},
    {Collective::scatter, "scatter", Blocks::in_send, false, true, true},
}};

constexpr const Traits& traits(Collective op) noexcept {
  return kTraits[static_cast<size_t>(op)];
}

/// The root's output of a rooted operation; other ranks' buffers must be as they were.
CollOutput untouched(const CollCounts& c, int rank, bool in_place, bool own_block) noexcept {
  const size_t at = own_block ? static_cast<size_t>(rank) * c.count : 0;
  if (!in_place) return {0, c.recv, {Expect::Kind::untouched, 0, 1, 0}};
  // The input is all that a non-root's buffer holds.
  return {at, c.count, {Expect::Kind::copied, rank, std::max<size_t>(c.count, 1), 0}};
}

}  // namespace

const char* name_of(Collective op) noexcept {
  return traits(op).name;
}
bool reduces(Collective op) noexcept {
  return traits(op).reduces;
}
bool has_root(Collective op) noexcept {
  return traits(op).has_root;
}
bool has_in_place(Collective op) noexcept {
  return traits(op).has_in_place;
}

std::vector<Collective> all_collectives() {
  std::vector<Collective> all;
  for (const Traits& t : kTraits) all.push_back(t.op);
  return all;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const Traits& t : kTraits) names.emplace_back(t.name);
  return names;
}

std::optional<Collective> find_collective(std::string_view name) {
  for (const Traits& t : kTraits)
    if (name == t.name) return t.op;
  return std::nullopt;
}

CollCounts counts_of(Collective op, size_t bytes, DType type, int ranks) noexcept {
  const size_t element = size_of(type), n = static_cast<size_t>(ranks), count = bytes / element;
  const Blocks blocks = traits(op).blocks;
  if (blocks == Blocks::none) return {count, count, count, 0, 0};
  const size_t block = count / n / (16 / element) * (16 / element);
  CollCounts c{block, block, block, 0, 0};
  if (blocks != Blocks::in_recv) c.send = block * n;
  if (blocks != Blocks::in_send) c.recv = block * n;
  if (blocks == Blocks::in_recv) c.send_at = block;
  if (blocks == Blocks::in_send) c.recv_at = block;
  return c;
}

size_t size_bytes(Collective, const CollCounts& counts, DType type) noexcept {
  return std::max(counts.send, counts.recv) * size_of(type);
}

std::optional<double> bus_factor(Collective op, int ranks) noexcept {
  if (ranks < 2) return std::nullopt;
  const double n = ranks;
  switch (op) {
    case Collective::all_reduce:
      return 2 * (n - 1) / n;
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::sendrecv:
      return 1.0;
    default:
      return (n - 1) / n;
  }
}

CollOutput output_of(Collective op, const CollCounts& c, int rank, int ranks, int root,
                     bool in_place) noexcept {
  using Kind = Expect::Kind;
  const size_t mine = static_cast<size_t>(rank) * c.count, block = std::max<size_t>(c.count, 1);
  switch (op) {
    case Collective::all_reduce:
      return {0, c.recv, {Kind::reduced, 0, 1, 0}};
    case Collective::reduce:
      return rank == root ? CollOutput{0, c.recv, {Kind::reduced, 0, 1, 0}}
                          : untouched(c, rank, in_place, false);
    case Collective::reduce_scatter:
      return {in_place ? mine : 0, c.recv, {Kind::reduced, 0, 1, mine}};
    case Collective::all_gather:
      return {0, c.recv, {Kind::copied, 0, block, 0}};
    case Collective::gather:
      return rank == root ? CollOutput{0, c.recv, {Kind::copied, 0, block, 0}}
                          : untouched(c, rank, in_place, true);
    case Collective::broadcast:
      return {0, c.recv, {Kind::copied, root, block, 0}};
    case Collective::scatter:
      return {in_place ? mine : 0, c.recv, {Kind::copied, root, block, mine}};
    case Collective::alltoall:
      return {0, c.recv, {Kind::copied, 0, block, mine}};
    case Collective::sendrecv:
      return {0, c.recv, {Kind::copied, (rank + ranks - 1) % ranks, block, 0}};
  }
  return {};
}

bool has_input(Collective op, int rank, int root) noexcept {
  return rank == root || !(op == Collective::broadcast || op == Collective::scatter);
}

void launch(Collective op, Comm& comm, const void* send, void* recv, size_t count, DType type, ReduceOp redop,
            int root, Stream& s) {
  const int n = comm.size(), rank = comm.rank();
  switch (op) {
    case Collective::all_reduce:
      return comm.all_reduce(send, recv, count, type, redop, s);
    case Collective::all_gather:
      return comm.all_gather(send, recv, count, type, s);
    case Collective::reduce_scatter:
      return comm.reduce_scatter(send, recv, count, type, redop, s);
    case Collective::broadcast:
      return comm.broadcast(send, recv, count, type, root, s);
    case Collective::reduce:
      return comm.reduce(send, recv, count, type, redop, root, s);
    case Collective::alltoall:
      return comm.all_to_all(send, recv, count, type, s);
    case Collective::sendrecv:
      return comm.send_recv(send, (rank + 1) % n, recv, (rank + n - 1) % n, count, type, s);
    case Collective::gather:
      return comm.gather(send, recv, count, type, root, s);
    case Collective::scatter:
      return comm.scatter(send, recv, count, type, root, s);
  }
}

}  // namespace tt

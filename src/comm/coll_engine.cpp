#include "src/comm/coll_engine.h"

#include <algorithm>

namespace tt {
namespace {

constexpr size_t kAlignment = 512;  // of a slot: that of device memory
constexpr int64_t kMostSlots = 1024;

size_t round_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

const char* place_of(const CollSpec& spec) {
  return spec.in_place ? "in-place" : "out-of-place";
}
const char* redop_of(const CollSpec& spec) {
  return reduces(spec.op) ? name_of(spec.redop) : "none";
}

std::string key_tail(const CollSpec& spec) {
  std::string tail = std::string("/") + place_of(spec);
  if (has_root(spec.op) && spec.root != 0) tail += "/root=" + std::to_string(spec.root);
  return tail + spec.key_suffix;
}
std::string key_head(const CollSpec& spec) {
  return std::string(name_of(spec.op)) + "/" + name_of(spec.type) + "/" + redop_of(spec);
}

/// Running an operation once more on its own result changes the result.
bool compounds(const CollSpec& spec) {
  return spec.in_place && reduces(spec.op);
}

}  // namespace

CollArena::CollArena(Comm& comm, Device& device, size_t bytes_each, int register_as) : bytes_(bytes_each) {
  send_ = take(comm, device, own_send_);
  recv_ = take(comm, device, own_recv_);
  if (register_as == 0) return;
  comm.register_memory(send_, bytes_, register_as == 2);
  comm.register_memory(recv_, bytes_, register_as == 2);
}

void* CollArena::take(Comm& comm, Device& device, Buffer& own) const {
  if (void* memory = comm.allocate(bytes_)) return memory;
  own = device.allocate(bytes_);
  return own.data();
}

size_t slot_stride(const CollSpec& spec, int ranks) noexcept {
  const CollCounts counts = counts_of(spec.op, spec.bytes, spec.type, ranks);
  const size_t unaligned = static_cast<size_t>(spec.unalign) * size_of(spec.type);
  return round_up(std::max<size_t>(1, size_bytes(spec.op, counts, spec.type) + unaligned));
}

int64_t slots_in(const CollSpec& spec, int ranks, size_t arena_bytes) noexcept {
  return std::clamp<int64_t>(static_cast<int64_t>(arena_bytes / slot_stride(spec, ranks)), 1, kMostSlots);
}

size_t least_arena(const CollSpec& spec, int ranks) noexcept {
  return slot_stride(spec, ranks) * static_cast<size_t>(compounds(spec) ? spec.aggregate : 1);
}

std::string row_group(const CollSpec& spec) {
  return key_head(spec) + key_tail(spec);
}

std::string row_key(const CollSpec& spec, int ranks) {
  const CollCounts counts = counts_of(spec.op, spec.bytes, spec.type, ranks);
  return key_head(spec) + "/" + std::to_string(size_bytes(spec.op, counts, spec.type)) + key_tail(spec);
}

CollEngine::CollEngine(const CollSpec& spec, const Group& group, Comm& comm, Device& device, Stream& stream,
                       CollArena& arena, PatternRunner& runner)
    : spec_(spec),
      group_(group),
      comm_(comm),
      device_(device),
      stream_(stream),
      arena_(arena),
      runner_(runner),
      counts_(counts_of(spec.op, spec.bytes, spec.type, comm.size())),
      output_(output_of(spec.op, counts_, comm.rank(), comm.size(), spec.root, spec.in_place)),
      stride_(slot_stride(spec, comm.size())),
      ring_(slots_in(spec, comm.size(), arena.bytes_each())),
      refresh_(spec.in_place || device.kind() == DeviceKind::cuda),
      pattern_(make_pattern(spec.type, reduces(spec.op) ? pattern_of(spec.redop) : PatternKind::copy,
                            comm.size())),
      filled_(static_cast<size_t>(ring_), false) {
  // No more slots than a graph's operations, or a second launch of it would not find its data.
  if (spec_.graph_steps > 0) {
    const int64_t fit = std::max<int64_t>(1, ring_ / spec_.aggregate);
    spec_.graph_steps = std::min(spec_.graph_steps, fit);
  }
}

int64_t CollEngine::operations() const {
  return spec_.aggregate * std::max<int64_t>(1, spec_.graph_steps);
}

/// Steps whose results are held at once. Each launch of a graph uses the same buffers, and -z 3 wants a
/// barrier, which comes with each chunk, between any two steps.
int64_t CollEngine::slots() const {
  if (spec_.graph_steps > 0 || spec_.blocking == Blocking::barrier_per_step) return 1;
  return std::max<int64_t>(1, ring_ / spec_.aggregate);
}

Row CollEngine::describe() const {
  Row row;
  row.key = row_key(spec_, comm_.size());
  row.group = row_group(spec_);
  row.size = static_cast<int64_t>(size_bytes(spec_.op, counts_, spec_.type));
  row.main_metric = "busbw_GBps";
  row.params = {{"operation", std::string(name_of(spec_.op))},
                {"type", std::string(name_of(spec_.type))},
                {"redop", std::string(redop_of(spec_))},
                {"root", has_root(spec_.op) ? int64_t{spec_.root} : int64_t{-1}},
                {"in_place", spec_.in_place},
                {"ranks", int64_t{comm_.size()}},
                {"comm", comm_.kind()},
                {"size_bytes", *row.size},
                {"count", static_cast<int64_t>(counts_.count)},
                {"aggregated_operations", spec_.aggregate},
                {"buffers_in_turn", ring_},
                {"unaligned_elements", spec_.unalign},
                {"blocking", static_cast<int64_t>(spec_.blocking)},
                {"graph_steps", spec_.graph_steps}};
  return row;
}

char* CollEngine::send_buffer(int64_t slot) const {
  const size_t at =
      static_cast<size_t>(slot) * stride_ + static_cast<size_t>(spec_.unalign) * size_of(spec_.type);
  if (!spec_.in_place) return arena_.send() + at;
  return arena_.recv() + at + static_cast<size_t>(comm_.rank()) * counts_.send_at * size_of(spec_.type);
}

char* CollEngine::recv_buffer(int64_t slot) const {
  const size_t at =
      static_cast<size_t>(slot) * stride_ + static_cast<size_t>(spec_.unalign) * size_of(spec_.type);
  if (!spec_.in_place) return arena_.recv() + at;
  return arena_.recv() + at + static_cast<size_t>(comm_.rank()) * counts_.recv_at * size_of(spec_.type);
}

/// Begin of the part that output_ speaks about. Its place counts from the begin of the buffer, in place of
/// the whole one.
char* CollEngine::output(int64_t slot) const {
  const size_t at =
      static_cast<size_t>(slot) * stride_ + static_cast<size_t>(spec_.unalign) * size_of(spec_.type);
  return arena_.recv() + at + output_.at * size_of(spec_.type);
}

Pattern CollEngine::pattern_of_operation(int64_t operation) const {
  Pattern p = pattern_;
  const auto salt = static_cast<uint64_t>(refresh_ ? operation : slot_of(operation));
  p.key = mix64(
      mix64(spec_.seed, spec_.bytes << 5 | static_cast<uint64_t>(spec_.op) << 1 | (spec_.in_place ? 1u : 0u)),
      salt);
  return p;
}

/// Poisons an operation's output and puts its input in place.
void CollEngine::fill(int64_t operation) {
  const int64_t slot = slot_of(operation);
  const size_t element = size_of(spec_.type);
  char* whole =
      arena_.recv() + static_cast<size_t>(slot) * stride_ + static_cast<size_t>(spec_.unalign) * element;
  const size_t elements = spec_.in_place ? std::max(counts_.send, counts_.recv) : counts_.recv;
  device_.set_bytes(whole, kPoison, elements * element, stream_);
  if (!has_input(spec_.op, comm_.rank(), spec_.root)) return;
  if (!refresh_ && filled_[static_cast<size_t>(slot)]) return;
  runner_.generate(send_buffer(slot), counts_.send, pattern_of_operation(operation), comm_.rank(), 0,
                   stream_);
  filled_[static_cast<size_t>(slot)] = true;
}

void CollEngine::prepare(Stream&, int64_t first, int64_t count) {
  const int64_t begin = first * operations(), end = (first + count) * operations();
  // Operations that share a slot within this chunk share its data: those of the first one stay.
  const int64_t last = std::min(end, begin + ring_);
  if (spec_.graph_steps > 0) {
    if (!graph_) record();
    for (int64_t o = 0; o < std::min(operations(), ring_); ++o) fill(o);
    return;
  }
  for (int64_t o = begin; o < last; ++o) fill(o);
}

/// The library's connections are made by a run outside of the graph, as its first one may allocate.
void CollEngine::record() {
  run_operations(0);
  stream_.synchronize();
  graph_ = record_graph(device_, stream_, [this] {
    for (int64_t g = 0; g < spec_.graph_steps; ++g) run_operations(g * spec_.aggregate);
  });
}

void CollEngine::run_operations(int64_t first) {
  if (spec_.aggregate > 1) comm_.group_begin();
  for (int64_t o = first; o < first + spec_.aggregate; ++o) {
    const int64_t slot = slot_of(o);
    launch(spec_.op, comm_, send_buffer(slot), recv_buffer(slot), counts_.count, spec_.type, spec_.redop,
           spec_.root, stream_);
  }
  if (spec_.aggregate > 1) comm_.group_end();
}

void CollEngine::step(Stream&, int64_t i) {
  if (graph_)
    graph_->launch(stream_);
  else
    run_operations(i * spec_.aggregate);
  if (spec_.blocking == Blocking::wait || spec_.blocking == Blocking::wait_and_barrier) stream_.synchronize();
  if (spec_.blocking == Blocking::wait_and_barrier) group_.barrier();
}

Mismatch CollEngine::describe_mismatch(int64_t operation, int64_t at) const {
  const size_t element = size_of(spec_.type);
  alignas(8) char got[8] = {};
  device_.copy(got, output(slot_of(operation)) + static_cast<size_t>(at) * element, element, stream_);
  stream_.synchronize();
  Mismatch m;
  m.rank = group_.world_ranks()[static_cast<size_t>(group_.rank())];
  m.iteration = operation / operations();
  m.offset = static_cast<int64_t>(output_.at) + at;
  m.expected = expected_value(pattern_of_operation(operation), output_.expect, static_cast<uint64_t>(at));
  m.got = stored_value(spec_.type, got);
  return m;
}

Check CollEngine::verify(Stream&, int64_t first, int64_t count) {
  Check check;
  if (std::max(counts_.send, counts_.recv) == 0) return check;  // 0 bytes: nothing that could be verified
  check.method =
      pattern_.exact || output_.expect.kind != Expect::Kind::reduced
          ? "every element, exact"
          : "every element, within the rounding of " + std::to_string(pattern_.contributors + 2) + " steps";
  const bool graph = spec_.graph_steps > 0;
  const int64_t begin = graph ? 0 : first * operations(),
                end = graph ? operations() : (first + count) * operations();
  const int64_t last = std::min(end, begin + ring_);
  for (int64_t o = begin; o < last; ++o)
    runner_.check(output(slot_of(o)), output_.count, pattern_of_operation(o), output_.expect, stream_);
  const std::vector<Found> found = runner_.collect(stream_);
  for (size_t i = 0; i < found.size(); ++i) {
    check.wrong += found[i].wrong;
    if (found[i].wrong == 0 || check.first) continue;
    check.first = describe_mismatch(begin + static_cast<int64_t>(i), found[i].first);
    if (graph) check.first->iteration = first;
  }
  check.checked = count;
  check.total = count;
  return check;
}

void CollEngine::corrupt(Stream&, int64_t i) {
  if (output_.count == 0) return;
  const size_t element = size_of(spec_.type);
  const int64_t operation = spec_.graph_steps > 0 ? 0 : i * operations();
  // A bit high up in the element: in the exponent of floating-point types, so that no tolerance hides it.
  char* last_byte = output(slot_of(operation)) + (output_.count / 2) * element + (element - 1);
  char byte = 0;
  device_.copy(&byte, last_byte, 1, stream_);
  stream_.synchronize();
  byte = static_cast<char>(byte ^ 0x20);
  device_.copy(last_byte, &byte, 1, stream_);
  stream_.synchronize();
}

std::vector<Rate> CollEngine::rates(double seconds) const {
  const auto size = static_cast<double>(size_bytes(spec_.op, counts_, spec_.type));
  std::vector<Rate> rates = {{"algbw_GBps", {}}, {"busbw_GBps", {}}};
  if (!(seconds > 0) || size == 0) return rates;
  rates[0].value = size / seconds * 1e-9;
  if (const auto factor = bus_factor(spec_.op, comm_.size())) rates[1].value = *rates[0].value * *factor;
  return rates;
}

}  // namespace tt

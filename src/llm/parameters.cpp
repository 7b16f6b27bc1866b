#include "src/llm/parameters.h"

#include <algorithm>
#include <stdexcept>

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

constexpr size_t kSlots = 3;  // the one in use, the next one, and a tied embedding beside the head

size_t elements(int64_t count, DType type) {
  return static_cast<size_t>(count) * size_of(type);
}

}  // namespace

const char* name_of(Parallel parallel) noexcept {
  return parallel == Parallel::ddp ? "ddp" : parallel == Parallel::zero1 ? "zero1" : "fsdp";
}

Parallel parse_parallel(std::string_view option, std::string_view text) {
  for (const Parallel p : {Parallel::ddp, Parallel::zero1, Parallel::fsdp})
    if (text == name_of(p)) return p;
  throw UsageError(std::string(option) + ": unknown kind " + in_quotes(text) +
                   "; accepted: ddp, zero1, fsdp");
}

Parameters::Parameters(const TrainContext& context, FlatLayout layout, Parallel parallel, DType compute,
                       bool keep_gradients)
    : context_(context),
      layout_(std::move(layout)),
      parallel_(parallel),
      compute_(compute),
      keep_gradients_(keep_gradients || parallel != Parallel::fsdp) {
  if (layout_.ranks() != (parallel == Parallel::ddp ? 1 : context.ranks()))
    throw std::invalid_argument("Parameters: the layout was made for another number of ranks");
  Device& device = context_.device;
  Stream& stream = context_.compute;
  const auto zeroed = [&](size_t bytes) {
    Buffer buffer = device.allocate(bytes);
    if (bytes) device.set_bytes(buffer.data(), 0, bytes, stream);
    return buffer;
  };
  const int64_t n = layout_.count(), shard = layout_.shard_count();
  master_ = zeroed(elements(shard, DType::f32));
  if (!copies_are_masters()) copy_ = zeroed(elements(sharded() ? shard : n, compute_));
  if (keep_gradients_) grad_ = zeroed(elements(n, DType::f32));
  if (sharded()) own_grad_ = zeroed(elements(shard, DType::f32));

  int64_t bytes = 0;
  int scales = 0;
  for (size_t u = 0; u < layout_.units().size(); ++u) {
    frozen_offset_.push_back(bytes);
    first_scale_.push_back(scales);
    bytes += frozen_share(static_cast<int>(u));
    scales += static_cast<int>(layout_.units()[u].frozen.size());
  }
  frozen_ = zeroed(static_cast<size_t>(bytes));
  scales_ = zeroed(elements(scales, DType::f32));
  if (sharded()) {
    slots_.resize(kSlots);
    for (Slot& slot : slots_) {
      slot.trained = zeroed(elements(layout_.largest_unit(), compute_));
      slot.frozen = zeroed(static_cast<size_t>(layout_.largest_frozen_bytes()));
      slot.ready = device.make_event();
      slot.free = device.make_event();
      slot.free->record(stream);
    }
    if (!keep_gradients_)
      for (GradSlot& slot : grad_slots_) {
        slot.grad = zeroed(elements(layout_.largest_unit(), DType::f32));
        slot.free = device.make_event();
        slot.free->record(stream);
      }
  }
}

const Block& Parameters::block(BlockRef ref) const {
  const Unit& unit = layout_.units().at(static_cast<size_t>(ref.unit));
  return (ref.trained ? unit.trained : unit.frozen).at(static_cast<size_t>(ref.index));
}

const Bucket& Parameters::bucket_of_unit(int unit) const {
  for (const Bucket& bucket : layout_.buckets())
    if (bucket.ready_unit == unit) return bucket;
  throw std::logic_error("Parameters: unit " + std::to_string(unit) + " has no bucket");
}

Parameters::Slot* Parameters::find_slot(int unit) {
  for (Slot& slot : slots_)
    if (slot.unit == unit) return &slot;
  return nullptr;
}

/// The slot that holds the unit; gathered in the exchange stream if it does not yet.
Parameters::Slot& Parameters::gather(int unit) {
  if (Slot* there = find_slot(unit)) {
    there->age = ++clock_;
    return *there;
  }
  Slot* slot = nullptr;
  for (Slot& s : slots_)
    if (!s.held && (!slot || s.age < slot->age)) slot = &s;
  if (!slot) throw std::logic_error("Parameters: more units held than there are slots");
  slot->unit = unit;
  slot->age = ++clock_;
  Stream& stream = context_.exchange;
  slot->free->hold(stream);
  const Unit& u = layout_.units()[static_cast<size_t>(unit)];
  const StepTimer::Scope scope(context_.timer, Phase::exchange, stream);
  const auto all_gather = [&](const void* own, void* whole, int64_t count, DType type) {
    if (count == 0) return;
    if (context_.comm)
      context_.comm->all_gather(own, whole, static_cast<size_t>(count), type, stream);
    else
      context_.device.copy(whole, own, elements(count, type), stream);
  };
  if (u.trained_count > 0) {
    const Bucket& bucket = bucket_of_unit(unit);
    all_gather(copy_.at(elements(bucket.shard_offset, compute_)), slot->trained.data(),
               bucket.count / layout_.ranks(), compute_);
  }
  all_gather(frozen_bytes(unit), slot->frozen.data(), frozen_share(unit), DType::uint8);
  slot->ready->record(stream);
  return *slot;
}

void Parameters::hold(int unit, Pass pass, int next) {
  if (sharded()) {
    Slot& slot = gather(unit);
    slot.held = true;
    {
      const StepTimer::Scope waiting(context_.timer, Phase::exposed, context_.compute);
      slot.ready->hold(context_.compute);
    }
    if (next >= 0) gather(next);
  }
  if (pass == Pass::backward) hold_gradient(unit);
}

void Parameters::hold_gradient(int unit) {
  if (keep_gradients_ || layout_.units()[static_cast<size_t>(unit)].trained_count == 0) return;
  GradSlot& slot = grad_slots_[static_cast<size_t>(unit) % 2];
  if (slot.unit == unit) return;
  slot.unit = unit;
  slot.free->hold(context_.compute);
  context_.device.set_bytes(slot.grad.data(), 0,
                            elements(layout_.units()[static_cast<size_t>(unit)].trained_count, DType::f32),
                            context_.compute);
}

void Parameters::release(int unit) {
  Slot* slot = sharded() ? find_slot(unit) : nullptr;
  if (!slot) return;
  slot->held = false;
  slot->free->record(context_.compute);
}

const Parameters::GradSlot& Parameters::grad_slot(int unit) const {
  const GradSlot& slot = grad_slots_[static_cast<size_t>(unit) % 2];
  if (slot.unit != unit) throw std::logic_error("Parameters: a gradient is used outside its backward pass");
  return slot;
}

Matrix Parameters::weight(BlockRef ref) const {
  const Block& b = block(ref);
  const Unit& unit = layout_.units()[static_cast<size_t>(ref.unit)];
  const Slot* slot = nullptr;
  if (sharded()) {
    for (const Slot& s : slots_)
      if (s.unit == ref.unit && s.held) slot = &s;
    if (!slot)
      throw std::logic_error("Parameters: a weight of " + unit.name + " is used while it is not held");
  }
  if (!ref.trained) {
    char* const base = slot ? slot->frozen.at(0) : frozen_.at(static_cast<size_t>(frozen_offset_[ref.unit]));
    return Matrix::packed(base + b.offset, b.type, b.rows(), b.cols(),
                          size_of(b.type) == 1 ? frozen_scale(ref) : nullptr);
  }
  const int64_t offset = slot ? b.offset - unit.trained_offset : b.offset;
  const Buffer& from = slot ? slot->trained : copies_are_masters() ? master_ : copy_;
  return Matrix::packed(from.at(elements(offset, compute_)), compute_, b.rows(), b.cols());
}

Matrix Parameters::gradient(BlockRef ref) const {
  if (!ref.trained) return {};
  const Block& b = block(ref);
  float* const base = keep_gradients_ ? static_cast<float*>(grad_.data()) + b.offset
                                      : static_cast<float*>(grad_slot(ref.unit).grad.data()) + b.offset -
                                            layout_.units()[static_cast<size_t>(ref.unit)].trained_offset;
  return Matrix::packed(base, DType::f32, b.rows(), b.cols());
}

float* Parameters::whole_gradient(const Bucket& bucket) const {
  return keep_gradients_ ? static_cast<float*>(grad_.data()) + bucket.offset
                         : static_cast<float*>(grad_slot(bucket.ready_unit).grad.data());
}

float* Parameters::own_gradient(const Bucket& bucket) const {
  if (sharded()) return static_cast<float*>(own_grad_.data()) + bucket.shard_offset;
  const int64_t share = bucket.count / layout_.ranks();
  return static_cast<float*>(grad_.data()) + bucket.offset +
         (layout_.ranks() > 1 ? context_.rank() * share : 0);
}

std::vector<Parameters::Own> Parameters::own() const {
  std::vector<Own> parts;
  for (const Bucket& bucket : layout_.buckets()) {
    Own part;
    part.count = bucket.count / layout_.ranks();
    part.flat = bucket.offset + (layout_.ranks() > 1 ? context_.rank() * part.count : 0);
    part.shard = bucket.shard_offset;
    part.master = masters() + bucket.shard_offset;
    part.grad = own_gradient(bucket);
    if (!copies_are_masters()) part.copy = copy_.at(elements(sharded() ? part.shard : part.flat, compute_));
    parts.push_back(part);
  }
  return parts;
}

void Parameters::zero_gradients() {
  if (keep_gradients_ && grad_) context_.device.set_bytes(grad_.data(), 0, grad_.bytes(), context_.compute);
  for (GradSlot& slot : grad_slots_) slot.unit = -1;
}

void Parameters::spread() {
  if (sharded()) {
    for (Slot& slot : slots_) {
      slot.unit = -1;
      // What is gathered next has to wait for the optimiser.
      slot.free->record(context_.compute);
    }
    return;
  }
  if (parallel_ != Parallel::zero1 || !context_.comm) return;
  for (const Own& part : own()) {
    const size_t bucket_start = elements(part.flat - context_.rank() * part.count, compute_);
    context_.comm->all_gather(part.copy, copy_.at(bucket_start), static_cast<size_t>(part.count), compute_,
                              context_.compute);
  }
}

void Parameters::refresh_copies() {
  for (const Own& part : own())
    if (part.copy)
      context_.ops.convert(part.master, DType::f32, part.copy, compute_, part.count, context_.compute);
  spread();
}

Matrix Parameters::replicated() const {
  if (sharded()) return {};
  return Matrix::packed(copies_are_masters() ? master_.data() : copy_.data(), compute_, 1, layout_.count());
}

char* Parameters::frozen_bytes(int unit) const {
  return frozen_ ? frozen_.at(static_cast<size_t>(frozen_offset_[static_cast<size_t>(unit)])) : nullptr;
}

int64_t Parameters::frozen_share(int unit) const {
  const int64_t bytes = layout_.units()[static_cast<size_t>(unit)].frozen_bytes;
  return sharded() ? bytes / layout_.ranks() : bytes;
}

float* Parameters::frozen_scale(BlockRef ref) const {
  return static_cast<float*>(scales_.data()) + first_scale_[static_cast<size_t>(ref.unit)] + ref.index;
}

Parameters::Memory Parameters::memory() const {
  Memory m;
  m.masters = static_cast<int64_t>(master_.bytes());
  m.copies = static_cast<int64_t>(copy_.bytes());
  m.frozen = static_cast<int64_t>(frozen_.bytes() + scales_.bytes());
  m.gradients = static_cast<int64_t>(grad_.bytes() + own_grad_.bytes());
  for (const GradSlot& slot : grad_slots_) m.gradients += static_cast<int64_t>(slot.grad.bytes());
  for (const Slot& slot : slots_)
    m.gathered += static_cast<int64_t>(slot.trained.bytes() + slot.frozen.bytes());
  return m;
}

}  // namespace tt

#include "src/llm/weights.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/device/random.h"

namespace tt {
namespace {

/// FNV-1a: a parameter's name as part of the seed, alike everywhere.
uint64_t hash_of(const std::string& text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return h;
}

/// Calls fill for what of the block's parameters lies in elements first .. first + count - 1 of the block.
void fill_stretch(const Block& block, int64_t first, int64_t count, char* to, DType type,
                  const FillParameter& fill) {
  int64_t at = 0;
  for (const ParamSpec& spec : block.params) {
    const int64_t begin = std::max(first, at), end = std::min(first + count, at + spec.count());
    if (begin < end)
      fill(spec, begin - at, end - begin, to + static_cast<size_t>(begin - first) * size_of(type), type);
    at += spec.count();
  }
}

void fill_trained(const TrainContext& context, Parameters& parameters, const Block& block,
                  const FillParameter& fill) {
  const FlatLayout& layout = parameters.layout();
  const int rank = layout.ranks() > 1 ? context.rank() : 0;
  for (const FlatLayout::Piece& piece : layout.owned(rank, block.offset, block.count()))
    fill_stretch(block, piece.flat - block.offset, piece.count,
                 reinterpret_cast<char*>(parameters.masters() + piece.shard), DType::f32, fill);
}

/// What of a frozen block's bytes this rank stores: bytes begin .. end of the block, and where they belong.
struct FrozenPart {
  int64_t begin = 0, end = 0;
  char* to = nullptr;
};
FrozenPart stored_part(const TrainContext& context, const Parameters& parameters, BlockRef ref) {
  const Block& block = parameters.block(ref);
  const bool sharded = parameters.parallel() == Parallel::fsdp;
  const int64_t share = parameters.frozen_share(ref.unit), start = sharded ? context.rank() * share : 0;
  const int64_t bytes = block.count() * static_cast<int64_t>(size_of(block.type));
  FrozenPart part;
  part.begin = std::max<int64_t>(0, start - block.offset);
  part.end = std::min(bytes, start + share - block.offset);
  part.to = parameters.frozen_bytes(ref.unit) + (block.offset + part.begin - start);
  return part;
}

void fill_frozen(const TrainContext& context, Parameters& parameters, BlockRef ref, Buffer& scratch,
                 const FillParameter& fill) {
  const Block& block = parameters.block(ref);
  const FrozenPart part = stored_part(context, parameters, ref);
  const int64_t width = static_cast<int64_t>(size_of(block.type));
  if (width > 1) {
    if (part.begin < part.end)
      fill_stretch(block, part.begin / width, (part.end - part.begin) / width, part.to, block.type, fill);
    return;
  }
  // The scale depends on the whole block, which every rank therefore fills.
  const int64_t count = block.count();
  const size_t wide_bytes = static_cast<size_t>(count) * size_of(DType::bf16);
  if (scratch.bytes() < wide_bytes + static_cast<size_t>(count)) {
    context.compute.synchronize();
    scratch = {};
    scratch = context.device.allocate(wide_bytes + static_cast<size_t>(count));
  }
  fill_stretch(block, 0, count, scratch.at(0), DType::bf16, fill);
  float* const scale = parameters.frozen_scale(ref);
  const Matrix wide = Matrix::packed(scratch.data(), DType::bf16, block.rows(), block.cols());
  const Matrix narrow = Matrix::packed(scratch.at(wide_bytes), block.type, block.rows(), block.cols(), scale);
  context.ops.quantize(wide, narrow, {}, scale, context.compute);
  if (part.begin < part.end)
    context.device.copy(part.to, static_cast<char*>(narrow.data) + part.begin,
                        static_cast<size_t>(part.end - part.begin), context.compute);
}

}  // namespace

void fill_parameters(const TrainContext& context, Parameters& parameters, bool trained, bool frozen,
                     const FillParameter& fill) {
  Buffer scratch;
  const std::vector<Unit>& units = parameters.layout().units();
  for (size_t u = 0; u < units.size(); ++u) {
    if (trained)
      for (const Block& block : units[u].trained) fill_trained(context, parameters, block, fill);
    if (frozen)
      for (size_t b = 0; b < units[u].frozen.size(); ++b)
        fill_frozen(context, parameters, {static_cast<int>(u), false, static_cast<int>(b)}, scratch, fill);
  }
  parameters.refresh_copies();
  context.compute.synchronize();
}

Initial initial_of(const ParamSpec& spec, double initializer_range) {
  if (spec.name.ends_with(".lora_A.weight"))
    return {Initial::Kind::uniform, 1 / std::sqrt(static_cast<double>(spec.shape.back()))};
  if (spec.name.ends_with(".lora_B.weight")) return {Initial::Kind::zeros, 0};
  if (spec.shape.size() == 1) return {Initial::Kind::ones, 0};
  return {Initial::Kind::normal, initializer_range};
}

FillParameter random_fill(const TrainContext& context, uint64_t seed,
                          std::function<Initial(const ParamSpec&)> initial) {
  return [context, seed, initial = std::move(initial)](const ParamSpec& spec, int64_t first, int64_t count,
                                                       void* to, DType type) {
    Device& device = context.device;
    Stream& stream = context.compute;
    const Initial begin = initial(spec);
    const Matrix values = Matrix::packed(to, type, 1, count);
    const size_t bytes = static_cast<size_t>(count) * size_of(type);
    if (begin.kind == Initial::Kind::zeros) {
      device.set_bytes(to, 0, bytes, stream);
    } else if (begin.kind == Initial::Kind::ones) {
      const std::vector<float> ones(static_cast<size_t>(count), 1.0f);
      const Buffer wide = device.allocate(ones.size() * sizeof(float));
      device.copy(wide.data(), ones.data(), wide.bytes(), stream);
      context.ops.convert(wide.data(), DType::f32, to, type, count, stream);
      stream.synchronize();
    } else {
      const Fill kind = begin.kind == Initial::Kind::normal ? Fill::normal : Fill::uniform;
      device.fill_random(to, static_cast<size_t>(count), type, kind, mix64(seed, hash_of(spec.name)),
                         static_cast<uint64_t>(first), stream);
      context.ops.axpby(0, {}, static_cast<float>(begin.scale), values, stream);
    }
  };
}

std::vector<TrainedPlace> trained_places(const FlatLayout& layout) {
  std::vector<TrainedPlace> places;
  for (size_t u = 0; u < layout.units().size(); ++u)
    for (const Block& block : layout.units()[u].trained) {
      int64_t at = block.offset;
      for (const ParamSpec& spec : block.params) {
        places.push_back({&spec, static_cast<int>(u), at});
        at += spec.count();
      }
    }
  return places;
}

/// Each rank puts what it owns into zeros; the sum of all is the whole, exactly.
std::vector<float> fetch(const TrainContext& context, const Parameters& parameters, const TrainedPlace& place,
                         Quantity quantity) {
  const int64_t count = place.spec->count();
  const Buffer whole = context.device.allocate(static_cast<size_t>(count) * sizeof(float));
  Stream& stream = context.compute;
  context.device.set_bytes(whole.data(), 0, whole.bytes(), stream);
  for (const Parameters::Own& part : parameters.own()) {
    const int64_t begin = std::max(part.flat, place.flat),
                  end = std::min(part.flat + part.count, place.flat + count);
    if (begin >= end) continue;
    const float* const from = (quantity == Quantity::master ? part.master : part.grad) + (begin - part.flat);
    context.device.copy(static_cast<float*>(whole.data()) + (begin - place.flat), from,
                        static_cast<size_t>(end - begin) * sizeof(float), stream);
  }
  if (context.comm && parameters.layout().ranks() > 1)
    context.comm->all_reduce(whole.data(), whole.data(), static_cast<size_t>(count), DType::f32,
                             ReduceOp::sum, stream);
  std::vector<float> values(static_cast<size_t>(count));
  context.device.copy(values.data(), whole.data(), whole.bytes(), stream);
  stream.synchronize();
  return values;
}

}  // namespace tt

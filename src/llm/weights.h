// Filling a model's parameters and reading them back, one parameter at a time, by name; each rank touches
// only what it stores.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "src/llm/parameters.h"

namespace tt {

/// Elements first .. first + count - 1 (row-major) of a parameter belong at `to` in device memory, as f32 or
/// bf16; enqueued in the context's compute stream, or done when it returns.
using FillParameter =
    std::function<void(const ParamSpec& spec, int64_t first, int64_t count, void* to, DType type)>;

/// Fills every parameter (`trained` / `frozen` choose). Blocks that are stored in 8 bits are filled in bf16
/// and quantised. Ends with the copies refreshed. Collective.
void fill_parameters(const TrainContext& context, Parameters& parameters, bool trained, bool frozen,
                     const FillParameter& fill);

/// How a parameter without a file begins.
struct Initial {
  enum class Kind { normal, uniform, ones, zeros } kind = Kind::zeros;
  double scale = 0;  // normal: standard deviation; uniform: in [-scale, scale)
};
/// transformers' for the model (normal of initializer_range, norms 1), PEFT's for adapters (A Kaiming-uniform
/// with a = sqrt(5), so in [-1/sqrt(in), 1/sqrt(in)), B 0).
Initial initial_of(const ParamSpec& spec, double initializer_range);

/// A FillParameter that draws from (seed, parameter's name, element) alone.
FillParameter random_fill(const TrainContext& context, uint64_t seed,
                          std::function<Initial(const ParamSpec&)> initial);

/// Where a trained parameter lies in the flat array.
struct TrainedPlace {
  const ParamSpec* spec = nullptr;
  int unit = 0;
  int64_t flat = 0;
};
std::vector<TrainedPlace> trained_places(const FlatLayout& layout);

enum class Quantity { master, gradient };
/// The whole of a trained parameter's master or exchanged gradient, in host memory of every rank. Collective,
/// waits.
std::vector<float> fetch(const TrainContext& context, const Parameters& parameters, const TrainedPlace& place,
                         Quantity quantity);

}  // namespace tt

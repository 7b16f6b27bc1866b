#include "src/llm/projection.h"

#include <algorithm>

#include "src/device/random.h"

namespace tt {
namespace {

enum Scale { kX, kY, kW, kStale, kScales };

Matrix packed_like(Buffer& buffer, DType type, int64_t rows, int64_t cols, const float* scale = nullptr) {
  return Matrix::packed(buffer.data(), type, rows, cols, scale);
}

/// The adapter's rows of the stacked A's, or of their gradient.
Matrix rows_of(const AdapterRefs& adapter, const Matrix& stacked) {
  return stacked.rows_from(adapter.row, adapter.module.rank);
}

}  // namespace

ProjectionMath::ProjectionMath(const TrainContext& context, Parameters& parameters, const LlamaRefs& refs,
                               const ProjectionOptions& options)
    : context_(context), parameters_(parameters), options_(options), type_(parameters.compute_type()) {
  int64_t rank = 0, in = 0, out = 0, weight = 0;
  bool narrow = false, trained = false, adapted = false;
  for (const LayerRefs& layer : refs.layers)
    for (const ProjectionRefs& p : layer.projections) {
      rank = std::max(rank, p.stacked_rank);
      adapted = adapted || p.a;
      if (p.a) in = std::max(in, p.in);
      if (!p.narrow) continue;
      narrow = true;
      trained = trained || p.weight.trained;
      in = std::max(in, p.in);
      out = std::max(out, p.out);
      weight = std::max(weight, p.in * p.out);
    }
  Device& device = context.device;
  const size_t tokens = static_cast<size_t>(options.tokens), width = size_of(type_);
  d_u_ = device.allocate(tokens * static_cast<size_t>(rank) * width);
  if (options.dropout > 0 && adapted) dropped_ = device.allocate(tokens * static_cast<size_t>(in) * width);
  if (!narrow) return;
  x8_ = device.allocate(tokens * static_cast<size_t>(in));
  y8_ = device.allocate(tokens * static_cast<size_t>(out));
  w8t_ = device.allocate(static_cast<size_t>(weight));
  if (trained) w8_ = device.allocate(static_cast<size_t>(weight));
  scales_ = device.allocate(kScales * sizeof(float));
}

int64_t ProjectionMath::scratch_bytes() const {
  return static_cast<int64_t>(d_u_.bytes() + dropped_.bytes() + x8_.bytes() + y8_.bytes() + w8_.bytes() +
                              w8t_.bytes() + scales_.bytes());
}

Matrix ProjectionMath::narrow(const Matrix& x, DType type, Buffer& buffer, int s) {
  const Matrix out = packed_like(buffer, type, x.rows, x.cols, scale(s));
  context_.ops.quantize(x, out, {}, scale(s), context_.compute);
  return out;
}

Matrix ProjectionMath::narrow_transposed(const Matrix& x, DType type, Buffer& buffer, int s) {
  const Matrix out = packed_like(buffer, type, x.cols, x.rows, scale(s));
  context_.ops.quantize(x, {}, out, scale(s), context_.compute);
  return out;
}

/// W [out, in] or its transpose in e4m3: frozen weights are stored so, trained ones are rounded at each use.
Matrix ProjectionMath::narrow_weight(const ProjectionRefs& p, bool transposed) {
  const Matrix w = parameters_.weight(p.weight);
  if (p.weight.trained)
    return transposed ? narrow_transposed(w, DType::f8e4m3, w8t_, kW) : narrow(w, DType::f8e4m3, w8_, kW);
  if (!transposed) return w;
  const Matrix out = packed_like(w8t_, w.type, w.cols, w.rows, w.scale);
  context_.ops.transpose8(w, out, context_.compute);
  return out;
}

void ProjectionMath::drop(const AdapterRefs& adapter, const Matrix& x, const Matrix& y,
                          const DropoutPlace& place) {
  const uint64_t stream = mix64(options_.seed, static_cast<uint64_t>(place.step));
  const uint64_t seed =
      mix64(stream, static_cast<uint64_t>(place.layer * kLinears + static_cast<int>(adapter.linear)));
  context_.ops.dropout(x, y, options_.dropout, seed, static_cast<uint64_t>(place.first_row * x.cols),
                       context_.compute);
}

Matrix ProjectionMath::adapter_input(const AdapterRefs& adapter, const Matrix& x, const DropoutPlace& place) {
  if (options_.dropout == 0) return x;
  const Matrix out = packed_like(dropped_, type_, x.rows, x.cols);
  drop(adapter, x, out, place);
  return out;
}

Matrix ProjectionMath::d_u(const ProjectionRefs& p) const {
  return Matrix::packed(d_u_.data(), type_, options_.tokens, p.stacked_rank);
}

void ProjectionMath::forward(const ProjectionRefs& p, const Matrix& x, const Matrix& u, const Matrix& y,
                             const void* add, const DropoutPlace& place) {
  Ops& ops = context_.ops;
  Stream& stream = context_.compute;
  Product product;
  product.a = x;
  product.b = parameters_.weight(p.weight);
  product.c = y;
  product.add = add;
  product.beta = add ? 1.0f : 0.0f;
  if (p.narrow) {
    product.a = narrow(x, DType::f8e4m3, x8_, kX);
    product.b = narrow_weight(p, false);
    if (options_.stale_scale) {
      if (!have_stale_) context_.device.copy(scale(kStale), scale(kX), sizeof(float), stream);
      have_stale_ = true;
      product.a.scale = scale(kStale);
    }
  }
  ops.multiply(product, stream);
  if (!p.a) return;
  const Matrix a = parameters_.weight(p.a);
  if (options_.dropout == 0) ops.multiply({x, a, u}, stream);
  for (const AdapterRefs& adapter : p.adapters) {
    const Matrix mine = u.columns(adapter.row, adapter.module.rank);
    if (options_.dropout > 0)
      ops.multiply({adapter_input(adapter, x, place), rows_of(adapter, a), mine}, stream);
    Product up;
    up.a = mine;
    up.b = parameters_.weight(adapter.b);
    up.c = y.columns(adapter.column, adapter.out);
    up.alpha = static_cast<float>(adapter.module.scale);
    up.beta = 1;
    up.add = up.c.data;
    ops.multiply(up, stream);
  }
}

void ProjectionMath::input_gradient(const ProjectionRefs& p, const Matrix& dy, const Matrix& dx,
                                    const DropoutPlace& place) {
  Ops& ops = context_.ops;
  Stream& stream = context_.compute;
  Product product;
  product.a = dy;
  product.b = parameters_.weight(p.weight);
  product.c = dx;
  product.tb = false;
  if (p.narrow) {
    product.a = narrow(dy, DType::f8e5m2, y8_, kY);
    product.b = narrow_weight(p, true);
    product.tb = true;
  }
  ops.multiply(product, stream);
  if (!p.a) return;
  const Matrix a = parameters_.weight(p.a);
  const Matrix all = d_u(p);
  for (const AdapterRefs& adapter : p.adapters) {
    Product down;
    down.a = dy.columns(adapter.column, adapter.out);
    down.b = parameters_.weight(adapter.b);
    down.c = all.columns(adapter.row, adapter.module.rank);
    down.tb = false;
    down.alpha = static_cast<float>(adapter.module.scale);
    ops.multiply(down, stream);
    if (options_.dropout == 0) continue;
    const Matrix part = packed_like(dropped_, type_, dx.rows, dx.cols);
    Product back{down.c, rows_of(adapter, a), part};
    back.tb = false;
    ops.multiply(back, stream);
    drop(adapter, part, part, place);
    ops.axpby(1, part, 1, dx, stream);
  }
  if (options_.dropout > 0) return;
  Product back{all, a, dx};
  back.tb = false;
  back.beta = 1;
  back.add = dx.data;
  ops.multiply(back, stream);
}

void ProjectionMath::weight_gradients(const ProjectionRefs& p, const Matrix& x, const Matrix& u,
                                      const Matrix& dy, const DropoutPlace& place) {
  Ops& ops = context_.ops;
  Stream& stream = context_.compute;
  const auto add_to = [&](const Matrix& gradient, const Matrix& left, const Matrix& right, double alpha) {
    Product product{left, right, gradient};
    product.ta = true;
    product.tb = false;
    product.alpha = static_cast<float>(alpha);
    product.beta = 1;
    product.add = gradient.data;
    ops.multiply(product, stream);
  };
  if (p.weight.trained) {
    const Matrix gradient = parameters_.gradient(p.weight);
    if (p.narrow) {
      Product product{narrow_transposed(dy, DType::f8e5m2, y8_, kY),
                      narrow_transposed(x, DType::f8e4m3, x8_, kX), gradient};
      product.beta = 1;
      product.add = gradient.data;
      ops.multiply(product, stream);
    } else {
      add_to(gradient, dy, x, 1);
    }
  }
  if (!p.a) return;
  const Matrix all = d_u(p), gradient = parameters_.gradient(p.a);
  if (options_.dropout == 0) add_to(gradient, all, x, 1);
  for (const AdapterRefs& adapter : p.adapters) {
    if (options_.dropout > 0)
      add_to(rows_of(adapter, gradient), all.columns(adapter.row, adapter.module.rank),
             adapter_input(adapter, x, place), 1);
    add_to(parameters_.gradient(adapter.b), dy.columns(adapter.column, adapter.out),
           u.columns(adapter.row, adapter.module.rank), adapter.module.scale);
  }
}

}  // namespace tt

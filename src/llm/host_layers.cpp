// The parts of a layer between its products: norm, rotation, activation, dropout, and the embedding.
#include <cmath>

#include "src/llm/counter_random.h"
#include "src/llm/host_ops.h"
#include "src/llm/host_rows.h"

namespace tt {

using namespace host;

namespace {

/// Columns that one thread sums over all rows, so that the order of the sum is that of the rows.
constexpr int64_t kColumns = 64;

/// to[c] += sum over r of term(r, c), in double.
template <class F>
void add_column_sums(int threads, int64_t rows, int64_t cols, float* to, F&& term) {
  const int64_t blocks = (cols + kColumns - 1) / kColumns;
  for_each_row(threads, blocks, rows * kColumns, [&](int64_t block) {
    const int64_t first = block * kColumns, count = std::min(kColumns, cols - first);
    double sums[kColumns] = {};
    for (int64_t r = 0; r < rows; ++r) term(r, first, count, sums);
    for (int64_t c = 0; c < count; ++c) to[first + c] = static_cast<float>(to[first + c] + sums[c]);
  });
}

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

void HostOps::rms_norm(const Matrix& x, const void* w, const Matrix& y, float* rstd, float eps, Stream&) {
  expect_shape("rms_norm", y, x.rows, x.cols, x.type);
  with_activation(x.type, "rms_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* weight = static_cast<const T*>(w);
    for_each_row(threads_, x.rows, x.cols, [&](int64_t r) {
      const T* in = row<T>(x, r);
      T* out = row<T>(y, r);
      double squares = 0;
#pragma omp simd reduction(+ : squares)
      for (int64_t c = 0; c < x.cols; ++c) {
        const double value = to_float(in[c]);
        squares += value * value;
      }
      const float scale =
          static_cast<float>(1 / std::sqrt(squares / static_cast<double>(x.cols) + static_cast<double>(eps)));
      rstd[r] = scale;
      for (int64_t c = 0; c < x.cols; ++c)
        out[c] = from_float<T>(to_float(in[c]) * scale * to_float(weight[c]));
    });
  });
}

void HostOps::rms_norm_backward(const Matrix& dy, const Matrix& x, const void* w, const float* rstd,
                                const Matrix& dx, bool accumulate, float* dw, Stream&) {
  expect_shape("rms_norm_backward, dy", dy, x.rows, x.cols, x.type);
  expect_shape("rms_norm_backward, dx", dx, x.rows, x.cols, x.type);
  with_activation(x.type, "rms_norm_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* weight = static_cast<const T*>(w);
    if (dw)  // first, because dx may take the place of dy
      add_column_sums(threads_, x.rows, x.cols, dw,
                      [&](int64_t r, int64_t first, int64_t count, double* sums) {
                        const T *in = row<T>(x, r) + first, *d = row<T>(dy, r) + first;
                        const float scale = rstd[r];
                        for (int64_t c = 0; c < count; ++c)
                          sums[c] += static_cast<double>(to_float(d[c]) * (to_float(in[c]) * scale));
                      });
    for_each_row(threads_, x.rows, 2 * x.cols, [&](int64_t r) {
      const T *in = row<T>(x, r), *d = row<T>(dy, r);
      T* out = row<T>(dx, r);
      double dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t c = 0; c < x.cols; ++c)
        dot +=
            static_cast<double>(to_float(d[c]) * to_float(weight[c])) * static_cast<double>(to_float(in[c]));
      const float scale = rstd[r];
      const float along = static_cast<float>(dot / static_cast<double>(x.cols) * scale * scale);
      for (int64_t c = 0; c < x.cols; ++c) {
        const float g = to_float(d[c]) * to_float(weight[c]);
        const float value = scale * (g - to_float(in[c]) * along);
        out[c] = from_float<T>(accumulate ? value + to_float(out[c]) : value);
      }
    });
  });
}

void HostOps::rope(const Matrix& x, const AttentionShape& shape, int64_t heads, const float* table,
                   bool inverse, Stream&) {
  const int64_t dim = shape.head_dim, half = dim / 2;
  expect_shape("rope", x, shape.tokens(), heads * dim, x.type);
  with_activation(x.type, "rope", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(threads_, x.rows, x.cols, [&](int64_t r) {
      const float *cosines = table + r % shape.seq * dim, *sines = cosines + half;
      const float sign = inverse ? -1.0f : 1.0f;
      for (int64_t h = 0; h < heads; ++h) {
        T *low = row<T>(x, r) + h * dim, *high = low + half;
        for (int64_t i = 0; i < half; ++i) {
          const float a = to_float(low[i]), b = to_float(high[i]), c = cosines[i], s = sign * sines[i];
          low[i] = from_float<T>(a * c - b * s);
          high[i] = from_float<T>(b * c + a * s);
        }
      }
    });
  });
}

void HostOps::swiglu(const Matrix& gate_up, const Matrix& act, Stream&) {
  const int64_t inner = act.cols;
  expect_shape("swiglu", gate_up, act.rows, 2 * inner, act.type);
  with_activation(act.type, "swiglu", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_span(threads_, act.rows, inner, [&](int64_t r, int64_t first, int64_t end) {
      const T *gate = row<T>(gate_up, r), *up = gate + inner;
      T* out = row<T>(act, r);
      for (int64_t i = first; i < end; ++i) {
        const float g = to_float(gate[i]);
        out[i] = from_float<T>(g * sigmoid(g) * to_float(up[i]));
      }
    });
  });
}

void HostOps::swiglu_backward(const Matrix& d_act, const Matrix& gate_up, const Matrix& d_gate_up,
                              const Matrix& act, Stream&) {
  const int64_t inner = d_act.cols;
  expect_shape("swiglu_backward, gate_up", gate_up, d_act.rows, 2 * inner, d_act.type);
  expect_shape("swiglu_backward, d_gate_up", d_gate_up, d_act.rows, 2 * inner, d_act.type);
  if (act.data) expect_shape("swiglu_backward, act", act, d_act.rows, inner, d_act.type);
  with_activation(d_act.type, "swiglu_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_span(threads_, d_act.rows, inner, [&](int64_t r, int64_t first, int64_t end) {
      const T *d = row<T>(d_act, r), *gate = row<T>(gate_up, r), *up = gate + inner;
      T *d_gate = row<T>(d_gate_up, r), *d_up = d_gate + inner;
      T* out = act.data ? row<T>(act, r) : nullptr;
      for (int64_t i = first; i < end; ++i) {
        const float g = to_float(gate[i]), u = to_float(up[i]), dy = to_float(d[i]);
        const float s = sigmoid(g), silu = g * s;
        d_gate[i] = from_float<T>(dy * u * (s * (1 + g * (1 - s))));
        d_up[i] = from_float<T>(dy * silu);
        if (out) out[i] = from_float<T>(silu * u);
      }
    });
  });
}

void HostOps::embedding(const TokenRows& tokens, const Matrix& table, const Matrix& out, Stream&) {
  expect_shape("embedding", out, tokens.rows, table.cols, table.type);
  expect_ids("embedding", tokens.inputs, tokens.rows, 0, table.rows);
  with_activation(table.type, "embedding", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(threads_, out.rows, out.cols,
                 [&](int64_t r) { std::copy_n(row<T>(table, tokens.inputs[r]), out.cols, row<T>(out, r)); });
  });
}

void HostOps::embedding_backward(const TokenRows& tokens, const Matrix& d_out, const Matrix& d_table,
                                 Stream&) {
  expect_shape("embedding_backward, d_out", d_out, tokens.rows, d_table.cols, d_out.type);
  expect_shape("embedding_backward, d_table", d_table, d_table.rows, d_table.cols, DType::f32);
  expect_ids("embedding_backward", tokens.inputs, tokens.rows, 0, d_table.rows);
  expect_ids("embedding_backward, order", tokens.order, tokens.rows, 0, tokens.rows);
  std::vector<int64_t> starts;  // of runs of the same id in `order`
  for (int64_t i = 0; i < tokens.rows; ++i)
    if (i == 0 || tokens.inputs[tokens.order[i]] != tokens.inputs[tokens.order[i - 1]]) starts.push_back(i);
  const int64_t runs = static_cast<int64_t>(starts.size());
  starts.push_back(tokens.rows);
  with_activation(d_out.type, "embedding_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(threads_, runs, d_table.cols, [&](int64_t run) {
      const int64_t begin = starts[static_cast<size_t>(run)], end = starts[static_cast<size_t>(run) + 1];
      float* to = row<float>(d_table, tokens.inputs[tokens.order[begin]]);
      for (int64_t first = 0; first < d_table.cols; first += kColumns) {
        const int64_t count = std::min(kColumns, d_table.cols - first);
        double sums[kColumns] = {};
        for (int64_t i = begin; i < end; ++i) {
          const T* d = row<T>(d_out, tokens.order[i]) + first;
          for (int64_t c = 0; c < count; ++c) sums[c] += static_cast<double>(to_float(d[c]));
        }
        for (int64_t c = 0; c < count; ++c) to[first + c] = static_cast<float>(to[first + c] + sums[c]);
      }
    });
  });
}

void HostOps::dropout(const Matrix& x, const Matrix& y, double p, uint64_t seed, uint64_t first_element,
                      Stream&) {
  expect_shape("dropout", y, x.rows, x.cols, x.type);
  const float kept = static_cast<float>(1 / (1 - p));
  with_activation(x.type, "dropout", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_span(threads_, x.rows, x.cols, [&](int64_t r, int64_t first, int64_t end) {
      const T* in = row<T>(x, r);
      T* out = row<T>(y, r);
      const uint64_t counter = first_element + static_cast<uint64_t>(r * x.cols);
      for (int64_t i = first; i < end; ++i) {
        const bool keeps = static_cast<double>(uniform01(seed, counter + static_cast<uint64_t>(i))) >= p;
        out[i] = from_float<T>(keeps ? to_float(in[i]) * kept : 0.0f);
      }
    });
  });
}

}  // namespace tt

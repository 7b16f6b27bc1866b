// Causal attention on the host. Work is shared out by heads; within one, a block of queries at a time meets
// all its keys, so that memory grows with the sequence and not with its square. With s = scale q k:
//   forward    lse = log sum_j exp(s_j),  p_j = exp(s_j - lse),  out = sum_j p_j v_j
//   backward   dp_j = dout . v_j,  ds_j = p_j (dp_j - dout . out)   (the softmax's gradient; Dao et al. 2022)
//              dq = scale sum_j ds_j k_j,  dk_j += scale ds_j q,  dv_j += p_j dout
#include <omp.h>

#include <cmath>
#include <limits>

#include "src/llm/host_ops.h"
#include "src/llm/host_rows.h"
#include "src/llm/small_product.h"

namespace tt {

using namespace host;

namespace {

constexpr int64_t kQueries = 32;  // of a block

/// Cuts a thread's scratch into arrays. Without memory it only counts.
class Cutter {
 public:
  explicit Cutter(float* data) : data_(data) {}
  float* take(int64_t count) {
    float* at = data_ ? data_ + used_ : nullptr;
    used_ += (count + 15) / 16 * 16;
    return at;
  }
  int64_t used() const { return used_; }

 private:
  float* data_;
  int64_t used_ = 0;
};

struct ForwardScratch {
  ForwardScratch(Cutter& cut, int64_t seq, int64_t dim)
      : keys_t(cut.take(dim * seq)),
        values(cut.take(seq * dim)),
        queries(cut.take(kQueries * dim)),
        p(cut.take(kQueries * seq)),
        out(cut.take(kQueries * dim)) {}
  float* keys_t;  // [dim, seq]
  float* values;  // [seq, dim]
  float *queries, *p, *out;
};

struct BackwardScratch {
  BackwardScratch(Cutter& cut, int64_t seq, int64_t dim)
      : keys(cut.take(seq * dim)),
        keys_t(cut.take(dim * seq)),
        values_t(cut.take(dim * seq)),
        dk(cut.take(seq * dim)),
        dv(cut.take(seq * dim)),
        queries(cut.take(kQueries * dim)),
        dout(cut.take(kQueries * dim)),
        dq(cut.take(kQueries * dim)),
        p(cut.take(kQueries * seq)),
        ds(cut.take(kQueries * seq)) {}
  float *keys, *keys_t, *values_t, *dk, *dv;  // of the k/v head
  float *queries, *dout, *dq, *p, *ds;        // of the block
};

/// Rows first .. first + count - 1 of one head's columns, in f32.
template <class T>
void load_head(const Matrix& x, int64_t first, int64_t count, int64_t column, int64_t dim, float* to) {
  for (int64_t r = 0; r < count; ++r) {
    const T* in = row<T>(x, first + r) + column;
    for (int64_t d = 0; d < dim; ++d) to[r * dim + d] = to_float(in[d]);
  }
}
template <class T>
void load_head_transposed(const Matrix& x, int64_t first, int64_t count, int64_t column, int64_t dim,
                          float* to) {
  for (int64_t r = 0; r < count; ++r) {
    const T* in = row<T>(x, first + r) + column;
    for (int64_t d = 0; d < dim; ++d) to[d * count + r] = to_float(in[d]);
  }
}
template <class T>
void store_head(const float* from, const Matrix& x, int64_t first, int64_t count, int64_t column,
                int64_t dim) {
  for (int64_t r = 0; r < count; ++r) {
    T* out = row<T>(x, first + r) + column;
    for (int64_t d = 0; d < dim; ++d) out[d] = from_float<T>(from[r * dim + d]);
  }
}

/// Scores to probabilities over the first `seen` of `width` keys, 0 beyond; returns lse.
float softmax_row(float* s, int64_t seen, int64_t width, float scale) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < seen; ++j) {
    s[j] *= scale;
    largest = std::max(largest, s[j]);
  }
  double sum = 0;
  for (int64_t j = 0; j < seen; ++j) {
    s[j] = std::exp(s[j] - largest);
    sum += static_cast<double>(s[j]);
  }
  const float inverse = static_cast<float>(1 / sum);
  for (int64_t j = 0; j < seen; ++j) s[j] *= inverse;
  std::fill(s + seen, s + width, 0.0f);
  return static_cast<float>(static_cast<double>(largest) + std::log(sum));
}

struct Heads {
  const AttentionShape& shape;
  int64_t dim() const { return shape.head_dim; }
  int64_t group() const { return shape.heads / shape.kv_heads; }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim))); }
};

template <class T>
void forward_head(const Heads& heads, int64_t sequence, int64_t head, const Matrix& q, const Matrix& k,
                  const Matrix& v, const Matrix& out, float* lse, const ForwardScratch& x) {
  const int64_t seq = heads.shape.seq, dim = heads.dim(), first = sequence * seq;
  const int64_t column = head * dim, kv_column = head / heads.group() * dim;
  load_head_transposed<T>(k, first, seq, kv_column, dim, x.keys_t);
  load_head<T>(v, first, seq, kv_column, dim, x.values);
  for (int64_t begin = 0; begin < seq; begin += kQueries) {
    const int64_t count = std::min(kQueries, seq - begin), width = begin + count;
    load_head<T>(q, first + begin, count, column, dim, x.queries);
    small_product(count, width, dim, {x.queries, dim, 1}, x.keys_t, seq, x.p, width, false);
    for (int64_t i = 0; i < count; ++i)
      lse[begin + i] = softmax_row(x.p + i * width, begin + i + 1, width, heads.scale());
    small_product(count, dim, width, {x.p, width, 1}, x.values, dim, x.out, dim, false);
    store_head<T>(x.out, out, first + begin, count, column, dim);
  }
}

/// p from the scores in x.p and the saved lse, then ds times the scale, for query i of the block.
template <class T>
void gradient_row(const BackwardScratch& x, int64_t i, int64_t seen, int64_t width, int64_t dim, float scale,
                  float lse, const T* out) {
  float *p = x.p + i * width, *ds = x.ds + i * width;
  double dot = 0;
  for (int64_t d = 0; d < dim; ++d)
    dot += static_cast<double>(x.dout[i * dim + d]) * static_cast<double>(to_float(out[d]));
  const float delta = static_cast<float>(dot);
  for (int64_t j = 0; j < seen; ++j) {
    p[j] = std::exp(p[j] * scale - lse);
    ds[j] = p[j] * (ds[j] - delta) * scale;
  }
  std::fill(p + seen, p + width, 0.0f);
  std::fill(ds + seen, ds + width, 0.0f);
}

struct Gradients {
  const Matrix &q, &k, &v, &out;
  const float* lse;
  const Matrix &dout, &dq, &dk, &dv;
};

/// One k/v head with the query heads that read it, so that nobody else adds to its dk and dv.
template <class T>
void backward_group(const Heads& heads, int64_t sequence, int64_t kv_head, const Gradients& g,
                    const BackwardScratch& x) {
  const int64_t seq = heads.shape.seq, dim = heads.dim(), first = sequence * seq, kv_column = kv_head * dim;
  load_head<T>(g.k, first, seq, kv_column, dim, x.keys);
  load_head_transposed<T>(g.k, first, seq, kv_column, dim, x.keys_t);
  load_head_transposed<T>(g.v, first, seq, kv_column, dim, x.values_t);
  std::fill_n(x.dk, seq * dim, 0.0f);
  std::fill_n(x.dv, seq * dim, 0.0f);
  for (int64_t head = kv_head * heads.group(); head < (kv_head + 1) * heads.group(); ++head) {
    const int64_t column = head * dim;
    const float* lse = g.lse + (sequence * heads.shape.heads + head) * seq;
    for (int64_t begin = 0; begin < seq; begin += kQueries) {
      const int64_t count = std::min(kQueries, seq - begin), width = begin + count;
      load_head<T>(g.q, first + begin, count, column, dim, x.queries);
      load_head<T>(g.dout, first + begin, count, column, dim, x.dout);
      small_product(count, width, dim, {x.queries, dim, 1}, x.keys_t, seq, x.p, width, false);
      small_product(count, width, dim, {x.dout, dim, 1}, x.values_t, seq, x.ds, width, false);
      for (int64_t i = 0; i < count; ++i)
        gradient_row<T>(x, i, begin + i + 1, width, dim, heads.scale(), lse[begin + i],
                        row<T>(g.out, first + begin + i) + column);
      small_product(count, dim, width, {x.ds, width, 1}, x.keys, dim, x.dq, dim, false);
      small_product(width, dim, count, {x.ds, 1, width}, x.queries, dim, x.dk, dim, true);
      small_product(width, dim, count, {x.p, 1, width}, x.dout, dim, x.dv, dim, true);
      store_head<T>(x.dq, g.dq, first + begin, count, column, dim);
    }
  }
  store_head<T>(x.dk, g.dk, first, seq, kv_column, dim);
  store_head<T>(x.dv, g.dv, first, seq, kv_column, dim);
}

void check(const char* operation, const AttentionShape& x, std::initializer_list<const Matrix*> q_like,
           std::initializer_list<const Matrix*> k_like) {
  if (x.kv_heads < 1 || x.heads % x.kv_heads != 0)
    throw std::logic_error(fmt::format("{}: {} heads over {} k/v heads", operation, x.heads, x.kv_heads));
  for (const Matrix* m : q_like)
    expect_shape(operation, *m, x.tokens(), x.heads * x.head_dim, (*q_like.begin())->type);
  for (const Matrix* m : k_like)
    expect_shape(operation, *m, x.tokens(), x.kv_heads * x.head_dim, (*q_like.begin())->type);
}

/// f(unit, scratch of the thread) for units 0 .. count-1, in parallel.
template <class Scratch, class F>
void for_each_unit(int threads, int64_t count, int64_t seq, int64_t dim, HostScratch& memory, Device& device,
                   F&& f) {
  Cutter measure(nullptr);
  (void)Scratch(measure, seq, dim);
  const int team = static_cast<int>(std::min<int64_t>(threads, count));
  float* all = memory.floats(device, measure.used() * team);
#pragma omp parallel num_threads(team)
  {
    Cutter cut(all + omp_get_thread_num() * measure.used());
    const Scratch scratch(cut, seq, dim);
#pragma omp for schedule(dynamic)
    for (int64_t unit = 0; unit < count; ++unit) f(unit, scratch);
  }
}

}  // namespace

void HostOps::attention(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                        const Matrix& out, float* lse, Stream&) {
  check("attention", shape, {&q, &out}, {&k, &v});
  if (shape.tokens() == 0) return;
  const Heads heads{shape};
  with_activation(q.type, "attention", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_unit<ForwardScratch>(threads_, shape.batch * shape.heads, shape.seq, shape.head_dim, heads_,
                                  device_, [&](int64_t unit, const ForwardScratch& x) {
                                    forward_head<T>(heads, unit / shape.heads, unit % shape.heads, q, k, v,
                                                    out, lse + unit * shape.seq, x);
                                  });
  });
}

void HostOps::attention_backward(const AttentionShape& shape, const Matrix& q, const Matrix& k,
                                 const Matrix& v, const Matrix& out, const float* lse, const Matrix& dout,
                                 const Matrix& dq, const Matrix& dk, const Matrix& dv, Stream&) {
  check("attention_backward", shape, {&q, &out, &dout, &dq}, {&k, &v, &dk, &dv});
  if (shape.tokens() == 0) return;
  const Heads heads{shape};
  const Gradients g{q, k, v, out, lse, dout, dq, dk, dv};
  with_activation(q.type, "attention_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_unit<BackwardScratch>(threads_, shape.batch * shape.kv_heads, shape.seq, shape.head_dim, heads_,
                                   device_, [&](int64_t unit, const BackwardScratch& x) {
                                     backward_group<T>(heads, unit / shape.kv_heads, unit % shape.kv_heads, g,
                                                       x);
                                   });
  });
}

}  // namespace tt

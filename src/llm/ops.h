// The operations a training step is made of, on whichever device: host (OpenMP, BLAS) and cuda (cuBLASLt,
// cuDNN, own kernels, in libtt_cuda.so). All of them enqueue on the stream, accumulate in fp32 or better, and
// give the same bits every time they are given the same (no floating-point atomics). Unless said otherwise
// activations, weights and gradients of activations are of one type T, f32 or bf16, and gradients of
// parameters are f32.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/dtype.h"
#include "common/stream.h"
#include "src/device/device.h"

namespace tt {

/// A row-major matrix in device memory: element (r, c) at data + (r * ld + c). For the 8-bit types the value
/// is the stored one times *scale (device memory, one float for the whole matrix); elsewhere scale is null.
struct Matrix {
  void* data = nullptr;
  DType type = DType::f32;
  int64_t rows = 0, cols = 0, ld = 0;
  const float* scale = nullptr;

  static Matrix packed(void* data, DType type, int64_t rows, int64_t cols, const float* scale = nullptr) {
    return {data, type, rows, cols, cols, scale};
  }
  /// Columns first .. first + count - 1.
  Matrix columns(int64_t first, int64_t count) const {
    return {
        static_cast<char*>(data) + static_cast<size_t>(first) * size_of(type), type, rows, count, ld, scale};
  }
  /// Rows first .. first + count - 1.
  Matrix rows_from(int64_t first, int64_t count) const {
    return {static_cast<char*>(data) + static_cast<size_t>(first * ld) * size_of(type),
            type,
            count,
            cols,
            ld,
            scale};
  }
  bool contiguous() const { return ld == cols; }
  int64_t count() const { return rows * cols; }
};

/// c = alpha op(a) op(b) + beta * add, where op(x) is x or its transpose.
///   a, b   both f32, both bf16, or both of 8 bits (e4m3 x e4m3, e5m2 x e4m3, e4m3 x e5m2; then ta = false,
///   tb = true
///          only, scale set, and k, n multiples of 16 on cuda)
///   c      f32 or bf16; f32 x f32 gives f32
///   add    same shape, type and ld as c (may be c itself); unused when beta = 0, c is then only written
/// f32 products are true fp32, or tf32 on cuda if `tf32`.
struct Product {
  Matrix a, b, c;
  bool ta = false, tb = true;
  float alpha = 1, beta = 0;
  const void* add = nullptr;
  bool tf32 = false;
};

/// Causal attention over `batch` sequences of `seq` tokens; q head h reads k/v head h / (heads / kv_heads).
struct AttentionShape {
  int64_t batch = 1, seq = 1, heads = 1, kv_heads = 1, head_dim = 64;
  int64_t tokens() const { return batch * seq; }
};

/// The step of AdamW (Loshchilov and Hutter 2019) as torch.optim.AdamW takes it:
///   p -= lr wd p;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
///   p -= lr / (1-b1^t) * m / (sqrt(v / (1-b2^t)) + eps)
struct AdamWStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  int64_t t = 1;  // 1 at the first step
};

/// One micro-batch's tokens on the device. Sequences one after the other: row = sequence * seq + position.
struct TokenRows {
  const int32_t* inputs = nullptr;   // [rows], 0 <= id < vocabulary
  const int32_t* targets = nullptr;  // [rows]; negative: this row is not trained
  /// Rows ordered by input id (stably), for a deterministic gradient of the embedding.
  const int32_t* order = nullptr;  // [rows]
  int64_t rows = 0;
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual Device& device() = 0;

  /// LibraryError / DeviceError with the library's text; SkippedError when the device cannot do these types.
  virtual void multiply(const Product& p, Stream& s) = 0;

  /// y = x * rstd * w per row, rstd = 1 / sqrt(mean(x^2) + eps); x, y [rows, dim], w [dim] of type T, rstd
  /// [rows] f32.
  virtual void rms_norm(const Matrix& x, const void* w, const Matrix& y, float* rstd, float eps,
                        Stream& s) = 0;
  /// dx = gradient of x (+ dx's old value if `accumulate`); dw [dim] f32 += gradient of w, unless null.
  ///   g = dy * w;  dx = rstd * (g - x * rstd^2 * mean(g * x));  dw += sum over rows of dy * x * rstd
  virtual void rms_norm_backward(const Matrix& dy, const Matrix& x, const void* w, const float* rstd,
                                 const Matrix& dx, bool accumulate, float* dw, Stream& s) = 0;

  /// Rotates in place each head of x [tokens, heads * head_dim]: with i < head_dim/2, (x_i, x_{i+head_dim/2})
  /// by the angle whose cos and sin are table[position * head_dim + i] and [... + head_dim/2 + i] (f32, [seq,
  /// head_dim]), position = row % seq; by minus the angle if `inverse` (the gradient).
  virtual void rope(const Matrix& x, const AttentionShape& shape, int64_t heads, const float* table,
                    bool inverse, Stream& s) = 0;

  /// q, out [tokens, heads * head_dim], k, v [tokens, kv_heads * head_dim], lse [batch, heads, seq] f32:
  /// natural log of the sum of exp of the scores scaled by 1 / sqrt(head_dim).
  virtual void attention(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                         const Matrix& out, float* lse, Stream& s) = 0;
  virtual void attention_backward(const AttentionShape& shape, const Matrix& q, const Matrix& k,
                                  const Matrix& v, const Matrix& out, const float* lse, const Matrix& dout,
                                  const Matrix& dq, const Matrix& dk, const Matrix& dv, Stream& s) = 0;
  /// Bytes of workspace that attention and its gradient hold for this shape and type (0 on the host).
  virtual int64_t attention_workspace(const AttentionShape& shape, DType type) = 0;
  /// What runs attention for this shape and type: "cuDNN 9.14 …", "own kernel", "OpenMP"; for the record.
  virtual std::string attention_name(const AttentionShape& shape, DType type) = 0;

  /// act = silu(gate) * up; gate_up [rows, 2 * inner]: gate in the first half of the columns, up in the
  /// second.
  virtual void swiglu(const Matrix& gate_up, const Matrix& act, Stream& s) = 0;
  /// d_gate_up from d_act; writes act anew as well unless act.data is null. d_gate_up may be gate_up itself.
  virtual void swiglu_backward(const Matrix& d_act, const Matrix& gate_up, const Matrix& d_gate_up,
                               const Matrix& act, Stream& s) = 0;

  /// out[row] = table[inputs[row]]; table [vocabulary, dim].
  virtual void embedding(const TokenRows& tokens, const Matrix& table, const Matrix& out, Stream& s) = 0;
  /// d_table (f32) [inputs[row]] += d_out[row], in the order of `tokens.order`.
  virtual void embedding_backward(const TokenRows& tokens, const Matrix& d_out, const Matrix& d_table,
                                  Stream& s) = 0;

  /// Rows of logits [rows, vocabulary] against targets: row_loss[r] = lse(logits) - logits[target] (0 where
  /// target < 0), and, if `gradient`, logits become grad_scale * (softmax - onehot) (0 where target < 0).
  virtual void cross_entropy(const Matrix& logits, const int32_t* targets, float* row_loss, float grad_scale,
                             bool gradient, Stream& s) = 0;
  /// targets[r] ~ softmax(logits[r]) by the Gumbel-max of counter-based uniforms of (seed, counter + r *
  /// vocabulary + j) and entropy[r] = that row's entropy in nats, unless null.
  virtual void sample(const Matrix& logits, uint64_t seed, uint64_t counter, int32_t* targets, float* entropy,
                      Stream& s) = 0;
  /// Mean squared error over all elements: row_loss[r] = sum over the row of (y - target)^2; dy = 2 scale (y
  /// - target).
  virtual void squared_error(const Matrix& y, const Matrix& target, float* row_loss, const Matrix& dy,
                             float scale, Stream& s) = 0;

  /// One AdamW step over `count` parameters. master, m, v, grad: f32. g = *grad_factor * grad (null: 1).
  /// `copy`, unless null, receives the new parameters rounded to copy_type.
  virtual void adamw(float* master, float* m, float* v, const float* grad, const float* grad_factor,
                     void* copy, DType copy_type, int64_t count, const AdamWStep& step, Stream& s) = 0;

  /// *sum = (add ? *sum : 0) + sum of x_i (`squares`: of x_i^2), in double, in an order that depends on
  /// `count` alone.
  virtual void sum(const void* x, DType type, int64_t count, bool squares, bool add, double* sum,
                   Stream& s) = 0;
  /// norm = sqrt(*sum_of_squares); factor = min(1, max_norm / (norm + 1e-6)), as
  /// torch.nn.utils.clip_grad_norm_ has it; max_norm <= 0: factor 1.
  virtual void clip_factor(const double* sum_of_squares, double max_norm, float* factor, float* norm,
                           Stream& s) = 0;

  /// to = from, rounded to nearest even. Any of f32, bf16, f16, f8e4m3, f8e5m2 (the 8-bit types saturate).
  virtual void convert(const void* from, DType from_type, void* to, DType to_type, int64_t count,
                       Stream& s) = 0;
  /// y = alpha * x + beta * y, both T (x may be null when alpha is 0; y is only written when beta is 0).
  /// Matrices may have different ld.
  virtual void axpby(float alpha, const Matrix& x, float beta, const Matrix& y, Stream& s) = 0;

  /// Current scaling: *scale = amax(x) / largest(type) (1 where amax is 0), out = x / *scale rounded to
  /// out.type, and its transpose into out_t (out or out_t may have data = null). out [rows, cols], out_t
  /// [cols, rows], x of type T. scale is where out.scale and out_t.scale point to.
  virtual void quantize(const Matrix& x, const Matrix& out, const Matrix& out_t, float* scale, Stream& s) = 0;
  /// to [cols, rows] = transpose of from, elements of 8 bits.
  virtual void transpose8(const Matrix& from, const Matrix& to, Stream& s) = 0;

  /// y = x * mask / (1 - p), mask_e = uniform(seed, first_element + e) >= p, e = row * cols + col of x; T; y
  /// may be x.
  virtual void dropout(const Matrix& x, const Matrix& y, double p, uint64_t seed, uint64_t first_element,
                       Stream& s) = 0;

  /// *count = (add ? *count : 0) + elements that are NaN or infinite.
  virtual void count_nonfinite(const void* x, DType type, int64_t count, bool add, int64_t* result,
                               Stream& s) = 0;
  /// *hash = sum over 4-byte words w_i of mix64(w_i, i) mod 2^64 (src/device/random.h); bytes a multiple
  /// of 4.
  virtual void hash(const void* data, size_t bytes, uint64_t* hash, Stream& s) = 0;
};

/// The operations on this device. EnvironmentError when a library that they need cannot be loaded.
std::unique_ptr<Ops> open_ops(Device& device, int threads);

}  // namespace tt

// The operations of a training step in double precision, written from their formulas, loop by loop, sharing
// nothing with src/llm. Matrices are packed and row-major; arguments are not changed unless said.
#pragma once

#include <cstdint>
#include <vector>

namespace tt::reference {

using Doubles = std::vector<double>;

/// r = 1 / sqrt(mean(x^2) + eps);  y = x r w. x, y [rows, dim], w [dim], rstd [rows].
struct RmsNorm {
  Doubles y, rstd;
};
RmsNorm rms_norm(const Doubles& x, const Doubles& w, int64_t rows, int64_t dim, double eps);

/// From dr/dx_j = -r^3 x_j / dim:
///   dx_j = r w_j dy_j - x_j r^3 / dim * sum_i(dy_i w_i x_i);  dw_j = sum over rows of dy_j x_j r
struct RmsNormGradient {
  Doubles dx, dw;
};
RmsNormGradient rms_norm_backward(const Doubles& dy, const Doubles& x, const Doubles& w, int64_t rows,
                                  int64_t dim, double eps);

/// Angles' inverse frequencies, [head_dim / 2]: theta^(-2i / head_dim); with `llama3`, of wavelength
/// l = 2 pi / f: f for l < original / high_factor, f / factor for l > original / low_factor, and between them
/// (1 - s) f / factor + s f with s = (original / l - low_factor) / (high_factor - low_factor)
/// (transformers' _compute_llama3_parameters).
struct RopeScaling {
  double theta = 10000;
  bool llama3 = false;
  double factor = 1, low_factor = 1, high_factor = 4, original = 8192;
};
Doubles rope_frequencies(const RopeScaling& rope, int64_t head_dim);

/// Pairs (x_i, x_{i + head_dim/2}) of each head turned by position * frequency_i (minus that if `inverse`):
///   y_i = x_i cos - x_{i+h} sin,  y_{i+h} = x_{i+h} cos + x_i sin;  position = row % seq. x [rows, heads *
///   head_dim].
Doubles rope(const Doubles& x, int64_t rows, int64_t seq, int64_t heads, int64_t head_dim,
             const Doubles& frequencies, bool inverse);

struct AttentionDims {
  int64_t batch = 1, seq = 1, heads = 1, kv_heads = 1, head_dim = 1;
};
/// s_ij = q_i . k_j / sqrt(head_dim) for j <= i;  p = softmax_j(s);  out_i = sum_j p_ij v_j;
/// lse_i = log sum_j exp(s_ij). Head h reads k/v head h / (heads / kv_heads). q, out [batch * seq, heads *
/// head_dim], k, v [batch * seq, kv_heads * head_dim], lse [batch, heads, seq]. magnitude: out with |v|.
struct Attention {
  Doubles out, lse, magnitude;
};
Attention attention(const AttentionDims& dims, const Doubles& q, const Doubles& k, const Doubles& v);

/// dv_j = sum_i p_ij dout_i;  dp_ij = dout_i . v_j;  ds_ij = p_ij (dp_ij - sum_l p_il dp_il);
/// dq_i = sum_j ds_ij k_j / sqrt(head_dim);  dk_j = sum_i ds_ij q_i / sqrt(head_dim). The magnitudes are the
/// same sums with p_ij (|dout_i| . |v_j| + sum_l p_il |dout_i| . |v_l|) for ds_ij and absolute values
/// throughout: what the rounding errors of any order of summation are proportional to.
struct AttentionGradient {
  Doubles dq, dk, dv, dq_magnitude, dk_magnitude, dv_magnitude;
};
AttentionGradient attention_backward(const AttentionDims& dims, const Doubles& q, const Doubles& k,
                                     const Doubles& v, const Doubles& dout);

/// silu(g) u with silu(g) = g / (1 + exp(-g)). gate_up [rows, 2 inner], gate first.
Doubles swiglu(const Doubles& gate_up, int64_t rows, int64_t inner);
/// With s = 1 / (1 + exp(-g)): dg = d u (s + g s (1 - s)), du = d g s.
Doubles swiglu_backward(const Doubles& d_act, const Doubles& gate_up, int64_t rows, int64_t inner);

/// loss_r = log sum_j exp(x_j) - x_target, 0 for a negative target; gradient [rows, vocabulary] =
/// scale (softmax(x) - onehot(target)), 0 for a negative target.
struct CrossEntropy {
  Doubles loss, gradient;
};
CrossEntropy cross_entropy(const Doubles& logits, const std::vector<int32_t>& targets, int64_t rows,
                           int64_t vocabulary, double scale);

/// -sum p log p of softmax(logits) in nats, per row.
Doubles entropy(const Doubles& logits, int64_t rows, int64_t vocabulary);

/// y = x W^T, x [rows, in], W [out, in].
Doubles linear(const Doubles& x, const Doubles& w, int64_t rows, int64_t in, int64_t out);
/// dx = dy W and dW = dy^T x.
Doubles linear_input_gradient(const Doubles& dy, const Doubles& w, int64_t rows, int64_t in, int64_t out);
Doubles linear_weight_gradient(const Doubles& dy, const Doubles& x, int64_t rows, int64_t in, int64_t out);

/// AdamW as torch.optim.AdamW defines it (Loshchilov and Hutter 2019): decoupled decay, bias-corrected
/// moments, eps added to the root.
///   p = (1 - lr wd) p;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;
///   p = p - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
struct AdamW {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
};
struct AdamWState {
  Doubles m, v;  // empty: zeros
  int64_t t = 0;
};
void adamw_step(const AdamW& rule, Doubles& parameters, const Doubles& gradient, AdamWState& state);

/// min(1, max_norm / (norm + 1e-6)), 1 for max_norm <= 0 (torch.nn.utils.clip_grad_norm_).
double clip_factor(double norm, double max_norm);

}  // namespace tt::reference

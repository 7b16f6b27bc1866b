#include "verify/reference/llm_reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "verify/reference/gemm.h"

namespace tt::reference {
namespace {

Doubles zeros(int64_t count) {
  return Doubles(static_cast<size_t>(count));
}
/// Element (r, c) of a packed matrix, checked.
double& at(Doubles& x, int64_t r, int64_t c, int64_t cols) {
  return x.at(static_cast<size_t>(r * cols + c));
}
double at(const Doubles& x, int64_t r, int64_t c, int64_t cols) {
  return x.at(static_cast<size_t>(r * cols + c));
}

double inverse_rms(const Doubles& x, int64_t r, int64_t dim, double eps) {
  double squares = 0;
  for (int64_t c = 0; c < dim; ++c) squares += at(x, r, c, dim) * at(x, r, c, dim);
  return 1 / std::sqrt(squares / static_cast<double>(dim) + eps);
}

}  // namespace

RmsNorm rms_norm(const Doubles& x, const Doubles& w, int64_t rows, int64_t dim, double eps) {
  RmsNorm result{zeros(rows * dim), zeros(rows)};
  for (int64_t r = 0; r < rows; ++r) {
    const double rstd = inverse_rms(x, r, dim, eps);
    at(result.rstd, r, 0, 1) = rstd;
    for (int64_t c = 0; c < dim; ++c) at(result.y, r, c, dim) = at(x, r, c, dim) * rstd * at(w, 0, c, dim);
  }
  return result;
}

RmsNormGradient rms_norm_backward(const Doubles& dy, const Doubles& x, const Doubles& w, int64_t rows,
                                  int64_t dim, double eps) {
  RmsNormGradient result{zeros(rows * dim), zeros(dim)};
  for (int64_t r = 0; r < rows; ++r) {
    const double rstd = inverse_rms(x, r, dim, eps);
    double dot = 0;
    for (int64_t c = 0; c < dim; ++c) dot += at(dy, r, c, dim) * at(w, 0, c, dim) * at(x, r, c, dim);
    for (int64_t c = 0; c < dim; ++c) {
      at(result.dx, r, c, dim) = rstd * at(w, 0, c, dim) * at(dy, r, c, dim) -
                                 at(x, r, c, dim) * std::pow(rstd, 3) / static_cast<double>(dim) * dot;
      at(result.dw, 0, c, dim) += at(dy, r, c, dim) * at(x, r, c, dim) * rstd;
    }
  }
  return result;
}

Doubles rope_frequencies(const RopeScaling& rope, int64_t head_dim) {
  Doubles frequencies;
  const double pi = std::acos(-1.0);
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double plain = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    const double length = 2 * pi / plain;
    double f = plain;
    if (rope.llama3 && length > rope.original / rope.low_factor) {
      f = plain / rope.factor;
    } else if (rope.llama3 && length >= rope.original / rope.high_factor) {
      const double s = (rope.original / length - rope.low_factor) / (rope.high_factor - rope.low_factor);
      f = (1 - s) * plain / rope.factor + s * plain;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

Doubles rope(const Doubles& x, int64_t rows, int64_t seq, int64_t heads, int64_t head_dim,
             const Doubles& frequencies, bool inverse) {
  Doubles y = x;
  const int64_t half = head_dim / 2, cols = heads * head_dim;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            (inverse ? -1.0 : 1.0) * static_cast<double>(r % seq) * frequencies.at(static_cast<size_t>(i));
        const int64_t low = h * head_dim + i, high = low + half;
        at(y, r, low, cols) = at(x, r, low, cols) * std::cos(angle) - at(x, r, high, cols) * std::sin(angle);
        at(y, r, high, cols) = at(x, r, high, cols) * std::cos(angle) + at(x, r, low, cols) * std::sin(angle);
      }
  return y;
}

namespace {

/// One head of one sequence: rows `first` on, columns of q and of k/v from here.
struct Head {
  int64_t first, q_column, kv_column, q_cols, kv_cols;
};
Head head_of(const AttentionDims& d, int64_t b, int64_t h) {
  return {b * d.seq, h * d.head_dim, h / (d.heads / d.kv_heads) * d.head_dim, d.heads * d.head_dim,
          d.kv_heads * d.head_dim};
}

/// Probabilities of query i over keys 0 .. i, and lse.
Doubles probabilities(const AttentionDims& d, const Head& x, const Doubles& q, const Doubles& k, int64_t i,
                      double& lse) {
  Doubles p;
  for (int64_t j = 0; j <= i; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < d.head_dim; ++c)
      dot += at(q, x.first + i, x.q_column + c, x.q_cols) * at(k, x.first + j, x.kv_column + c, x.kv_cols);
    p.push_back(dot / std::sqrt(static_cast<double>(d.head_dim)));
  }
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (const double s : p) sum += std::exp(s - largest);
  lse = largest + std::log(sum);
  for (double& s : p) s = std::exp(s - lse);
  return p;
}

}  // namespace

Attention attention(const AttentionDims& d, const Doubles& q, const Doubles& k, const Doubles& v) {
  Attention result{Doubles(q.size()), zeros(d.batch * d.heads * d.seq), Doubles(q.size())};
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t h = 0; h < d.heads; ++h) {
      const Head x = head_of(d, b, h);
      for (int64_t i = 0; i < d.seq; ++i) {
        const Doubles p = probabilities(d, x, q, k, i, at(result.lse, b * d.heads + h, i, d.seq));
        for (int64_t j = 0; j <= i; ++j)
          for (int64_t c = 0; c < d.head_dim; ++c) {
            const double term = p.at(static_cast<size_t>(j)) * at(v, x.first + j, x.kv_column + c, x.kv_cols);
            at(result.out, x.first + i, x.q_column + c, x.q_cols) += term;
            at(result.magnitude, x.first + i, x.q_column + c, x.q_cols) += std::abs(term);
          }
      }
    }
  return result;
}

AttentionGradient attention_backward(const AttentionDims& d, const Doubles& q, const Doubles& k,
                                     const Doubles& v, const Doubles& dout) {
  AttentionGradient g{Doubles(q.size()), Doubles(k.size()), Doubles(k.size()),
                      Doubles(q.size()), Doubles(k.size()), Doubles(k.size())};
  const double scale = 1 / std::sqrt(static_cast<double>(d.head_dim));
  for (int64_t b = 0; b < d.batch; ++b)
    for (int64_t h = 0; h < d.heads; ++h) {
      const Head x = head_of(d, b, h);
      for (int64_t i = 0; i < d.seq; ++i) {
        double lse = 0;
        const Doubles p = probabilities(d, x, q, k, i, lse);
        Doubles dp, size;  // size: of dp's terms
        double mean = 0, mean_size = 0;
        for (int64_t j = 0; j <= i; ++j) {
          double dot = 0, dot_size = 0;
          for (int64_t c = 0; c < d.head_dim; ++c) {
            const double term = at(dout, x.first + i, x.q_column + c, x.q_cols) *
                                at(v, x.first + j, x.kv_column + c, x.kv_cols);
            dot += term;
            dot_size += std::abs(term);
          }
          dp.push_back(dot);
          size.push_back(dot_size);
          mean += p.at(static_cast<size_t>(j)) * dot;
          mean_size += p.at(static_cast<size_t>(j)) * dot_size;
        }
        for (int64_t j = 0; j <= i; ++j) {
          const size_t n = static_cast<size_t>(j);
          const double ds = p.at(n) * (dp.at(n) - mean) * scale;
          const double ds_size = p.at(n) * (size.at(n) + mean_size) * scale;
          for (int64_t c = 0; c < d.head_dim; ++c) {
            const int64_t qr = x.first + i, qc = x.q_column + c, kr = x.first + j, kc = x.kv_column + c;
            const double q_value = at(q, qr, qc, x.q_cols), k_value = at(k, kr, kc, x.kv_cols);
            const double d_value = at(dout, qr, qc, x.q_cols);
            at(g.dq, qr, qc, x.q_cols) += ds * k_value;
            at(g.dk, kr, kc, x.kv_cols) += ds * q_value;
            at(g.dv, kr, kc, x.kv_cols) += p.at(n) * d_value;
            at(g.dq_magnitude, qr, qc, x.q_cols) += ds_size * std::abs(k_value);
            at(g.dk_magnitude, kr, kc, x.kv_cols) += ds_size * std::abs(q_value);
            at(g.dv_magnitude, kr, kc, x.kv_cols) += p.at(n) * std::abs(d_value);
          }
        }
      }
    }
  return g;
}

Doubles swiglu(const Doubles& gate_up, int64_t rows, int64_t inner) {
  Doubles act = zeros(rows * inner);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < inner; ++c) {
      const double g = at(gate_up, r, c, 2 * inner), u = at(gate_up, r, inner + c, 2 * inner);
      at(act, r, c, inner) = g / (1 + std::exp(-g)) * u;
    }
  return act;
}

Doubles swiglu_backward(const Doubles& d_act, const Doubles& gate_up, int64_t rows, int64_t inner) {
  Doubles d = zeros(rows * 2 * inner);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < inner; ++c) {
      const double g = at(gate_up, r, c, 2 * inner), u = at(gate_up, r, inner + c, 2 * inner);
      const double s = 1 / (1 + std::exp(-g));
      at(d, r, c, 2 * inner) = at(d_act, r, c, inner) * u * (s + g * s * (1 - s));
      at(d, r, inner + c, 2 * inner) = at(d_act, r, c, inner) * g * s;
    }
  return d;
}

namespace {

double log_sum_exp(const Doubles& logits, int64_t r, int64_t vocabulary) {
  double largest = at(logits, r, 0, vocabulary), sum = 0;
  for (int64_t j = 0; j < vocabulary; ++j) largest = std::max(largest, at(logits, r, j, vocabulary));
  for (int64_t j = 0; j < vocabulary; ++j) sum += std::exp(at(logits, r, j, vocabulary) - largest);
  return largest + std::log(sum);
}

}  // namespace

CrossEntropy cross_entropy(const Doubles& logits, const std::vector<int32_t>& targets, int64_t rows,
                           int64_t vocabulary, double scale) {
  CrossEntropy result{zeros(rows), zeros(rows * vocabulary)};
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t target = targets.at(static_cast<size_t>(r));
    if (target < 0) continue;
    const double lse = log_sum_exp(logits, r, vocabulary);
    at(result.loss, r, 0, 1) = lse - at(logits, r, target, vocabulary);
    for (int64_t j = 0; j < vocabulary; ++j)
      at(result.gradient, r, j, vocabulary) =
          scale * (std::exp(at(logits, r, j, vocabulary) - lse) - (j == target ? 1 : 0));
  }
  return result;
}

Doubles entropy(const Doubles& logits, int64_t rows, int64_t vocabulary) {
  Doubles result = zeros(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const double lse = log_sum_exp(logits, r, vocabulary);
    for (int64_t j = 0; j < vocabulary; ++j) {
      const double log_p = at(logits, r, j, vocabulary) - lse;
      if (std::exp(log_p) > 0) at(result, r, 0, 1) -= std::exp(log_p) * log_p;
    }
  }
  return result;
}

Doubles linear(const Doubles& x, const Doubles& w, int64_t rows, int64_t in, int64_t out) {
  return gemm(x, w, rows, out, in, false, true);
}

Doubles linear_input_gradient(const Doubles& dy, const Doubles& w, int64_t rows, int64_t in, int64_t out) {
  return gemm(dy, w, rows, in, out, false, false);
}

Doubles linear_weight_gradient(const Doubles& dy, const Doubles& x, int64_t rows, int64_t in, int64_t out) {
  return gemm(dy, x, out, in, rows, true, false);
}

void adamw_step(const AdamW& rule, Doubles& parameters, const Doubles& gradient, AdamWState& state) {
  state.m.resize(parameters.size());
  state.v.resize(parameters.size());
  const double t = static_cast<double>(++state.t);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const double g = gradient.at(i);
    parameters[i] *= 1 - rule.lr * rule.weight_decay;
    state.m[i] = rule.beta1 * state.m[i] + (1 - rule.beta1) * g;
    state.v[i] = rule.beta2 * state.v[i] + (1 - rule.beta2) * g * g;
    const double m_hat = state.m[i] / (1 - std::pow(rule.beta1, t));
    const double v_hat = state.v[i] / (1 - std::pow(rule.beta2, t));
    parameters[i] -= rule.lr * m_hat / (std::sqrt(v_hat) + rule.eps);
  }
}

double clip_factor(double norm, double max_norm) {
  return max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1.0;
}

}  // namespace tt::reference

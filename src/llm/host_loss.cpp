// Losses, targets drawn from a teacher's logits, and the optimiser.
#include <cmath>
#include <limits>

#include "src/llm/counter_random.h"
#include "src/llm/host_ops.h"
#include "src/llm/host_rows.h"

namespace tt {

using namespace host;

namespace {

/// log(sum of exp(x)), from the largest element so that nothing overflows.
template <class T>
double log_sum_exp(const T* x, int64_t count) {
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<float>(to_float(x[i])));
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(std::exp(to_float(x[i]) - largest));
  return static_cast<double>(largest) + std::log(sum);
}

}  // namespace

void HostOps::cross_entropy(const Matrix& logits, const int32_t* targets, float* row_loss, float grad_scale,
                            bool gradient, Stream&) {
  const int64_t vocabulary = logits.cols;
  expect_ids("cross_entropy", targets, logits.rows, std::numeric_limits<int32_t>::min(), vocabulary);
  with_activation(logits.type, "cross_entropy", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(threads_, logits.rows, 4 * vocabulary, [&](int64_t r) {
      T* x = row<T>(logits, r);
      const int32_t target = targets[r];
      if (target < 0) {
        row_loss[r] = 0;
        if (gradient) std::fill_n(x, vocabulary, T{});
        return;
      }
      const double lse = log_sum_exp(x, vocabulary);
      row_loss[r] = static_cast<float>(lse - static_cast<double>(to_float(x[target])));
      if (!gradient) return;
      const float offset = static_cast<float>(lse);
      const float at_target = to_float(x[target]);
      for (int64_t i = 0; i < vocabulary; ++i)
        x[i] = from_float<T>(grad_scale * std::exp(to_float(x[i]) - offset));
      x[target] = from_float<T>(grad_scale * (std::exp(at_target - offset) - 1));
    });
  });
}

void HostOps::sample(const Matrix& logits, uint64_t seed, uint64_t counter, int32_t* targets, float* entropy,
                     Stream&) {
  const int64_t vocabulary = logits.cols;
  with_activation(logits.type, "sample", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(threads_, logits.rows, 16 * vocabulary, [&](int64_t r) {
      const T* x = row<T>(logits, r);
      const uint64_t first = counter + static_cast<uint64_t>(r * vocabulary);
      double best = -std::numeric_limits<double>::infinity();
      int64_t chosen = 0;
      for (int64_t i = 0; i < vocabulary; ++i) {
        const double value =
            static_cast<double>(to_float(x[i])) + gumbel(seed, first + static_cast<uint64_t>(i));
        if (value > best) best = value, chosen = i;
      }
      targets[r] = static_cast<int32_t>(chosen);
      if (!entropy) return;
      const double lse = log_sum_exp(x, vocabulary);
      double sum = 0;  // of -p log p; a p of 0 adds nothing
      for (int64_t i = 0; i < vocabulary; ++i) {
        const double log_p = static_cast<double>(to_float(x[i])) - lse;
        const double p = std::exp(log_p);
        if (p != 0) sum -= p * log_p;
      }
      entropy[r] = static_cast<float>(sum);
    });
  });
}

void HostOps::squared_error(const Matrix& y, const Matrix& target, float* row_loss, const Matrix& dy,
                            float scale, Stream&) {
  expect_shape("squared_error, target", target, y.rows, y.cols, y.type);
  expect_shape("squared_error, dy", dy, y.rows, y.cols, y.type);
  with_activation(y.type, "squared_error", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row(threads_, y.rows, y.cols, [&](int64_t r) {
      const T *a = row<T>(y, r), *b = row<T>(target, r);
      T* d = row<T>(dy, r);
      double sum = 0;
      for (int64_t c = 0; c < y.cols; ++c) {
        const float difference = to_float(a[c]) - to_float(b[c]);
        sum += static_cast<double>(difference) * static_cast<double>(difference);
        d[c] = from_float<T>(2 * scale * difference);
      }
      row_loss[r] = static_cast<float>(sum);
    });
  });
}

void HostOps::adamw(float* master, float* m, float* v, const float* grad, const float* grad_factor,
                    void* copy, DType copy_type, int64_t count, const AdamWStep& step, Stream& s) {
  const float factor = grad_factor ? *grad_factor : 1.0f;
  const double t = static_cast<double>(step.t);
  const float decay = static_cast<float>(1 - step.lr * step.weight_decay);
  const float beta1 = static_cast<float>(step.beta1), beta2 = static_cast<float>(step.beta2);
  const float rest1 = static_cast<float>(1 - step.beta1), rest2 = static_cast<float>(1 - step.beta2);
  const float rate = static_cast<float>(step.lr / (1 - std::pow(step.beta1, t)));
  const float root = static_cast<float>(1 / std::sqrt(1 - std::pow(step.beta2, t)));
  const float eps = static_cast<float>(step.eps);
  for_each_span(threads_, 1, count, [&](int64_t, int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) {
      const float g = grad[i] * factor;
      m[i] = beta1 * m[i] + rest1 * g;
      v[i] = beta2 * v[i] + rest2 * g * g;
      master[i] = master[i] * decay - rate * m[i] / (std::sqrt(v[i]) * root + eps);
    }
  });
  if (copy) convert(master, DType::f32, copy, copy_type, count, s);
}

}  // namespace tt

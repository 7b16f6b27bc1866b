// The operations on the CPU: OpenMP loops, and CBLAS for products. Results do not depend on the number of
// threads, save those of products where the BLAS's do. Work has ended when a call returns.
#pragma once

#include <string>

#include "src/llm/ops.h"

namespace tt {

/// Memory that grows to the largest size asked for; its content does not survive the next call.
class HostScratch {
 public:
  float* floats(Device& device, int64_t count);

 private:
  Buffer buffer_;
};

/// Shapes that do not fit, and ids beyond the vocabulary, are std::logic_error with the figures: the caller's
/// mistake, found before memory is touched.
class HostOps final : public Ops {
 public:
  HostOps(Device& device, int threads);
  Device& device() override { return device_; }

  /// EnvironmentError when the build has no CBLAS. 16 and 8 bits are widened, exactly, and multiplied in f32.
  void multiply(const Product& p, Stream& s) override;

  void rms_norm(const Matrix& x, const void* w, const Matrix& y, float* rstd, float eps, Stream& s) override;
  void rms_norm_backward(const Matrix& dy, const Matrix& x, const void* w, const float* rstd,
                         const Matrix& dx, bool accumulate, float* dw, Stream& s) override;
  void rope(const Matrix& x, const AttentionShape& shape, int64_t heads, const float* table, bool inverse,
            Stream& s) override;

  void attention(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                 const Matrix& out, float* lse, Stream& s) override;
  void attention_backward(const AttentionShape& shape, const Matrix& q, const Matrix& k, const Matrix& v,
                          const Matrix& out, const float* lse, const Matrix& dout, const Matrix& dq,
                          const Matrix& dk, const Matrix& dv, Stream& s) override;
  int64_t attention_workspace(const AttentionShape&, DType) override { return 0; }
  std::string attention_name(const AttentionShape&, DType) override { return "OpenMP"; }

  void swiglu(const Matrix& gate_up, const Matrix& act, Stream& s) override;
  void swiglu_backward(const Matrix& d_act, const Matrix& gate_up, const Matrix& d_gate_up, const Matrix& act,
                       Stream& s) override;

  void embedding(const TokenRows& tokens, const Matrix& table, const Matrix& out, Stream& s) override;
  void embedding_backward(const TokenRows& tokens, const Matrix& d_out, const Matrix& d_table,
                          Stream& s) override;

  void cross_entropy(const Matrix& logits, const int32_t* targets, float* row_loss, float grad_scale,
                     bool gradient, Stream& s) override;
  void sample(const Matrix& logits, uint64_t seed, uint64_t counter, int32_t* targets, float* entropy,
              Stream& s) override;
  void squared_error(const Matrix& y, const Matrix& target, float* row_loss, const Matrix& dy, float scale,
                     Stream& s) override;

  void adamw(float* master, float* m, float* v, const float* grad, const float* grad_factor, void* copy,
             DType copy_type, int64_t count, const AdamWStep& step, Stream& s) override;

  void sum(const void* x, DType type, int64_t count, bool squares, bool add, double* sum, Stream& s) override;
  void clip_factor(const double* sum_of_squares, double max_norm, float* factor, float* norm,
                   Stream& s) override;
  void convert(const void* from, DType from_type, void* to, DType to_type, int64_t count, Stream& s) override;
  void axpby(float alpha, const Matrix& x, float beta, const Matrix& y, Stream& s) override;

  void quantize(const Matrix& x, const Matrix& out, const Matrix& out_t, float* scale, Stream& s) override;
  void transpose8(const Matrix& from, const Matrix& to, Stream& s) override;
  void dropout(const Matrix& x, const Matrix& y, double p, uint64_t seed, uint64_t first_element,
               Stream& s) override;
  void count_nonfinite(const void* x, DType type, int64_t count, bool add, int64_t* result,
                       Stream& s) override;
  void hash(const void* data, size_t bytes, uint64_t* hash, Stream& s) override;

 private:
  Device& device_;
  int threads_;
  HostScratch wide_a_, wide_b_, wide_c_;  // operands and result of a product in f32
  HostScratch heads_;                     // attention: each thread's blocks
};

}  // namespace tt

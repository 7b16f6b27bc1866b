// The products of a decoder layer's projections: base weights in bf16, f32 or fp8, adapters beside them.
//
//   Y = X W^T + sum_j s_j (D_j(X) A_j^T) B_j^T     (D_j: dropout, the identity without)
//   dU_j = s_j dY_j B_j      dB_j += s_j dY_j^T U_j      dA_j += dU_j^T D_j(X)
//   dX = dY W + sum_j D_j(dU_j A_j)      dW += dY^T X (only where W is trained)
//
// fp8 (Hopper): X and W are e4m3, dY is e5m2, each with one scale amax / largest ("current scaling",
// Micikevicius et al. 2022); the tensor cores want both operands contiguous along k, so dX multiplies by a
// transposed copy of W, made when it is needed.
#pragma once

#include <cstdint>

#include "src/llm/llama_layout.h"
#include "src/llm/parameters.h"

namespace tt {

struct ProjectionOptions {
  int64_t tokens = 0;        // rows of X
  double dropout = 0;        // on the adapters' input
  uint64_t seed = 0;         // of the dropout's masks
  bool stale_scale = false;  // fault injection: activations keep the first scale ever seen
};

/// Which dropout mask: the same element of the same row of the global batch gets the same one in every
/// parallel layout.
struct DropoutPlace {
  int64_t step = 0, layer = 0, first_row = 0;
};

class ProjectionMath {
 public:
  /// Scratch is made for the largest of the projections in `refs`.
  ProjectionMath(const TrainContext& context, Parameters& parameters, const LlamaRefs& refs,
                 const ProjectionOptions& options);

  /// y = the projection of x (+ add, unless null; of y's shape and type); u [tokens, stacked_rank] is kept
  /// for backward.
  void forward(const ProjectionRefs& p, const Matrix& x, const Matrix& u, const Matrix& y, const void* add,
               const DropoutPlace& place);
  /// dx from dy; keeps dU for weight_gradients() of the same projection.
  void input_gradient(const ProjectionRefs& p, const Matrix& dy, const Matrix& dx, const DropoutPlace& place);
  /// dA, dB and, where it is trained, dW.
  void weight_gradients(const ProjectionRefs& p, const Matrix& x, const Matrix& u, const Matrix& dy,
                        const DropoutPlace& place);

  int64_t scratch_bytes() const;

 private:
  Matrix narrow_weight(const ProjectionRefs& p, bool transposed);
  Matrix narrow(const Matrix& x, DType type, Buffer& buffer, int scale);
  Matrix narrow_transposed(const Matrix& x, DType type, Buffer& buffer, int scale);
  float* scale(int i) const { return static_cast<float*>(scales_.data()) + i; }
  Matrix adapter_input(const AdapterRefs& adapter, const Matrix& x, const DropoutPlace& place);
  void drop(const AdapterRefs& adapter, const Matrix& x, const Matrix& y, const DropoutPlace& place);
  Matrix d_u(const ProjectionRefs& p) const;

  TrainContext context_;
  Parameters& parameters_;
  ProjectionOptions options_;
  DType type_;
  Buffer d_u_, dropped_;                // [tokens, stacked rank]; [tokens, in]
  Buffer x8_, y8_, w8_, w8t_, scales_;  // fp8
  bool have_stale_ = false;
};

}  // namespace tt

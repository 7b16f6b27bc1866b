// The matrix products of a training step of a Llama model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/gemm/gemm.h"

namespace tt {

/// Dimensions of a Llama model, named as in its Hugging Face config.json.
struct ModelShape {
  std::string name;
  int64_t hidden = 0, intermediate = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, vocabulary = 0;
};

/// Forward, input gradient and weight gradient of q, k, v, o, gate, up, down (one layer) and lm_head for
/// `tokens` tokens, in this order. X [tokens, in], W [out, in] (as PyTorch stores a Linear), Y = X W^T:
///   forward  Y  [tokens, out] = X W^T:    m = tokens, n = out, k = in,     layout nt
///   dgrad    dX [tokens, in]  = dY W:     m = tokens, n = in,  k = out,    layout nn
///   wgrad    dW [out, in]     = dY^T X:   m = out,    n = in,  k = tokens, layout tn
/// A kind whose operands must be contiguous along k (fp8 and narrower) has layout nt throughout, as the
/// training frameworks run it: they keep transposed copies of X, W and dY.
std::vector<GemmProblem> model_problems(const ModelShape& model, int64_t tokens, GemmKind kind);

/// How often a problem of model_problems() occurs in one step: `layers` times, lm_head once.
int64_t occurrences(const ModelShape& model, const GemmProblem& problem);

}  // namespace tt

// The matrix products of a training step of the preset models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/gemm/gemm.h"

namespace tt {

/// Dimensions as in the model's Hugging Face config.json.
struct ModelShape {
  const char* name;
  int64_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary;
  const char* source;
};
const std::vector<ModelShape>& model_shapes();
/// UsageError naming `option`, the text and the accepted names.
const ModelShape& model_shape(std::string_view option, std::string_view name);

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

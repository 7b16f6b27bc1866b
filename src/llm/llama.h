// The Llama model's forward and backward pass over one micro-batch (Touvron et al. 2023, Grattafiori et al.
// 2024):
//   x0 = E[tokens];  per layer  x' = x + Wo attention(rope(Wq n1), rope(Wk n1), Wv n1), n1 = rmsnorm(x)
//                               x  = x' + Wd (silu(Wg n2) * Wu n2),                     n2 = rmsnorm(x')
//   loss = cross-entropy of Wlm rmsnorm(xL) against the next token
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "src/llm/gradient_exchange.h"
#include "src/llm/llama_layout.h"
#include "src/llm/projection.h"

namespace tt {

/// What is computed anew in the backward pass instead of being kept: nothing; from the norm to the
/// attention's output; the whole layer but its input.
enum class Recompute { none, attention, layer };
const char* name_of(Recompute recompute) noexcept;
/// "none", "attention", "layer".
Recompute parse_recompute(std::string_view option, std::string_view text);

struct LlamaOptions {
  int64_t batch = 1, seq = 1;
  Recompute recompute = Recompute::none;
  double dropout = 0;
  uint64_t dropout_seed = 0;
  int64_t logit_rows = 0;  // rows of logits that exist at once; 0: as many as 512 MiB hold
  bool stale_scale = false;
};

struct MicroBatch {
  TokenRows tokens;
  DropoutPlace place;    // layer is filled in
  float grad_scale = 1;  // 1 / trained tokens of the global batch: gradients add up to those of the mean loss
  bool last = true;      // of the step: gradients are sent off as they become complete
};

class Llama {
 public:
  Llama(const TrainContext& context, Parameters& parameters, const ModelConfig& config, const LlamaRefs& refs,
        const LlamaOptions& options);

  /// Forward, loss and backward. row_losses() are those of this micro-batch until the next call.
  void train(const MicroBatch& batch, GradientExchange& exchange);
  /// Forward and loss without gradients.
  void evaluate(const MicroBatch& batch);

  /// Called in evaluate() with each stretch of logits, before the loss: first row, [rows, vocabulary] of the
  /// compute type.
  using LogitsVisitor = std::function<void(int64_t first_row, const Matrix& logits)>;
  void visit_logits(LogitsVisitor visitor) { visitor_ = std::move(visitor); }

  int64_t tokens() const { return options_.batch * options_.seq; }
  float* row_losses() const { return static_cast<float*>(row_loss_.data()); }
  /// The residual stream before layer l (l = layers: after the last), of the last pass; for looking for NaN.
  Matrix residual(int64_t l) const;

  struct Memory {
    int64_t activations = 0, workspace = 0;
  };
  Memory memory() const;

 private:
  /// What a layer keeps for its backward pass.
  struct Kept {
    Buffer norm1, norm2;  // rstd, f32
    Buffer qkv, attention, lse, middle, gate_up;
    std::array<Buffer, kProjections - 1> u;  // x A^T of the projections but the last
  };
  Kept make_kept() const;
  Matrix rows(const Buffer& buffer, int64_t cols) const;
  Kept& kept(int64_t layer) { return kept_[kept_.size() == 1 ? 0 : static_cast<size_t>(layer)]; }

  void forward(const MicroBatch& batch);
  void attention_half(int64_t l, Kept& k, const MicroBatch& batch, bool output);
  void feed_forward_half(int64_t l, Kept& k, const Matrix* out, const MicroBatch& batch);
  void layer_backward(int64_t l, const MicroBatch& batch);
  void attention_backward(const LayerRefs& layer, const Matrix& x, Kept& k, const DropoutPlace& place);
  void feed_forward_backward(int64_t l, Kept& k, const DropoutPlace& place);
  void norm(BlockRef weight, const Matrix& x, const Matrix& y, Buffer& rstd);
  void norm_backward(BlockRef weight, const Matrix& dy, const Matrix& x, const Buffer& rstd, const Matrix& dx,
                     bool accumulate);
  void head(const MicroBatch& batch, bool gradient);
  int next_after(int unit, Pass pass) const;
  DropoutPlace place(const MicroBatch& batch, int64_t layer) const;

  TrainContext context_;
  Parameters& parameters_;
  ModelConfig config_;
  LlamaRefs refs_;
  LlamaOptions options_;
  AttentionShape attention_;
  DType type_;
  ProjectionMath projections_;
  LogitsVisitor visitor_;

  std::vector<Buffer> residual_;  // layers + 1, [tokens, hidden]
  std::vector<Kept> kept_;        // one per layer, or one that all share (Recompute::layer)
  Kept shared_;                   // what is shared with Recompute::attention
  std::vector<Buffer> down_u_;    // x A^T of each layer's last projection, which is never computed anew
  Buffer rope_, row_loss_, logits_, final_rstd_;
  Buffer normed_, activation_;  // [tokens, hidden], [tokens, intermediate]: the inputs of projections
  Buffer gradient_, d_normed_, d_attention_, d_qkv_, d_gate_up_, d_activation_;
};

}  // namespace tt

// From a model's configuration to the dimensions that src/gemm makes products of.
#pragma once

#include "src/gemm/model_shapes.h"
#include "src/llm/model_config.h"

namespace tt {

inline ModelShape shape_of(const ModelConfig& c) {
  return {c.name, c.hidden, c.intermediate, c.layers, c.heads, c.kv_heads, c.head_dim, c.vocabulary};
}

}  // namespace tt

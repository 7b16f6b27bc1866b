#include "src/gemm/model_shapes.h"

#include "common/error.h"
#include "common/quote.h"

namespace tt {

const std::vector<ModelShape>& model_shapes() {
  // hidden_size, intermediate_size, num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim,
  // vocab_size
  static const std::vector<ModelShape> models{
      {"llama3.2-1b", 2048, 8192, 16, 32, 8, 64, 128256,
       "huggingface.co/meta-llama/Llama-3.2-1B config.json"},
      {"llama2-7b", 4096, 11008, 32, 32, 32, 128, 32000,
       "huggingface.co/meta-llama/Llama-2-7b-hf config.json"},
      {"llama2-13b", 5120, 13824, 40, 40, 40, 128, 32000,
       "huggingface.co/meta-llama/Llama-2-13b-hf config.json"},
      {"llama2-70b", 8192, 28672, 80, 64, 8, 128, 32000,
       "huggingface.co/meta-llama/Llama-2-70b-hf config.json"},
      {"llama3.1-8b", 4096, 14336, 32, 32, 8, 128, 128256,
       "huggingface.co/meta-llama/Llama-3.1-8B config.json"},
      {"llama3.1-70b", 8192, 28672, 80, 64, 8, 128, 128256,
       "huggingface.co/meta-llama/Llama-3.1-70B config.json"},
      {"llama3.1-405b", 16384, 53248, 126, 128, 8, 128, 128256,
       "huggingface.co/meta-llama/Llama-3.1-405B config.json"},
  };
  return models;
}

const ModelShape& model_shape(std::string_view option, std::string_view name) {
  std::string accepted;
  for (const ModelShape& model : model_shapes()) {
    if (name == model.name) return model;
    accepted += std::string(" ") + model.name;
  }
  throw UsageError(std::string(option) + ": unknown model " + in_quotes(name) + "; accepted:" + accepted);
}

std::vector<GemmProblem> model_problems(const ModelShape& model, int64_t tokens, GemmKind kind) {
  struct Projection {
    const char* name;
    int64_t out, in;
  };
  const int64_t q = model.heads * model.head_dim, kv = model.kv_heads * model.head_dim;
  const Projection projections[] = {{"q_proj", q, model.hidden},
                                    {"k_proj", kv, model.hidden},
                                    {"v_proj", kv, model.hidden},
                                    {"o_proj", model.hidden, q},
                                    {"gate_proj", model.intermediate, model.hidden},
                                    {"up_proj", model.intermediate, model.hidden},
                                    {"down_proj", model.hidden, model.intermediate},
                                    {"lm_head", model.vocabulary, model.hidden}};
  const bool always_nt = traits(kind).default_tb;
  std::vector<GemmProblem> problems;
  const auto add = [&](int64_t m, int64_t n, int64_t k, bool ta, bool tb, const std::string& label) {
    if (always_nt) ta = false, tb = true;
    problems.push_back({kind, m, n, k, ta, tb, label});
  };
  for (const Projection& p : projections) {
    add(tokens, p.out, p.in, false, true, std::string(p.name) + ".forward");
    add(tokens, p.in, p.out, false, false, std::string(p.name) + ".dgrad");
    add(p.out, p.in, tokens, true, false, std::string(p.name) + ".wgrad");
  }
  return problems;
}

int64_t occurrences(const ModelShape& model, const GemmProblem& problem) {
  return problem.label.starts_with("lm_head") ? 1 : model.layers;
}

}  // namespace tt

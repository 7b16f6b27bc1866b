#include "src/gemm/model_shapes.h"

namespace tt {

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

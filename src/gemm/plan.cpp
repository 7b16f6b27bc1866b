#include "src/gemm/plan.h"

#include <algorithm>

#include "common/error.h"
#include "common/options.h"
#include "common/quote.h"
#include "common/size.h"

namespace tt {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

bool has_sweep(const GemmPlanOptions& o) {
  return o.min || o.max;
}

std::vector<Shape> squares(const std::vector<int64_t>& sizes) {
  std::vector<Shape> shapes;
  for (int64_t size : sizes) shapes.push_back({size, size, size});
  return shapes;
}

std::vector<Shape> plan_shapes(const GemmPlanOptions& o, bool cuda) {
  if (!o.shapes.empty()) return parse_shapes("--shapes", o.shapes);
  if (!has_sweep(o))
    return squares(cuda ? std::vector<int64_t>{4096, 8192, 16384} : std::vector<int64_t>{512, 1024, 2048});
  SweepOptions sweep;
  sweep.min_bytes = o.min.value_or(std::min<int64_t>(o.max.value_or(1024), 1024));
  sweep.max_bytes = o.max.value_or(sweep.min_bytes);
  sweep.factor = o.factor.value_or(o.step ? 0 : 2);
  sweep.step_bytes = o.step.value_or(1);
  return squares(sizes_of(sweep));
}

}  // namespace

std::vector<Shape> parse_shapes(const std::string& option, const std::vector<std::string>& texts) {
  std::vector<Shape> shapes;
  for (const std::string& text : texts) {
    for (const std::string& shape : split(text, ';')) {
      const std::vector<std::string> parts = split(shape, ',');
      if (parts.size() != 1 && parts.size() != 3)
        throw UsageError(option + ": " + in_quotes(shape) + " is no shape; accepted: one size, or m,n,k");
      std::vector<int64_t> sizes;
      for (const std::string& part : parts) sizes.push_back(parse_size(option, part));
      if (*std::min_element(sizes.begin(), sizes.end()) < 1)
        throw UsageError(option + ": " + in_quotes(shape) + " is no shape; accepted: sizes of at least 1");
      shapes.push_back(parts.size() == 1 ? Shape{sizes[0], sizes[0], sizes[0]}
                                         : Shape{sizes[0], sizes[1], sizes[2]});
    }
  }
  return shapes;
}

void check_plan(const GemmPlanOptions& o) {
  if ((o.step || o.factor) && !has_sweep(o)) throw UsageError("-i and -f step from -b to -e; give these too");
  if (!o.shapes.empty() && has_sweep(o))
    throw UsageError("--shapes and -b/-e both say which sizes; give one of them");
  if (o.model && (!o.shapes.empty() || has_sweep(o)))
    throw UsageError("--model says which sizes; give neither --shapes nor -b/-e with it");
  if (o.model && (!o.ta.empty() || !o.tb.empty()))
    throw UsageError("--model says which layouts; give neither --ta nor --tb with it");
  for (bool cuda : {false, true})
    for (const GemmProblem& p : plan_problems(o, cuda)) check_problem(p);
}

std::vector<GemmKind> plan_kinds(const GemmPlanOptions& o, bool cuda) {
  if (o.types.empty()) return cuda ? std::vector{GemmKind::bf16, GemmKind::fp8} : std::vector{GemmKind::fp32};
  std::vector<GemmKind> kinds;
  for (const std::string& name : o.types) {
    const GemmKind kind = parse_kind("-d", name);
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
      kinds.push_back(kind);  // an alias may repeat one
  }
  return kinds;
}

std::vector<GemmProblem> plan_problems(const GemmPlanOptions& o, bool cuda) {
  std::vector<GemmProblem> problems;
  for (GemmKind kind : plan_kinds(o, cuda)) {
    if (o.model) {
      for (GemmProblem& p : model_problems(*o.model, o.tokens, kind)) problems.push_back(std::move(p));
      continue;
    }
    const bool ta = o.ta == "1", tb = o.tb.empty() ? traits(kind).default_tb && !ta : o.tb == "1";
    for (const Shape& s : plan_shapes(o, cuda)) {
      const GemmProblem p{kind, s.m, s.n, s.k, ta, tb, ""};
      const auto same = [&](const GemmProblem& q) { return q.key() == p.key(); };
      if (std::none_of(problems.begin(), problems.end(), same)) problems.push_back(p);
    }
  }
  return problems;
}

}  // namespace tt

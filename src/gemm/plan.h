// From options to the products that are measured. Pure: no device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/gemm/gemm.h"
#include "src/gemm/model_shapes.h"

namespace tt {

struct GemmPlanOptions {
  std::vector<std::string> types;   // -d; empty: bf16 and fp8 on a GPU, fp32 on the host
  std::optional<int64_t> min, max;  // -b, -e: squares from min to max; neither: the device's default sizes
  std::optional<int64_t> step;      // -i
  std::optional<double> factor;     // -f; neither -i nor -f: 2
  std::vector<std::string> shapes;  // --shapes: "m,n,k" or "n", several parted by ';'
  std::string ta, tb;               // "0", "1"; "": the type's own layout
  std::optional<ModelShape> model;  // --model
  int64_t tokens = 8192;
};

/// One "m,n,k" or "n", numbers with K/M/G suffixes. UsageError naming `option` and the text.
struct Shape {
  int64_t m, n, k;
};
std::vector<Shape> parse_shapes(const std::string& option, const std::vector<std::string>& texts);

/// UsageError for contradicting options (--model with shapes or a sweep or transposes).
void check_plan(const GemmPlanOptions& options);
std::vector<GemmKind> plan_kinds(const GemmPlanOptions& options, bool cuda);
/// Type by type, sizes in the order given.
std::vector<GemmProblem> plan_problems(const GemmPlanOptions& options, bool cuda);

}  // namespace tt

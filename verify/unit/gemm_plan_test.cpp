// Shapes, layouts and presets of gemm_perf: known answers.
#include <set>

#include "bench/support/model_shape.h"
#include "common/error.h"
#include "src/gemm/block_scales.h"
#include "src/gemm/plan.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {
ModelShape preset_shape(const char* name) {
  return shape_of(preset_named("--model", name));
}
}  // namespace

TEST_CASE("gemm: shapes are read, and nothing else is", "[gemm]") {
  const auto shapes = parse_shapes("--shapes", {"1,17,33;4K", "65536,65536,8"});
  REQUIRE(shapes.size() == 3);
  CHECK(shapes[0].n == 17);
  CHECK(shapes[1].k == 4096);
  CHECK(shapes[2].m == 65536);
  for (const char* bad : {"", "1,2", "1,2,3,4", "a", "0", "1,0,1", "-4", "8Q", "1,2,3;", "17179869185G"})
    CHECK_THROWS_AS(parse_shapes("--shapes", {bad}), UsageError);
}

TEST_CASE("gemm: types by name and alias, others refused with the list", "[gemm]") {
  CHECK(parse_kind("-d", "bfloat16") == GemmKind::bf16);
  CHECK(parse_kind("-d", "nvfp4") == GemmKind::nvfp4);
  try {
    parse_kind("-d", "bf61");
    FAIL("accepted");
  } catch (const UsageError& e) {
    CHECK(std::string(e.what()).find("\"bf61\"") != std::string::npos);
    CHECK(std::string(e.what()).find("fp8_e5m2") != std::string::npos);
  }
  for (GemmKind kind : all_kinds()) CHECK(parse_kind("-d", traits(kind).name) == kind);
}

TEST_CASE("gemm: the device's defaults, a sweep, layouts", "[gemm]") {
  GemmPlanOptions o;
  auto p = plan_problems(o, true);
  REQUIRE(p.size() == 6);
  CHECK(p.front().key() == "gemm/bf16/nn/4096x4096x4096");
  CHECK(p.back().key() == "gemm/fp8/nt/16384x16384x16384");
  CHECK(plan_problems(o, false).front().kind == GemmKind::fp32);

  o.min = 1024, o.max = 16384;
  o.types = {"bf16", "bfloat16"};
  p = plan_problems(o, true);
  REQUIRE(p.size() == 5);
  CHECK(p[4].m == 16384);
  o.ta = "1";
  CHECK(plan_problems(o, true).front().layout() == "tn");
  o.tb = "1";
  CHECK(plan_problems(o, true).front().layout() == "tt");

  o.shapes = {"1,2,3"};
  CHECK_THROWS_AS(check_plan(o), UsageError);  // and a sweep
  o.min = o.max = std::nullopt;
  CHECK_NOTHROW(check_plan(o));
  o.model = preset_shape("llama3.1-8b");
  CHECK_THROWS_AS(check_plan(o), UsageError);
}

TEST_CASE("gemm: sums of int8 that could leave int32 are refused", "[gemm]") {
  CHECK_NOTHROW(check_problem({GemmKind::int8, 1, 1, 131071, false, true, ""}));
  CHECK_THROWS_AS(check_problem({GemmKind::int8, 1, 1, 131072, false, true, ""}), UsageError);
  CHECK_THROWS_AS(check_problem({GemmKind::fp32, int64_t{1} << 40, int64_t{1} << 40, 1, false, false, ""}),
                  UsageError);
  CHECK(GemmProblem{GemmKind::bf16, 65536, 65536, 8, false, false, ""}.c_bytes() == 8589934592);
}

TEST_CASE("gemm: presets have the models' published parameter counts", "[gemm]") {
  struct Published {
    const char* name;
    int64_t parameters;
    bool tied;  // lm_head is the embedding
  };
  const auto [name, parameters, tied] =
      GENERATE(Published{"llama3.2-1b", 1235814400, true}, Published{"llama2-7b", 6738415616, false},
               Published{"llama2-13b", 13015864320, false}, Published{"llama2-70b", 68976648192, false},
               Published{"llama3.1-8b", 8030261248, false}, Published{"llama3.1-70b", 70553706496, false},
               Published{"llama3.1-405b", 405853388800, false});
  const ModelShape model = preset_shape(name);
  int64_t count = (2 * model.layers + 1) * model.hidden;  // norms
  if (!tied) count += model.vocabulary * model.hidden;    // the embedding beside lm_head
  for (const GemmProblem& p : model_problems(model, 1, GemmKind::bf16))
    if (p.label.ends_with(".forward")) count += p.n * p.k * occurrences(model, p);
  CHECK(count == parameters);
}

TEST_CASE("gemm: forward, dgrad and wgrad have the right shapes and transposes", "[gemm]") {
  const auto all = model_problems(preset_shape("llama3.1-8b"), 8192, GemmKind::bf16);
  REQUIRE(all.size() == 24);
  const auto find = [&](const std::string& label) {
    for (const GemmProblem& p : all)
      if (p.label == label) return p;
    throw std::runtime_error(label);
  };
  CHECK(find("down_proj.forward").key() == "gemm/bf16/nt/8192x4096x14336/down_proj.forward");
  CHECK(find("down_proj.dgrad").key() == "gemm/bf16/nn/8192x14336x4096/down_proj.dgrad");
  CHECK(find("down_proj.wgrad").key() == "gemm/bf16/tn/4096x14336x8192/down_proj.wgrad");
  CHECK(find("k_proj.forward").n == 1024);
  for (const GemmProblem& p : model_problems(preset_shape("llama3.1-8b"), 8192, GemmKind::fp8))
    CHECK(p.layout() == "nt");
}

TEST_CASE("gemm: block scales lie in tiles of 128 x 4", "[gemm]") {
  CHECK(block_scale_offset(0, 1, 8) == 1);
  CHECK(block_scale_offset(1, 0, 8) == 16);
  CHECK(block_scale_offset(32, 0, 8) == 4);
  CHECK(block_scale_offset(127, 3, 8) == 511);
  CHECK(block_scale_offset(0, 4, 8) == 512);
  CHECK(block_scale_offset(128, 0, 8) == 1024);
  CHECK(block_scale_bytes(129, 5) == 4 * 512);
  std::set<int64_t> seen;  // every scale has a place of its own inside the padded array
  for (int64_t row = 0; row < 129; ++row)
    for (int64_t block = 0; block < 5; ++block) seen.insert(block_scale_offset(row, block, 5));
  CHECK(seen.size() == 129 * 5);
  CHECK(*seen.rbegin() < block_scale_bytes(129, 5));
}

// The engine on the host: real products by BLAS and oneDNN against the naive reference.
#include "src/gemm/gemm_engine.h"

#include <cmath>

#include "common/error.h"
#include "verify/reference/gemm.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

std::unique_ptr<GemmEngine> open_engine(Device& device, const GemmProblem& p, const GemmSizing& sizing,
                                        Stream& stream) {
  try {
    return std::make_unique<GemmEngine>(device, p, GemmOptions{}, sizing, 11, stream);
  } catch (const SkippedError& e) {
    WARN("SKIP: " << e.what());
    return nullptr;
  }
}

std::vector<double> values(Element e, const void* data, int64_t count) {
  std::vector<double> out;
  with_element(e, [&](auto tag) {
    for (int64_t i = 0; i < count; ++i) out.push_back(decode<decltype(tag)::value>(data, i));
  });
  return out;
}

}  // namespace

TEST_CASE("gemm engine: products agree with the naive reference, in every layout", "[gemm]") {
  auto device = open_host_device();
  auto stream = device->make_stream();
  const auto kind = GENERATE(GemmKind::fp32, GemmKind::fp64, GemmKind::bf16, GemmKind::int8, GemmKind::fp16);
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const GemmProblem p{kind, 37, 53, 65, ta, tb, ""};
      auto engine = open_engine(*device, p, {2, 3}, *stream);
      if (!engine) continue;
      INFO(p.key());
      engine->tune(*stream);
      engine->prepare(*stream, 0, 3);
      for (int64_t i = 0; i < 3; ++i) engine->step(*stream, i);
      const Check check = engine->verify(*stream, 0, 3);
      CHECK(check.checked == 3);
      CHECK(check.wrong == 0);
      for (int64_t i : {0, 1}) {
        const GemmOperands x = engine->operands(i);
        const auto expected = reference::gemm(values(traits(kind).a, x.a, p.m * p.k),
                                              values(traits(kind).b, x.b, p.k * p.n), p.m, p.n, p.k, ta, tb);
        const auto got = values(traits(kind).out, engine->result(i), p.m * p.n);
        double largest = 0;
        for (size_t e = 0; e < got.size(); ++e) largest = std::max(largest, std::abs(got[e] - expected[e]));
        const double allowed = kind == GemmKind::bf16   ? 0.2
                               : kind == GemmKind::fp16 ? 0.05
                               : kind == GemmKind::fp32 ? 1e-4
                                                        : 1e-12;
        CHECK(largest <= allowed);
      }
    }
}

TEST_CASE("gemm engine: a corrupted element is found, named and in the right iteration", "[gemm]") {
  auto device = open_host_device();
  auto stream = device->make_stream();
  const auto kind = GENERATE(GemmKind::fp32, GemmKind::fp64, GemmKind::bf16, GemmKind::int8);
  const GemmProblem p{kind, 129, 257, 200, false, false, ""};
  auto engine = open_engine(*device, p, {3, 4}, *stream);
  if (!engine) return;
  for (int64_t first = 0; first < 40; first += 4) {
    engine->prepare(*stream, first, 4);
    for (int64_t i = first; i < first + 4; ++i) engine->step(*stream, i);
    engine->corrupt(*stream, first + 2);
    const Check check = engine->verify(*stream, first, 4);
    REQUIRE(check.wrong > 0);
    CHECK(check.first->iteration == first + 2);
    CHECK(check.first->expected != Approx(check.first->got));
    const auto stored = values(traits(kind).out, engine->result(first + 2), p.m * p.n);
    CHECK(stored[static_cast<size_t>(check.first->offset)] == check.first->got);
    CHECK(engine->verify(*stream, first + 3, 1).wrong == 0);
  }
}

TEST_CASE("gemm engine: a step that writes nothing is found", "[gemm]") {
  auto device = open_host_device();
  auto stream = device->make_stream();
  auto engine = open_engine(*device, {GemmKind::fp32, 8, 9, 10, false, false, ""}, {1, 2}, *stream);
  if (!engine) return;
  engine->step(*stream, 0);
  engine->step(*stream, 1);
  engine->prepare(*stream, 1, 1);
  const Check check = engine->verify(*stream, 0, 2);
  CHECK(check.wrong > 0);
  CHECK(check.first->iteration == 1);
  CHECK(std::isnan(check.first->got));
}

TEST_CASE("gemm engine: rates, sizing, and what the host cannot do", "[gemm]") {
  auto device = open_host_device();
  auto stream = device->make_stream();
  for (GemmKind kind : {GemmKind::fp8, GemmKind::nvfp4, GemmKind::tf32})
    CHECK_THROWS_AS(open_gemm(*device, {kind, 16, 16, 16, false, true, ""}, {}), SkippedError);

  const GemmProblem small{GemmKind::fp32, 64, 64, 64, false, false, ""};
  const GemmSizing s = choose_sizing(small, {}, int64_t{1} << 30, 1 << 20, true, 1 << 20);
  CHECK(s.sets == 43);   // 2 MiB / 48 KiB, rounded up
  CHECK(s.slots == 64);  // 1 MiB / 16 KiB
  CHECK(choose_sizing(small, {}, int64_t{1} << 30, 1 << 20, false, 1 << 20).sets == 1);
  CHECK(choose_sizing(small, {}, 1, 1 << 20, true, 1 << 20).slots == 1);
  const GemmProblem wide{GemmKind::fp32, 8192,  8192, 8,
                         false,          false, ""};  // small operands, but a result that flushes the cache
  CHECK(choose_sizing(wide, {}, int64_t{1} << 40, 1 << 20, true, 0).sets == 1);
  const GemmProblem large{GemmKind::fp32, 1024, 1024, 1024, false, false, ""};
  CHECK(choose_sizing(large, {}, int64_t{1} << 40, 1 << 20, true, 0).sets == 1);
  CHECK(gemm_bytes(large, {}, {1, 1}) > 3 * 4 * 1024 * 1024);

  auto engine = open_engine(*device, small, {1, 1}, *stream);
  if (!engine) return;
  CHECK(engine->rates(1e-3).front().name == "tflops");
  CHECK(*engine->rates(1e-3).front().value == Approx(2.0 * 64 * 64 * 64 / 1e9));
  CHECK(std::string(rate_name(GemmKind::int8)) == "tops");
}

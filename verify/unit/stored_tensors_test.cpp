// From a file onto the device: any part of a parameter, in any type, larger than what is moved at once.
#include "src/llm/stored_tensors.h"

#include <cmath>

#include "src/device/convert.h"
#include "src/llm/safetensors_write.h"
#include "src/llm/step_timer.h"
#include "verify/unit/llm_files.h"
#include "verify/unit/llm_fixture.h"

using namespace tt;
using namespace tt::test;

namespace {

float value_of(int64_t i) {
  return static_cast<float>((i * 2654435761) % 1000003) * 0.37f - 1e5f;
}

void check_parts(OpsBench& bench) {
  constexpr int64_t kCount = 9'000'001;  // 36 MB
  const Tree tree;
  const std::string path = tree.root() + "/x.safetensors";
  std::vector<float> values(kCount);
  for (int64_t i = 0; i < kCount; ++i) values[static_cast<size_t>(i)] = value_of(i);
  SafetensorsWriter writer(path, {{"pad", DType::bf16, {1}}, {"x", DType::f32, {kCount}}});
  writer.append(std::span(values).first(1));
  writer.append(values);
  writer.finish();

  const auto exchange = bench.device().make_stream();
  StepTimer timer(bench.device(), 1);
  const TrainContext context{bench.device(), bench.ops(), nullptr, bench.stream(), *exchange, timer};
  const auto file = std::make_shared<const SafetensorsFile>(path);
  const ParamSpec spec{"x", {kCount}};
  const FillParameter fill = fill_from(context, {{"x", {file, &file->at("x")}}});
  const auto check = [&](int64_t first, int64_t count, DType type) {
    DeviceArray to(bench, type, count + 2);
    fill(spec, first, count, static_cast<char*>(to.data()) + size_of(type), type);
    const Doubles got = to.values();
    CHECK(std::isnan(got.front()));  // what is before and behind stays as it was
    CHECK(std::isnan(got.back()));
    for (int64_t i = 0; i < count; ++i) {
      const float whole = value_of(first + i);
      const float expected = type == DType::bf16 ? to_float(to_bf16(whole)) : whole;
      if (got[static_cast<size_t>(i + 1)] != expected)
        FAIL("element " << first + i << " as " << name_of(type));
    }
  };
  for (const DType type : {DType::f32, DType::bf16}) {
    check(0, kCount, type);
    check(kCount - 1, 1, type);
    check(12345, 5'000'001, type);
    check(77, 0, type);
  }
  CHECK_THROWS_AS(fill({"y", {1}}, 0, 1, nullptr, DType::f32), std::invalid_argument);
}

}  // namespace

TEST_CASE("stored tensors: parts of a parameter reach the host device", "[hf_folder][llm]") {
  on_host(check_parts);
}
TEST_CASE("stored tensors: parts of a parameter reach a GPU", "[.cuda]") {
  on_cuda(check_parts);
}

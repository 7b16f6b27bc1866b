#include "common/dtype.h"

#include <set>

#include "common/error.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::has;
using tt::test::message_of;

TEST_CASE("every type has its own name and size, and is read back") {
  const std::vector<DType> all = all_dtypes();
  CHECK(all.size() == 12);
  std::set<std::string> names;
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(static_cast<size_t>(all[i]) == i);  // no enumerator is left out
    CHECK(names.insert(name_of(all[i])).second);
    CHECK(parse_dtype("-d", name_of(all[i])) == all[i]);
  }
}

TEST_CASE("sizes of the types") {
  CHECK(size_of(DType::int8) == 1);
  CHECK(size_of(DType::uint8) == 1);
  CHECK(size_of(DType::int32) == 4);
  CHECK(size_of(DType::uint32) == 4);
  CHECK(size_of(DType::int64) == 8);
  CHECK(size_of(DType::uint64) == 8);
  CHECK(size_of(DType::f16) == 2);
  CHECK(size_of(DType::f32) == 4);
  CHECK(size_of(DType::f64) == 8);
  CHECK(size_of(DType::bf16) == 2);
  CHECK(size_of(DType::f8e4m3) == 1);
  CHECK(size_of(DType::f8e5m2) == 1);
}

TEST_CASE("names are nccl-tests', with aliases") {
  CHECK(parse_dtype("-d", "half") == DType::f16);
  CHECK(parse_dtype("-d", "fp16") == DType::f16);
  CHECK(parse_dtype("-d", "float16") == DType::f16);
  CHECK(parse_dtype("-d", "float") == DType::f32);
  CHECK(parse_dtype("-d", "fp32") == DType::f32);
  CHECK(parse_dtype("-d", "float32") == DType::f32);
  CHECK(parse_dtype("-d", "double") == DType::f64);
  CHECK(parse_dtype("-d", "fp64") == DType::f64);
  CHECK(parse_dtype("-d", "float64") == DType::f64);
  CHECK(parse_dtype("-d", "bfloat16") == DType::bf16);
  CHECK(parse_dtype("-d", "bf16") == DType::bf16);
  CHECK(parse_dtype("-d", "fp8") == DType::f8e4m3);
  CHECK(parse_dtype("-d", "f8e5m2") == DType::f8e5m2);
}

TEST_CASE("an unknown type is refused with the accepted names, never replaced") {
  const std::string text =
      GENERATE(as<std::string>{}, "", "fp17", "Float", "float ", "int", "f8", "floatx", "*");
  const std::string message = message_of<UsageError>([&] { parse_dtype("-d/--datatype", text); });
  CHECK(has(message, {"-d/--datatype", "\"" + text + "\"", "int8", "bfloat16", "f8e5m2", "fp8"}));
}

// Reading safetensors files: what is in them, wherever it lies, and every way in which one can be damaged.
#include "src/llm/safetensors.h"

#include <cmath>

#include "common/error.h"
#include "src/device/convert.h"
#include "src/llm/safetensors_write.h"
#include "verify/unit/catch.h"
#include "verify/unit/llm_files.h"
#include "verify/unit/node_files.h"
#include "verify/unit/safetensors_bytes.h"

using namespace tt;
using namespace tt::test;

namespace {

class Files {
 public:
  std::string put(const std::string& bytes) const {
    tree_.put("x.safetensors", bytes);
    return tree_.root() + "/x.safetensors";
  }
  std::string error_of(const std::string& header, const std::string& data) const {
    return error_of_bytes(safetensors_bytes(header, data));
  }
  std::string error_of_bytes(const std::string& bytes) const {
    const std::string path = put(bytes);
    const std::string message = message_of<EnvironmentError>([&] { SafetensorsFile file(path); });
    CHECK(message.starts_with(path + ": "));
    CHECK(message.find('\n') == std::string::npos);
    return message;
  }

 private:
  Tree tree_;
};

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape, int64_t begin,
                  int64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

}  // namespace

TEST_CASE("safetensors: a file of the ecosystem", "[safetensors]") {
  const SafetensorsFile file("verify/fixtures/llama3-tiny-lora/adapter/adapter_model.safetensors");
  CHECK(file.tensors().size() == 28);
  const TensorInfo& a = file.at("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight");
  CHECK(a.dtype == "F32");
  CHECK(a.shape == std::vector<int64_t>{4, 176});
  CHECK(a.count == 4 * 176);
  const std::vector<float> all = file.floats(a.name);
  float largest = 0;
  for (const float x : all) largest = std::max(largest, std::abs(x));
  CHECK(largest > 0);
  CHECK(largest <= 1 / std::sqrt(176.0f));  // PEFT's initial A
  std::vector<float> part(3);
  file.read(a, 100, 3, DType::f32, part.data());
  CHECK(part == std::vector<float>(all.begin() + 100, all.begin() + 103));
  CHECK(file.find("nothing") == nullptr);
  CHECK(has(message_of<EnvironmentError>([&] { file.at("nothing"); }),
            {"adapter_model.safetensors", "\"nothing\" is missing"}));
  const SafetensorsFile expected("verify/fixtures/llama3-tiny-lora/expected.safetensors");
  const std::vector<int64_t> tokens = expected.integers("tokens");
  CHECK(tokens.size() == 20 * 2 * 65);
  for (const int64_t t : tokens) CHECK((t >= 0 && t < 256));
}

TEST_CASE("safetensors: any order, any alignment, every float and integer type (C26)", "[safetensors]") {
  const std::string data = raw<uint8_t>({255}) + raw<float>({1.5f, -2.25f, 3.0f}) +
                           raw<uint16_t>({to_bf16(-7.5f).bits, to_bf16(0.375f).bits}) +
                           raw<uint16_t>({to_f16(0.099975586f).bits}) + raw<int64_t>({-5, int64_t{1} << 40}) +
                           raw<uint16_t>({65535}) + raw<int32_t>({-70000}) + raw<int8_t>({-128}) +
                           raw<uint32_t>({4000000000u}) + raw<int16_t>({-3}) + raw<uint64_t>({~uint64_t{0}});
  // Keys against the order of the data, no __metadata__, spaces behind, header lengths of all residues mod 8.
  for (int padding = 0; padding < 8; ++padding) {
    const std::string header =
        "{" + entry("z", "U64", "[]", 48, 56) + "," + entry("i64", "I64", "[2]", 19, 35) + "," +
        entry("f32", "F32", "[3, 1]", 1, 13) + "," + entry("u8", "U8", "[1]", 0, 1) + "," +
        entry("bf16", "BF16", "[2]", 13, 17) + "," + entry("f16", "F16", "[1]", 17, 19) + "," +
        entry("u16", "U16", "[1]", 35, 37) + "," + entry("i32", "I32", "[1]", 37, 41) + "," +
        entry("i8", "I8", "[1]", 41, 42) + "," + entry("u32", "U32", "[1]", 42, 46) + "," +
        entry("i16", "I16", "[1]", 46, 48) + "," + entry("empty", "F32", "[0, 7]", 13, 13) + "}";
    const Files files;
    const SafetensorsFile file(files.put(safetensors_bytes(header + std::string(padding, ' '), data)));
    CHECK(file.tensors().size() == 12);
    CHECK(file.floats("f32") == std::vector<float>{1.5f, -2.25f, 3.0f});
    CHECK(file.floats("bf16") == std::vector<float>{-7.5f, 0.375f});
    CHECK(file.floats("f16") == std::vector<float>{to_float(to_f16(0.099975586f))});
    CHECK(file.floats("empty").empty());
    CHECK(file.integers("u8") == std::vector<int64_t>{255});
    CHECK(file.integers("i64") == std::vector<int64_t>{-5, int64_t{1} << 40});
    CHECK(file.integers("u16") == std::vector<int64_t>{65535});
    CHECK(file.integers("i32") == std::vector<int64_t>{-70000});
    CHECK(file.integers("i8") == std::vector<int64_t>{-128});
    CHECK(file.integers("u32") == std::vector<int64_t>{4000000000});
    CHECK(file.integers("i16") == std::vector<int64_t>{-3});
    CHECK(has(message_of<EnvironmentError>([&] { file.integers("z"); }),
              {"x.safetensors", "\"z\"", "18446744073709551615"}));
    CHECK(has(message_of<EnvironmentError>([&] { file.floats("u8"); }),
              {"\"u8\"", "\"U8\"", "F32, BF16, F16"}));
    CHECK(
        has(message_of<EnvironmentError>([&] { file.integers("f32"); }), {"\"f32\"", "\"F32\"", "integers"}));
  }
}

TEST_CASE("safetensors: floats are rounded to nearest even on their way into narrower types",
          "[safetensors]") {
  const Files files;
  const std::vector<float> values{1.00390625f, 1.01171875f, -3.1415926f, 0, 65520.0f};
  const SafetensorsFile file(
      files.put(safetensors_bytes("{" + entry("x", "F32", "[5]", 0, 20) + "}", raw(values))));
  const TensorInfo& x = file.at("x");
  std::vector<uint16_t> bf16(values.size()), f16(values.size());
  file.read(x, 0, 5, DType::bf16, bf16.data());
  file.read(x, 0, 5, DType::f16, f16.data());
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(bf16[i] == to_bf16(values[i]).bits);
    CHECK(f16[i] == to_f16(values[i]).bits);
  }
  CHECK(bf16[0] == 0x3f80);
  CHECK(bf16[1] == 0x3f82);
  CHECK_THROWS_AS(file.read(x, 3, 3, DType::f32, bf16.data()), std::out_of_range);
  CHECK_THROWS_AS(file.read(x, -1, 1, DType::f32, bf16.data()), std::out_of_range);
  CHECK_THROWS_AS(file.read(x, 0, INT64_MAX, DType::f32, bf16.data()), std::out_of_range);
}

TEST_CASE("safetensors: a type that nobody knows is an error where it is used", "[safetensors]") {
  const Files files;
  const SafetensorsFile file(files.put(safetensors_bytes(
      "{" + entry("new", "F6_E9M9", "[3]", 0, 5) + "," + entry("x", "F32", "[1]", 5, 9) + "}",
      "abcde" + raw<float>({2}))));
  CHECK(file.floats("x") == std::vector<float>{2});
  CHECK(has(message_of<EnvironmentError>([&] { file.floats("new"); }),
            {"x.safetensors", "\"new\"", "\"F6_E9M9\"", "not implemented"}));
}

TEST_CASE("safetensors: damaged files are refused, naming file and tensor", "[safetensors]") {
  const Files files;
  const std::string four(4, 'x'), eight(8, 'x');
  SECTION("truncated and not safetensors at all") {
    CHECK(has(files.error_of_bytes(""), {"truncated", "0 bytes"}));
    CHECK(has(files.error_of_bytes("1234567"), {"truncated", "7 bytes"}));
    CHECK(has(files.error_of_bytes(raw<uint64_t>({100}) + "{}"),
              {"truncated", "header of 100 bytes", "of 10"}));
    CHECK(
        has(files.error_of_bytes(raw<uint64_t>({~uint64_t{0}}) + "{}"), {"header of 18446744073709551615"}));
    CHECK(has(files.error_of_bytes("version https://git-lfs.github.com/spec/v1"), {"header of"}));
    CHECK(has(files.error_of("", ""), {"not valid JSON"}));
    CHECK(has(files.error_of("{\"x\":", ""), {"not valid JSON"}));
    CHECK(has(files.error_of("[]", ""), {"not a JSON object"}));
    CHECK(has(files.error_of(std::string(40, '[') + std::string(40, ']'), ""), {"nested"}));
    CHECK(has(files.error_of("{\"\xff\xfe\":{}}", ""), {"not valid JSON"}));
  }
  SECTION("places") {
    CHECK(has(files.error_of("{" + entry("x", "F32", "[2]", 0, 8) + "}", four),
              {"\"x\"", "bytes 0 to 8", "has 4", "truncated"}));
    CHECK(has(files.error_of("{" + entry("x", "F32", "[1]", 0, 4) + "}", eight), {"8 bytes of data, 4"}));
    CHECK(has(files.error_of("{" + entry("x", "F32", "[1]", 4, 8) + "}", eight), {"\"x\"", "hole"}));
    CHECK(
        has(files.error_of("{" + entry("x", "F32", "[1]", 0, 4) + "," + entry("y", "F32", "[1]", 8, 12) + "}",
                           eight + four),
            {"\"y\"", "hole after byte 4"}));
    CHECK(
        has(files.error_of("{" + entry("x", "F32", "[1]", 0, 4) + "," + entry("y", "F32", "[1]", 2, 6) + "}",
                           "123456"),
            {"\"y\"", "overlapping tensor \"x\""}));
    CHECK(has(files.error_of(
                  "{" + entry("x", "F32", "[1]", 0, 4) + "," + entry("y", "F32", "[1]", 0, 4) + "}", four),
              {"overlapping tensor"}));
    CHECK(
        has(files.error_of("{" + entry("x", "F9", "[1]", 8, 4) + "}", eight), {"\"x\"", "[8,4], backwards"}));
  }
  SECTION("sizes") {
    CHECK(has(files.error_of("{" + entry("x", "F32", "[3]", 0, 8) + "}", eight),
              {"\"x\"", "shape [3] of F32 takes 12 bytes", "hold 8"}));
    CHECK(has(files.error_of("{" + entry("x", "F32", "[4611686018427387904, 4]", 0, 8) + "}", eight),
              {"\"x\"", "too large"}));
    CHECK(
        has(files.error_of("{" + entry("x", "F32", "[2305843009213693952]", 0, 0) + "}", ""), {"too large"}));
    CHECK(has(files.error_of("{" + entry("x", "F32", "[18446744073709551615]", 0, 8) + "}", eight),
              {"not a size"}));
    CHECK(
        has(files.error_of("{" + entry("x", "F32", "[-2]", 0, 8) + "}", eight), {"\"x\"", "-2, not a size"}));
    CHECK(has(files.error_of("{" + entry("x", "F32", "[2.0]", 0, 8) + "}", eight), {"2.0, not a size"}));
    CHECK(has(files.error_of("{" + entry("x", "F32", "2", 0, 8) + "}", eight), {"\"shape\"", "not a list"}));
    CHECK(has(files.error_of("{" + entry("x", "F4", "[3]", 0, 2) + "}", "12"), {"\"x\"", "F4"}));
  }
  SECTION("names and fields") {
    CHECK(has(files.error_of(
                  "{" + entry("x", "F32", "[1]", 0, 4) + "," + entry("x", "F32", "[1]", 4, 8) + "}", eight),
              {"\"x\" is there twice"}));
    CHECK(has(files.error_of("{" + entry("a\\nb", "F32", "[1]", 0, 4) + "}", four),
              {"\"a\\x0ab\"", "control characters"}));
    CHECK(
        has(files.error_of("{\"x\":{\"shape\":[1],\"data_offsets\":[0,4]}}", four), {"\"x\"", "\"dtype\""}));
    CHECK(has(files.error_of("{\"x\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", four),
              {"\"x\"", "\"shape\""}));
    CHECK(has(files.error_of("{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", four),
              {"\"x\"", "\"data_offsets\""}));
    CHECK(has(files.error_of("{\"x\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", four),
              {"\"dtype\""}));
    CHECK(has(files.error_of("{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", four),
              {"not a list of two"}));
    CHECK(has(files.error_of("{\"x\":[1]}", ""), {"tensor \"x\" is [1]"}));
    CHECK(has(files.error_of("{\"__metadata__\":{\"a\":1}}", ""), {"__metadata__"}));
    CHECK(has(files.error_of("{\"__metadata__\":[]}", ""), {"__metadata__"}));
  }
  SECTION("no file") {
    CHECK(has(message_of<EnvironmentError>([] { SafetensorsFile file("/nowhere/x.safetensors"); }),
              {"/nowhere/x.safetensors", "No such file"}));
    CHECK(has(message_of<EnvironmentError>([] { SafetensorsFile file("/tmp"); }),
              {"/tmp", "not a regular file"}));
    CHECK(
        has(message_of<EnvironmentError>([] { SafetensorsFile file("/dev/zero"); }), {"not a regular file"}));
  }
}

TEST_CASE("safetensors: what is written is read again", "[safetensors]") {
  const Tree tree;
  const std::string path = tree.root() + "/out.safetensors";
  std::vector<float> values(300000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i)) * 3;
  SafetensorsWriter writer(path, {{"a \"quoted\"", DType::f32, {3, 5}},
                                  {"none", DType::f32, {0, 4}},
                                  {"odd", DType::bf16, {3}},
                                  {"large", DType::bf16, {2, 140000}},
                                  {"half", DType::f16, {1}},
                                  {"scalar", DType::f32, {}}});
  const std::span<const float> all(values);
  writer.append(all.first(7));
  writer.append(all.subspan(7, 2000));  // over the ends of several tensors
  CHECK_FALSE(std::filesystem::exists(path));
  writer.append(all.subspan(2007, 15 + 3 + 280000 + 1 + 1 - 2007));
  CHECK_THROWS_AS(writer.append(all.first(1)), std::logic_error);
  writer.finish();
  CHECK(names_in(tree.root()) == std::vector<std::string>{"out.safetensors"});

  const SafetensorsFile file(path);
  CHECK(file.floats("a \"quoted\"") == std::vector<float>(values.begin(), values.begin() + 15));
  CHECK(file.at("none").shape == std::vector<int64_t>{0, 4});
  CHECK(file.at("scalar").shape.empty());
  CHECK(file.floats("scalar").at(0) == values[280019]);
  CHECK(file.floats("half").at(0) == to_float(to_f16(values[280018])));
  const std::vector<float> large = file.floats("large");
  for (size_t i = 0; i < large.size(); ++i)
    if (large[i] != to_float(to_bf16(values[18 + i]))) FAIL("element " << i);
  const std::string text = read_text_file(path);
  uint64_t length = 0;
  std::memcpy(&length, text.data(), sizeof(length));
  CHECK(length % 8 == 0);
  CHECK(has(text.substr(8, length), {"{\"__metadata__\":{\"format\":\"pt\"}"}));
}

TEST_CASE("safetensors: a file appears whole or not at all", "[safetensors]") {
  const Tree tree;
  const std::string path = tree.root() + "/out.safetensors";
  const std::vector<float> values(1000, 1.0f);
  tree.put("out.safetensors", "before");
  SECTION("given up") {
    SafetensorsWriter writer(path, {{"x", DType::f32, {1000}}});
    writer.append(std::span(values).first(999));
    CHECK_THROWS_AS(writer.finish(), std::logic_error);
  }
  SECTION("disk full") {
    SafetensorsWriter writer(path, {{"x", DType::f32, {1000}}});
    const SmallDisk disk(1000);
    CHECK(has(message_of<EnvironmentError>([&] { writer.append(values); }),
              {"cannot write " + path, "write", "File too large"}));
  }
  CHECK(names_in(tree.root()) == std::vector<std::string>{"out.safetensors"});
  CHECK(read_text_file(path) == "before");
  for (const std::string bad : {"/nowhere/x.safetensors", "/proc/x.safetensors"})
    CHECK(has(message_of<EnvironmentError>([&] { SafetensorsWriter(bad, {}); }),
              {"cannot write " + bad, "open"}));
  CHECK_THROWS_AS(SafetensorsWriter(path, {{"x", DType::f32, {1}}, {"x", DType::f32, {1}}}),
                  std::invalid_argument);
  CHECK_THROWS_AS(SafetensorsWriter(path, {{"x", DType::int8, {1}}}), std::invalid_argument);
}

TEST_CASE("output folder: appears whole or not at all", "[safetensors]") {
  const Tree tree;
  const std::string dir = tree.root() + "/out";
  SECTION("published") {
    CHECK_NOTHROW(check_output_folder("--save-model", dir + "/"));
    OutputFolder folder(dir + "/");
    OutputFile file(folder.path_of("x"));
    file.write("text");
    file.publish();
    CHECK_FALSE(std::filesystem::exists(dir));
    folder.publish();
    CHECK(read_text_file(dir + "/x") == "text");
    CHECK(names_in(tree.root()) == std::vector<std::string>{"out"});
  }
  SECTION("into an empty folder") {
    std::filesystem::create_directory(dir);
    CHECK_NOTHROW(check_output_folder("--save-model", dir));
    OutputFolder folder(dir);
    OutputFile(folder.path_of("x")).publish();
    folder.publish();
    CHECK(names_in(dir) == std::vector<std::string>{"x"});
  }
  SECTION("given up") {
    {
      OutputFolder folder(dir);
      OutputFile(folder.path_of("x")).publish();
    }
    CHECK(names_in(tree.root()).empty());
  }
  SECTION("something came between") {
    OutputFolder folder(dir);
    tree.put("out/y", "other");
    CHECK(has(message_of<EnvironmentError>([&] { folder.publish(); }), {"cannot write " + dir, "rename"}));
  }
  SECTION("refused early") {
    const auto refused = [](const std::string& path) {
      return message_of<UsageError>([&] { check_output_folder("--save-model", path); });
    };
    tree.put("full/x", "");
    CHECK(has(refused(tree.root() + "/full"), {"--save-model", "not empty", "accepted"}));
    CHECK(has(message_of<EnvironmentError>([&] { OutputFolder(tree.root() + "/full"); }), {"not empty"}));
    CHECK(has(refused(tree.root() + "/full/x"), {"--save-model", "is there and no folder"}));
    CHECK(has(refused("/nowhere/out"), {"--save-model", "/nowhere/out", "No such file"}));
    CHECK(has(refused("/proc/out"), {"--save-model", "/proc/out"}));
    CHECK(has(refused(""), {"--save-model"}));
    CHECK(names_in(tree.root()) == std::vector<std::string>{"full"});
  }
}

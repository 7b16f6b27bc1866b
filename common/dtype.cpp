#include "common/dtype.h"

#include <array>

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

struct Entry {
  DType type;
  size_t bytes;
  const char* name;
};

constexpr std::array<Entry, 12> kTypes = {{{DType::int8, 1, "int8"},
                                           {DType::uint8, 1, "uint8"},
                                           {DType::int32, 4, "int32"},
                                           {DType::uint32, 4, "uint32"},
                                           {DType::int64, 8, "int64"},
                                           {DType::uint64, 8, "uint64"},
                                           {DType::f16, 2, "half"},
                                           {DType::f32, 4, "float"},
                                           {DType::f64, 8, "double"},
                                           {DType::bf16, 2, "bfloat16"},
                                           {DType::f8e4m3, 1, "f8e4m3"},
                                           {DType::f8e5m2, 1, "f8e5m2"}}};

struct Alias {
  const char* name;
  DType type;
};

constexpr Alias kAliases[] = {{"fp16", DType::f16},    {"float16", DType::f16}, {"fp32", DType::f32},
                              {"float32", DType::f32}, {"fp64", DType::f64},    {"float64", DType::f64},
                              {"bf16", DType::bf16},   {"fp8", DType::f8e4m3}};

const Entry& entry_of(DType type) noexcept {
  for (const Entry& e : kTypes)
    if (e.type == type) return e;
  return kTypes.front();  // not reached: every enumerator has its line (verify/unit/dtype_test.cpp)
}

}  // namespace

size_t size_of(DType type) noexcept {
  return entry_of(type).bytes;
}

const char* name_of(DType type) noexcept {
  return entry_of(type).name;
}

DType parse_dtype(std::string_view option, std::string_view text) {
  for (const Entry& e : kTypes)
    if (text == e.name) return e.type;
  for (const Alias& a : kAliases)
    if (text == a.name) return a.type;
  std::string accepted;
  for (const Entry& e : kTypes) (accepted += accepted.empty() ? "" : ", ") += e.name;
  for (const Alias& a : kAliases) (accepted += ", ") += a.name;
  throw UsageError(std::string(option) + ": unknown type " + in_quotes(text) + "; accepted: " + accepted);
}

std::vector<DType> all_dtypes() {
  std::vector<DType> all;
  for (const Entry& e : kTypes) all.push_back(e.type);
  return all;
}

}  // namespace tt

// Element types, named as nccl-tests names them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tt {

enum class DType { int8, uint8, int32, uint32, int64, uint64, f16, f32, f64, bf16, f8e4m3, f8e5m2 };

size_t size_of(DType type) noexcept;

/// "int8" "uint8" "int32" "uint32" "int64" "uint64" "half" "float" "double" "bfloat16" "f8e4m3" "f8e5m2".
const char* name_of(DType type) noexcept;

/// The inverse of name_of(), with the aliases "fp16" "float16" "fp32" "float32" "fp64" "float64" "bf16" "fp8".
/// Throws UsageError naming `option`, the text and the accepted names; never a silent default.
DType parse_dtype(std::string_view option, std::string_view text);

std::vector<DType> all_dtypes();

}  // namespace tt

// What a GPU can do at most, by product: dense peaks and memory bandwidth with the document that says so.
//
// The peaks are NVIDIA's at boost clock without sparsity. Data sheets mostly print figures "with sparsity";
// the dense figure is half of those (Blackwell Ultra's FP4: the dense figure is printed beside it). A long
// run at the power limit stays below them on every product. A product or type that is not in the table has no
// peak ("n/a"), never a guess.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "common/identity.h"

namespace tt {

enum class PeakType { bf16, fp16, tf32, fp32, fp64, int8, fp8, mxfp8, nvfp4 };
inline constexpr size_t kPeakTypes = 9;
/// "bf16" "fp16" "tf32" "fp32" "fp64" "int8" "fp8" "mxfp8" "nvfp4".
const char* name_of(PeakType type) noexcept;

struct Sku {
  std::string_view key;   // "h200-sxm": names verify/baselines/<key>.json
  std::string_view name;  // "H200 SXM"
  std::string_view
      device;  // what CUDA and NVML call it, whole: a MIG slice ("NVIDIA H200 MIG 1g.18gb") is another device
  std::array<double, kPeakTypes>
      dense_tflops;  // by PeakType; TOPS for int8; 0: not published or not supported
  double memory_GBps;
  std::string_view min_driver;  // first driver of the first CUDA release that knows the GPU's architecture,
                                // or a later one that NVIDIA names for the product
  std::string_view source;  // of the peaks and the bandwidth
};

/// The product of a device; null when it is not in the table, as every host CPU.
const Sku* find_sku(const DeviceIdentity& device);

/// Dense peak in TFLOPS (TOPS for int8), if it is known.
std::optional<double> peak(const Sku* sku, PeakType type);

/// Memory bandwidth in GB/s, if it is known.
std::optional<double> peak_memory_GBps(const Sku* sku);

/// "dense peak of H200 SXM: NVIDIA ... "; "" without a product. For Limit::origin.
std::string peak_origin(const Sku* sku);

}  // namespace tt

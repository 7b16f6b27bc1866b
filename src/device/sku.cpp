#include "src/device/sku.h"

namespace tt {
namespace {

// Drivers: CUDA Toolkit release notes, table of toolkit and driver versions: sm_80 CUDA 11.0, sm_89 and
// sm_90 11.8, sm_103 12.9. HGX B200: GPU Operator platform support, "requires a driver of 570.133.20 or
// later".
constexpr std::string_view kAmpereDriver = "450.36.06", kHopperDriver = "520.61.05",
                           kBlackwellDriver = "570.133.20", kUltraDriver = "575.51.03";

constexpr std::string_view kA100 = "NVIDIA A100 Tensor Core GPU data sheet (dense column)";
constexpr std::string_view kH100 =
    "NVIDIA H100 Tensor Core GPU Architecture white paper v1.04, table 2 (dense)";
constexpr std::string_view kH100Nvl = "NVIDIA H100 data sheet, H100 NVL (sparse figures halved)";
constexpr std::string_view kH200 =
    "H100 white paper v1.04, table 2 (dense), which the H200 data sheet's sparse figures are twice of; "
    "bandwidth: H200 data sheet";
constexpr std::string_view kH200Nvl = "NVIDIA H200 data sheet, H200 NVL (sparse figures halved)";
constexpr std::string_view kGh200 = "NVIDIA GH200 data sheet (sparse figures halved)";
constexpr std::string_view kB200 =
    "NVIDIA Blackwell data sheet, HGX B200 per GPU (sparse figures halved); bandwidth: DGX B200 data sheet / "
    "8";
constexpr std::string_view kGb200 = "NVIDIA GB200 NVL72 data sheet, superchip / 2 (sparse figures halved)";
constexpr std::string_view kB300 =
    "NVIDIA HGX B300 specifications / 8 (sparse figures halved; FP4: dense as printed, 108 PFLOPS)";
constexpr std::string_view kGb300 =
    "NVIDIA GB300 NVL72 specifications / 72 (sparse figures halved; FP4: dense as printed, 1,080 PFLOPS)";
constexpr std::string_view kL40s = "NVIDIA L40S data sheet (dense column)";
constexpr std::string_view kL40 = "NVIDIA L40 data sheet (dense column)";

// fp32 and fp64 are those a GEMM can reach: FP32 without TF32, FP64 with tensor cores.
// clang-format off
constexpr Sku kSkus[] = {
    // key            name             device                          bf16   fp16   tf32   fp32  fp64  int8    fp8     mxfp8 nvfp4   GB/s
    {"a100-sxm-40gb",  "A100 SXM 40GB",  "NVIDIA A100-SXM4-40GB",  {312,    312,    156,   19.5, 19.5, 624,    0,      0,    0},     1555, kAmpereDriver,    kA100},
    {"a100-sxm-80gb",  "A100 SXM 80GB",  "NVIDIA A100-SXM4-80GB",  {312,    312,    156,   19.5, 19.5, 624,    0,      0,    0},     2039, kAmpereDriver,    kA100},
    {"a100-pcie-40gb", "A100 PCIe 40GB", "NVIDIA A100-PCIE-40GB",  {312,    312,    156,   19.5, 19.5, 624,    0,      0,    0},     1555, kAmpereDriver,    kA100},
    {"a100-pcie-80gb", "A100 PCIe 80GB", "NVIDIA A100 80GB PCIe",  {312,    312,    156,   19.5, 19.5, 624,    0,      0,    0},     1935, kAmpereDriver,    kA100},
    {"h100-sxm",       "H100 SXM",       "NVIDIA H100 80GB HBM3",  {989.4,  989.4,  494.7, 66.9, 66.9, 1978.9, 1978.9, 0,    0},     3352, kHopperDriver,    kH100},
    {"h100-pcie",      "H100 PCIe",      "NVIDIA H100 PCIe",       {756,    756,    378,   51.2, 51.2, 1513,   1513,   0,    0},     2039, kHopperDriver,    kH100},
    {"h100-nvl",       "H100 NVL",       "NVIDIA H100 NVL",        {835.5,  835.5,  417.5, 60,   60,   1670.5, 1670.5, 0,    0},     3900, kHopperDriver,    kH100Nvl},
    {"h200-sxm",       "H200 SXM",       "NVIDIA H200",            {989.4,  989.4,  494.7, 66.9, 66.9, 1978.9, 1978.9, 0,    0},     4800, kHopperDriver,    kH200},
    {"h200-nvl",       "H200 NVL",       "NVIDIA H200 NVL",        {835.5,  835.5,  417.5, 60,   60,   1670.5, 1670.5, 0,    0},     4800, kHopperDriver,    kH200Nvl},
    {"gh200-96gb",     "GH200 96GB",     "NVIDIA GH200 480GB",     {989.5,  989.5,  494.5, 67,   67,   1979,   1979,   0,    0},     4000, kHopperDriver,    kGh200},
    {"b200",           "B200",           "NVIDIA B200",            {2250,   2250,   1100,  75,   37,   4500,   4500,   4500, 9000},  8000, kBlackwellDriver, kB200},
    {"gb200",          "GB200",          "NVIDIA GB200",           {2500,   2500,   1250,  80,   40,   5000,   5000,   5000, 10000}, 8000, kBlackwellDriver, kGb200},
    {"b300",           "B300",           "NVIDIA B300 SXM6 AC",    {2250,   2250,   1125,  75,   1.25, 0,      4500,   4500, 13500}, 8000, kUltraDriver,     kB300},
    {"gb300",          "GB300",          "NVIDIA GB300",           {2500,   2500,   1250,  0,    0,    0,      5000,   5000, 15000}, 8000, kUltraDriver,     kGb300},
    {"l40s",           "L40S",           "NVIDIA L40S",            {362.05, 362.05, 183,   91.6, 0,    733,    733,    0,    0},     864,  kHopperDriver,    kL40s},
    {"l40",            "L40",            "NVIDIA L40",             {181.05, 181.05, 90.5,  90.5, 0,    362,    362,    0,    0},     864,  kHopperDriver,    kL40},
};
// clang-format on

}  // namespace

const char* name_of(PeakType type) noexcept {
  constexpr const char* names[kPeakTypes] = {"bf16", "fp16", "tf32",  "fp32", "fp64",
                                             "int8", "fp8",  "mxfp8", "nvfp4"};
  return names[static_cast<size_t>(type)];
}

const Sku* find_sku(const DeviceIdentity& device) {
  if (device.kind != "cuda") return nullptr;
  for (const Sku& sku : kSkus)
    if (sku.device == device.name) return &sku;
  return nullptr;
}

std::optional<double> peak(const Sku* sku, PeakType type) {
  if (!sku || sku->dense_tflops[static_cast<size_t>(type)] == 0) return std::nullopt;
  return sku->dense_tflops[static_cast<size_t>(type)];
}

std::optional<double> peak_memory_GBps(const Sku* sku) {
  if (!sku) return std::nullopt;
  return sku->memory_GBps;
}

std::string peak_origin(const Sku* sku) {
  if (!sku) return "";
  return "dense peak of " + std::string(sku->name) + ": " + std::string(sku->source);
}

}  // namespace tt

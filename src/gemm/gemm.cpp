#include "src/gemm/gemm.h"

#include <array>

#include "common/error.h"
#include "common/quote.h"
#include "src/gemm/backends.h"
#include "src/gemm/block_scales.h"

namespace tt {
namespace {

using enum Element;

// unit_roundoff: floats 2^-24, doubles 2^-53 (round to nearest); tensor cores cut off at 24 bits: 2^-23; the
// fp8 tensor core of Hopper aligns sums at 14 bits: 2^-13 (docs/method.md, "GEMM").
constexpr std::array<KindTraits, 10> kKinds{{
    {GemmKind::bf16, "bf16", bf16, bf16, bf16, 0, false, false, 0x1p-23},
    {GemmKind::fp16, "fp16", f16, f16, f16, 0, false, false, 0x1p-23},
    {GemmKind::tf32, "tf32", f32, f32, f32, 0, false, false, 0x1p-23},
    {GemmKind::fp32, "fp32", f32, f32, f32, 0, false, false, 0x1p-24},
    {GemmKind::fp64, "fp64", f64, f64, f64, 0, false, false, 0x1p-53},
    {GemmKind::int8, "int8", s8, s8, s32, 0, false, true, 0},
    {GemmKind::fp8, "fp8", e4m3, e4m3, bf16, 0, true, true, 0x1p-13},
    {GemmKind::fp8_e5m2, "fp8_e5m2", e4m3, e5m2, bf16, 0, true, true, 0x1p-13},
    {GemmKind::mxfp8, "mxfp8", e4m3, e4m3, bf16, 32, false, true, 0x1p-23},
    {GemmKind::nvfp4, "nvfp4", e2m1, e2m1, bf16, 16, false, true, 0x1p-23},
}};

constexpr std::array<std::pair<const char*, GemmKind>, 4> kAliases{{{"bfloat16", GemmKind::bf16},
                                                                    {"half", GemmKind::fp16},
                                                                    {"float", GemmKind::fp32},
                                                                    {"double", GemmKind::fp64}}};

}  // namespace

const KindTraits& traits(GemmKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

std::vector<GemmKind> all_kinds() {
  std::vector<GemmKind> kinds;
  for (const KindTraits& t : kKinds) kinds.push_back(t.kind);
  return kinds;
}

std::vector<std::string> accepted_kind_names() {
  std::vector<std::string> names;
  for (const KindTraits& t : kKinds) names.emplace_back(t.name);
  for (const auto& [name, kind] : kAliases) names.emplace_back(name);
  return names;
}

GemmKind parse_kind(std::string_view option, std::string_view text) {
  for (const KindTraits& t : kKinds)
    if (text == t.name) return t.kind;
  for (const auto& [name, kind] : kAliases)
    if (text == name) return kind;
  std::string accepted;
  for (const std::string& name : accepted_kind_names()) accepted += " " + name;
  throw UsageError(std::string(option) + ": unknown type " + in_quotes(text) + "; accepted:" + accepted);
}

std::string GemmProblem::group() const {
  return std::string("gemm/") + traits(kind).name + "/" + layout();
}

std::string GemmProblem::key() const {
  return group() + "/" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) +
         (label.empty() ? "" : "/" + label);
}

void check_problem(const GemmProblem& p) {
  const std::string shape = std::to_string(p.m) + "," + std::to_string(p.n) + "," + std::to_string(p.k);
  if (p.m < 1 || p.n < 1 || p.k < 1) throw UsageError("shape " + shape + ": m, n and k must be at least 1");
  constexpr double kLargest = 0x1p60;  // elements; no machine has it, and byte counts stay far from wrapping
  const double m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
  if (m * n > kLargest || m * k > kLargest || k * n > kLargest)
    throw UsageError("shape " + shape + ": a matrix of more than 2^60 elements");
  constexpr int64_t kInt8Limit = ((int64_t{1} << 31) - 1) / (128 * 128);
  if (p.kind == GemmKind::int8 && p.k > kInt8Limit)
    throw UsageError("shape " + shape + ": int8 sums over k > " + std::to_string(kInt8Limit) +
                     " could leave int32");
}

int64_t scale_bytes(GemmKind kind, int64_t outer, int64_t k) {
  const KindTraits& t = traits(kind);
  if (t.tensor_scale) return sizeof(float);
  return t.scale_block ? block_scale_bytes(outer, (k + t.scale_block - 1) / t.scale_block) : 0;
}

std::string why_unsupported(const Device& device, GemmKind kind) {
  const std::string name = traits(kind).name;
  if (device.kind() == DeviceKind::host) return why_unsupported_on_host(kind);
  const int capability = device.identity().capability;
  const auto needs = [&](int least, const char* what) {
    return capability >= least ? std::string()
                               : name + " needs " + what + "; this device has compute capability " +
                                     std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  switch (kind) {
    case GemmKind::mxfp8:
      return needs(100, "block-scaled tensor cores (compute capability 10.0, Blackwell)");
    case GemmKind::nvfp4:
      return needs(100, "block-scaled FP4 tensor cores (compute capability 10.0, Blackwell)");
    case GemmKind::fp8:
    case GemmKind::fp8_e5m2:
      return needs(89, "FP8 tensor cores (compute capability 8.9)");
    case GemmKind::bf16:
    case GemmKind::tf32:
      return needs(80, "tensor cores of compute capability 8.0");
    default:
      return {};
  }
}

std::unique_ptr<Gemm> open_gemm(Device& device, const GemmProblem& problem, const GemmOptions& options) {
  check_problem(problem);
  if (const std::string why = why_unsupported(device, problem.kind); !why.empty()) throw SkippedError(why);
  return device.kind() == DeviceKind::cuda ? open_cuda_gemm(device, problem, options)
                                           : open_host_gemm(device, problem);
}

}  // namespace tt

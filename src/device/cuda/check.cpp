#include "src/device/cuda/check.h"

#include <fmt/format.h>

namespace tt {
namespace {

/// Errors after which every CUDA call of the process fails (CUDA Runtime API, cudaError_t: "the process must
/// be terminated and relaunched").
bool loses_context(cudaError_t code) {
  switch (code) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContained:
      return true;
    default:
      return false;
  }
}

std::string current_device() {
  int index = -1;
  if (cudaGetDevice(&index) != cudaSuccess) return "CUDA";
  return fmt::format("CUDA device {}", index);
}

/// What to do about an error that has one cause.
std::string remedy(cudaError_t code) {
  if (code != cudaErrorNoKernelImageForDevice) return "";
  int index = 0, major = 0, minor = 0;
  if (cudaGetDevice(&index) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index) != cudaSuccess)
    return "";
  return fmt::format(
      "; libtt_cuda.so has no code for this GPU: build with "
      "NVCC_GENCODE=-gencode=arch=compute_{0},code=sm_{0}",
      10 * major + minor);
}

}  // namespace

void throw_cuda_error(const char* expression, cudaError_t code, const std::string& detail) {
  cudaGetLastError();
  throw DeviceError(fmt::format("{}: {} failed: {} ({}){}{}{}", current_device(), expression,
                                cudaGetErrorString(code), static_cast<int>(code),
                                detail.empty() ? "" : "; " + detail, remedy(code),
                                loses_context(code) ? "; the device's context is lost with it" : ""));
}

void check_launch(const char* kernel) {
  if (const cudaError_t code = cudaGetLastError(); code != cudaSuccess)
    throw_cuda_error((std::string("launch of ") + kernel).c_str(), code);
}

std::string cuda_version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace tt

// Checking of CUDA runtime calls.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "src/device/device.h"

namespace tt {

/// Throws DeviceError: the device that is current, the expression, CUDA's text and number, `detail`; and,
/// where it is so, that the context is lost with this error. Clears the runtime's last error, so that it is
/// not reported again elsewhere.
[[noreturn]] void throw_cuda_error(const char* expression, cudaError_t code, const std::string& detail = "");

/// After `kernel<<<...>>>(...)`: throws when the launch was refused (what it does wrong later shows at a
/// synchronize).
void check_launch(const char* kernel);

/// 13000 -> "13.0": CUDA gives versions as 1000 * major + 10 * minor.
std::string cuda_version_text(int version);

}  // namespace tt

#define TT_CUDA(expression)                                                             \
  do {                                                                                  \
    const cudaError_t tt_cuda_code = (expression);                                      \
    if (tt_cuda_code != cudaSuccess) ::tt::throw_cuda_error(#expression, tt_cuda_code); \
  } while (false)

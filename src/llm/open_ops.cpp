#include "common/error.h"
#include "src/device/cuda_library.h"
#include "src/llm/backends.h"
#include "src/llm/host_ops.h"
#include "src/llm/ops.h"

namespace tt {

std::unique_ptr<Ops> open_ops(Device& device, int threads) {
  if (device.kind() == DeviceKind::host) return std::make_unique<HostOps>(device, threads);
  const CudaLibrary* library = CudaLibrary::get();
  if (!library) throw EnvironmentError("training on cuda: " + CudaLibrary::error());
  return std::unique_ptr<Ops>(library->function<CudaOpsFunction>("tt_cuda_llm_ops")(device));
}

}  // namespace tt

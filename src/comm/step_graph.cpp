#include "src/comm/step_graph.h"

#include "src/comm/cuda_entry.h"
#include "src/device/cuda_library.h"

namespace tt {

std::unique_ptr<StepGraph> record_graph(Device& device, Stream& stream, const std::function<void()>& work) {
  if (device.kind() != DeviceKind::cuda)
    throw SkippedError("-G: the host device has no graphs; it needs --device cuda");
  const CudaLibrary* library = CudaLibrary::get();
  if (!library) throw EnvironmentError(CudaLibrary::error());
  auto* begin = library->function<cuda_entry::BeginCapture>("tt_begin_capture");
  auto* end = library->function<cuda_entry::EndCapture>("tt_end_capture");
  begin(stream);
  try {
    work();
  } catch (...) {
    try {  // leave the stream usable; the first error is the one to tell
      delete end(stream);
    } catch (const Error&) {
    }
    throw;
  }
  return std::unique_ptr<StepGraph>(end(stream));
}

}  // namespace tt

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string>

#include "src/device/cuda_library.h"
#include "src/device/device.h"

namespace tt {
namespace {

/// How many CUDA devices this process can use; 0 with the reason in `why`.
int visible_cuda_devices(const CudaLibrary* library, std::string& why) {
  if (!library) {
    why = CudaLibrary::error();
    return 0;
  }
  std::array<char, 512> text{};
  const int count = library->function<int(char*, size_t)>("tt_cuda_device_count")(text.data(), text.size());
  if (count > 0) return count;
  why = text.data();
  // A GPU or MIG name in this variable that matches nothing hides every device; CUDA itself does not mention
  // it.
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    why +=
        fmt::format("; CUDA_VISIBLE_DEVICES=\"{}\"{}", visible, *visible ? " may match none" : " hides all");
  return 0;
}

}  // namespace

Opened open_device(const std::string& wanted, int local_rank, int local_size) {
  if (wanted != "auto" && wanted != "cuda" && wanted != "host")
    throw UsageError("--device " + wanted + ": accepted are auto, cuda, host");
  Opened opened;
  if (wanted != "host") {
    const CudaLibrary* library = CudaLibrary::get();
    if (const int count = visible_cuda_devices(library, opened.why); count > 0) {
      opened.device.reset(library->function<Device*(int)>("tt_cuda_open_device")(local_rank % count));
      return opened;
    }
    if (wanted == "cuda") throw EnvironmentError("--device cuda: " + opened.why);
    opened.why = "no CUDA device: " + opened.why;
  }
  opened.device = open_host_device(local_rank, local_size);
  return opened;
}

}  // namespace tt

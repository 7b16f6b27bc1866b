#include "src/device/cuda/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "src/device/cuda/check.h"
#include "src/device/cuda/kernels.h"
#include "src/device/host_info.h"
#include "src/device/nvml_telemetry.h"

namespace tt {
namespace {

/// "GPU-01234567-89ab-...", as nvidia-smi writes it.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::string pci_text(int index) {
  std::array<char, 32> text{};
  TT_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), index));
  std::string pci = text.data();
  std::transform(pci.begin(), pci.end(), pci.begin(), [](unsigned char c) { return std::tolower(c); });
  return pci;
}

/// Median seconds between two events of a stream with `work` between them. The stream is held up first, so
/// that all is enqueued when it begins and the figure is the GPU's, not that of this thread's calls.
template <class Work>
double median_between_events(cudaStream_t stream, double nominal_rate, Work&& work) {
  const CudaEvent begin = make_cuda_event(), end = make_cuda_event();
  std::vector<float> ms(9);
  for (float& sample : ms) {
    launch_spin(100e3, nominal_rate, stream);
    TT_CUDA(cudaEventRecord(begin.get(), stream));
    work();
    TT_CUDA(cudaEventRecord(end.get(), stream));
    TT_CUDA(cudaEventSynchronize(end.get()));
    TT_CUDA(cudaEventElapsedTime(&sample, begin.get(), end.get()));
  }
  std::nth_element(ms.begin(), ms.begin() + 4, ms.end());
  return static_cast<double>(ms[4]) * 1e-3;
}

}  // namespace

CudaDevice::CudaDevice(int index) : index_(index) {
  TT_CUDA(cudaSetDevice(index));
  identify();
  spin_ = calibrate_spin();
}

void CudaDevice::identify() {
  cudaDeviceProp properties{};
  TT_CUDA(cudaGetDeviceProperties(&properties, index_));
  identity_.kind = "cuda";
  identity_.name = properties.name;
  identity_.uuid = uuid_text(properties.uuid);
  identity_.pci = pci_text(index_);
  identity_.index = index_;
  identity_.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  identity_.compute_units = properties.multiProcessorCount;
  identity_.capability = 10 * properties.major + properties.minor;
  cache_bytes_ = static_cast<size_t>(properties.l2CacheSize);

  nvml_ = Nvml::open(nvml_why_);
  if (!nvml_) return;
  Reading<NvmlDevice> gpu = nvml_->by_pci(identity_.pci);
  if (!gpu) gpu = nvml_->by_uuid(identity_.uuid);
  gpu_ = gpu.value;
  nvml_why_ = gpu.why;
  if (gpu_) identity_.serial = gpu_->serial().value.value_or("");
}

/// Marks, wait of nothing, mark, less mark, mark: what a wait's launch takes in a stream. The first launch
/// also finds out whether the library has code for this GPU.
CudaStream::Spin CudaDevice::calibrate_spin() const {
  int clock_kHz = 0;
  TT_CUDA(cudaDeviceGetAttribute(&clock_kHz, cudaDevAttrClockRate, index_));
  CudaStream::Spin spin{clock_kHz > 0 ? clock_kHz * 1e-6 : 1.0, 0};
  const CudaStreamHandle stream = make_cuda_stream();
  const auto wait = [&] { launch_spin(0, spin.nominal_rate, stream.get()); };
  wait();
  TT_CUDA(cudaStreamSynchronize(stream.get()));
  const double launch_s = median_between_events(stream.get(), spin.nominal_rate, wait) -
                          median_between_events(stream.get(), spin.nominal_rate, [] {});
  spin.launch_s = std::clamp(launch_s, 0.0, 20e-6);
  return spin;
}

void CudaDevice::activate() {
  TT_CUDA(cudaSetDevice(index_));
}

MemoryInfo CudaDevice::memory() const {
  TT_CUDA(cudaSetDevice(index_));
  size_t available = 0, total = 0;
  TT_CUDA(cudaMemGetInfo(&available, &total));
  return {static_cast<int64_t>(total), static_cast<int64_t>(available)};
}

Buffer CudaDevice::allocate(size_t bytes) {
  if (bytes == 0) return {};
  activate();
  void* data = nullptr;
  if (const cudaError_t code = cudaMalloc(&data, bytes); code != cudaSuccess) {
    size_t available = 0, total = 0;
    const bool known = cudaMemGetInfo(&available, &total) == cudaSuccess;
    throw_cuda_error("cudaMalloc", code,
                     fmt::format("{} bytes asked, {} bytes available on {}", bytes,
                                 known ? std::to_string(available) : "unknown", identity_.name));
  }
  return Buffer(*this, data, bytes, false);
}

Buffer CudaDevice::allocate_pinned(size_t bytes) {
  if (bytes == 0) return {};
  activate();
  // Pinned pages are taken at once and never swapped: asking for more than there is gets the process killed.
  const int64_t available = read_host_memory().available;
  if (bytes > static_cast<size_t>(available - available / 32))
    throw DeviceError(
        fmt::format("pinned host memory: {} bytes asked, {} bytes available on the host", bytes, available));
  void* data = nullptr;
  if (const cudaError_t code = cudaMallocHost(&data, bytes); code != cudaSuccess)
    throw_cuda_error(
        "cudaMallocHost", code,
        fmt::format("{} bytes asked, {} bytes available on the host (ulimit -l?)", bytes, available));
  return Buffer(*this, data, bytes, true);
}

void CudaDevice::free_memory(void* data, bool pinned_host) noexcept {
  if (cudaSetDevice(index_) != cudaSuccess ||
      (pinned_host ? cudaFreeHost(data) : cudaFree(data)) != cudaSuccess)
    cudaGetLastError();  // the process may be ending after a device error, which was reported then
}

std::unique_ptr<Stream> CudaDevice::make_stream() {
  activate();
  return std::make_unique<CudaStream>(index_, spin_);
}

std::unique_ptr<Event> CudaDevice::make_event() {
  activate();
  return std::make_unique<CudaDeviceEvent>();
}

void CudaDevice::copy(void* to, const void* from, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  TT_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)));
}

void CudaDevice::set_bytes(void* to, int value, size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  TT_CUDA(cudaMemsetAsync(to, value, bytes, native(stream)));
}

void CudaDevice::fill_random(void* to, size_t count, DType type, Fill fill, uint64_t seed,
                             uint64_t first_element, Stream& stream) {
  launch_fill_random(to, count, type, fill, seed, first_element, native(stream));
}

std::shared_ptr<TelemetrySource> CudaDevice::telemetry() {
  return gpu_ ? open_nvml_telemetry(*gpu_) : nullptr;
}

Versions CudaDevice::versions() const {
  int driver = 0, runtime = 0;
  TT_CUDA(cudaDriverGetVersion(&driver));
  TT_CUDA(cudaRuntimeGetVersion(&runtime));
  const Reading<std::string> kernel =
      nvml_ ? nvml_->driver_version() : Reading<std::string>{std::nullopt, nvml_why_};
  return {{"NVIDIA driver", kernel ? *kernel : "unknown (" + kernel.why + ")"},
          {"CUDA driver", cuda_version_text(driver)},
          {"CUDA runtime", cuda_version_text(runtime)}};
}

}  // namespace tt

int tt_cuda_device_count(char* why, size_t size) {
  int count = 0, driver = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)  // CUDA calls that "insufficient version"
    std::snprintf(why, size, "no NVIDIA driver on this machine (libcuda.so.1)");
  else
    std::snprintf(why, size, "cudaGetDeviceCount: %s (%d); the driver supports CUDA %s, this build is of %s",
                  code == cudaSuccess ? "no device" : cudaGetErrorString(code), static_cast<int>(code),
                  tt::cuda_version_text(driver).c_str(), tt::cuda_version_text(CUDART_VERSION).c_str());
  return 0;
}

tt::Device* tt_cuda_open_device(int index) {
  return new tt::CudaDevice(index);
}

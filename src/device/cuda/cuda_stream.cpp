#include "src/device/cuda/cuda_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/clock.h"
#include "src/device/cuda/check.h"
#include "src/device/cuda/kernels.h"

namespace tt {

CudaEvent make_cuda_event() {
  cudaEvent_t event = nullptr;
  TT_CUDA(cudaEventCreate(&event));
  return CudaEvent(event);
}

CudaStreamHandle make_cuda_stream() {
  cudaStream_t stream = nullptr;
  TT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return CudaStreamHandle(stream);
}

CudaStream::CudaStream(int device, Spin spin) : device_(device), spin_(spin), stream_(make_cuda_stream()) {
  for (CudaEvent& event : references_) event = make_cuda_event();
}

void CudaStream::begin_marks(size_t count) {
  synchronize();
  {
    const std::lock_guard lock(mutex_);
    order_.clear();
    order_.reserve(count);
    passed_ = 0;
    while (events_.size() < count) events_.push_back(make_cuda_event());  // kept for the next time
  }
  seconds_.assign(count, std::numeric_limits<double>::quiet_NaN());
  resolved_ = 0;
  anchor();
}

/// Ties the device's time to the host's: an event in an idle stream happened between the host's times before
/// and after it. The shortest such interval of three leaves the least doubt, half its length.
void CudaStream::anchor() {
  double shortest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < references_.size(); ++i) {
    const double before = monotonic_seconds();
    TT_CUDA(cudaEventRecord(references_[i].get(), stream_.get()));
    TT_CUDA(cudaEventSynchronize(references_[i].get()));
    const double after = monotonic_seconds();
    if (after - before >= shortest) continue;
    shortest = after - before;
    reference_ = i;
    anchor_s_ = (before + after) / 2;
  }
}

void CudaStream::mark(size_t slot) {
  const std::lock_guard lock(mutex_);
  if (slot >= seconds_.size())
    throw DeviceError(
        fmt::format("CUDA device {}: mark {} of {} does not exist", device_, slot, seconds_.size()));
  TT_CUDA(cudaEventRecord(events_[slot].get(), stream_.get()));
  order_.push_back(slot);
}

/// Times of the marks not known yet, each from the mark before it: an event's elapsed time is a float of
/// milliseconds, which would lose microseconds against an anchor ten seconds back.
void CudaStream::resolve() const {
  for (; resolved_ < order_.size(); ++resolved_) {
    const bool first = resolved_ == 0;
    const cudaEvent_t before = first ? references_[reference_].get() : events_[order_[resolved_ - 1]].get();
    const double before_s = first ? anchor_s_ : seconds_[order_[resolved_ - 1]];
    float ms = 0;
    TT_CUDA(cudaEventElapsedTime(&ms, before, events_[order_[resolved_]].get()));
    seconds_[order_[resolved_]] = before_s + static_cast<double>(ms) * 1e-3;
  }
}

double CudaStream::mark_seconds(size_t slot) const {
  if (slot < seconds_.size()) resolve();
  if (slot >= seconds_.size() || std::isnan(seconds_[slot]))
    throw DeviceError(
        fmt::format("CUDA device {}: mark {} of {} was not set", device_, slot, seconds_.size()));
  return seconds_[slot];
}

size_t CudaStream::marks_passed() const {
  const std::lock_guard lock(mutex_);
  if (passed_ == order_.size()) return passed_;
  // A thread's first CUDA call makes a context on its current device, which is device 0 unless told
  // otherwise.
  if (cudaSetDevice(device_) != cudaSuccess) return passed_;
  while (passed_ < order_.size() && cudaEventQuery(events_[order_[passed_]].get()) == cudaSuccess) ++passed_;
  return passed_;
}

void CudaStream::synchronize() {
  TT_CUDA(cudaStreamSynchronize(stream_.get()));
}

void CudaStream::delay(double seconds) {
  if (!(seconds >= 0) || std::isinf(seconds))
    throw DeviceError(fmt::format("CUDA device {}: a delay of {} s", device_, seconds));
  launch_spin(std::max(0.0, seconds - spin_.launch_s) * 1e9, spin_.nominal_rate, stream_.get());
}

void CudaDeviceEvent::record(Stream& stream) {
  TT_CUDA(cudaEventRecord(event_.get(), native(stream)));
}

void CudaDeviceEvent::hold(Stream& stream) {
  TT_CUDA(cudaStreamWaitEvent(native(stream), event_.get(), 0));
}

double CudaDeviceEvent::seconds_since(const Event& earlier) const {
  float ms = 0;
  TT_CUDA(cudaEventElapsedTime(&ms, dynamic_cast<const CudaDeviceEvent&>(earlier).event_.get(), event_.get()));
  return static_cast<double>(ms) * 1e-3;
}

cudaStream_t native(Stream& stream) {
  auto* const cuda = dynamic_cast<CudaStream*>(&stream);
  if (!cuda) throw DeviceError("a stream of another device was given to CUDA");
  return cuda->handle();
}

}  // namespace tt

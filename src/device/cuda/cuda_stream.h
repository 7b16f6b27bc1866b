// A CUDA stream whose marks are events, read back as CLOCK_MONOTONIC times.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include "common/stream.h"
#include "src/device/device.h"

namespace tt {

struct CudaEventDelete {
  void operator()(cudaEvent_t event) const noexcept { cudaEventDestroy(event); }
};
using CudaEvent = std::unique_ptr<CUevent_st, CudaEventDelete>;
CudaEvent make_cuda_event();

struct CudaStreamDelete {
  void operator()(cudaStream_t stream) const noexcept { cudaStreamDestroy(stream); }
};
using CudaStreamHandle = std::unique_ptr<CUstream_st, CudaStreamDelete>;
/// A stream that does not wait for the default stream.
CudaStreamHandle make_cuda_stream();

class CudaStream final : public Stream {
 public:
  /// How a wait on this device is made to last as long as asked: what a launch itself takes is subtracted.
  struct Spin {
    double nominal_rate = 1;  // SM cycles per ns
    double launch_s = 0;
  };
  CudaStream(int device, Spin spin);

  void begin_marks(size_t count) override;
  void mark(size_t slot) override;
  double mark_seconds(size_t slot) const override;
  size_t marks_passed() const override;
  void synchronize() override;
  void delay(double seconds) override;
  double mark_cost() const override { return 1.5e-6; }

  cudaStream_t handle() const noexcept { return stream_.get(); }

 private:
  void anchor();
  void resolve() const;

  int device_;
  Spin spin_;
  CudaStreamHandle stream_;
  std::array<CudaEvent, 3> references_;  // the anchor is the one whose time on the host is known best
  size_t reference_ = 0;
  double anchor_s_ = 0;

  mutable std::mutex mutex_;  // guards what the watchdog reads: events_, order_, passed_
  std::vector<CudaEvent> events_;
  std::vector<size_t> order_;  // slots in the order of marking
  mutable size_t passed_ = 0;
  mutable std::vector<double> seconds_;  // by slot; NaN: not known yet
  mutable size_t resolved_ = 0;          // how many of order_ have their time
};

class CudaDeviceEvent final : public Event {
 public:
  void record(Stream& stream) override;
  void hold(Stream& stream) override;
  double seconds_since(const Event& earlier) const override;

 private:
  CudaEvent event_ = make_cuda_event();
};

/// The CUDA stream behind a Stream of a CUDA device. DeviceError for another device's stream.
cudaStream_t native(Stream& stream);

}  // namespace tt

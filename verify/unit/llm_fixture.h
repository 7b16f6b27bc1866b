// For the tests of src/llm on either device: operations with their device, arrays that are rounded to a type
// and live on it, and comparison within bounds.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/device/device.h"
#include "src/llm/ops.h"
#include "verify/reference/llm_reference.h"
#include "verify/unit/catch.h"

namespace tt::test {

using reference::Doubles;

/// A device, a stream and the operations on it.
class OpsBench {
 public:
  explicit OpsBench(const std::string& kind, int threads = 2);
  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  Ops& ops() { return *ops_; }
  bool on_host() const { return device_->kind() == DeviceKind::host; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
};

/// The same body as a test of the host ("[llm]") and of a GPU ("[.cuda]").
inline void on_host(const std::function<void(OpsBench&)>& body) {
  OpsBench bench("host");
  body(bench);
}
inline void on_cuda(const std::function<void(OpsBench&)>& body) {
  OpsBench bench("cuda");
  body(bench);
}

/// About N(0, 1) times `scale`; element e depends on (seed, e) alone.
Doubles normals(int64_t count, uint64_t seed, double scale = 1);
/// Each value as stored in `type`.
Doubles rounded(Doubles values, DType type);

/// `count` elements of a type on the device.
class DeviceArray {
 public:
  /// Not written yet: every byte 0xff, which is NaN in every type.
  DeviceArray(OpsBench& bench, DType type, int64_t count);
  DeviceArray(OpsBench& bench, DType type, const Doubles& values);
  DeviceArray(OpsBench& bench, const std::vector<int32_t>& values);
  void* data() const { return buffer_.data(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(buffer_.data());
  }
  /// Waits for the stream.
  std::vector<char> bytes() const;
  Doubles values() const;
  DType type() const { return type_; }

 private:
  void upload(const void* from);
  OpsBench* bench_;
  DType type_;
  int64_t count_;
  Buffer buffer_;
};

/// A matrix on the device with `padding` elements between its rows, NaN until somebody writes there.
class DeviceMatrix {
 public:
  DeviceMatrix(OpsBench& bench, DType type, int64_t rows, int64_t cols, int64_t padding = 0);
  DeviceMatrix(OpsBench& bench, DType type, int64_t rows, int64_t cols, const Doubles& packed,
               int64_t padding = 0);
  Matrix view(const float* scale = nullptr) const {
    return {array_.data(), array_.type(), rows_, cols_, cols_ + padding_, scale};
  }
  Doubles values() const;  // packed
  std::vector<char> bytes() const { return array_.bytes(); }
  bool padding_untouched() const;

 private:
  int64_t rows_, cols_, padding_;
  DeviceArray array_;
};

/// Largest relative error of rounding to nearest: half the spacing at 1, 2^-p for p bits of significand
/// (Higham, Accuracy and Stability of Numerical Algorithms, 2.1): f32 2^-24, f16 2^-11, bf16 2^-8, e4m3 2^-4,
/// e5m2 2^-3.
double unit_roundoff(DType type);

/// What a result stored as `type` may be off by: its own rounding, and `float_steps` roundings to f32 of
/// terms of the size `magnitude`. Both a little enlarged for the products of errors, and a floor for
/// subnormals.
Doubles allowed_error(DType type, const Doubles& expected, const Doubles& magnitude, double float_steps);
/// The same where the terms are as large as the result.
Doubles allowed_error(DType type, const Doubles& expected, double float_steps);

/// Fails the test, naming the first element that is further off than allowed; NaN always is.
void check_within(const std::string& what, const Doubles& got, const Doubles& expected,
                  const Doubles& allowed);

inline constexpr DType kActivations[] = {DType::f32, DType::bf16};

}  // namespace tt::test

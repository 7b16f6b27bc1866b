#include "verify/unit/llm_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/device/dtype_visit.h"
#include "src/device/random.h"

namespace tt::test {

OpsBench::OpsBench(const std::string& kind, int threads)
    : device_(open_device(kind, 0, 1).device),
      stream_(device_->make_stream()),
      ops_(open_ops(*device_, threads)) {}

Doubles normals(int64_t count, uint64_t seed, double scale) {
  Doubles values(static_cast<size_t>(count));
  for (size_t e = 0; e < values.size(); ++e)
    values[e] = scale * random_value(DType::f64, Fill::normal, seed, e);
  return values;
}

Doubles rounded(Doubles values, DType type) {
  with_storage(type, [&](auto tag) {
    for (double& x : values) x = to_double(from_double<typename decltype(tag)::type>(x));
  });
  return values;
}

DeviceArray::DeviceArray(OpsBench& bench, DType type, int64_t count)
    : bench_(&bench),
      type_(type),
      count_(count),
      buffer_(bench.device().allocate(static_cast<size_t>(count) * size_of(type))) {
  bench.device().set_bytes(buffer_.data(), 0xff, buffer_.bytes(), bench.stream());
}

DeviceArray::DeviceArray(OpsBench& bench, DType type, const Doubles& values)
    : DeviceArray(bench, type, static_cast<int64_t>(values.size())) {
  with_storage(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<T> stored;
    for (const double x : values) stored.push_back(from_double<T>(x));
    upload(stored.data());
  });
}

DeviceArray::DeviceArray(OpsBench& bench, const std::vector<int32_t>& values)
    : DeviceArray(bench, DType::int32, static_cast<int64_t>(values.size())) {
  upload(values.data());
}

void DeviceArray::upload(const void* from) {
  bench_->device().copy(buffer_.data(), from, buffer_.bytes(), bench_->stream());
  bench_->stream().synchronize();
}

std::vector<char> DeviceArray::bytes() const {
  std::vector<char> data(buffer_.bytes());
  bench_->device().copy(data.data(), buffer_.data(), data.size(), bench_->stream());
  bench_->stream().synchronize();
  return data;
}

Doubles DeviceArray::values() const {
  const std::vector<char> data = bytes();
  Doubles values(static_cast<size_t>(count_));
  with_storage(type_, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t e = 0; e < values.size(); ++e) {
      T x;
      std::memcpy(&x, data.data() + e * sizeof(T), sizeof(T));
      values[e] = to_double(x);
    }
  });
  return values;
}

namespace {

Doubles with_padding(const Doubles& packed, int64_t rows, int64_t cols, int64_t padding) {
  REQUIRE(static_cast<int64_t>(packed.size()) == rows * cols);
  Doubles values(static_cast<size_t>(rows * (cols + padding)), NAN);
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(packed.begin() + r * cols, cols, values.begin() + r * (cols + padding));
  return values;
}

}  // namespace

DeviceMatrix::DeviceMatrix(OpsBench& bench, DType type, int64_t rows, int64_t cols, int64_t padding)
    : rows_(rows), cols_(cols), padding_(padding), array_(bench, type, rows * (cols + padding)) {}

DeviceMatrix::DeviceMatrix(OpsBench& bench, DType type, int64_t rows, int64_t cols, const Doubles& packed,
                           int64_t padding)
    : rows_(rows),
      cols_(cols),
      padding_(padding),
      array_(bench, type, with_padding(packed, rows, cols, padding)) {}

Doubles DeviceMatrix::values() const {
  const Doubles all = array_.values();
  Doubles packed;
  for (int64_t r = 0; r < rows_; ++r)
    packed.insert(packed.end(), all.begin() + r * (cols_ + padding_),
                  all.begin() + r * (cols_ + padding_) + cols_);
  return packed;
}

bool DeviceMatrix::padding_untouched() const {
  const Doubles all = array_.values();
  for (int64_t r = 0; r < rows_; ++r)
    for (int64_t c = cols_; c < cols_ + padding_; ++c)
      if (!std::isnan(all[static_cast<size_t>(r * (cols_ + padding_) + c)])) return false;
  return true;
}

double unit_roundoff(DType type) {
  switch (type) {
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f8e4m3:
      return 0x1p-4;
    case DType::f8e5m2:
      return 0x1p-3;
    default:
      return 0x1p-53;
  }
}

Doubles allowed_error(DType type, const Doubles& expected, const Doubles& magnitude, double float_steps) {
  constexpr double kFloor = 1e-36;  // near the smallest normal of f32 and bf16, 1.2e-38
  Doubles allowed(expected.size());
  for (size_t e = 0; e < allowed.size(); ++e)
    allowed[e] = 1.01 * (unit_roundoff(type) * std::abs(expected[e]) +
                         float_steps * 0x1p-24 * std::abs(magnitude[e])) +
                 kFloor;
  return allowed;
}

Doubles allowed_error(DType type, const Doubles& expected, double float_steps) {
  return allowed_error(type, expected, expected, float_steps);
}

void check_within(const std::string& what, const Doubles& got, const Doubles& expected,
                  const Doubles& allowed) {
  REQUIRE(got.size() == expected.size());
  REQUIRE(got.size() == allowed.size());
  for (size_t e = 0; e < got.size(); ++e) {
    if (std::abs(got[e] - expected[e]) <= allowed[e]) continue;
    INFO(what << "[" << e << "] of " << got.size() << ": got " << got[e] << ", expected " << expected[e]
              << " to within " << allowed[e]);
    CHECK(std::abs(got[e] - expected[e]) <= allowed[e]);
    return;
  }
  SUCCEED(what);
}

}  // namespace tt::test

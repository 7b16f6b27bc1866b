// Copies, conversions and reductions over whole arrays.
#include "src/llm/host_ops.h"

#include <cmath>
#include <cstring>

#include "src/device/random.h"
#include "src/llm/host_rows.h"

namespace tt {

using namespace host;

float* HostScratch::floats(Device& device, int64_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  if (buffer_.bytes() < bytes) {
    buffer_ = Buffer();  // frees before it allocates
    buffer_ = device.allocate(bytes);
  }
  return static_cast<float*>(buffer_.data());
}

HostOps::HostOps(Device& device, int threads) : device_(device), threads_(std::max(1, threads)) {}

void HostOps::sum(const void* x, DType type, int64_t count, bool squares, bool add, double* sum, Stream&) {
  with_float(type, "a sum", [&](auto tag) {
    const auto* in = static_cast<const typename decltype(tag)::type*>(x);
    const double total = sum_of_pieces<double>(threads_, count, [=](int64_t first, int64_t end) {
      double part = 0;
      if (squares) {
#pragma omp simd reduction(+ : part)
        for (int64_t i = first; i < end; ++i) {
          const double value = to_float(in[i]);
          part += value * value;
        }
      } else {
#pragma omp simd reduction(+ : part)
        for (int64_t i = first; i < end; ++i) part += static_cast<double>(to_float(in[i]));
      }
      return part;
    });
    *sum = (add ? *sum : 0) + total;
  });
}

void HostOps::clip_factor(const double* sum_of_squares, double max_norm, float* factor, float* norm,
                          Stream&) {
  const double n = std::sqrt(*sum_of_squares);
  *norm = static_cast<float>(n);
  const double wanted = max_norm > 0 ? max_norm / (n + 1e-6) : 1;
  *factor = wanted >= 1 ? 1.0f : static_cast<float>(wanted);  // a norm that is NaN stays visible
}

void HostOps::convert(const void* from, DType from_type, void* to, DType to_type, int64_t count, Stream&) {
  with_float(from_type, "a conversion", [&](auto from_tag) {
    with_float(to_type, "a conversion", [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      const auto* in = static_cast<const From*>(from);
      auto* out = static_cast<To*>(to);
      for_each_span(threads_, 1, count, [=](int64_t, int64_t first, int64_t end) {
        if constexpr (std::is_same_v<From, To>)
          std::memmove(out + first, in + first, static_cast<size_t>(end - first) * sizeof(To));
        else
          for (int64_t i = first; i < end; ++i) out[i] = from_float<To>(to_float(in[i]));
      });
    });
  });
}

void HostOps::axpby(float alpha, const Matrix& x, float beta, const Matrix& y, Stream&) {
  const bool reads_x = alpha != 0, reads_y = beta != 0;
  expect_shape("axpby", y, y.rows, y.cols, y.type);
  if (reads_x) expect_shape("axpby", x, y.rows, y.cols, y.type);
  with_activation(y.type, "axpby", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_span(threads_, y.rows, y.cols, [&](int64_t r, int64_t first, int64_t end) {
      const T* in = reads_x ? row<T>(x, r) : nullptr;
      T* out = row<T>(y, r);
      for (int64_t i = first; i < end; ++i) {
        const float old = reads_y ? beta * to_float(out[i]) : 0;
        out[i] = from_float<T>(reads_x ? alpha * to_float(in[i]) + old : old);
      }
    });
  });
}

void HostOps::count_nonfinite(const void* x, DType type, int64_t count, bool add, int64_t* result, Stream&) {
  with_float(type, "a count of NaN and infinity", [&](auto tag) {
    const auto* in = static_cast<const typename decltype(tag)::type*>(x);
    const int64_t found = sum_of_pieces<int64_t>(threads_, count, [=](int64_t first, int64_t end) {
      int64_t part = 0;
      for (int64_t i = first; i < end; ++i)
        part += (std::bit_cast<uint32_t>(static_cast<float>(to_float(in[i]))) & 0x7f800000u) == 0x7f800000u;
      return part;
    });
    *result = (add ? *result : 0) + found;
  });
}

void HostOps::hash(const void* data, size_t bytes, uint64_t* hash, Stream&) {
  if (bytes % 4 != 0) throw std::logic_error(fmt::format("a hash of {} bytes, not a multiple of 4", bytes));
  const char* in = static_cast<const char*>(data);
  *hash = sum_of_pieces<uint64_t>(threads_, static_cast<int64_t>(bytes / 4), [=](int64_t first, int64_t end) {
    uint64_t part = 0;
    for (int64_t i = first; i < end; ++i) {
      uint32_t word;
      std::memcpy(&word, in + 4 * i, 4);
      part += mix64(word, static_cast<uint64_t>(i));
    }
    return part;
  });
}

}  // namespace tt

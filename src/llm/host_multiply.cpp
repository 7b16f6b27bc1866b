// Matrix products on the host by CBLAS.
#include <cstring>

#include "src/device/plugin.h"
#include "src/llm/backends.h"
#include "src/llm/host_ops.h"
#include "src/llm/host_rows.h"

namespace tt {

using namespace host;

namespace {

HostSgemmFunction* sgemm() {
  static const Plugin plugin("libtt_hostmath.so");
  if (!plugin.loaded())
    throw EnvironmentError("products on the host need libtt_hostmath.so: " + plugin.error());
  if (!plugin.has("tt_blas_sgemm"))
    throw EnvironmentError("products on the host need a CBLAS, which this build lacks (make config)");
  return reinterpret_cast<HostSgemmFunction*>(plugin.symbol("tt_blas_sgemm"));
}

bool eight_bits(DType type) {
  return type == DType::f8e4m3 || type == DType::f8e5m2;
}

/// A matrix in f32: itself, or a packed copy in `scratch`.
struct Wide {
  const float* data;
  int64_t ld;
};
Wide widen(const Matrix& x, HostScratch& scratch, Device& device, int threads) {
  if (x.type == DType::f32) return {static_cast<const float*>(x.data), x.ld};
  float* to = scratch.floats(device, x.count());
  with_float(x.type, "a product", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_span(threads, x.rows, x.cols, [&](int64_t r, int64_t first, int64_t end) {
      const T* in = row<T>(x, r);
      float* out = to + r * x.cols;
      for (int64_t i = first; i < end; ++i) out[i] = to_float(in[i]);
    });
  });
  return {to, x.cols};
}

void check(const Product& p) {
  const bool both8 = eight_bits(p.a.type) && eight_bits(p.b.type);
  if (p.a.type != p.b.type && !both8)
    throw SkippedError(
        fmt::format("a product on the host of {} by {}", name_of(p.a.type), name_of(p.b.type)));
  if (p.a.type == DType::f32 && p.c.type != DType::f32)
    throw SkippedError(fmt::format("a product on the host of float into {}", name_of(p.c.type)));
  if (both8 && (!p.a.scale || !p.b.scale)) throw std::logic_error("a product of 8 bits without its scales");
  const int64_t k = p.ta ? p.a.rows : p.a.cols;
  expect_shape("a product, a", p.a, p.ta ? k : p.c.rows, p.ta ? p.c.rows : k, p.a.type);
  expect_shape("a product, b", p.b, p.tb ? p.c.cols : k, p.tb ? k : p.c.cols, p.b.type);
  expect_shape("a product, c", p.c, p.c.rows, p.c.cols, p.c.type);
  if (p.beta != 0 && !p.add) throw std::logic_error("a product with beta but nothing to add");
}

/// c = products + beta * add, rounded once.
template <class T>
void round_into(const Product& p, const float* products, int threads) {
  const Matrix& c = p.c;
  for_each_span(threads, c.rows, c.cols, [&](int64_t r, int64_t first, int64_t end) {
    const float* in = products + r * c.cols;
    const T* add = static_cast<const T*>(p.add) + (p.add ? r * c.ld : 0);
    T* out = row<T>(c, r);
    if (p.beta == 0)
      for (int64_t i = first; i < end; ++i) out[i] = from_float<T>(in[i]);
    else
      for (int64_t i = first; i < end; ++i) out[i] = from_float<T>(in[i] + p.beta * to_float(add[i]));
  });
}

}  // namespace

void HostOps::multiply(const Product& p, Stream&) {
  check(p);
  if (p.c.count() == 0) return;
  const Wide a = widen(p.a, wide_a_, device_, threads_), b = widen(p.b, wide_b_, device_, threads_);
  SgemmCall call;
  call.ta = p.ta, call.tb = p.tb;
  call.m = p.c.rows, call.n = p.c.cols, call.k = p.ta ? p.a.rows : p.a.cols;
  call.alpha = eight_bits(p.a.type) ? p.alpha * (*p.a.scale * *p.b.scale) : p.alpha;
  call.a = a.data, call.lda = a.ld;
  call.b = b.data, call.ldb = b.ld;
  call.threads = threads_;
  const bool in_place = p.c.type == DType::f32 && (p.beta == 0 || p.add == p.c.data);
  if (in_place) {
    call.c = static_cast<float*>(p.c.data), call.ldc = p.c.ld;
    call.beta = p.beta;
    return sgemm()(call);
  }
  call.c = wide_c_.floats(device_, p.c.count()), call.ldc = p.c.cols;
  sgemm()(call);
  with_activation(p.c.type, "the result of a product",
                  [&](auto tag) { round_into<typename decltype(tag)::type>(p, call.c, threads_); });
}

}  // namespace tt

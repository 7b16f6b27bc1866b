// Products by oneDNN (2.x and 3.x): fp32, bf16, fp16 and int8 where the CPU has them. Part of
// libtt_hostmath.so.
#include <omp.h>

#include <dnnl.hpp>
#include <string>

#include "common/error.h"
#include "src/gemm/backends.h"

namespace tt {
namespace {

using dnnl::memory;

memory::data_type data_type_of(Element e) {
  switch (e) {
    case Element::f32:
      return memory::data_type::f32;
    case Element::bf16:
      return memory::data_type::bf16;
    case Element::f16:
      return memory::data_type::f16;
    case Element::s8:
      return memory::data_type::s8;
    case Element::s32:
      return memory::data_type::s32;
    default:
      throw SkippedError("oneDNN has no such element type for the host's GEMM");
  }
}

/// A [rows, cols] matrix; stored the other way round when `transposed`.
memory::desc matrix(int64_t rows, int64_t cols, Element e, bool transposed) {
  const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{cols, 1};
  return {memory::dims{rows, cols}, data_type_of(e), strides};
}

/// Without VNNI oneDNN multiplies int8 in pairs that saturate at 16 bits: a wrong result by design, not a
/// fault to report.
void require_exact_int8() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512vnni") && !__builtin_cpu_supports("avxvnni"))
    throw SkippedError(
        "int8: this CPU has no VNNI, without which oneDNN's int8 product saturates at 16 bits");
#endif
}

class DnnlGemm final : public Gemm {
 public:
  DnnlGemm(const GemmProblem& p, int threads) : threads_(threads) {
    if (p.kind == GemmKind::int8) require_exact_int8();
    omp_set_num_threads(threads);  // oneDNN plans for as many
    const KindTraits& t = traits(p.kind);
    a_ = matrix(p.m, p.k, t.a, p.ta);
    b_ = matrix(p.k, p.n, t.b, p.tb);
    c_ = matrix(p.m, p.n, t.out, false);
    try {
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::matmul::primitive_desc plan(engine_, a_, b_, c_);
#else
      const dnnl::matmul::primitive_desc plan(dnnl::matmul::desc(a_, b_, c_), engine_);
#endif
      implementation_ = plan.impl_info_str();
      if (implementation_.find("ref") == 0)
        throw SkippedError(std::string(t.name) + ": oneDNN has only its slow reference for this CPU (" +
                           implementation_ + ")");
      multiply_ = dnnl::matmul(plan);
    } catch (const dnnl::error& e) {
      if (e.status == dnnl_unimplemented || e.status == dnnl_invalid_arguments)
        throw SkippedError(std::string(t.name) + ": oneDNN cannot do " + p.key() +
                           " on this CPU: " + e.what());
      throw LibraryError("oneDNN", "matmul::primitive_desc", e.status, e.what());
    }
  }

  void run(const GemmOperands& x, void* c, Stream&) override {
    try {
      omp_set_num_threads(threads_);
      const memory a(a_, engine_, const_cast<void*>(x.a)), b(b_, engine_, const_cast<void*>(x.b)),
          out(c_, engine_, c);
      multiply_.execute(queue_, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}});
      queue_.wait();
    } catch (const dnnl::error& e) {
      throw LibraryError("oneDNN", "matmul", e.status, e.what());
    }
  }

  GemmTuning tuning() const override {
    const dnnl_version_t* v = dnnl_version();
    GemmTuning t;
    t.algorithm = "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
                  std::to_string(v->patch) + " " + implementation_ + ", " + std::to_string(threads_) +
                  (threads_ == 1 ? " thread" : " threads");
    return t;
  }

 private:
  int threads_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream queue_{engine_};
  memory::desc a_, b_, c_;
  dnnl::matmul multiply_;
  std::string implementation_;
};

}  // namespace

extern "C" Gemm* tt_dnnl_gemm(const GemmProblem& problem, int threads) {
  try {
    return new DnnlGemm(problem, threads);
  } catch (const dnnl::error& e) {  // creating engine or stream
    throw LibraryError("oneDNN", "engine", e.status, e.what());
  }
}

}  // namespace tt

// fp32 and fp64 products by CBLAS. Part of libtt_hostmath.so.
#include <limits>
#include <string>

#include TT_CBLAS_HEADER

#include "common/error.h"
#include "src/gemm/backends.h"

// Each library's own way to say how many threads it may use; those that are not linked are null.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
char* openblas_get_config() __attribute__((weak));
char* openblas_get_corename() __attribute__((weak));
void bli_thread_set_num_threads(int64_t) __attribute__((weak));
void MKL_Set_Num_Threads(int) __attribute__((weak));
}

namespace tt {
namespace {

bool has_avx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2");
#else
  return false;
#endif
}

class BlasGemm final : public Gemm {
 public:
  BlasGemm(const GemmProblem& p, int threads) : p_(p) {
    constexpr int64_t kLargest = std::numeric_limits<int>::max();
    if (p.m > kLargest || p.n > kLargest || p.k > kLargest)
      throw SkippedError("CBLAS takes sizes up to 2^31-1; " + p.key() + " is beyond");
    if (openblas_set_num_threads) openblas_set_num_threads(threads);
    if (bli_thread_set_num_threads) bli_thread_set_num_threads(threads);
    if (MKL_Set_Num_Threads) MKL_Set_Num_Threads(threads);
    name_ = openblas_get_config ? std::string(openblas_get_config()) : std::string("CBLAS");
    name_ = name_.substr(0, name_.find_last_not_of(' ') + 1) + ", " + std::to_string(threads) +
            (threads == 1 ? " thread" : " threads");
  }

  void run(const GemmOperands& x, void* c, Stream&) override {
    const int m = static_cast<int>(p_.m), n = static_cast<int>(p_.n), k = static_cast<int>(p_.k);
    const auto ta = p_.ta ? CblasTrans : CblasNoTrans, tb = p_.tb ? CblasTrans : CblasNoTrans;
    const int lda = p_.ta ? m : k, ldb = p_.tb ? k : n;
    if (p_.kind == GemmKind::fp32) {
      cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, static_cast<const float*>(x.a), lda,
                  static_cast<const float*>(x.b), ldb, 0.0f, static_cast<float*>(c), n);
    } else {
      cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1.0, static_cast<const double*>(x.a), lda,
                  static_cast<const double*>(x.b), ldb, 0.0, static_cast<double*>(c), n);
    }
  }
  GemmTuning tuning() const override {
    GemmTuning t;
    t.algorithm = name_;
    if (openblas_get_corename && std::string(openblas_get_corename()) == "Prescott" && has_avx2())
      t.note =
          "this OpenBLAS does not know the CPU and uses SSE3 kernels; a newer one, or OPENBLAS_CORETYPE, is "
          "faster";
    return t;
  }

 private:
  GemmProblem p_;
  std::string name_;
};

}  // namespace

extern "C" Gemm* tt_blas_gemm(const GemmProblem& problem, int threads) {
  return new BlasGemm(problem, threads);
}

}  // namespace tt

// f32 products of matrices with leading dimensions by CBLAS. Part of libtt_hostmath.so.
#include <limits>
#include <string>

#include TT_CBLAS_HEADER

#include "common/error.h"
#include "src/llm/backends.h"

// Each library's own way to say how many threads it may use; those that are not linked are null.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
void bli_thread_set_num_threads(int64_t) __attribute__((weak));
void MKL_Set_Num_Threads(int) __attribute__((weak));
}

namespace tt {
namespace {

int blas_int(int64_t size, const char* name) {
  if (size > std::numeric_limits<int>::max())
    throw SkippedError("CBLAS takes sizes up to 2^31-1; " + std::string(name) + " = " + std::to_string(size) +
                       " is beyond");
  return static_cast<int>(size);
}

}  // namespace

extern "C" void tt_blas_sgemm(const SgemmCall& x) {
  if (openblas_set_num_threads) openblas_set_num_threads(x.threads);
  if (bli_thread_set_num_threads) bli_thread_set_num_threads(x.threads);
  if (MKL_Set_Num_Threads) MKL_Set_Num_Threads(x.threads);
  cblas_sgemm(CblasRowMajor, x.ta ? CblasTrans : CblasNoTrans, x.tb ? CblasTrans : CblasNoTrans,
              blas_int(x.m, "m"), blas_int(x.n, "n"), blas_int(x.k, "k"), x.alpha, x.a,
              blas_int(x.lda, "lda"), x.b, blas_int(x.ldb, "ldb"), x.beta, x.c, blas_int(x.ldc, "ldc"));
}

}  // namespace tt

// How gemm.cpp reaches the libraries: both sit in shared objects loaded at run time.
#pragma once

#include <memory>
#include <string>

#include "src/gemm/gemm.h"

namespace tt {

std::unique_ptr<Gemm> open_cuda_gemm(Device& device, const GemmProblem& problem, const GemmOptions& options);
std::unique_ptr<Gemm> open_host_gemm(Device& device, const GemmProblem& problem);
std::string why_unsupported_on_host(GemmKind kind);

/// libtt_cuda.so: extern "C" tt_cuda_gemm. Ownership passes to the caller.
using CudaGemmFunction = Gemm*(Device&, const GemmProblem&, const GemmOptions&);

/// libtt_hostmath.so: extern "C" tt_blas_gemm and tt_dnnl_gemm, each there if the build found the library.
/// `threads`: this rank's cores. SkippedError when the library cannot do the problem.
using HostGemmFunction = Gemm*(const GemmProblem&, int threads);

}  // namespace tt

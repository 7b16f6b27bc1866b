// Products by cuBLASLt, with a search for the fastest algorithm. Part of libtt_cuda.so.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "src/device/cuda/check.h"
#include "src/device/cuda/cuda_stream.h"
#include "src/gemm/backends.h"
#include "src/gemm/cuda/lt.h"

// Block scaling came with cuBLAS 12.8; an older one compiles, and refuses it.
#define TT_LT_BLOCK_SCALES (CUBLAS_VERSION >= 120800)

namespace tt {
namespace {

cudaDataType_t cuda_type(Element e) {
  switch (e) {
    case Element::f64:
      return CUDA_R_64F;
    case Element::f32:
      return CUDA_R_32F;
    case Element::f16:
      return CUDA_R_16F;
    case Element::bf16:
      return CUDA_R_16BF;
    case Element::e4m3:
      return CUDA_R_8F_E4M3;
    case Element::e5m2:
      return CUDA_R_8F_E5M2;
    case Element::s8:
      return CUDA_R_8I;
    case Element::s32:
      return CUDA_R_32I;
#if TT_LT_BLOCK_SCALES
    case Element::e2m1:
      return CUDA_R_4F_E2M1;
#endif
    default:
      throw SkippedError("this build's cuBLASLt has no 4-bit type");
  }
}

cublasComputeType_t compute_type(GemmKind kind) {
  switch (kind) {
    case GemmKind::tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case GemmKind::fp64:
      return CUBLAS_COMPUTE_64F;
    case GemmKind::int8:
      return CUBLAS_COMPUTE_32I;
    default:
      return CUBLAS_COMPUTE_32F;
  }
}

cudaDataType_t scale_type(GemmKind kind) {
  return kind == GemmKind::fp64 ? CUDA_R_64F : kind == GemmKind::int8 ? CUDA_R_32I : CUDA_R_32F;
}

class Event {
 public:
  Event() { TT_CUDA(cudaEventCreate(&event_)); }
  ~Event() { (void)cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) { TT_CUDA(cudaEventRecord(event_, stream)); }
  double microseconds_since(const Event& begin) const {
    float ms = 0;
    TT_CUDA(cudaEventElapsedTime(&ms, begin.event_, event_));
    return 1e3 * static_cast<double>(ms);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// alpha = 1, beta = 0 in the scale type.
struct Scalars {
  double f64[2] = {1, 0};
  float f32[2] = {1, 0};
  int32_t s32[2] = {1, 0};
  const void* at(cudaDataType_t type, int i) const {
    return type == CUDA_R_64F   ? static_cast<const void*>(f64 + i)
           : type == CUDA_R_32I ? static_cast<const void*>(s32 + i)
                                : static_cast<const void*>(f32 + i);
  }
};

/// cuBLASLt is column-major, ours is row-major. A row-major matrix is the transpose of the column-major one
/// in the same memory, and C = op(A) op(B) is C^T = op(B)^T op(A)^T: so its first factor is our B, its second
/// our A, its m our n, and a matrix that we store plain it sees plain, one that we store transposed it sees
/// transposed.
class CublasLtGemm final : public Gemm {
 public:
  CublasLtGemm(Device& device, const GemmProblem& problem, const GemmOptions& options)
      : problem_(problem),
        options_(options),
        scale_(scale_type(problem.kind)),
        handle_(lt::make_handle()),
        operation_(lt::make_description(compute_type(problem.kind), scale_)) {
    const KindTraits& t = traits(problem.kind);
    const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    lt::set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, op(problem.tb));
    lt::set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, op(problem.ta));
    first_ = problem.tb ? lt::make_layout(cuda_type(t.b), problem.k, problem.n)
                        : lt::make_layout(cuda_type(t.b), problem.n, problem.k);
    second_ = problem.ta ? lt::make_layout(cuda_type(t.a), problem.m, problem.k)
                         : lt::make_layout(cuda_type(t.a), problem.k, problem.m);
    result_ = lt::make_layout(cuda_type(t.out), problem.n, problem.m);
    if (t.tensor_scale)
      lt::set(operation_, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<int8_t>(options.fast_accum));
    if (t.scale_block) set_block_scales(device, t.scale_block);
    ask_for_algorithms(default_workspace(device, options));
    workspace_ = device.allocate(static_cast<size_t>(largest_workspace()));
  }

  void run(const GemmOperands& x, void* c, Stream& stream) override {
    launch(candidates_[best_], x, c, native(stream));
  }

  void tune(const GemmOperands& x, void* c, Stream& stream) override;

  GemmTuning tuning() const override {
    GemmTuning t;
    int64_t id = 0;
    t.algorithm = lt::describe(candidates_[best_].algo, &id);
    t.algorithm_id = id;
    t.candidates = timed_;
    t.best_us = best_us_;
    t.first_choice_us = first_choice_us_;
    return t;
  }

  std::string chosen() const override {
    const cublasLtMatmulHeuristicResult_t& best = candidates_[best_];
    return std::string(reinterpret_cast<const char*>(&best.algo), sizeof(best.algo));
  }

  bool adopt(const std::string& chosen) override {
    cublasLtMatmulHeuristicResult_t wanted{};
    if (chosen.size() != sizeof(wanted.algo)) return false;
    std::memcpy(&wanted.algo, chosen.data(), sizeof(wanted.algo));
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(handle_.get(), operation_.get(), first_.get(), second_.get(), result_.get(),
                                result_.get(), &wanted.algo, &wanted);
    if (status != CUBLAS_STATUS_SUCCESS || wanted.workspaceSize > workspace_.bytes()) return false;
    candidates_.insert(candidates_.begin(), wanted);
    best_ = 0;
    return true;
  }

  int64_t workspace_bytes() const override { return static_cast<int64_t>(workspace_.bytes()); }

 private:
  static int64_t default_workspace(const Device& device, const GemmOptions& options) {
    if (options.workspace_bytes >= 0) return options.workspace_bytes;
    return device.identity().capability >= 90 ? int64_t{256} << 20 : int64_t{32} << 20;
  }

  void set_block_scales(Device& device, int block) {
#if TT_LT_BLOCK_SCALES
    // The search for algorithms wants to see scales; run() puts the real ones in.
    placeholder_ = device.allocate(512);
    lt::set(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(placeholder_.data()));
    lt::set(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(placeholder_.data()));
    const int32_t mode =
        block == 32 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 : CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    lt::set(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode);
    lt::set(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode);
#else
    (void)device;
    throw SkippedError(std::string(traits(problem_.kind).name) +
                       " needs cuBLAS 12.8 at build time; block size " + std::to_string(block) +
                       " scales are unknown to this one");
#endif
  }

  void ask_for_algorithms(int64_t workspace);
  int64_t largest_workspace() const {
    size_t most = 0;
    for (const auto& c : candidates_) most = std::max(most, c.workspaceSize);
    return static_cast<int64_t>(most);
  }
  void launch(const cublasLtMatmulHeuristicResult_t& choice, const GemmOperands& x, void* c,
              cudaStream_t stream) {
    if (x.a_scale != a_scale_ || x.b_scale != b_scale_) {
      lt::set(operation_, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, x.b_scale);
      lt::set(operation_, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x.a_scale);
      a_scale_ = x.a_scale;
      b_scale_ = x.b_scale;
    }
    TT_LT(cublasLtMatmul(handle_.get(), operation_.get(), scalars_.at(scale_, 0), x.b, first_.get(), x.a,
                         second_.get(), scalars_.at(scale_, 1), c, result_.get(), c, result_.get(),
                         &choice.algo, workspace_.data(), workspace_.bytes(), stream));
  }
  double time_run(size_t candidate, int count, const GemmOperands& x, void* c, cudaStream_t stream);

  GemmProblem problem_;
  GemmOptions options_;
  cudaDataType_t scale_;
  Scalars scalars_;
  lt::Handle handle_;
  lt::Description operation_;
  lt::Layout first_, second_, result_;
  const void *a_scale_ = nullptr, *b_scale_ = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates_;  // in the library's order; never empty
  size_t best_ = 0;
  Buffer workspace_, placeholder_;
  int timed_ = 0;
  std::optional<double> best_us_, first_choice_us_;
};

void CublasLtGemm::ask_for_algorithms(int64_t workspace) {
  const lt::Preference preference = lt::make_preference();
  lt::set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(workspace));
  // Partial sums of split-k are added in the compute type: in a 16-bit result they would lose what the test's
  // bound counts on.
  lt::set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  candidates_.resize(static_cast<size_t>(std::max(1, options_.candidates)));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), operation_.get(), first_.get(), second_.get(), result_.get(), result_.get(),
      preference.get(), static_cast<int>(candidates_.size()), candidates_.data(), &found);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED && status != CUBLAS_STATUS_INVALID_VALUE)
    lt::check(status, "cublasLtMatmulAlgoGetHeuristic");
  candidates_.resize(static_cast<size_t>(std::max(0, found)));
  std::erase_if(candidates_, [](const auto& c) { return c.state != CUBLAS_STATUS_SUCCESS; });
  if (!candidates_.empty()) return;
  std::string why =
      "cuBLASLt has no algorithm for " + problem_.key() + " (" + cublasLtGetStatusName(status) + ")";
  if (traits(problem_.kind).default_tb)
    why += "; this type wants layout nt (k contiguous in A and B) and m, n, k that are multiples of 16";
  throw SkippedError(why);
}

/// Microseconds of one product among `count` back to back, the first of which is led in by one more: a
/// product that starts on an idle device takes longer, by different amounts for different algorithms.
double CublasLtGemm::time_run(size_t candidate, int count, const GemmOperands& x, void* c,
                              cudaStream_t stream) {
  Event begin, end;
  launch(candidates_[candidate], x, c, stream);
  begin.record(stream);
  for (int i = 0; i < count; ++i) launch(candidates_[candidate], x, c, stream);
  end.record(stream);
  TT_CUDA(cudaStreamSynchronize(stream));
  return end.microseconds_since(begin) / count;
}

/// Round 1: every candidate in one run. Round 2: the eight best and the library's first choice take turns,
/// seven times; the least median wins. A run is about 2 ms long, at least 2 and at most 20 products. A rest
/// of twice the time just spent keeps the device away from its power limit, under which the order of the
/// candidates would decide.
void CublasLtGemm::tune(const GemmOperands& x, void* c, Stream& stream) {
  const cudaStream_t queue = native(stream);
  const auto rest = [](double us) {
    std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int64_t>(std::min(2 * us, 2e5))));
  };
  timed_ = static_cast<int>(candidates_.size());
  if (timed_ == 1) return;

  int count = 2;
  std::vector<std::pair<double, size_t>> order;
  std::string refused;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    try {
      if (order.empty()) count = std::clamp(static_cast<int>(2000 / time_run(i, 2, x, c, queue)), 2, 20);
      const double us = time_run(i, count, x, c, queue);
      order.emplace_back(us, i);
      rest(us * count);
    } catch (const LibraryError&
                 e) {  // the library offers some that it then does not run; device errors do not end here
      refused = e.what();
    }
  }
  if (order.empty()) throw EnvironmentError("none of cuBLASLt's algorithms ran: " + refused);
  const bool first_ran = order.front().second == 0;
  std::sort(order.begin(), order.end());
  order.resize(std::min<size_t>(order.size(), 8));
  if (first_ran && std::none_of(order.begin(), order.end(), [](const auto& o) { return o.second == 0; }))
    order.emplace_back(0, 0);

  constexpr int kTurns = 7;
  std::vector<std::vector<double>> times(order.size());
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t o = 0; o < order.size(); ++o) {
      const double us = time_run(order[o].second, count, x, c, queue);
      times[o].push_back(us);
      rest(us * count);
    }
  }
  double best = 0;
  for (size_t o = 0; o < order.size(); ++o) {
    std::nth_element(times[o].begin(), times[o].begin() + kTurns / 2, times[o].end());
    const double median = times[o][kTurns / 2];
    if (order[o].second == 0) first_choice_us_ = median;
    if (o == 0 || median < best) best = median, best_ = order[o].second;
  }
  best_us_ = best;
}

}  // namespace

extern "C" Gemm* tt_cuda_gemm(Device& device, const GemmProblem& problem, const GemmOptions& options) {
  device.activate();
  return new CublasLtGemm(device, problem, options);
}

}  // namespace tt

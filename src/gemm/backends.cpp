// Chooses CBLAS or oneDNN for a product on the host, and opens cuBLASLt's in libtt_cuda.so.
#include "src/gemm/backends.h"

#include <algorithm>
#include <array>

#include "common/error.h"
#include "src/device/cuda_library.h"
#include "src/device/plugin.h"

namespace tt {
namespace {

struct Choice {
  const char* symbol;
  const char* library;
};

/// In the order in which they are tried.
std::vector<Choice> choices_for(GemmKind kind) {
  constexpr Choice blas{"tt_blas_gemm", "CBLAS"}, dnnl{"tt_dnnl_gemm", "oneDNN"};
  switch (kind) {
    case GemmKind::fp32:
      return {blas, dnnl};
    case GemmKind::fp64:
      return {blas};
    case GemmKind::bf16:
    case GemmKind::fp16:
    case GemmKind::int8:
      return {dnnl};
    default:
      return {};
  }
}

/// libtt_hostmath.so: CBLAS and oneDNN, so that the executables don't need either to start.
const Plugin& hostmath() {
  static const Plugin plugin("libtt_hostmath.so");
  return plugin;
}

HostGemmFunction* find(const Choice& choice) {
  return hostmath().has(choice.symbol) ? reinterpret_cast<HostGemmFunction*>(hostmath().symbol(choice.symbol))
                                       : nullptr;
}

/// Two libraries that can do the same product: the faster one, by trying both. An OpenBLAS that does not know
/// the CPU falls back to SSE kernels, several times slower than oneDNN's.
class FastestGemm final : public Gemm {
 public:
  explicit FastestGemm(std::vector<std::unique_ptr<Gemm>> able) : able_(std::move(able)) {}

  void run(const GemmOperands& x, void* c, Stream& stream) override { able_[best_]->run(x, c, stream); }

  void tune(const GemmOperands& x, void* c, Stream& stream) override {
    constexpr int kTurns = 3;
    times_us_.assign(able_.size(), 0);
    for (int turn = 0; turn <= kTurns; ++turn) {  // the first one untimed
      for (size_t i = 0; i < able_.size(); ++i) {
        stream.begin_marks(2);
        stream.mark(0);
        able_[i]->run(x, c, stream);
        stream.mark(1);
        stream.synchronize();
        const double us = 1e6 * (stream.mark_seconds(1) - stream.mark_seconds(0));
        if (turn == 1 || (turn > 1 && us < times_us_[i])) times_us_[i] = us;
      }
    }
    best_ = static_cast<size_t>(std::min_element(times_us_.begin(), times_us_.end()) - times_us_.begin());
  }

  GemmTuning tuning() const override {
    GemmTuning t = able_[best_]->tuning();
    if (times_us_.empty()) return t;
    t.candidates = static_cast<int>(able_.size());
    t.best_us = times_us_[best_];
    t.first_choice_us = times_us_.front();
    return t;
  }
  std::string chosen() const override { return std::to_string(best_); }
  bool adopt(const std::string& chosen) override {
    for (size_t i = 0; i < able_.size(); ++i)
      if (chosen == std::to_string(i)) return best_ = i, true;
    return false;
  }

 private:
  std::vector<std::unique_ptr<Gemm>> able_;
  std::vector<double> times_us_;
  size_t best_ = 0;
};

}  // namespace

std::string why_unsupported_on_host(GemmKind kind) {
  const std::string name = traits(kind).name;
  const std::vector<Choice> choices = choices_for(kind);
  if (choices.empty()) return name + " needs a GPU; the host has fp32, fp64, bf16, fp16 and int8";
  if (!hostmath().loaded()) return name + " on the host needs libtt_hostmath.so: " + hostmath().error();
  for (const Choice& choice : choices)
    if (find(choice)) return {};
  return name + " on the host needs " + choices.front().library + ", which this build lacks (make config)";
}

std::unique_ptr<Gemm> open_host_gemm(Device& device, const GemmProblem& problem) {
  const int threads = std::max(1, device.identity().compute_units);
  std::vector<std::unique_ptr<Gemm>> able;
  std::string refused = why_unsupported_on_host(problem.kind);
  for (const Choice& choice : choices_for(problem.kind)) {
    auto* open = find(choice);
    if (!open) continue;
    try {
      able.emplace_back(open(problem, threads));
    } catch (const SkippedError& e) {
      refused = e.what();
    }
  }
  if (able.empty()) throw SkippedError(refused);
  if (able.size() == 1) return std::move(able.front());
  return std::make_unique<FastestGemm>(std::move(able));
}

std::unique_ptr<Gemm> open_cuda_gemm(Device& device, const GemmProblem& problem, const GemmOptions& options) {
  const CudaLibrary* library = CudaLibrary::get();
  if (!library) throw EnvironmentError("cuBLASLt: " + CudaLibrary::error());
  return std::unique_ptr<Gemm>(library->function<CudaGemmFunction>("tt_cuda_gemm")(device, problem, options));
}

}  // namespace tt

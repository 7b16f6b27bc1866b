// Products of one shape as an engine: random operands, rotating sets, every result tested.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/engine.h"
#include "src/device/device.h"
#include "src/gemm/freivalds.h"
#include "src/gemm/gemm.h"

namespace tt {

/// How many operand pairs rotate and how many results are held until they are tested.
struct GemmSizing {
  int64_t sets = 1, slots = 1;
};

/// Device bytes of a problem with this sizing, without the library's workspace.
int64_t gemm_bytes(const GemmProblem& problem, const GemmOptions& options, const GemmSizing& sizing);

/// Operands that fit in the last-level cache (`cache_bytes`) are held in so many copies (at most 64) that
/// twice the cache is passed through before one is used again, results included; larger ones pass through it
/// by themselves: one. With `rotate` false always one. Results: as many as fit in `most_result_bytes`, at
/// most 64. Both within `available`, at least one each.
GemmSizing choose_sizing(const GemmProblem& problem, const GemmOptions& options, int64_t available,
                         int64_t cache_bytes, bool rotate, int64_t most_result_bytes);

class GemmEngine final : public Engine {
 public:
  /// Allocates, fills, computes the reference of the test. SkippedError, DeviceError.
  GemmEngine(Device& device, const GemmProblem& problem, const GemmOptions& options, const GemmSizing& sizing,
             uint64_t seed, Stream& stream);

  /// Searches for the fastest algorithm (Gemm::tune) on the first operands.
  void tune(Stream& stream);
  Gemm& gemm() { return *gemm_; }

  Row describe() const override;
  void step(Stream& stream, int64_t i) override;
  int64_t slots() const override { return sizing_.slots; }
  bool goes_round() const override { return true; }
  void prepare(Stream& stream, int64_t first, int64_t count) override;
  Check verify(Stream& stream, int64_t first, int64_t count) override;
  void corrupt(Stream& stream, int64_t i) override;
  std::vector<Rate> rates(double seconds) const override;

  /// Largest error / bound that any test so far has seen; how much room the bound leaves.
  double largest_ratio() const { return largest_ratio_; }
  const GemmProblem& problem() const { return problem_; }
  /// Device address of iteration i's result and that iteration's operands (tests).
  char* result(int64_t i) const;
  GemmOperands operands(int64_t i) const;
  Freivalds& freivalds() { return *freivalds_; }

 private:
  void fill(int64_t set, uint64_t seed, Stream& stream);

  Device& device_;
  GemmProblem problem_;
  GemmOptions options_;
  GemmSizing sizing_;
  uint64_t seed_;
  std::unique_ptr<Gemm> gemm_;
  Buffer a_, b_, a_scale_, b_scale_, c_;
  std::unique_ptr<Freivalds> freivalds_;
  double largest_ratio_ = 0;
};

/// "tflops", or "tops" for integers.
const char* rate_name(GemmKind kind);

}  // namespace tt

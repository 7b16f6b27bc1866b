// Matrix products C[m,n] = alpha op(A)[m,k] op(B)[k,n], all row-major, on whichever library the device has.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/stream.h"
#include "src/device/device.h"
#include "src/gemm/element.h"

namespace tt {

/// What is multiplied and how precisely. Results: bf16 and all fp8/fp4 kinds bf16, int8 int32, others their
/// own type.
enum class GemmKind { bf16, fp16, tf32, fp32, fp64, int8, fp8, fp8_e5m2, mxfp8, nvfp4 };

struct KindTraits {
  GemmKind kind;
  const char* name;      // as in -d and in keys
  Element a, b, out;     // fp8_e5m2: A e4m3, B e5m2
  int scale_block;       // elements along k that share a scale: 32 (UE8M0), 16 (UE4M3); 0: none or per tensor
  bool tensor_scale;     // fp8: one float per operand multiplies it
  bool default_tb;       // layout when none is asked for: op(B) = B^T (k contiguous in both), else plain
  double unit_roundoff;  // of the accumulation, see accumulation_error()
};
const KindTraits& traits(GemmKind kind);
std::vector<GemmKind> all_kinds();

/// Names of all_kinds() and nccl-tests' names for those that have one ("bfloat16", "half", "float",
/// "double").
std::vector<std::string> accepted_kind_names();
/// UsageError naming `option`, the text and the accepted names.
GemmKind parse_kind(std::string_view option, std::string_view text);

struct GemmProblem {
  GemmKind kind = GemmKind::fp32;
  int64_t m = 0, n = 0, k = 0;
  bool ta = false, tb = false;  // A stored [k,m] instead of [m,k]; B stored [n,k] instead of [k,n]
  std::string label;            // "q_proj forward"; "" for a plain shape

  double operations() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  int64_t a_bytes() const { return bytes_of(traits(kind).a, m * k); }
  int64_t b_bytes() const { return bytes_of(traits(kind).b, k * n); }
  int64_t c_bytes() const { return bytes_of(traits(kind).out, m * n); }
  std::string layout() const { return std::string(ta ? "t" : "n") + (tb ? "t" : "n"); }
  std::string key() const;    // "gemm/bf16/nn/4096x4096x4096"
  std::string group() const;  // "gemm/bf16/nn"
};
/// UsageError for a size below 1, a matrix of 2^60 bytes or more, and an int8 k whose sums could leave int32.
void check_problem(const GemmProblem& problem);

/// Device addresses. Scales: fp8 one float each; block-scaled kinds bytes in block_scales.h's order; else
/// null.
struct GemmOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* a_scale = nullptr;
  const void* b_scale = nullptr;
};

struct GemmOptions {
  bool fast_accum = true;        // fp8 on Hopper: sums stay in the tensor core's narrow accumulator
  int64_t workspace_bytes = -1;  // -1: 256 MiB from compute capability 9.0 on, else 32 MiB
  int candidates = 32;           // algorithms to time; 1 takes the library's first choice
};

/// What the search for an algorithm found; for the record.
struct GemmTuning {
  std::string algorithm;  // "id 66, tile 128x256, stages 36, cluster 2x1x1, split-k 1, swizzle 0" or
                          // "OpenBLAS 0.3.21 …"
  std::optional<int64_t> algorithm_id;  // cuBLASLt's
  int candidates = 0;                   // timed
  std::optional<double> best_us, first_choice_us;
  std::string note;  // something the reader of the figure should know; for the row
};

class Gemm {
 public:
  virtual ~Gemm() = default;
  /// Enqueues one product. LibraryError with the library's status name.
  virtual void run(const GemmOperands& operands, void* c, Stream& stream) = 0;
  /// Times the candidates on these operands and keeps the fastest. Waits for the stream. Backends without a
  /// choice: a no-op.
  virtual void tune(const GemmOperands& operands, void* c, Stream& stream) {
    (void)operands, (void)c, (void)stream;
  }
  virtual GemmTuning tuning() const = 0;
  /// The chosen algorithm as bytes, and its way back: all ranks should run what rank 0 chose, or a difference
  /// between ranks might be one between algorithms. adopt() is false, and nothing changes, when it does not
  /// suit this device.
  virtual std::string chosen() const { return {}; }
  virtual bool adopt(const std::string& chosen) { return chosen.empty(); }
  virtual int64_t workspace_bytes() const { return 0; }
};

/// The product on this device: cuBLASLt on cuda, CBLAS (fp32, fp64) or oneDNN (fp32, bf16, int8, …) on the
/// host. SkippedError with the reason when the device, library or build cannot do this kind, layout or size;
/// EnvironmentError when a library that should be there cannot be loaded.
std::unique_ptr<Gemm> open_gemm(Device& device, const GemmProblem& problem, const GemmOptions& options);

/// Why this device cannot run the kind at all, by what is known without trying; "" when it may.
std::string why_unsupported(const Device& device, GemmKind kind);

/// Of the kind's operand: bytes of block scales for `outer` rows of k elements; 0 where it has none.
int64_t scale_bytes(GemmKind kind, int64_t outer, int64_t k);

}  // namespace tt

// Freivalds' test of a product: C r = A (B r) for random signs r, by row and column block, in double
// precision, with a bound derived from the types (docs/method.md, "GEMM"). The right-hand side belongs to the
// operands and is computed once per operand pair; testing a product is then one pass over C. Sampled entries
// are compared with double dot products too.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/gemm/gemm.h"

namespace tt {

inline constexpr int kSignVectors = 2;  // independent sign vectors: what one misses, the other finds with 1/2
inline constexpr int kSampledEntries = 64;  // the four corners and 60 random ones
inline constexpr double kSigmas = 8;        // see sum_bound()

/// One operand, seen as [outer, k]: element (x, p) lies at x * outer_stride + p * k_stride (one of the two is
/// 1).
struct OperandView {
  const void* data = nullptr;
  const uint8_t* scales = nullptr;  // block scales, block_scales.h; null: none
  int64_t outer = 0, k = 0, outer_stride = 0, k_stride = 0;
  Element element = Element::f32;
  int scale_block = 0;  // 32: UE8M0, 16: UE4M3
};
OperandView view_a(const GemmProblem& problem, const GemmOperands& operands);
OperandView view_b(const GemmProblem& problem, const GemmOperands& operands);  // outer = n

/// Sizes and constants of the test; plain data, passed to kernels.
struct FreivaldsShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t block = 0, blocks = 0;  // columns that share a sum; ceil(n / block)
  Element out = Element::f32;
  int fraction_bits = 0, min_exponent = 0;  // of `out`; fraction_bits -1: exact
  double alpha = 1;                         // product of the tensor scales
  double epsilon = 0;                       // accumulation_error()

  TT_HD int64_t sums() const { return blocks * kSignVectors; }  // per row
};

/// Root mean square error of accumulating one element, in units of |A_i| |B_j| (2-norms of its row and
/// column), an upper estimate for operands of random sign. Derivation in docs/method.md.
double accumulation_error(GemmKind kind, int64_t k, bool fast_accum);

FreivaldsShape freivalds_shape(const GemmProblem& problem, double alpha, bool fast_accum);

/// What |sum over a block of r_j (c_ij - (AB)_ij)| may reach: kSigmas standard deviations of the rounding of
/// the results (uniform within half a spacing: variance spacing^2 / 12) and of the accumulation. Gaussian
/// tails: at 8 sigma one false alarm in 10^15 sums. For exact types 1/2.
TT_HD inline double sum_bound(double spacing_squared_sum, double epsilon, double alpha, double a_norm2,
                              double b_norm2, int fraction_bits) {
  if (fraction_bits < 0) return 0.5;
  const double e = epsilon * alpha;
  return kSigmas * sqrt(spacing_squared_sum / 12 + e * e * a_norm2 * b_norm2);
}
/// What one entry may be off: half a spacing and kSigmas times the accumulation error.
TT_HD inline double entry_bound(double spacing_squared, double epsilon, double alpha, double a_norm2,
                                double b_norm2, int fraction_bits) {
  if (fraction_bits < 0) return 0.5;
  return 0.5001 * sqrt(spacing_squared) + kSigmas * epsilon * alpha * sqrt(a_norm2 * b_norm2);
}

/// Buffers of one operand pair's reference, in device memory.
struct FreivaldsReference {
  double* sums = nullptr;     // [m][blocks][kSignVectors]: A (B r), times alpha
  double* a_norm2 = nullptr;  // [m]: |A_i|^2
  double* b_norm2 = nullptr;  // [blocks]: sum of |B_j|^2 over the block
  double* entries = nullptr;  // [kSampledEntries][3]: (AB)_ij times alpha, |A_i|^2, |B_j|^2
};

/// What a test of one product found; starts as no_finding().
struct FreivaldsFinding {
  uint64_t wrong = 0;                   // sums and entries out of bounds
  uint64_t first_sum = ~uint64_t{0};    // row * blocks + block of the first wrong sum
  uint64_t first_entry = ~uint64_t{0};  // index of the first wrong sampled entry
  uint64_t largest_ratio =
      0;  // bits of the largest error / bound of a sum (non-negative doubles order as integers)
};

/// The kernels; host (OpenMP) and cuda. All enqueue on the stream.
struct FreivaldsKernels {
  /// scratch: double [k][sums()]. signs: uint8 [n], bit v the sign of vector v. entry_rows/columns: int64
  /// [kSampledEntries].
  using Reference = void(const FreivaldsShape&, const OperandView& a, const OperandView& b,
                         const uint8_t* signs, const int64_t* entry_rows, const int64_t* entry_columns,
                         double* scratch, const FreivaldsReference& out, Stream&);
  using Test = void(const FreivaldsShape&, const FreivaldsReference&, const void* c, const uint8_t* signs,
                    const int64_t* entry_rows, const int64_t* entry_columns, FreivaldsFinding* finding,
                    Stream&);
  /// out [count][3] as FreivaldsReference::entries.
  using Entries = void(const FreivaldsShape&, const OperandView& a, const OperandView& b, const int64_t* rows,
                       const int64_t* columns, int64_t count, double* out, Stream&);
  Reference* reference = nullptr;
  Test* test = nullptr;
  Entries* entries = nullptr;
};
const FreivaldsKernels& host_freivalds();
/// From libtt_cuda.so: extern "C" tt_cuda_freivalds_reference, _test, _entries.
FreivaldsKernels cuda_freivalds();

struct WrongEntry {
  int64_t offset = 0;  // row * n + column
  double expected = 0, got = 0;
};
struct FreivaldsVerdict {
  int64_t wrong =
      0;  // sums and entries out of bounds: at least this many elements, or one element in several of them
  std::optional<WrongEntry> first;
  double largest_ratio = 0;  // error / bound of the sums; above 1 is wrong
};

/// Tests products of `sets` operand pairs, `slots` results at a time.
class Freivalds {
 public:
  Freivalds(Device& device, const FreivaldsShape& shape, int64_t sets, int64_t slots, uint64_t seed,
            Stream& stream);

  /// Device memory that the above needs.
  static int64_t bytes(const FreivaldsShape& shape, int64_t sets, int64_t slots);

  /// Enqueues the reference of operand pair `set`.
  void learn(int64_t set, const OperandView& a, const OperandView& b, Stream& stream);
  /// Enqueues the test of the result in `c` of pair `set`; the finding stays under `slot`.
  void test(int64_t slot, int64_t set, const void* c, Stream& stream);
  /// Waits for the tests and reads all findings; then verdict(slot) tells.
  void collect(Stream& stream);
  /// Looks up what is wrong when something is: the entry of the first wrong block that is furthest off.
  FreivaldsVerdict verdict(int64_t slot, const OperandView& a, const OperandView& b, const void* c,
                           Stream& stream);

  /// "Freivalds (2 sign vectors, blocks of 256 columns, 8 sigma) + 64 sampled entries, double".
  std::string method() const;
  const FreivaldsShape& shape() const { return shape_; }
  /// A change of one element of this size is found in any row, by the operands learnt last: four times the
  /// largest bound.
  double detectable_change(double typical_a_norm2, double typical_b_norm2) const;

 private:
  FreivaldsReference reference_of(int64_t set);
  WrongEntry furthest_off(int64_t row, int64_t first_column, int64_t columns, const OperandView& a,
                          const OperandView& b, const void* c, Stream& stream);

  Device& device_;
  FreivaldsShape shape_;
  FreivaldsKernels kernels_;
  Buffer signs_, entry_rows_, entry_columns_, scratch_, references_, findings_;
  std::vector<int64_t> rows_, columns_;  // of the sampled entries
  std::vector<FreivaldsFinding> found_;
};

}  // namespace tt

// Freivalds' test on the host, with OpenMP.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "src/gemm/freivalds.h"
#include "src/gemm/operand_at.h"

namespace tt {
namespace {

/// x or -x, by bit v of `signs`. Without a branch, which would be mispredicted half the time.
double signed_by(uint8_t signs, int v, double x) {
  return bits_as<double>(bits_as<uint64_t>(x) ^ (static_cast<uint64_t>(signs >> v & 1) << 63));
}

/// y [k][blocks][V] = B r, and b_norm2 [blocks].
void project_b(const FreivaldsShape& s, const OperandView& b, const uint8_t* signs, double* y,
               double* b_norm2) {
  with_element(b.element, [&](auto tag) {
    constexpr Element e = decltype(tag)::value;
    std::fill(b_norm2, b_norm2 + s.blocks, 0.0);
#pragma omp parallel
    {
      std::vector<double> norms(static_cast<size_t>(s.blocks), 0.0);
#pragma omp for schedule(static)
      for (int64_t p = 0; p < s.k; ++p) {
        for (int64_t q = 0; q < s.blocks; ++q) {
          double sum[kSignVectors] = {}, norm = 0;
          for (int64_t j = q * s.block; j < std::min(s.n, (q + 1) * s.block); ++j) {
            const double x = operand_at<e>(b, j, p);
            norm += x * x;
            for (int v = 0; v < kSignVectors; ++v) sum[v] += signed_by(signs[j], v, x);
          }
          norms[static_cast<size_t>(q)] += norm;
          for (int v = 0; v < kSignVectors; ++v) y[(p * s.blocks + q) * kSignVectors + v] = sum[v];
        }
      }
#pragma omp critical
      for (int64_t q = 0; q < s.blocks; ++q) b_norm2[q] += norms[static_cast<size_t>(q)];
    }
  });
}

/// sums [m][blocks][V] = alpha A y, and a_norm2 [m].
void multiply_a(const FreivaldsShape& s, const OperandView& a, const double* y, double* sums,
                double* a_norm2) {
  const int64_t width = s.sums();
  with_element(a.element, [&](auto tag) {
    constexpr Element e = decltype(tag)::value;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < s.m; ++i) {
      double* row = sums + i * width;
      double norm = 0;
      std::fill(row, row + width, 0.0);
      for (int64_t p = 0; p < s.k; ++p) {
        const double x = operand_at<e>(a, i, p);
        const double* from = y + p * width;
        norm += x * x;
        for (int64_t w = 0; w < width; ++w) row[w] += x * from[w];
      }
      for (int64_t w = 0; w < width; ++w) row[w] *= s.alpha;
      a_norm2[i] = norm;
    }
  });
}

void entries(const FreivaldsShape& s, const OperandView& a, const OperandView& b, const int64_t* rows,
             const int64_t* columns, int64_t count, double* out, Stream&) {
  with_element(a.element, [&](auto tag_a) {
    with_element(b.element, [&](auto tag_b) {
#pragma omp parallel for schedule(static)
      for (int64_t e = 0; e < count; ++e) {
        double dot = 0, a2 = 0, b2 = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          const double x = operand_at<decltype(tag_a)::value>(a, rows[e], p);
          const double y = operand_at<decltype(tag_b)::value>(b, columns[e], p);
          dot += x * y;
          a2 += x * x;
          b2 += y * y;
        }
        out[3 * e] = s.alpha * dot;
        out[3 * e + 1] = a2;
        out[3 * e + 2] = b2;
      }
    });
  });
}

void reference(const FreivaldsShape& s, const OperandView& a, const OperandView& b, const uint8_t* signs,
               const int64_t* entry_rows, const int64_t* entry_columns, double* scratch,
               const FreivaldsReference& out, Stream& stream) {
  project_b(s, b, signs, scratch, out.b_norm2);
  multiply_a(s, a, scratch, out.sums, out.a_norm2);
  entries(s, a, b, entry_rows, entry_columns, kSampledEntries, out.entries, stream);
}

/// NaN and infinity never pass: a bound that is not finite bounds nothing.
bool within(double error, double bound) {
  return error <= bound && std::isfinite(bound);
}

/// Findings of one thread, joined at the end.
struct Tally {
  FreivaldsFinding f;
  double ratio = 0;
  bool note(double error, double bound) {
    if (bound > 0 && error / bound > ratio) ratio = error / bound;
    return within(error, bound);
  }
};

void merge(FreivaldsFinding& into, const Tally& t) {
  into.wrong += t.f.wrong;
  into.first_sum = std::min(into.first_sum, t.f.first_sum);
  into.first_entry = std::min(into.first_entry, t.f.first_entry);
  into.largest_ratio = std::max(into.largest_ratio, bits_as<uint64_t>(t.ratio));
}

template <Element E>
void test_row(const FreivaldsShape& s, const FreivaldsReference& r, const void* c, const uint8_t* signs,
              int64_t i, Tally& tally) {
  for (int64_t q = 0; q < s.blocks; ++q) {
    double sum[kSignVectors] = {}, spacings = 0;
    for (int64_t j = q * s.block; j < std::min(s.n, (q + 1) * s.block); ++j) {
      const double x = decode<E>(c, i * s.n + j);
      spacings += spacing_squared(x, s.fraction_bits, s.min_exponent);
      for (int v = 0; v < kSignVectors; ++v) sum[v] += signed_by(signs[j], v, x);
    }
    const double bound = sum_bound(spacings, s.epsilon, s.alpha, r.a_norm2[i], r.b_norm2[q], s.fraction_bits);
    bool right = true;
    for (int v = 0; v < kSignVectors; ++v)
      right = tally.note(std::abs(sum[v] - r.sums[(i * s.blocks + q) * kSignVectors + v]), bound) && right;
    if (right) continue;
    ++tally.f.wrong;
    tally.f.first_sum = std::min(tally.f.first_sum, static_cast<uint64_t>(i * s.blocks + q));
  }
}

template <Element E>
void test_entries(const FreivaldsShape& s, const FreivaldsReference& r, const void* c, const int64_t* rows,
                  const int64_t* columns, Tally& tally) {
  for (int64_t e = 0; e < kSampledEntries; ++e) {
    const double x = decode<E>(c, rows[e] * s.n + columns[e]);
    const double* known = r.entries + 3 * e;
    const double bound = entry_bound(spacing_squared(x, s.fraction_bits, s.min_exponent), s.epsilon, s.alpha,
                                     known[1], known[2], s.fraction_bits);
    if (within(std::abs(x - known[0]), bound)) continue;
    ++tally.f.wrong;
    tally.f.first_entry = std::min(tally.f.first_entry, static_cast<uint64_t>(e));
  }
}

void test(const FreivaldsShape& s, const FreivaldsReference& r, const void* c, const uint8_t* signs,
          const int64_t* entry_rows, const int64_t* entry_columns, FreivaldsFinding* finding, Stream&) {
  with_element(s.out, [&](auto tag) {
    constexpr Element e = decltype(tag)::value;
#pragma omp parallel
    {
      Tally tally;
#pragma omp for schedule(static)
      for (int64_t i = 0; i < s.m; ++i) test_row<e>(s, r, c, signs, i, tally);
#pragma omp critical
      merge(*finding, tally);
    }
    Tally tally;
    test_entries<e>(s, r, c, entry_rows, entry_columns, tally);
    merge(*finding, tally);
  });
}

}  // namespace

const FreivaldsKernels& host_freivalds() {
  static constexpr FreivaldsKernels kernels{reference, test, entries};
  return kernels;
}

}  // namespace tt

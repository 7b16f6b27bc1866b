// Freivalds' test on the GPU. All indices are 64-bit: C may have more than 2^32 elements. Every kernel
// strides its grid over the work, so that no grid dimension limits the size.
#include <cuda_runtime.h>

#include <algorithm>

#include "src/device/cuda/check.h"
#include "src/device/cuda/cuda_stream.h"
#include "src/gemm/freivalds.h"
#include "src/gemm/operand_at.h"

namespace tt {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

dim3 grid_for(int64_t work_items_of_a_block) {
  return dim3(static_cast<unsigned>(std::clamp<int64_t>(work_items_of_a_block, 1, int64_t{1} << 20)));
}

__device__ double warp_sum(double x) {
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_down_sync(0xffffffffu, x, offset);
  return x;  // lane 0 has the sum
}

__device__ double signed_by(uint8_t signs, int v, double x) {
  return bits_as<double>(bits_as<uint64_t>(x) ^ (static_cast<uint64_t>(signs >> v & 1) << 63));
}

/// y [k][blocks][V] = B r, and b_norm2 [blocks] (zeroed before). One warp per (p, block): lanes along j,
/// which is how B lies in memory when it is stored [k, n].
template <Element E>
__global__ void project_b_rows(FreivaldsShape s, OperandView b, const uint8_t* signs, double* y,
                               double* b_norm2) {
  const int lane = threadIdx.x % 32;
  const int64_t groups = s.k * s.blocks, step = static_cast<int64_t>(gridDim.x) * kWarps;
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; g < groups; g += step) {
    const int64_t p = g / s.blocks, q = g % s.blocks, end = min(s.n, (q + 1) * s.block);
    double sum[kSignVectors] = {}, norm = 0;
    for (int64_t j = q * s.block + lane; j < end; j += 32) {
      const double x = operand_at<E>(b, j, p);
      norm += x * x;
      for (int v = 0; v < kSignVectors; ++v) sum[v] += signed_by(signs[j], v, x);
    }
    norm = warp_sum(norm);
    for (int v = 0; v < kSignVectors; ++v) sum[v] = warp_sum(sum[v]);
    if (lane != 0) continue;
    atomicAdd(b_norm2 + q, norm);
    for (int v = 0; v < kSignVectors; ++v) y[g * kSignVectors + v] = sum[v];
  }
}

/// The same with one thread per (block, p), neighbours along p: for B stored [n, k].
template <Element E>
__global__ void project_b_columns(FreivaldsShape s, OperandView b, const uint8_t* signs, double* y,
                                  double* b_norm2) {
  const int64_t chunks = (s.k + 31) / 32,
                groups = chunks * s.blocks;  // a warp takes 32 neighbouring p of one block
  const int64_t step = static_cast<int64_t>(gridDim.x) * kWarps;
  const int lane = threadIdx.x % 32;
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; g < groups; g += step) {
    const int64_t q = g / chunks, p = g % chunks * 32 + lane, end = min(s.n, (q + 1) * s.block);
    double sum[kSignVectors] = {}, norm = 0;
    if (p < s.k) {
      for (int64_t j = q * s.block; j < end; ++j) {
        const double x = operand_at<E>(b, j, p);
        norm += x * x;
        for (int v = 0; v < kSignVectors; ++v) sum[v] += signed_by(signs[j], v, x);
      }
      for (int v = 0; v < kSignVectors; ++v) y[(p * s.blocks + q) * kSignVectors + v] = sum[v];
    }
    norm = warp_sum(norm);
    if (lane == 0) atomicAdd(b_norm2 + q, norm);
  }
}

/// sums [m][width] = alpha A y and a_norm2 [m]. A block of 256 threads makes a 64 x 64 tile, 4 x 4 values a
/// thread, over steps of 16 in k kept in shared memory.
constexpr int kTile = 64, kDepth = 16, kEach = 4;

template <Element E>
__global__ void multiply_a(FreivaldsShape s, OperandView a, const double* y, double* sums, double* a_norm2) {
  __shared__ double a_tile[kDepth][kTile + 1];
  __shared__ double y_tile[kDepth][kTile];
  const int64_t width = s.sums(), column_tiles = (width + kTile - 1) / kTile;
  const int64_t tiles = (s.m + kTile - 1) / kTile * column_tiles;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t row0 = tile / column_tiles * kTile, column0 = tile % column_tiles * kTile;
    double sum[kEach][kEach] = {}, norm[kEach] = {};
    for (int64_t p0 = 0; p0 < s.k; p0 += kDepth) {
      for (int e = threadIdx.x; e < kTile * kDepth; e += kThreads) {
        // Neighbouring threads read along whichever dimension of A is contiguous.
        const int i = a.k_stride == 1 ? e / kDepth : e % kTile, p = a.k_stride == 1 ? e % kDepth : e / kTile;
        a_tile[p][i] = row0 + i < s.m && p0 + p < s.k ? operand_at<E>(a, row0 + i, p0 + p) : 0;
        const int yp = e / kTile, yc = e % kTile;
        y_tile[yp][yc] = p0 + yp < s.k && column0 + yc < width ? y[(p0 + yp) * width + column0 + yc] : 0;
      }
      __syncthreads();
      for (int p = 0; p < kDepth; ++p) {
        double x[kEach], z[kEach];
        for (int i = 0; i < kEach; ++i) x[i] = a_tile[p][ty * kEach + i];
        for (int j = 0; j < kEach; ++j) z[j] = y_tile[p][tx + 16 * j];
        for (int i = 0; i < kEach; ++i) {
          norm[i] += x[i] * x[i];
          for (int j = 0; j < kEach; ++j) sum[i][j] += x[i] * z[j];
        }
      }
      __syncthreads();
    }
    for (int i = 0; i < kEach; ++i) {
      const int64_t row = row0 + ty * kEach + i;
      if (row >= s.m) continue;
      if (column0 == 0 && tx == 0) a_norm2[row] = norm[i];
      for (int j = 0; j < kEach; ++j) {
        const int64_t column = column0 + tx + 16 * j;
        if (column < width) sums[row * width + column] = s.alpha * sum[i][j];
      }
    }
  }
}

/// out [count][3] = alpha (AB)_ij, |A_i|^2, |B_j|^2; one block per entry.
template <Element A, Element B>
__global__ void dot_entries(FreivaldsShape s, OperandView a, OperandView b, const int64_t* rows,
                            const int64_t* columns, int64_t count, double* out) {
  __shared__ double part[3][kWarps];
  for (int64_t e = blockIdx.x; e < count; e += gridDim.x) {
    double value[3] = {};
    for (int64_t p = threadIdx.x; p < s.k; p += kThreads) {
      const double x = operand_at<A>(a, rows[e], p), y = operand_at<B>(b, columns[e], p);
      value[0] += x * y;
      value[1] += x * x;
      value[2] += y * y;
    }
    for (int i = 0; i < 3; ++i) {
      value[i] = warp_sum(value[i]);
      if (threadIdx.x % 32 == 0) part[i][threadIdx.x / 32] = value[i];
    }
    __syncthreads();
    if (threadIdx.x < 3) {
      double total = 0;
      for (int w = 0; w < kWarps; ++w) total += part[threadIdx.x][w];
      out[3 * e + threadIdx.x] = threadIdx.x == 0 ? s.alpha * total : total;
    }
    __syncthreads();  // `part` is written again for the next entry
  }
}

__device__ void raise(uint64_t* largest, double ratio) {
  const auto bits = static_cast<unsigned long long>(bits_as<uint64_t>(ratio));
  auto* at = reinterpret_cast<unsigned long long*>(largest);
  if (bits > *reinterpret_cast<volatile unsigned long long*>(at))
    atomicMax(at, bits);  // mostly no atomic at all
}

__device__ void record_wrong(uint64_t* count, uint64_t* first, uint64_t where) {
  atomicAdd(reinterpret_cast<unsigned long long*>(count), 1ull);
  atomicMin(reinterpret_cast<unsigned long long*>(first), static_cast<unsigned long long>(where));
}

/// NaN and infinity never pass: a bound that is not finite bounds nothing.
__device__ bool within(double error, double bound) {
  return error <= bound && isfinite(bound);
}

/// One warp per (row, block).
template <Element E>
__global__ void test_sums(FreivaldsShape s, FreivaldsReference r, const void* c, const uint8_t* signs,
                          FreivaldsFinding* finding) {
  const int lane = threadIdx.x % 32;
  const int64_t groups = s.m * s.blocks, step = static_cast<int64_t>(gridDim.x) * kWarps;
  double ratio = 0;
  for (int64_t g = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; g < groups; g += step) {
    const int64_t i = g / s.blocks, q = g % s.blocks, end = min(s.n, (q + 1) * s.block);
    double sum[kSignVectors] = {}, spacings = 0;
    for (int64_t j = q * s.block + lane; j < end; j += 32) {
      const double x = decode<E>(c, i * s.n + j);
      spacings += spacing_squared(x, s.fraction_bits, s.min_exponent);
      for (int v = 0; v < kSignVectors; ++v) sum[v] += signed_by(signs[j], v, x);
    }
    spacings = warp_sum(spacings);
    for (int v = 0; v < kSignVectors; ++v) sum[v] = warp_sum(sum[v]);
    if (lane != 0) continue;
    const double bound = sum_bound(spacings, s.epsilon, s.alpha, r.a_norm2[i], r.b_norm2[q], s.fraction_bits);
    bool right = true;
    for (int v = 0; v < kSignVectors; ++v) {
      const double error = fabs(sum[v] - r.sums[g * kSignVectors + v]);
      if (bound > 0 && error / bound > ratio) ratio = error / bound;
      right = within(error, bound) && right;
    }
    if (!right) record_wrong(&finding->wrong, &finding->first_sum, static_cast<uint64_t>(g));
  }
  if (lane == 0) raise(&finding->largest_ratio, ratio);
}

template <Element E>
__global__ void test_entries(FreivaldsShape s, FreivaldsReference r, const void* c, const int64_t* rows,
                             const int64_t* columns, FreivaldsFinding* finding) {
  const int e = threadIdx.x;
  if (e >= kSampledEntries) return;
  const double x = decode<E>(c, rows[e] * s.n + columns[e]);
  const double* known = r.entries + 3 * e;
  const double bound = entry_bound(spacing_squared(x, s.fraction_bits, s.min_exponent), s.epsilon, s.alpha,
                                   known[1], known[2], s.fraction_bits);
  if (!within(fabs(x - known[0]), bound))
    record_wrong(&finding->wrong, &finding->first_entry, static_cast<uint64_t>(e));
}

void entries(const FreivaldsShape& s, const OperandView& a, const OperandView& b, const int64_t* rows,
             const int64_t* columns, int64_t count, double* out, Stream& stream) {
  // Only the pairs that occur are compiled: equal encodings, and e4m3 with e5m2.
  with_element(a.element, [&](auto tag) {
    constexpr Element e = decltype(tag)::value;
    if (a.element == Element::e4m3 && b.element == Element::e5m2)
      dot_entries<Element::e4m3, Element::e5m2>
          <<<grid_for(count), kThreads, 0, native(stream)>>>(s, a, b, rows, columns, count, out);
    else
      dot_entries<e, e><<<grid_for(count), kThreads, 0, native(stream)>>>(s, a, b, rows, columns, count, out);
  });
  TT_CUDA(cudaGetLastError());
}

}  // namespace

extern "C" void tt_cuda_freivalds_entries(const FreivaldsShape& s, const OperandView& a, const OperandView& b,
                                          const int64_t* rows, const int64_t* columns, int64_t count,
                                          double* out, Stream& stream) {
  entries(s, a, b, rows, columns, count, out, stream);
}

extern "C" void tt_cuda_freivalds_reference(const FreivaldsShape& s, const OperandView& a,
                                            const OperandView& b, const uint8_t* signs,
                                            const int64_t* entry_rows, const int64_t* entry_columns,
                                            double* scratch, const FreivaldsReference& out, Stream& stream) {
  const cudaStream_t queue = native(stream);
  TT_CUDA(cudaMemsetAsync(out.b_norm2, 0, static_cast<size_t>(s.blocks) * sizeof(double), queue));
  with_element(b.element, [&](auto tag) {
    constexpr Element e = decltype(tag)::value;
    if (b.k_stride == 1) {
      const int64_t warps = (s.k + 31) / 32 * s.blocks;
      project_b_columns<e><<<grid_for((warps + kWarps - 1) / kWarps), kThreads, 0, queue>>>(
          s, b, signs, scratch, out.b_norm2);
    } else {
      const int64_t warps = s.k * s.blocks;
      project_b_rows<e><<<grid_for((warps + kWarps - 1) / kWarps), kThreads, 0, queue>>>(s, b, signs, scratch,
                                                                                         out.b_norm2);
    }
  });
  TT_CUDA(cudaGetLastError());
  with_element(a.element, [&](auto tag) {
    const int64_t tiles = (s.m + kTile - 1) / kTile * ((s.sums() + kTile - 1) / kTile);
    multiply_a<decltype(tag)::value>
        <<<grid_for(tiles), kThreads, 0, queue>>>(s, a, scratch, out.sums, out.a_norm2);
  });
  TT_CUDA(cudaGetLastError());
  entries(s, a, b, entry_rows, entry_columns, kSampledEntries, out.entries, stream);
}

extern "C" void tt_cuda_freivalds_test(const FreivaldsShape& s, const FreivaldsReference& r, const void* c,
                                       const uint8_t* signs, const int64_t* entry_rows,
                                       const int64_t* entry_columns, FreivaldsFinding* finding,
                                       Stream& stream) {
  const cudaStream_t queue = native(stream);
  with_element(s.out, [&](auto tag) {
    constexpr Element e = decltype(tag)::value;
    const int64_t warps = s.m * s.blocks;
    test_sums<e><<<grid_for((warps + kWarps - 1) / kWarps), kThreads, 0, queue>>>(s, r, c, signs, finding);
    test_entries<e><<<1, kSampledEntries, 0, queue>>>(s, r, c, entry_rows, entry_columns, finding);
  });
  TT_CUDA(cudaGetLastError());
}

}  // namespace tt

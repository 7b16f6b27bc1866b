#include <algorithm>

#include "src/device/cuda/check.h"
#include "src/device/cuda/kernels.h"
#include "src/device/dtype_visit.h"
#include "src/device/random_inline.h"

namespace tt {
namespace {

template <class T>
__global__ void fill_random_kernel(T* to, size_t count, Fill fill, uint64_t seed, uint64_t first_element) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = detail::random_element<T>(fill, seed, first_element + i);
}

}  // namespace

void launch_fill_random(void* to, size_t count, DType type, Fill fill, uint64_t seed, uint64_t first_element,
                        cudaStream_t stream) {
  if (count == 0) return;
  constexpr unsigned threads = 256, most_blocks = 65536;
  const unsigned blocks =
      static_cast<unsigned>(std::min<size_t>((count + threads - 1) / threads, most_blocks));
  with_storage(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    fill_random_kernel<T>
        <<<blocks, threads, 0, stream>>>(static_cast<T*>(to), count, fill, seed, first_element);
  });
  check_launch("fill_random_kernel");
}

}  // namespace tt

#include "src/device/random.h"

#include "src/device/dtype_visit.h"
#include "src/device/random_inline.h"

namespace tt {

double random_value(DType type, Fill fill, uint64_t seed, uint64_t e) {
  return with_storage(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return to_double(detail::random_element<T>(fill, seed, e));
  });
}

void fill_random_on_host(void* to, size_t count, DType type, Fill fill, uint64_t seed, uint64_t first_element,
                         int threads) {
  if (count < 65536) threads = 1;  // starting a team costs more than it saves
  with_storage(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const out = static_cast<T*>(to);
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t i = 0; i < count; ++i) out[i] = detail::random_element<T>(fill, seed, first_element + i);
  });
}

}  // namespace tt

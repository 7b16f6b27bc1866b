#include "src/device/cuda_library.h"

namespace tt {

const CudaLibrary& CudaLibrary::instance() {
  static const CudaLibrary library;
  return library;
}

const CudaLibrary* CudaLibrary::get() {
  return instance().plugin_.loaded() ? &instance() : nullptr;
}

std::string CudaLibrary::error() {
  return instance().plugin_.error();
}

}  // namespace tt

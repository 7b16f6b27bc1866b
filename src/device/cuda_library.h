// libtt_cuda.so: everything that needs CUDA sits behind C functions in it, looked up by name at run time, so
// that the executables start on machines without CUDA.
#pragma once

#include <string>

#include "src/device/plugin.h"

namespace tt {

class CudaLibrary {
 public:
  /// The library, loaded on first use from beside the executable, then ../lib, then the loader's path; null
  /// when it cannot be loaded (error() has the loader's words, which name the missing library).
  static const CudaLibrary* get();
  static std::string error();

  /// The function of this name with this type. EnvironmentError naming the symbol when it is not there.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(plugin_.symbol(name));
  }

 private:
  CudaLibrary() : plugin_("libtt_cuda.so") {}
  static const CudaLibrary& instance();
  Plugin plugin_;
};

}  // namespace tt

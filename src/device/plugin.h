// Shared objects of our own that are loaded at run time, so that the executables start without what these
// need.
#pragma once

#include <string>

namespace tt {

/// A loaded shared object, kept until the process ends (its code may be in use by threads that outlive main).
class Plugin {
 public:
  /// Looks for `file` ("libtt_cuda.so") beside the executable, then in ../lib, then on the loader's path.
  explicit Plugin(const std::string& file);
  bool loaded() const { return handle_ != nullptr; }
  /// Why it is not loaded: the loader's own words, which name a missing library; "" when it is.
  const std::string& error() const { return error_; }
  /// Whether it has this symbol: parts that a build left out.
  bool has(const char* name) const;
  /// The address of a symbol; EnvironmentError naming it when it is not there.
  void* symbol(const char* name) const;

 private:
  std::string file_, error_;
  void* handle_ = nullptr;
};

}  // namespace tt

#include "src/device/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "common/error.h"

namespace tt {

Plugin::Plugin(const std::string& file) : file_(file) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& path : {here / file, here.parent_path() / "lib" / file}) {
    if (here.empty() || !fs::exists(path, ignored)) continue;
    // The one that is there is the one that is meant: if it does not load, an older one elsewhere would only
    // hide why.
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) error_ = dlerror();
    return;
  }
  handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_)
    error_ = fmt::format("{} (nor is it in {} or {})", dlerror(), here.string(),
                         (here.parent_path() / "lib").string());
}

bool Plugin::has(const char* name) const {
  return handle_ && dlsym(handle_, name);
}

void* Plugin::symbol(const char* name) const {
  void* const address = handle_ ? dlsym(handle_, name) : nullptr;
  if (!address)
    throw EnvironmentError(fmt::format("{}: no symbol {}: {}", file_, name,
                                       handle_ ? "it is of another version than this executable" : error_));
  return address;
}

}  // namespace tt

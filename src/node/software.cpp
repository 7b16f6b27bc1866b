// Versions of the libraries that a job would load, by their files; what the caller has asked the libraries
// themselves goes before (Surroundings::versions).
#include <algorithm>
#include <cctype>

#include "src/node/sources.h"

namespace tt::node {
namespace {

constexpr const char* kFolders[] = {"/usr/lib/x86_64-linux-gnu",
                                    "/usr/lib/aarch64-linux-gnu",
                                    "/usr/lib64",
                                    "/usr/lib",
                                    "/usr/local/cuda/lib64",
                                    "/usr/local/lib",
                                    "/lib64"};

/// libnccl.so.2 -> libnccl.so.2.27.3: the number behind ".so." of the file that the name leads to.
Text by_file(const Sysroot& root, const std::string& name) {
  for (const char* folder : kFolders) {
    const std::string path = std::string(folder) + "/" + name;
    if (!root.exists(path)) continue;
    const Text file = root.resolve(path);
    if (!file) return file;
    const size_t so = file->rfind(".so.");
    if (so != std::string::npos) return Text::of(printable(file->substr(so + 4), 30));
  }
  return Text::unknown(name + " is in none of the usual library folders");
}

Text version(const Sysroot& root, const Surroundings& around, const std::string& key,
             const std::string& library) {
  const auto it = std::find_if(around.versions.begin(), around.versions.end(), [&](const auto& known) {
    return std::equal(known.first.begin(), known.first.end(), key.begin(), key.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  });
  if (it != around.versions.end())
    return it->second.starts_with("unknown") ? Text::unknown(it->second)
                                             : Text::of(printable(it->second, 60));
  return library.empty() ? Text::unknown("nobody tells the version of " + key) : by_file(root, library);
}

}  // namespace

void inspect_software(const Sysroot& root, const Surroundings& around, Findings& out) {
  out.add("software.mpi", version(root, around, "MPI", ""));
  if (around.has_gpus()) {
    out.add("software.cuda", around.gpus ? around.gpus->cuda : Text::unknown(around.gpus.why));
    out.add("software.nccl", version(root, around, "NCCL", "libnccl.so.2"));
    const Text cudnn9 = version(root, around, "cuDNN", "libcudnn.so.9");
    out.add("software.cudnn", cudnn9 ? cudnn9 : version(root, around, "cuDNN", "libcudnn.so.8"));
  }
  if (around.rdma.empty()) return;
  const auto needed = [](Finding& f, const char* remedy) {
    if (f.status == Status::unknown) return;  // the library may lie elsewhere
    judge(f, {"present", [](const std::string& v) { return v != "absent"; }, remedy});
  };
  needed(out.add("software.ibverbs", by_file(root, "libibverbs.so.1")), "install rdma-core");
  needed(out.add("software.ibumad", by_file(root, "libibumad.so.3")), "install libibumad");
  needed(out.add("software.ibdiags",
                 Text::of(root.exists("/usr/sbin/ibstat") || root.exists("/usr/bin/ibstat") ? "present"
                                                                                            : "absent")),
         "install infiniband-diags: without it nobody can look at the fabric");
}

}  // namespace tt::node

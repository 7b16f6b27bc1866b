// Resource limits of this very process, as the job's processes have them: /proc/self/limits.
#include "src/node/sources.h"

namespace tt::node {
namespace {

/// The soft limit of a line "Max locked memory   8388608   8388608   bytes"; "unlimited" stays so.
Text soft_limit(const Text& text, const std::string& name, int64_t divisor) {
  if (!text) return text;
  for (const std::string& line : split_lines(*text)) {
    if (!line.starts_with(name + " ")) continue;
    const auto words = split_words(line.substr(name.size()));
    if (words.empty()) break;
    if (words[0] == "unlimited") return Text::of(words[0]);
    const auto number = to_integer(words[0]);
    return number ? Text::of(std::to_string(*number / divisor))
                  : Text::unknown("/proc/self/limits: " + number.why);
  }
  return Text::unknown("/proc/self/limits has no '" + name + "'");
}

}  // namespace

void inspect_limits(const Sysroot& root, const Surroundings& around, Findings& out) {
  const Text text = root.text("/proc/self/limits");
  Finding& locked = out.add("limits.memlock", soft_limit(text, "Max locked memory", 1024));
  if (!around.rdma.empty())
    judge(locked, equals("unlimited",
                         "RDMA pins its buffers: `* - memlock unlimited` in /etc/security/limits.d, "
                         "LimitMEMLOCK=infinity in "
                         "slurmd.service, and restart them"));
  // NCCL and MPI open some sockets and files per peer; 1,024 is what systems give by default: a few
  // hundred peers use it up.
  const char* least = around.trains() ? "4096" : "1024";
  Finding& files = out.add("limits.nofile", soft_limit(text, "Max open files", 1));
  judge(
      files,
      at_least(least,
               std::string(
                   "`* - nofile 1048576` in /etc/security/limits.d, LimitNOFILE=1048576 in slurmd.service")));
  out.add("limits.nproc", soft_limit(text, "Max processes", 1));
  out.add("limits.stack", soft_limit(text, "Max stack size", 1024));
}

}  // namespace tt::node

#include "src/device/host_info.h"

#include <sched.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace tt {
namespace {

/// First line of a file, without the newline; empty optional when it cannot be read.
std::optional<std::string> read_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line)) return std::nullopt;
  return line;
}

/// A file that holds one number; "max" and anything else that is not a number: empty.
std::optional<int64_t> read_number(const std::string& path) {
  const auto line = read_line(path);
  if (!line || line->empty()) return std::nullopt;
  char* end = nullptr;
  const long long value = std::strtoll(line->c_str(), &end, 10);
  if (end == line->c_str() || value < 0) return std::nullopt;
  return value;
}

/// The value behind "key" in lines of "key value" or "key: value kB".
std::optional<int64_t> read_keyed(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::string name, unit;
    int64_t value = 0;
    if (!(words >> name >> value)) continue;
    if (name != key && name != key + ":") continue;
    words >> unit;
    return unit == "kB" ? value * 1024 : value;
  }
  return std::nullopt;
}

/// Folders of this process's control group of a controller, from its own up to the mount's root, whether or
/// not they exist (inside a container the path in /proc/self/cgroup may be the host's). v2: controller "".
std::vector<std::string> cgroup_folders(const std::string& root, const std::string& controller) {
  const std::string base = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  std::vector<std::string> folders;
  std::ifstream in(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {  // "0::/path" (v2) or "4:memory,foo:/path" (v1)
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controller.empty() ? names != ",," : names.find("," + controller + ",") == std::string::npos)
      continue;
    for (std::string path = line.substr(second + 1); path.size() > 1; path.erase(path.rfind('/')))
      folders.push_back(base + path);
    break;
  }
  folders.push_back(base);
  return folders;
}

struct CgroupFiles {
  const char *controller, *limit, *usage, *reclaimable;
};
constexpr CgroupFiles kMemoryFiles[] = {
    {"", "memory.max", "memory.current", "inactive_file"},
    {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
};

std::string cpu_folder(const std::string& root, int cpu) {
  return root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
}

/// "266240K", "32M" -> bytes; 0 for anything else.
size_t parse_cache_size(const std::string& text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  switch (*end) {
    case 'K':
      return value << 10;
    case 'M':
      return value << 20;
    case 'G':
      return value << 30;
    default:
      return value;
  }
}

}  // namespace

std::string read_cpu_model(const std::string& root) {
  std::ifstream in(root + "/proc/cpuinfo");
  std::string line, implementer, part;
  while (std::getline(in, line)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin == std::string::npos) continue;
    const std::string value = line.substr(begin);
    if (key == "model name") return value;
    if (key == "CPU implementer" && implementer.empty()) implementer = value;
    if (key == "CPU part" && part.empty()) part = value;
  }
  if (implementer.empty()) return "unknown CPU";
  utsname system{};
  uname(&system);
  return std::string(system.machine) + " implementer " + implementer + " part " + part;
}

MemoryInfo read_host_memory(const std::string& root) {
  MemoryInfo info;
  info.total = read_keyed(root + "/proc/meminfo", "MemTotal").value_or(0);
  info.available = read_keyed(root + "/proc/meminfo", "MemAvailable").value_or(info.total);
  for (const CgroupFiles& files : kMemoryFiles)
    for (const std::string& folder : cgroup_folders(root, files.controller)) {
      const auto limit = read_number(folder + "/" + files.limit);
      const auto usage = read_number(folder + "/" + files.usage);
      if (!limit || !usage || *limit >= info.total) continue;  // v1 says "no limit" with a number near 2^63
      info.total = *limit;
      const int64_t reclaimable = read_keyed(folder + "/memory.stat", files.reclaimable).value_or(0);
      info.available = std::min(info.available, std::max<int64_t>(0, *limit - *usage + reclaimable));
    }
  return info;
}

size_t read_last_level_cache(const std::vector<int>& cpus, const std::string& root) {
  int64_t top_level = 0;
  size_t bytes = 0;
  std::set<std::string> counted;  // shared_cpu_list names an instance
  for (int cpu : cpus) {
    for (int index = 0; index < 16; ++index) {
      const std::string folder = cpu_folder(root, cpu) + "/cache/index" + std::to_string(index);
      const auto level = read_number(folder + "/level");
      if (!level) break;
      if (*level < top_level || read_line(folder + "/type").value_or("") == "Instruction") continue;
      if (*level > top_level) {
        top_level = *level;
        counted.clear();
        bytes = 0;
      }
      if (counted.insert(read_line(folder + "/shared_cpu_list").value_or(std::to_string(cpu))).second)
        bytes += parse_cache_size(read_line(folder + "/size").value_or(""));
    }
  }
  return bytes;
}

int count_cores(const std::vector<int>& cpus, const std::string& root) {
  std::set<std::string> cores;
  for (int cpu : cpus)
    cores.insert(
        read_line(cpu_folder(root, cpu) + "/topology/thread_siblings_list").value_or(std::to_string(cpu)));
  return static_cast<int>(cores.size());
}

double read_cpu_quota(const std::string& root) {
  double tightest = std::numeric_limits<double>::infinity();
  for (const std::string& folder : cgroup_folders(root, "")) {
    double quota = 0, period = 0;
    std::istringstream words(read_line(folder + "/cpu.max").value_or(""));  // "200000 100000" or "max 100000"
    if (words >> quota >> period && quota > 0 && period > 0) tightest = std::min(tightest, quota / period);
  }
  for (const std::string& folder : cgroup_folders(root, "cpu")) {
    const auto quota = read_number(folder + "/cpu.cfs_quota_us"),
               period = read_number(folder + "/cpu.cfs_period_us");
    if (quota && period && *quota > 0 && *period > 0)
      tightest = std::min(tightest, static_cast<double>(*quota) / static_cast<double>(*period));
  }
  return std::isinf(tightest) ? 0 : tightest;
}

std::vector<int> allowed_cpus(int pid) {
  // The set must be at least as long as the kernel's, which is not told: grow until it fits.
  for (int bits = 1024; bits <= 1 << 20; bits *= 2) {
    cpu_set_t* set = CPU_ALLOC(bits);
    if (!set) break;
    const size_t size = CPU_ALLOC_SIZE(bits);
    std::vector<int> cpus;
    const bool read = sched_getaffinity(pid, size, set) == 0;
    for (int cpu = 0; read && cpu < bits; ++cpu)
      if (CPU_ISSET_S(static_cast<size_t>(cpu), size, set)) cpus.push_back(cpu);
    CPU_FREE(set);
    if (read) return cpus;
  }
  return {};
}

std::vector<int> parse_cpu_list(const std::string& text) {
  std::vector<int> cpus;
  std::istringstream in(text);
  int first = 0, last = 0;
  while (in >> first) {
    last = first;
    if (in.peek() == '-' && !(in.ignore() >> last)) break;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
    if (in.peek() != ',') break;
    in.ignore();
  }
  return cpus;
}

int cores_for_rank(int local_size) {
  const std::vector<int> own = allowed_cpus();
  // The launcher (this process's parent: orted, mpirun, slurmstepd) is not bound, so its set is what all
  // ranks share. A parent whose set does not contain ours tells nothing.
  std::vector<int> shared = allowed_cpus(getppid());
  if (!std::includes(shared.begin(), shared.end(), own.begin(), own.end())) shared = own;
  double share = static_cast<double>(count_cores(shared)) / std::max(1, local_size);
  if (const double quota = read_cpu_quota(); quota > 0)
    share = std::min(share, std::ceil(quota) / std::max(1, local_size));
  return std::max(1, std::min(count_cores(own), static_cast<int>(share)));
}

}  // namespace tt

// What Linux tells about this machine's processors and memory. Every function reads below `root`, so that a
// recorded machine can be tested anywhere; "" is the machine itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/device/device.h"

namespace tt {

/// The CPU's model name from /proc/cpuinfo; where it has none (Arm), "aarch64 implementer 0x41 part 0xd4f";
/// else "unknown CPU".
std::string read_cpu_model(const std::string& root = "");

/// total: MemTotal, or the tightest cgroup limit below it. available: MemAvailable, or what the tightest
/// cgroup (v2 or v1, at any level above this process) leaves: limit - usage + inactive file cache, which the
/// kernel gives up first.
MemoryInfo read_host_memory(const std::string& root = "");

/// Bytes of last-level cache that these CPUs reach: each instance of the highest level once. 0 when sysfs
/// does not tell.
size_t read_last_level_cache(const std::vector<int>& cpus, const std::string& root = "");

/// Physical cores among these CPUs (hardware threads of one core count once); the number of CPUs where sysfs
/// does not tell.
int count_cores(const std::vector<int>& cpus, const std::string& root = "");

/// CPU time per time that the cgroups allow (cpu.max, or cpu.cfs_quota_us), in CPUs; 0 when unlimited.
double read_cpu_quota(const std::string& root = "");

/// CPUs that this process (pid 0) or another may run on; empty when that cannot be read.
std::vector<int> allowed_cpus(int pid = 0);

/// "0-3,8" -> {0,1,2,3,8}; stops at the first thing that is not of this form.
std::vector<int> parse_cpu_list(const std::string& text);

/// Physical cores for each of `local_size` ranks on this host: the ranks share what their launcher may use,
/// but a rank gets no more than its own binding. At least 1.
int cores_for_rank(int local_size);

}  // namespace tt

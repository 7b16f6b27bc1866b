// CPUs: /proc/cpuinfo and /sys/devices/system/cpu.
#include <map>
#include <set>

#include "src/node/sources.h"

namespace tt::node {
namespace {

constexpr const char* kCpu = "/sys/devices/system/cpu/";

/// One entry per logical CPU of /proc/cpuinfo: key -> value.
std::vector<std::map<std::string, std::string>> parse_cpuinfo(const std::string& text) {
  std::vector<std::map<std::string, std::string>> cpus;
  for (const std::string& line : split_lines(text)) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key(trimmed(std::string_view(line).substr(0, colon)));
    if (key == "processor") cpus.emplace_back();
    if (!cpus.empty()) cpus.back()[key] = trimmed(std::string_view(line).substr(colon + 1));
  }
  return cpus;
}

/// Distinct values of a field over all CPUs; unknown when a CPU lacks it (arm64 has no model name, VMs no
/// microcode).
Text field(const std::vector<std::map<std::string, std::string>>& cpus, const std::string& key) {
  std::set<std::string> values;
  for (const auto& cpu : cpus) {
    const auto it = cpu.find(key);
    if (it == cpu.end()) return Text::unknown("/proc/cpuinfo has no '" + key + "'");
    values.insert(printable(it->second));
  }
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return cpus.empty() ? Text::unknown("/proc/cpuinfo names no CPU") : Text::of(text);
}

/// Sockets and cores as sysfs numbers them; works on every architecture.
void add_counts(const Sysroot& root, Findings& out) {
  std::set<int64_t> sockets;
  std::set<std::pair<int64_t, int64_t>> cores;
  int64_t threads = 0;
  std::string why;
  const auto names = root.list("/sys/devices/system/cpu");
  if (!names)
    why = names.why;
  else
    for (const std::string& name : *names) {
      if (!name.starts_with("cpu") || !to_integer(name.substr(3))) continue;
      const auto socket = root.integer(kCpu + name + "/topology/physical_package_id");
      const auto core = root.integer(kCpu + name + "/topology/core_id");
      if (socket && core) {
        sockets.insert(*socket);
        cores.emplace(*socket, *core);
        ++threads;
      } else if (why.empty()) {
        why = socket ? core.why : socket.why;
      }
    }
  const auto count = [&](size_t n) {
    return n ? Reading<int64_t>::of(static_cast<int64_t>(n))
             : Reading<int64_t>::unknown(why.empty() ? "no CPU in sysfs" : why);
  };
  out.add("cpu.sockets", count(sockets.size()));
  out.add("cpu.cores", count(cores.size()));
  out.add("cpu.threads", count(static_cast<size_t>(threads)));
}

void add_online(const Sysroot& root, Findings& out) {
  const Text online = root.text(std::string(kCpu) + "online"),
             present = root.text(std::string(kCpu) + "present");
  Finding& f = out.add("cpu.online", online);
  if (!online || !present) return;
  judge(
      f,
      equals(
          *present,
          "CPUs are offline: `chcpu -e LIST`, or look for maxcpus= or nr_cpus= on the kernel command line"));
}

void add_governor(const Sysroot& root, const Surroundings& around, Findings& out) {
  std::map<std::string, int> governors;
  Text first =
      Text::unknown("no CPU has a cpufreq folder in sysfs (virtual machine, or clocks left to the firmware)");
  if (const auto names = root.list("/sys/devices/system/cpu/cpufreq"))
    for (const std::string& name : *names)
      if (name.starts_with("policy")) {
        const Text governor = root.text(std::string(kCpu) + "cpufreq/" + name + "/scaling_governor");
        if (governor)
          ++governors[printable(*governor, 30)];
        else if (governors.empty())
          first = governor;
      }
  if (!governors.empty()) {
    first = Text::of("");
    for (const auto& [name, count] : governors)
      *first.value +=
          (first->empty() ? "" : ", ") + (governors.size() > 1 ? std::to_string(count) + " x " : "") + name;
  }
  Finding& f = out.add("cpu.governor", first);
  if (around.trains())
    judge(f,
          equals("performance", "`cpupower frequency-set -g performance`, and make it last (tuned profile)"));
}

void add_boost(const Sysroot& root, const Surroundings& around, Findings& out) {
  const auto no_turbo = root.integer(std::string(kCpu) + "intel_pstate/no_turbo");
  const auto boost = root.integer(std::string(kCpu) + "cpufreq/boost");
  Finding& f = out.add("cpu.boost",
                       no_turbo ? Text::of(*no_turbo ? "off" : "on")
                       : boost  ? Text::of(*boost ? "on" : "off")
                                : Text::unknown("neither intel_pstate/no_turbo nor cpufreq/boost in sysfs"));
  if (around.trains())
    judge(f, equals("on",
                    "switch boost on: intel_pstate/no_turbo = 0 or cpufreq/boost = 1, and in the firmware"));
}

}  // namespace

void inspect_cpu(const Sysroot& root, const Surroundings& around, Findings& out) {
  const Text text = root.text("/proc/cpuinfo");
  const auto cpus = parse_cpuinfo(text ? *text : "");
  const auto of_cpuinfo = [&](const std::string& key) { return text ? field(cpus, key) : text; };
  Finding& model = out.add("cpu.model", of_cpuinfo("model name"));
  if (model.items[0].value && model.items[0].value->find(", ") != std::string::npos)
    judge(model, {"one model", [](auto&) { return false; }, "sockets hold different CPUs: as ordered?"});
  add_counts(root, out);
  add_online(root, out);
  Finding& microcode = out.add("cpu.microcode", of_cpuinfo("microcode"));
  if (microcode.status != Status::unknown)
    judge(microcode,
          {"one for all CPUs", [](const std::string& v) { return v.find(", ") == std::string::npos; },
           "sockets run different microcode: update the system firmware, or reload microcode early at boot"});
  add_governor(root, around, out);
  add_boost(root, around, out);
  auto kHz = root.integer(std::string(kCpu) + "cpu0/cpufreq/cpuinfo_max_freq");
  if (kHz) *kHz.value /= 1000;
  out.add("cpu.max_MHz", kHz);
}

}  // namespace tt::node

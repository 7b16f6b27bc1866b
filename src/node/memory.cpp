// Memory: /proc/meminfo, the NUMA nodes, huge pages, EDAC's error counters.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "src/node/sources.h"

namespace tt::node {
namespace {

constexpr const char* kNode = "/sys/devices/system/node/";

/// A "Name:   123 kB" line of /proc/meminfo or a node's meminfo ("Node 0 MemTotal:  123 kB").
Reading<int64_t> meminfo(const Text& text, const std::string& name) {
  if (!text) return Reading<int64_t>::unknown(text.why);
  for (const std::string& line : split_lines(*text)) {
    const auto words = split_words(line);
    for (size_t i = 0; i + 1 < words.size(); ++i)
      if (words[i] == name + ":") return to_integer(words[i + 1]);
  }
  return Reading<int64_t>::unknown("meminfo has no '" + name + "'");
}

Text GiB(const Reading<int64_t>& kiB) {
  return kiB ? Text::of(number_text(static_cast<double>(*kiB) / (1 << 20))) : Text::unknown(kiB.why);
}

/// NUMA nodes with CPUs: GPUs that show their memory as nodes (GH200, GB200) have none.
std::vector<Item> memory_per_numa(const Sysroot& root) {
  std::vector<Item> items;
  const auto names = root.list("/sys/devices/system/node");
  if (!names) return {{"", Text::unknown(names.why)}};
  for (const std::string& name : *names) {
    if (!name.starts_with("node") || !to_integer(name.substr(4))) continue;
    const Text cpus = root.text(kNode + name + "/cpulist");
    if (cpus && cpus->empty()) continue;
    items.push_back(
        {"NUMA node " + name.substr(4), GiB(meminfo(root.text(kNode + name + "/meminfo"), "MemTotal"))});
  }
  return items;
}

/// A node with clearly less than its fullest sibling has lost (or never had) a module.
void add_per_numa(const Sysroot& root, Findings& out) {
  Finding& f = out.add("memory.per_numa", memory_per_numa(root));
  double most = 0;
  for (const Item& item : f.items)
    if (item.value) most = std::max(most, std::atof(item.value->c_str()));
  if (f.items.size() > 1)
    judge(f, {"within 10 % of the fullest",
              [most](const std::string& v) { return std::atof(v.c_str()) >= 0.9 * most; },
              "a memory module is missing or was disabled at start-up: see the BMC's event log and "
              "`dmidecode -t memory`"});
}

void add_ecc(const Sysroot& root, Findings& out) {
  std::vector<Item> corrected, uncorrected;
  const auto names = root.list("/sys/devices/system/edac/mc");
  if (names)
    for (const std::string& name : *names) {
      if (!name.starts_with("mc") || !to_integer(name.substr(2))) continue;
      const auto text = [&](const char* file) {
        const auto n = root.integer("/sys/devices/system/edac/mc/" + name + "/" + file);
        return n ? Text::of(std::to_string(*n)) : Text::unknown(n.why);
      };
      corrected.push_back({name, text("ce_count")});
      uncorrected.push_back({name, text("ue_count")});
    }
  const Text none = Text::unknown(
      names ? "EDAC knows no memory controller (driver not loaded, or no ECC memory)" : names.why);
  if (corrected.empty()) corrected = uncorrected = {{"", none}};
  out.add("memory.ecc_corrected", corrected);
  Finding& f = out.add("memory.ecc_uncorrected", uncorrected);
  judge(f, equals("0", "replace the memory module: `edac-util -v` or the BMC's event log names it"));
}

/// "always [madvise] never" -> "madvise"
Text bracketed(const Text& text) {
  if (!text) return text;
  const size_t open = text->find('['), close = text->find(']');
  if (open == std::string::npos || close == std::string::npos || close < open)
    return Text::unknown("no choice in '" + printable(*text, 40) + "'");
  return Text::of(text->substr(open + 1, close - open - 1));
}

}  // namespace

void inspect_memory(const Sysroot& root, const Surroundings& around, Findings& out) {
  const Text info = root.text("/proc/meminfo");
  const Text nodes = root.text(std::string(kNode) + "online");
  out.add("numa.nodes", nodes ? count_list(*nodes) : Reading<int64_t>::unknown(nodes.why));

  const auto balancing = root.integer("/proc/sys/kernel/numa_balancing");
  Finding& b = out.add("numa.balancing",
                       balancing ? Text::of(*balancing ? "on" : "off") : Text::unknown(balancing.why));
  if (around.trains())
    judge(
        b,
        equals(
            "off",
            "`sysctl -w kernel.numa_balancing=0`, and in /etc/sysctl.d: moving pages stalls pinned buffers"));

  const auto total = meminfo(info, "MemTotal"), available = meminfo(info, "MemAvailable");
  out.add("memory.total", GiB(total));
  add_per_numa(root, out);
  Finding& a = out.add("memory.available", GiB(available));
  if (around.trains() && total && available) {
    const double half = static_cast<double>(*total) / 2;
    judge(a, {">= " + number_text(half / (1 << 20)),
              [&](auto&) { return static_cast<double>(*available) >= half; },
              "more than half of the memory is in use before the job: look for left-over processes and a "
              "full /dev/shm"});
  }
  out.add("memory.swap", GiB(meminfo(info, "SwapTotal")));
  const auto pages = meminfo(info, "HugePages_Total"), size = meminfo(info, "Hugepagesize");
  out.add("memory.hugepages", !pages        ? Text::unknown(pages.why)
                              : *pages == 0 ? Text::of("0")
                                            : Text::of(std::to_string(*pages) +
                                                       (size ? " x " + std::to_string(*size) + " kB" : "")));
  out.add("memory.transparent_hugepages",
          bracketed(root.text("/sys/kernel/mm/transparent_hugepage/enabled")));
  const auto reclaim = root.integer("/proc/sys/vm/zone_reclaim_mode");
  Finding& z = out.add("memory.zone_reclaim", reclaim);
  if (around.trains())
    judge(z, equals("0",
                    "`sysctl -w vm.zone_reclaim_mode=0`: otherwise a full NUMA node is swept rather than its "
                    "neighbour used"));
  add_ecc(root, out);
}

}  // namespace tt::node

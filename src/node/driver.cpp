// The NVIDIA driver: version, kind of kernel module, what stands in its way, and the Xid errors it logged.
#include <algorithm>
#include <map>
#include <optional>

#include "src/node/live.h"
#include "src/node/sources.h"
#include "src/node/xid.h"

namespace tt::node {
namespace {

/// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build …"
struct Module {
  Text version, kind;
};

Module parse_module(const Text& text) {
  if (!text) return {text, text};
  const auto lines = split_lines(*text);
  const std::string first = lines.empty() ? "" : lines[0];
  Module module{Text::unknown("/proc/driver/nvidia/version names no version"),
                Text::of(first.find("Open Kernel Module") != std::string::npos ? "open" : "proprietary")};
  if (first.find("Kernel Module") == std::string::npos) module.kind = module.version;
  for (const std::string& word : split_words(first))
    if (!module.version && std::count(word.begin(), word.end(), '.') >= 1 &&
        word.find_first_not_of("0123456789.") == std::string::npos)
      module.version = Text::of(printable(word, 30));
  return module;
}

/// The oldest branch that drives the model: NVIDIA's data centre driver release notes.
std::optional<std::string> oldest_driver(const Surroundings& around) {
  if (around.blackwell()) return "570";
  if (!around.gpus) return std::nullopt;
  for (const GpuInfo& gpu : around.gpus->gpus)
    for (const char* model : {"H100", "H200", "H800", "H20", "GH200"})
      if (gpu.name && gpu.name->find(model) != std::string::npos) return "525";
  return std::nullopt;
}

void add_nouveau(const Sysroot& root, Findings& out) {
  const bool loaded = root.exists("/sys/module/nouveau");
  const bool readable = root.exists("/sys/module");
  Finding& f = out.add("driver.nouveau", loaded     ? Text::of("loaded")
                                         : readable ? Text::of("absent")
                                                    : Text::unknown("/sys/module: not there"));
  judge(f, equals("absent",
                  "nouveau takes the GPUs from the NVIDIA driver: `blacklist nouveau` and `options nouveau "
                  "modeset=0` in "
                  "/etc/modprobe.d, rebuild the initramfs, restart"));
}

void add_peermem(const Sysroot& root, const Module& module, Findings& out) {
  const Text kernel = root.text("/proc/sys/kernel/osrelease");
  const bool peermem = root.exists("/sys/module/nvidia_peermem");
  const bool dmabuf =
      kernel && compare_natural(*kernel, "5.12") >= 0 && module.kind && *module.kind == "open";
  Finding& f = out.add("driver.peermem", Text::of(peermem && dmabuf ? "nvidia-peermem, dma-buf"
                                                  : peermem         ? "nvidia-peermem"
                                                  : dmabuf          ? "dma-buf"
                                                                    : "neither"));
  judge(f, {"nvidia-peermem or dma-buf", [](const std::string& v) { return v != "neither"; },
            "`modprobe nvidia-peermem` and list it in /etc/modules-load.d, or use the open kernel module on "
            "Linux 5.12 or later (dma-buf)"});
}

void add_xids(const Sysroot& root, Findings& out) {
  const Text log = kernel_log(root);
  if (!log) {
    out.add("gpu.xid", log);
    return;
  }
  std::map<std::pair<std::string, int>, int> counts;
  for (const Xid& xid : parse_xids(*log)) ++counts[{xid.pci, xid.number}];
  std::vector<Item> items;
  for (const auto& [where, count] : counts)
    items.push_back({where.first, Text::of("Xid " + std::to_string(where.second) +
                                           (count > 1 ? ", " + std::to_string(count) + " times" : ""))});
  if (items.empty()) items.push_back({"", Text::of("none")});
  Finding& f = out.add("gpu.xid", items);
  f.expected = "none that speaks of hardware";
  f.status = Status::pass;
  for (const auto& [where, count] : counts) {
    const std::optional<std::string> remedy = xid_remedy(where.second);
    if (!remedy) continue;
    const std::string number = std::to_string(where.second);
    f.status = Status::fail;
    f.reason += (f.reason.empty() ? "" : "; ") + where.first + ": Xid " + number;
    if (f.remedy.find("Xid " + number + ":") == std::string::npos)
      f.remedy += (f.remedy.empty() ? "" : " ") + ("Xid " + number + ": " + *remedy + ".");
  }
}

}  // namespace

void inspect_driver(const Sysroot& root, const Surroundings& around, Findings& out) {
  add_nouveau(root, out);
  if (!around.has_gpus()) return;
  const Module module = parse_module(root.text("/proc/driver/nvidia/version"));
  const Text version = around.gpus && around.gpus->driver ? around.gpus->driver : module.version;
  Finding& v = out.add("driver.version", version);
  if (const auto oldest = oldest_driver(around))
    judge(v,
          at_least(*oldest, "the driver is too old for this GPU: install branch R" + *oldest + " or later"));
  Finding& m = out.add("driver.module", module.kind);
  if (around.blackwell())
    judge(m, equals("open",
                    "Blackwell works with the open kernel module only: install nvidia-open (or "
                    "nvidia-driver-NNN-server-open)"));
  if (!around.rdma.empty()) add_peermem(root, module, out);
  add_xids(root, out);
}

}  // namespace tt::node

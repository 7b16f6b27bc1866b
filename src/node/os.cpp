// The machine and its operating system: release, kernel, command line, IOMMU and ACS, container runtimes.
#include "src/node/sources.h"

namespace tt::node {
namespace {

Text pretty_name(const Text& os_release) {
  if (!os_release) return os_release;
  for (const std::string& line : split_lines(*os_release)) {
    if (!line.starts_with("PRETTY_NAME=")) continue;
    std::string name = line.substr(12);
    if (name.size() >= 2 && (name.front() == '"' || name.front() == '\''))
      name = name.substr(1, name.size() - 2);
    return Text::of(printable(name));
  }
  return Text::unknown("/etc/os-release has no PRETTY_NAME");
}

/// Only words about hardware and scheduling: others differ from disk to disk (root=), or are nobody's
/// business.
Text command_line(const Text& text) {
  constexpr const char* kStarts[] = {"iommu",
                                     "intel_iommu",
                                     "amd_iommu",
                                     "pci",
                                     "hugepages",
                                     "hugepagesz",
                                     "default_hugepagesz",
                                     "transparent_hugepage",
                                     "numa",
                                     "mitigations",
                                     "isolcpus",
                                     "nohz",
                                     "rcu_nocbs",
                                     "intel_idle",
                                     "processor.",
                                     "idle",
                                     "cpuidle",
                                     "intel_pstate",
                                     "amd_pstate",
                                     "cpufreq",
                                     "maxcpus",
                                     "nr_cpus",
                                     "nosmt",
                                     "mem=",
                                     "memmap",
                                     "nvidia",
                                     "nouveau",
                                     "modprobe.blacklist",
                                     "rd.driver.blacklist",
                                     "module_blacklist",
                                     "tsc",
                                     "clocksource",
                                     "efi",
                                     "swiotlb",
                                     "crashkernel",
                                     "irqaffinity"};
  if (!text) return text;
  std::string kept;
  for (const std::string& word : split_words(*text)) {
    if (word == "--") break;  // what follows is for init
    for (const char* start : kStarts)
      if (word.starts_with(start)) {
        kept += (kept.empty() ? "" : " ") + word;
        break;
      }
  }
  return Text::of(kept.empty() ? "nothing about hardware" : printable(kept, 400));
}

/// "on, translating" - "on, pass-through" - "off", by the IOMMU groups that the kernel made.
Text iommu(const Sysroot& root) {
  const auto groups = root.list("/sys/kernel/iommu_groups");
  if (!groups) return Text::unknown(groups.why);
  if (groups->empty()) return Text::of("off");
  int translating = 0, through = 0;
  std::string why;
  for (const std::string& group : *groups) {
    const Text type = root.text("/sys/kernel/iommu_groups/" + group + "/type");
    if (!type)
      why = type.why;
    else
      ++(*type == "identity" ? through : translating);
  }
  if (translating + through == 0) return Text::unknown(why);
  return Text::of(translating ? "on, translating" : "on, pass-through");
}

/// On bare metal, translation sends what GPUs and NICs tell each other by way of the root complex.
void add_iommu(const Sysroot& root, const Surroundings& around, Findings& out) {
  Finding& f = out.add("os.iommu", iommu(root));
  if (around.trains() && around.virtual_machine.empty())
    judge(f, {"off or pass-through", [](const std::string& v) { return v != "on, translating"; },
              "iommu=pt on the kernel command line (with intel_iommu=on or amd_iommu=on), or IOMMU off in "
              "the firmware"});
}

void add_acs(const Sysroot& root, const Surroundings& around, Findings& out) {
  if (!around.pci) {
    out.add("os.acs", Text::unknown(around.pci.why));
    return;
  }
  int bridges = 0, redirecting = 0;
  std::string why;
  for (const PciDevice& device : *around.pci) {
    if (device.class_code >> 8 != 0x0604) continue;  // PCI-to-PCI bridges: root and switch ports
    ++bridges;
    const Text config = root.bytes("/sys/bus/pci/devices/" + device.address + "/config");
    const auto control = config ? acs_control(*config) : Reading<int>::unknown(config.why);
    if (!control)
      why = device.address + ": " + control.why;
    else
      redirecting += acs_redirects(*control);
  }
  Finding& f = out.add("os.acs", why.empty() ? Text::of(std::to_string(redirecting)) : Text::unknown(why));
  if (bridges && around.trains() && around.virtual_machine.empty())
    judge(f, equals("0",
                    "peer-to-peer goes through the root complex: switch ACS off in the firmware, or clear "
                    "the ACS control "
                    "register of the bridges with `setpci -s BRIDGE ECAP_ACS+0x6.w=0000` at start-up"));
}

void add_runtimes(const Sysroot& root, const Surroundings& around, Findings& out) {
  std::string found;
  for (const char* name :
       {"docker", "podman", "containerd", "enroot", "apptainer", "singularity", "nvidia-ctk"})
    if (root.exists(std::string("/usr/bin/") + name))
      found += (found.empty() ? "" : ", ") + std::string(name);
  out.add("os.container_runtime", Text::of(found.empty() ? "none" : found));
  if (!around.has_gpus()) return;
  std::string files;
  for (const char* folder : {"/etc/cdi", "/var/run/cdi", "/run/cdi"})
    if (const auto names = root.list(folder))
      for (const std::string& name : *names)
        if (files.find(name) == std::string::npos) files += (files.empty() ? "" : ", ") + printable(name, 40);
  out.add("os.cdi", Text::of(files.empty() ? "none" : files));
}

}  // namespace

void inspect_os(const Sysroot& root, const Surroundings& around, Findings& out) {
  out.add("host.kind",
          Text::of(!around.container.empty()         ? "container (" + around.container + ")"
                   : !around.virtual_machine.empty() ? "virtual machine (" + around.virtual_machine + ")"
                                                     : "bare metal"));
  out.add("host.product", root.text("/sys/class/dmi/id/product_name"));
  out.add("host.bios", root.text("/sys/class/dmi/id/bios_version"));
  out.add("os.release", pretty_name(root.text("/etc/os-release")));
  Finding& kernel = out.add("os.kernel", root.text("/proc/sys/kernel/osrelease"));
  if (around.blackwell())
    judge(kernel,
          at_least("5.17", "Blackwell needs Linux 5.17 or a distribution's kernel with the backport"));
  out.add("os.cmdline", command_line(root.text("/proc/cmdline")));
  add_iommu(root, around, out);
  add_acs(root, around, out);
  add_runtimes(root, around, out);
}

}  // namespace tt::node

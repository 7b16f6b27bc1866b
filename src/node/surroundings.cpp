#include "src/node/surroundings.h"

#include <algorithm>

#include "src/node/json.h"

namespace tt::node {
namespace {

std::string sign_of_virtual_machine(const Sysroot& root) {
  const Text cpuinfo = root.text("/proc/cpuinfo");
  if (cpuinfo && cpuinfo->find(" hypervisor") != std::string::npos) return "the CPU's hypervisor flag";
  if (root.exists("/sys/hypervisor/type")) return "/sys/hypervisor/type";
  return "";
}

std::string sign_of_container(const Sysroot& root) {
  for (const char* file : {"/.dockerenv", "/run/.containerenv", "/run/systemd/container"})
    if (root.exists(file)) return file;
  const Text cgroup = root.text("/proc/1/cgroup");
  for (const char* word : {"docker", "kubepods", "containerd", "/lxc", "libpod"})
    if (cgroup && cgroup->find(word) != std::string::npos) return "/proc/1/cgroup";
  // pid 1 of a machine is an init; anything else is a namespace of its own
  const Text first = root.text("/proc/1/comm");
  if (first && *first != "systemd" && *first != "init") return "process 1 is '" + printable(*first, 30) + "'";
  return "";
}

/// live/versions.json: {"MPI": "Open MPI 4.1.4", …}
std::map<std::string, std::string> recorded_versions(const Sysroot& root) {
  std::map<std::string, std::string> versions;
  const Text text = root.text("/live/versions.json");
  if (!text) return versions;
  const auto json = parse_json(*text);
  if (!json.is_object()) return {{"MPI", "unknown (live/versions.json is not a JSON object)"}};
  for (const auto& [name, value] : json.items())
    versions[name] =
        value.is_string() ? value.get<std::string>() : "unknown (live/versions.json: not a text)";
  return versions;
}

}  // namespace

bool Surroundings::has_gpus() const {
  // A container shows the host's PCI bus; the GPUs on it are this node's only when it was given the driver
  // too.
  const bool on_bus = pci && std::any_of(pci->begin(), pci->end(), is_gpu);
  return (gpus && !gpus->gpus.empty()) || (on_bus && container.empty());
}

bool Surroundings::has_nvswitch() const {
  return pci && std::any_of(pci->begin(), pci->end(), is_nvswitch);
}

bool Surroundings::blackwell() const {
  if (!gpus) return false;
  return std::any_of(gpus->gpus.begin(), gpus->gpus.end(), [](const GpuInfo& gpu) {
    return gpu.name &&
           (gpu.name->find("B200") != std::string::npos || gpu.name->find("B300") != std::string::npos ||
            gpu.name->find("B100") != std::string::npos || gpu.name->find("Blackwell") != std::string::npos);
  });
}

bool Surroundings::nvlink5_board() const {
  if (!gpus) return false;
  return std::any_of(gpus->gpus.begin(), gpus->gpus.end(), [](const GpuInfo& gpu) {
    return gpu.name && gpu.name->find("GB") == std::string::npos && gpu.nvlinks && *gpu.nvlinks == 18 &&
           (gpu.name->find("B200") != std::string::npos || gpu.name->find("B300") != std::string::npos);
  });
}

Surroundings survey(const Sysroot& root, const std::map<std::string, std::string>& versions) {
  Surroundings s{.pci = read_pci(root),
                 .gpus = read_gpus(root),
                 .rdma = {},
                 .virtual_machine = sign_of_virtual_machine(root),
                 .container = sign_of_container(root),
                 .versions = root.live() ? versions : recorded_versions(root)};
  if (const auto devices = root.list("/sys/class/infiniband")) s.rdma = *devices;
  return s;
}

}  // namespace tt::node

// What kind of node it is: which rules apply depends on it. A bare CPU node is not asked for unlimited locked
// memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/reading.h"
#include "src/node/gpu.h"
#include "src/node/pci.h"
#include "src/node/sysroot.h"

namespace tt::node {

struct Surroundings {
  Reading<std::vector<PciDevice>> pci;
  Reading<GpuSet> gpus;           // as the driver sees them
  std::vector<std::string> rdma;  // /sys/class/infiniband
  std::string virtual_machine;    // the sign of it ("hypervisor flag of the CPU"), "" on bare metal
  std::string container;          // the sign of it, "" outside of one

  std::map<std::string, std::string> versions;  // libraries that were asked themselves, or live/versions.json

  bool has_gpus() const;
  bool has_nvswitch() const;
  /// GPUs of the Blackwell generation (B200, B300, GB200, RTX PRO 6000 Blackwell, …), by model name.
  bool blackwell() const;
  /// An HGX board of NVLink 5 (B200, B300; their NVSwitches are not GPUs' siblings on the bus), not a GB200
  /// tray.
  bool nvlink5_board() const;
  bool needs_fabric_manager() const { return has_nvswitch() || nvlink5_board(); }
  /// A node that trains: its tuning is judged. On others it is only shown.
  bool trains() const { return has_gpus() || !rdma.empty(); }
};

/// `versions` are this machine's and are used only when the root is this machine.
Surroundings survey(const Sysroot& root, const std::map<std::string, std::string>& versions);

}  // namespace tt::node

// PCI devices as sysfs shows them, and their links.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/reading.h"
#include "src/node/sysroot.h"

namespace tt::node {

/// A PCIe link, now and at most. Speeds in GT/s as PCIe counts them: 2.5, 5, 8, 16, 32, 64 are generations 1
/// … 6.
struct PciLink {
  Reading<int> width, max_width, generation, max_generation;
};

struct PciDevice {
  std::string address;  // "0000:1b:00.0"
  int64_t vendor = 0, device = 0,
          class_code = 0;  // class_code: base, sub, interface; 0x030200 is a 3D controller
};

inline constexpr int64_t kNvidia = 0x10de;

/// All devices; unknown when sysfs is not there. Devices whose vendor or class is unreadable are left out.
Reading<std::vector<PciDevice>> read_pci(const Sysroot& root);
bool is_gpu(const PciDevice& device);       // NVIDIA display or 3D controller
bool is_nvswitch(const PciDevice& device);  // NVIDIA bridge, "other" subclass (0x0680)

/// The device's own link, limited by what the port above it can do (a Gen5 card in a Gen4 slot is not
/// degraded).
PciLink read_pci_link(const Sysroot& root, const std::string& address);
/// 32.0 GT/s -> 5; unknown for a speed that PCIe does not have.
Reading<int> pcie_generation(const std::string& speed_text);

/// "Gen5 x16"; parts that are unknown make it unknown.
Text link_text(const Reading<int>& generation, const Reading<int>& width);

/// The ACS control register (PCIe base specification, extended capability 0x000d, offset 6) out of a device's
/// configuration space; unknown when only its first 64 or 256 bytes are readable (not root); 0 without the
/// capability.
Reading<int> acs_control(const std::string& config_space);
/// Peer requests or completions go up to the root complex (bits 2 and 3).
inline bool acs_redirects(int control) {
  return (control & 0x0c) != 0;
}

}  // namespace tt::node

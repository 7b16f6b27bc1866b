// Xid errors: what the NVIDIA driver writes to the kernel log when something is wrong with a GPU.
// Source of the numbers' meanings: NVIDIA, "XID Errors" (docs.nvidia.com/deploy/xid-errors).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tt::node {

struct Xid {
  std::string pci;  // "0000:5d:00"
  int number = 0;
};

/// Lines such as "[ 12.3] NVRM: Xid (PCI:0000:5d:00): 79, pid=1234, GPU has fallen off the bus." Others are
/// passed over.
std::vector<Xid> parse_xids(const std::string& kernel_log);

/// What to do when the number speaks of hardware, firmware or driver; nothing for those that a faulty program
/// causes (13, 31, 43, 45, 68, …) or that only inform (63: a row was remapped).
std::optional<std::string> xid_remedy(int number);

}  // namespace tt::node

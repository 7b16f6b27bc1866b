// Who a rank is and what it runs on: one header line and one record entry per rank.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tt {

/// What a device backend says about the device of this rank. Empty strings: not known.
struct DeviceIdentity {
  std::string kind;    // "cuda" or "host"
  std::string name;    // "NVIDIA H200"; on the host the CPU's model name
  std::string uuid;    // "GPU-…"; on the host empty
  std::string pci;     // "0000:1b:00.0", lower case
  std::string serial;
  int index = -1;      // ordinal among the visible devices
  int64_t memory_bytes = 0;
  int compute_units = 0;           // SMs, or cores this rank may use
  int capability = 0;              // CUDA: 10 * major + minor (90 for sm_90), host 0
};

struct RankIdentity {
  int rank = 0;
  int local_rank = 0;
  int node = 0;  // index of the host, by first appearance in rank order
  int64_t pid = 0;
  std::string host;
  DeviceIdentity device;
  std::string numa;    // bound NUMA node(s), "0" or "0-1"; "-" when not bound
  std::string cpuset;  // list form, "0-3,8"
  std::string nic;     // nearest NIC, "mlx5_0" or "eth0"; "-" when none is known
  std::string binding; // "numa", "core", "none", or why it was not bound
};

/// Software versions, name -> version ("unknown (reason)" where it could not be read), in order.
using Versions = std::vector<std::pair<std::string, std::string>>;

}  // namespace tt

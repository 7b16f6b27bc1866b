// Binding a rank near its device, with hwloc; works from HWLOC_XMLFILE, so any machine can be tested anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tt {

/// What is known of a rank's surroundings.
struct Place {
  std::string numa = "-";     // NUMA node(s) by OS index, list form; "-": not bound
  std::string cpuset;         // what the rank may run on, list form
  std::string nic = "-";      // nearest NIC: OpenFabrics device, else network interface; "-": none found
  std::string binding;        // "numa", "core", "none" or "not bound: reason"
  std::vector<std::string> warnings;
};

class Topology {
 public:
  /// Loads the machine's topology (or HWLOC_XMLFILE's) with I/O objects. Throws EnvironmentError.
  Topology();
  ~Topology();
  Topology(Topology&&) noexcept;

  int numa_nodes() const;
  int packages() const;
  int cores() const;  // allowed ones
  /// OS index of the NUMA node next to the PCI device "0000:1b:00.0"; -1 when the device or its place is unknown.
  int numa_of_pci(const std::string& pci) const;
  /// The NIC that shares the most of its path with the PCI device; "" when there is none. Without a device: the first.
  std::string nic_near(const std::string& pci) const;

  /// Binds this process (threads to come inherit it) and its memory. mode "numa": to the NUMA node of `pci` (host device:
  /// the ranks of a host dealt out over the NUMA nodes in blocks), and among the ranks that share a node, to its whole set;
  /// "core": to core number local_rank among the allowed ones; "none": left as it is. Never a CPU outside the set that
  /// the process was started with (cgroup, taskset). More ranks than cores: a warning naming those that share.
  /// An outer binding by the launcher that is already narrower than the node is kept.
  Place bind(const std::string& mode, const std::string& pci, int local_rank, int local_size) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Sets like hwloc's list form, "0-3,8".
std::string list_form(const std::vector<int>& sorted);

}  // namespace tt

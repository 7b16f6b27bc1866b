// Binding a rank near its device, with hwloc; works from HWLOC_XMLFILE, so any machine can be tested
// anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tt {

/// What is known of a rank's surroundings.
struct Place {
  std::string numa = "-";  // NUMA node(s) by OS index, list form; "-": not bound
  std::string cpuset;      // what the rank may run on, list form
  std::string nic = "-";   // nearest NIC: OpenFabrics device, else network interface; "-": none found
  std::string binding;     // "numa", "core", "none" or "not bound: reason"
  int cores = 0;           // cores in that set
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
  /// OS index of the NUMA node next to the PCI device "0000:1b:00.0"; -1 when the device or its place is
  /// unknown.
  int numa_of_pci(const std::string& pci) const;
  /// The NIC that shares the most of its path with the PCI device; "" when there is none. Without a device:
  /// the first.
  std::string nic_near(const std::string& pci) const;

  /// Binds this process (all its threads; those to come inherit it) and its memory.
  ///   "numa": to the NUMA node of `pci`, all of it; without a device the ranks of a host are dealt out over
  ///   the NUMA nodes
  ///           in blocks.
  ///   "core": to core number local_rank among those of that node (of all nodes without a device), counted
  ///   around. "none": left as it is.
  /// Never a CPU outside the set that the process has now (cgroup, taskset, the launcher's binding): one that
  /// is already narrower is kept. Does not throw: what cannot be bound is said in `binding` and `warnings`.
  Place bind(const std::string& mode, const std::string& pci, int local_rank, int local_size) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One rank's share of its host's cores.
struct Seat {
  int rank = 0, node = 0;
  std::string cpuset;
  int cores = 0;
};
/// One warning for each set of cores that fewer cores than ranks are in: "ranks 0 and 1 share a core (CPU 1
/// of node1)". `hosts` by node.
std::vector<std::string> crowded_seats(const std::vector<Seat>& seats, const std::vector<std::string>& hosts);

/// Sets like hwloc's list form, "0-3,8".
std::string list_form(const std::vector<int>& sorted);

}  // namespace tt

#include "common/pinning.h"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "common/error.h"

namespace tt {
namespace {

class Bitmap {
 public:
  Bitmap() : set_(hwloc_bitmap_alloc()) {}
  explicit Bitmap(hwloc_const_bitmap_t other) : set_(hwloc_bitmap_dup(other)) {}
  Bitmap(const Bitmap& other) : Bitmap(other.get()) {}
  Bitmap& operator=(Bitmap other) noexcept {
    std::swap(set_, other.set_);
    return *this;
  }
  ~Bitmap() { hwloc_bitmap_free(set_); }
  hwloc_bitmap_t get() const { return set_; }
  bool empty() const { return hwloc_bitmap_iszero(set_); }
  bool inside(const Bitmap& other) const { return hwloc_bitmap_isincluded(set_, other.get()); }
  bool meets(hwloc_const_bitmap_t other) const { return hwloc_bitmap_intersects(set_, other); }
  friend Bitmap operator&(const Bitmap& a, const Bitmap& b) {
    Bitmap both;
    hwloc_bitmap_and(both.get(), a.get(), b.get());
    return both;
  }

 private:
  hwloc_bitmap_t set_;
};

std::string text_of(hwloc_const_bitmap_t set) {
  std::vector<int> members;
  for (int i = hwloc_bitmap_first(set); i >= 0; i = hwloc_bitmap_next(set, i)) members.push_back(i);
  return list_form(members);
}

int depth_of(hwloc_obj_t object) {
  int depth = 0;
  for (; object->parent != nullptr; object = object->parent) ++depth;
  return depth;
}

/// How far from the root the paths to a and b part: the more, the nearer they are.
int shared_path(hwloc_obj_t a, hwloc_obj_t b) {
  int depth_a = depth_of(a), depth_b = depth_of(b);
  for (; depth_a > depth_b; --depth_a) a = a->parent;
  for (; depth_b > depth_a; --depth_b) b = b->parent;
  for (; a != b; --depth_a) a = a->parent, b = b->parent;
  return depth_a;
}

}  // namespace

struct Topology::Impl {
  hwloc_topology_t topology = nullptr;
  ~Impl() {
    if (topology != nullptr) hwloc_topology_destroy(topology);
  }
  std::vector<hwloc_obj_t> objects(hwloc_obj_type_t type) const;
  hwloc_obj_t pci_device(const std::string& pci) const;
  hwloc_obj_t home_of(const std::string& pci) const;
  Bitmap allowed() const;
  std::vector<Bitmap> cores_in(const Bitmap& set) const;
  Bitmap near(const std::string& pci, int local_rank, int local_size, const Bitmap& allowed) const;
  void bind_cpus(const Bitmap& target, Place& place) const;
  void bind_memory(Place& place) const;
  void describe(const Bitmap& set, Place& place) const;
};

Topology::Topology() : impl_(std::make_unique<Impl>()) {
  hwloc_topology_t& topology = impl_->topology;
  if (hwloc_topology_init(&topology) != 0) throw EnvironmentError("hwloc: cannot make a topology");
  if (hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
      hwloc_topology_load(topology) != 0)
    throw EnvironmentError(std::string("hwloc: cannot load the topology: ") + std::strerror(errno));
}
Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;

std::vector<hwloc_obj_t> Topology::Impl::objects(hwloc_obj_type_t type) const {
  std::vector<hwloc_obj_t> found;
  for (hwloc_obj_t o = nullptr; (o = hwloc_get_next_obj_by_type(topology, type, o)) != nullptr;)
    found.push_back(o);
  return found;
}

hwloc_obj_t Topology::Impl::pci_device(const std::string& pci) const {
  return pci.empty() ? nullptr : hwloc_get_pcidev_by_busidstring(topology, pci.c_str());
}

/// The smallest part of the machine that the PCI device hangs from; null when that is not known. A machine
/// with several NUMA nodes that hangs the device from its root does not know.
hwloc_obj_t Topology::Impl::home_of(const std::string& pci) const {
  const hwloc_obj_t device = pci_device(pci);
  if (device == nullptr) return nullptr;
  const hwloc_obj_t home = hwloc_get_non_io_ancestor_obj(topology, device);
  if (home == nullptr || home->cpuset == nullptr) return nullptr;
  return home->parent == nullptr && objects(HWLOC_OBJ_NUMANODE).size() > 1 ? nullptr : home;
}

/// What this process may run on now, by the calling thread: libraries bind threads of their own as they like.
Bitmap Topology::Impl::allowed() const {
  const Bitmap all(hwloc_topology_get_allowed_cpuset(topology));
  Bitmap now;
  if (hwloc_get_cpubind(topology, now.get(), HWLOC_CPUBIND_THREAD) != 0) return all;
  return now & all;
}

std::vector<Bitmap> Topology::Impl::cores_in(const Bitmap& set) const {
  // Where hwloc knows no cores, a hardware thread is one.
  auto cores = objects(HWLOC_OBJ_CORE);
  if (cores.empty()) cores = objects(HWLOC_OBJ_PU);
  std::vector<Bitmap> found;
  for (const hwloc_obj_t core : cores)
    if (set.meets(core->cpuset)) found.push_back(set & Bitmap(core->cpuset));
  return found;
}

/// The CPUs next to the device, or this rank's part of the NUMA nodes; may be empty.
Bitmap Topology::Impl::near(const std::string& pci, int local_rank, int local_size,
                            const Bitmap& allowed) const {
  if (!pci.empty()) {
    const hwloc_obj_t home = home_of(pci);
    return home == nullptr ? allowed : allowed & Bitmap(home->cpuset);
  }
  std::vector<hwloc_obj_t> nodes = objects(HWLOC_OBJ_NUMANODE);
  std::erase_if(nodes, [&](hwloc_obj_t node) { return !allowed.meets(node->cpuset); });
  if (nodes.empty()) return allowed;
  const size_t mine =
      static_cast<size_t>(local_rank) * nodes.size() / static_cast<size_t>(std::max(1, local_size));
  return allowed & Bitmap(nodes[std::min(mine, nodes.size() - 1)]->cpuset);
}

void Topology::Impl::bind_cpus(const Bitmap& target, Place& place) const {
  if (hwloc_set_cpubind(topology, target.get(), HWLOC_CPUBIND_PROCESS) == 0) return;
  place.binding = fmt::format("not bound: CPUs {}: {}", text_of(target.get()), std::strerror(errno));
  place.warnings.push_back(place.binding);
}

/// Prefers the memory of the nodes that the process is bound to; a node that is full is no failure.
void Topology::Impl::bind_memory(Place& place) const {
  const Bitmap cpus = allowed();
  Bitmap nodes;
  hwloc_cpuset_to_nodeset(topology, cpus.get(), nodes.get());
  if (objects(HWLOC_OBJ_NUMANODE).size() < 2 || nodes.empty()) return;
  if (hwloc_set_membind(topology, nodes.get(), HWLOC_MEMBIND_BIND,
                        HWLOC_MEMBIND_PROCESS | HWLOC_MEMBIND_BYNODESET) == 0)
    return;
  // Linux can bind a thread's memory only: threads to come inherit it from this one.
  if (hwloc_set_membind(topology, nodes.get(), HWLOC_MEMBIND_BIND,
                        HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) != 0)
    place.warnings.push_back(
        fmt::format("memory is not bound to NUMA node {}: {}", text_of(nodes.get()), std::strerror(errno)));
}

void Topology::Impl::describe(const Bitmap& set, Place& place) const {
  place.cpuset = text_of(set.get());
  place.cores = static_cast<int>(cores_in(set).size());
  std::vector<int> nodes;
  for (const hwloc_obj_t node : objects(HWLOC_OBJ_NUMANODE))
    if (set.meets(node->cpuset)) nodes.push_back(static_cast<int>(node->os_index));
  std::sort(nodes.begin(), nodes.end());
  if (place.binding == "numa" || place.binding == "core") place.numa = list_form(nodes);
}

int Topology::numa_nodes() const {
  return static_cast<int>(impl_->objects(HWLOC_OBJ_NUMANODE).size());
}
int Topology::packages() const {
  return static_cast<int>(impl_->objects(HWLOC_OBJ_PACKAGE).size());
}
int Topology::cores() const {
  return static_cast<int>(impl_->cores_in(impl_->allowed()).size());
}

int Topology::numa_of_pci(const std::string& pci) const {
  const hwloc_obj_t home = impl_->home_of(pci);
  if (home == nullptr || hwloc_bitmap_weight(home->nodeset) != 1) return -1;
  return hwloc_bitmap_first(home->nodeset);
}

std::string Topology::nic_near(const std::string& pci) const {
  const hwloc_obj_t device = impl_->pci_device(pci);
  for (const hwloc_obj_osdev_type_t kind : {HWLOC_OBJ_OSDEV_OPENFABRICS, HWLOC_OBJ_OSDEV_NETWORK}) {
    hwloc_obj_t best = nullptr;
    int best_shared = -1;
    for (const hwloc_obj_t nic : impl_->objects(HWLOC_OBJ_OS_DEVICE)) {
      if (nic->attr->osdev.type != kind || nic->name == nullptr) continue;
      const int shared = device == nullptr ? 0 : shared_path(device, nic);
      if (shared > best_shared) best = nic, best_shared = shared;
    }
    if (best != nullptr) return best->name;
  }
  return "";
}

Place Topology::bind(const std::string& mode, const std::string& pci, int local_rank, int local_size) const {
  Place place;
  place.binding = mode;
  if (const std::string nic = nic_near(pci); !nic.empty()) place.nic = nic;
  const Bitmap allowed = impl_->allowed();
  Bitmap target = allowed;
  if (mode != "none") {
    const Bitmap near = impl_->near(pci, local_rank, local_size, allowed);
    if (near.empty()) {
      place.binding = fmt::format("not bound: CPUs {} are not next to {}", text_of(allowed.get()), pci);
      place.warnings.push_back(place.binding);
    } else if (!pci.empty() && impl_->home_of(pci) == nullptr && numa_nodes() > 1) {
      place.binding = fmt::format("not bound: the place of {} is unknown", pci);
      place.warnings.push_back(place.binding);
    } else {
      target = near;
    }
    // Without a device there is nothing that a core should be next to: all of them are dealt out.
    if (mode == "core" && place.binding == mode) {
      const std::vector<Bitmap> cores = impl_->cores_in(pci.empty() ? allowed : near);
      if (!cores.empty()) target = cores[static_cast<size_t>(local_rank) % cores.size()];
    }
  }
  if (place.binding == mode && mode != "none") {
    impl_->bind_cpus(target, place);
    impl_->bind_memory(place);
  }
  // On another machine's topology nothing is bound, and what would be is told.
  const bool real = hwloc_topology_is_thissystem(impl_->topology) != 0;
  impl_->describe(real ? impl_->allowed() : target, place);
  return place;
}

std::vector<std::string> crowded_seats(const std::vector<Seat>& seats,
                                       const std::vector<std::string>& hosts) {
  std::map<std::pair<int, std::string>, std::vector<const Seat*>> by_set;
  for (const Seat& seat : seats) by_set[{seat.node, seat.cpuset}].push_back(&seat);
  std::vector<std::string> warnings;
  for (const auto& [key, sharers] : by_set) {
    const int cores = sharers.front()->cores;
    if (cores <= 0 || static_cast<int>(sharers.size()) <= cores) continue;
    std::vector<int> ranks;
    for (const Seat* seat : sharers) ranks.push_back(seat->rank);
    std::sort(ranks.begin(), ranks.end());
    const std::string who =
        ranks.size() == 2 ? fmt::format("{} and {}", ranks[0], ranks[1]) : list_form(ranks);
    warnings.push_back(fmt::format("ranks {} share {} (CPU {} of {})", who,
                                   cores == 1 ? "a core" : fmt::format("{} cores", cores), key.second,
                                   hosts.at(static_cast<size_t>(key.first))));
  }
  return warnings;
}

std::string list_form(const std::vector<int>& sorted) {
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += std::to_string(sorted[i]);
    if (last > i) text += "-" + std::to_string(sorted[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace tt

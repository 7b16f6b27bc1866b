#include "common/pinning.h"

#include <sched.h>

namespace tt {

struct Topology::Impl {};
Topology::Topology() : impl_(std::make_unique<Impl>()) {}
Topology::~Topology() = default;
Topology::Topology(Topology&&) noexcept = default;
int Topology::numa_nodes() const {
  return 1;
}
int Topology::packages() const {
  return 1;
}
int Topology::cores() const {
  return 1;
}
int Topology::numa_of_pci(const std::string&) const {
  return -1;
}
std::string Topology::nic_near(const std::string&) const {
  return "";
}

Place Topology::bind(const std::string&, const std::string&, int, int) const {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  Place place;
  place.cpuset = list_form(cpus);
  place.binding = "none";
  return place;
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

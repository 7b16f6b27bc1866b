// Binding on recorded machines (verify/e2e/topologies): where each of 8 GPUs belongs, and never a CPU that is
// not ours.
#include "common/pinning.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <set>
#include <string>

#include "common/error.h"
#include "verify/unit/catch.h"

namespace fs = std::filesystem;
using tt::Place;
using tt::Topology;

namespace {

// The folder lies in the source tree, above the build folder or the current one.
fs::path topologies() {
  for (fs::path from : {fs::current_path(), fs::read_symlink("/proc/self/exe").parent_path()})
    for (; from != from.root_path(); from = from.parent_path())
      if (const fs::path found = from / "verify/e2e/topologies"; fs::exists(found)) return found;
  FAIL("verify/e2e/topologies not found from here or from the executable");
  return {};
}

// hwloc reads this file as the machine as long as it lives.
class Machine {
 public:
  explicit Machine(const std::string& name) {
    setenv("HWLOC_XMLFILE", (topologies() / (name + ".xml")).c_str(), 1);
  }
  ~Machine() { unsetenv("HWLOC_XMLFILE"); }
};

// Binds for real in a child process, so that the other tests keep their CPUs. True when all of it held.
bool holds_in_child(const std::function<bool()>& condition) {
  const pid_t child = fork();
  if (child == 0) {
    bool held = false;
    try {
      held = condition();
    } catch (const std::exception&) {
    }
    _exit(held ? 0 : 1);
  }
  int status = -1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// GPU I of the recorded machines hangs from bus 0x12 + 0x1c I.
std::string gpu(int i) {
  return fmt::format("0000:{:02x}:00.0", 0x12 + 0x1c * i);
}

}  // namespace

TEST_CASE("each of eight GPUs leads to its NUMA node, its CPUs and its NIC") {
  Machine machine("two-sockets-8-gpus");
  const Topology topology;
  REQUIRE(topology.numa_nodes() == 2);
  REQUIRE(topology.packages() == 2);
  REQUIRE(topology.cores() == 16);
  for (int i = 0; i < 8; ++i) {
    REQUIRE(topology.numa_of_pci(gpu(i)) == i / 4);
    REQUIRE(topology.nic_near(gpu(i)) == fmt::format("mlx5_{}", i));
    const Place place = topology.bind("numa", gpu(i), i, 8);
    REQUIRE(place.binding == "numa");
    REQUIRE(place.numa == std::to_string(i / 4));
    REQUIRE(place.cpuset == (i < 4 ? "0-7,16-23" : "8-15,24-31"));
    REQUIRE(place.cores == 8);
    REQUIRE(place.nic == fmt::format("mlx5_{}", i));
    REQUIRE(place.warnings.empty());
  }
}

TEST_CASE("one core each: next to the GPU, no core twice") {
  Machine machine("two-sockets-8-gpus");
  const Topology topology;
  std::set<std::string> sets;
  for (int i = 0; i < 8; ++i) {
    const Place place = topology.bind("core", gpu(i), i, 8);
    REQUIRE(place.numa == std::to_string(i / 4));
    REQUIRE(place.cores == 1);
    sets.insert(place.cpuset);
  }
  REQUIRE(sets.size() == 8);
}

TEST_CASE("fewer NICs than GPUs: the one of the same package") {
  Machine machine("two-sockets-2-nics");
  const Topology topology;
  for (int i = 0; i < 8; ++i) REQUIRE(topology.nic_near(gpu(i)) == (i < 4 ? "mlx5_0" : "mlx5_1"));
}

TEST_CASE("without a device the ranks are dealt out over the NUMA nodes in blocks") {
  Machine machine("two-sockets-8-gpus");
  const Topology topology;
  for (int r = 0; r < 4; ++r) REQUIRE(topology.bind("numa", "", r, 4).numa == std::to_string(r / 2));
  REQUIRE(topology.bind("numa", "", 0, 1).numa == "0");
  REQUIRE(topology.bind("core", "", 9, 16).numa == "1");
  REQUIRE(topology.bind("core", "", 16, 17).cpuset == topology.bind("core", "", 0, 17).cpuset);
}

TEST_CASE("what is not known is not guessed") {
  Machine machine("two-sockets-8-gpus");
  const Topology topology;
  for (const char* pci : {"0000:ff:00.0", "nonsense", ""}) REQUIRE(topology.numa_of_pci(pci) == -1);
  const Place unknown = topology.bind("numa", "0000:ff:00.0", 0, 1);
  REQUIRE(unknown.binding == "not bound: the place of 0000:ff:00.0 is unknown");
  REQUIRE(unknown.numa == "-");
  REQUIRE(unknown.cpuset == "0-31");
  REQUIRE(unknown.warnings.size() == 1);
  const Place none = topology.bind("none", gpu(5), 0, 1);
  REQUIRE(none.binding == "none");
  REQUIRE(none.numa == "-");
  REQUIRE(none.cpuset == "0-31");
  REQUIRE(none.nic == "mlx5_5");
  REQUIRE(none.warnings.empty());
}

TEST_CASE("a topology that cannot be read is an error") {
  setenv("HWLOC_XMLFILE", "/nonexistent/topology.xml", 1);
  // hwloc falls back to the machine itself, or fails: never a crash.
  try {
    REQUIRE(Topology().numa_nodes() >= 1);
  } catch (const tt::EnvironmentError&) {
  }
  unsetenv("HWLOC_XMLFILE");
}

TEST_CASE("on this machine: bound for real, never outside of what was allowed") {
  cpu_set_t before;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  const std::string mode = GENERATE("numa", "core", "none");
  const int rank = GENERATE(0, 1, 2);  // more ranks than the one core that is allowed
  REQUIRE(holds_in_child([&] {
    cpu_set_t one, after;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) return false;
    const Place place = Topology().bind(mode, "", rank, 3);
    sched_getaffinity(0, sizeof after, &after);
    return place.cpuset == std::to_string(first) && place.cores == 1 && CPU_EQUAL(&after, &one);
  }));
}

TEST_CASE("ranks that share cores are named, once per set") {
  const std::vector<std::string> hosts = {"a", "b"};
  using W = std::vector<std::string>;
  REQUIRE(tt::crowded_seats({{0, 0, "0", 1}, {1, 0, "1", 1}}, hosts).empty());
  REQUIRE(tt::crowded_seats({{0, 0, "0-1", 2}, {1, 0, "0-1", 2}}, hosts).empty());
  REQUIRE(tt::crowded_seats({{0, 0, "1", 1}, {1, 0, "1", 1}}, hosts) ==
          W{"ranks 0 and 1 share a core (CPU 1 of a)"});
  REQUIRE(tt::crowded_seats({{0, 0, "1", 1}, {1, 1, "1", 1}}, hosts).empty());  // two hosts
  REQUIRE(tt::crowded_seats({{0, 0, "0-1", 2}, {1, 0, "0-1", 2}, {2, 0, "0-1", 2}, {3, 1, "0-1", 2}},
                            hosts) == W{"ranks 0-2 share 2 cores (CPU 0-1 of a)"});
  REQUIRE(tt::crowded_seats({{0, 0, "", 0}, {1, 0, "", 0}}, hosts).empty());
}

TEST_CASE("list form") {
  REQUIRE(tt::list_form({}) == "");
  REQUIRE(tt::list_form({3}) == "3");
  REQUIRE(tt::list_form({0, 1, 2, 3, 8}) == "0-3,8");
  REQUIRE(tt::list_form({0, 2, 3, 7}) == "0,2-3,7");
}

#include <sched.h>
#include <stdlib.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "src/device/device.h"
#include "src/device/host_info.h"
#include "src/device/host_telemetry.h"
#include "src/device/random.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::message_of;
namespace fs = std::filesystem;

namespace {

/// A made-up machine: files below a temporary folder, deleted at the end.
class Machine {
 public:
  Machine() {
    char name[] = "/tmp/tt-machine-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    root_ = name;
  }
  ~Machine() { fs::remove_all(root_); }
  void file(const std::string& path, const std::string& text) {
    fs::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

constexpr int64_t kMiB = 1 << 20;
constexpr const char* kMeminfo =
    "MemTotal:       16777216 kB\nMemFree:  1048576 kB\nMemAvailable:   8388608 kB\n";

}  // namespace

TEST_CASE("the host device says what it is") {
  const auto device = open_host_device();
  CHECK(device->kind() == DeviceKind::host);
  CHECK(device->identity().kind == "host");
  CHECK(!device->identity().name.empty());
  CHECK(device->identity().uuid.empty());
  CHECK(device->identity().compute_units >= 1);
  CHECK(device->memory().available > 0);
  CHECK(device->memory().available < device->memory().total);
  CHECK(!device->versions().empty());
}

TEST_CASE("more memory than there is is an error with both figures, not a crash") {
  const auto device = open_host_device();
  const std::string message = message_of<DeviceError>([&] { device->allocate(70368744177664); });
  CHECK(message.find("70368744177664 bytes asked") != std::string::npos);
  CHECK(message.find("bytes available") != std::string::npos);
  CHECK_THROWS_AS(device->allocate(SIZE_MAX), DeviceError);
  CHECK_THROWS_AS(device->allocate_pinned(SIZE_MAX / 2 + 1), DeviceError);
}

TEST_CASE("what a rank holds is taken off what it may have, and the ranks of a host share") {
  const auto whole = open_host_device(0, 1), part = open_host_device(3, 8);
  CHECK(part->memory().available <= whole->memory().available / 7);
  const int64_t before = part->memory().available;
  {
    const Buffer held = part->allocate(64 * kMiB);
    CHECK(part->memory().available <= before - 64 * kMiB);
    CHECK_THROWS_AS(part->allocate(static_cast<size_t>(before)), DeviceError);
  }
  CHECK(part->memory().available >= before - 32 * kMiB);
}

TEST_CASE("host memory is aligned, writable to the last byte, and an empty buffer for nothing") {
  const auto device = open_host_device();
  const size_t bytes = GENERATE(1, 511, 4097, 2 * kMiB + 3, 5 * kMiB);
  const Buffer buffer = device->allocate(bytes);
  CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 512 == 0);
  CHECK(buffer.bytes() == bytes);
  std::memset(buffer.data(), 1, bytes);
  CHECK(!device->allocate(0));
  Buffer moved = device->allocate(16);
  Buffer target;
  target = std::move(moved);
  CHECK(target.bytes() == 16);
}

TEST_CASE("host copies and fills of odd sizes touch these bytes only") {
  const auto device = open_host_device(0, 1);
  const auto stream = device->make_stream();
  const size_t bytes = GENERATE(0, 1, 63, 4097, 3 * kMiB + 7);
  std::vector<char> from(bytes + 2, 'a'), to(bytes + 2, 'b');
  device->set_bytes(from.data() + 1, 'c', bytes, *stream);
  CHECK(from.front() == 'a');
  CHECK(from.back() == 'a');
  device->copy(to.data() + 1, from.data() + 1, bytes, *stream);
  CHECK(to.front() == 'b');
  CHECK(to.back() == 'b');
  CHECK(std::count(to.begin(), to.end(), 'c') == static_cast<int64_t>(bytes));
}

TEST_CASE("the host device fills with random_value") {
  const auto device = open_host_device();
  const auto stream = device->make_stream();
  std::vector<double> data(100001);
  device->fill_random(data.data(), data.size(), DType::f64, Fill::normal, 5, 17, *stream);
  for (size_t i = 0; i < data.size(); i += 1111)
    CHECK(data[i] == random_value(DType::f64, Fill::normal, 5, 17 + i));
}

TEST_CASE("host marks are ordered readings of the monotonic clock") {
  const auto device = open_host_device();
  const auto stream = device->make_stream();
  const double before = monotonic_seconds();
  stream->begin_marks(3);
  CHECK(stream->marks_passed() == 0);
  stream->mark(0);
  stream->delay(2e-3);
  stream->mark(1);
  CHECK(stream->marks_passed() == 2);
  CHECK_THROWS_AS(stream->mark_seconds(2), DeviceError);
  CHECK_THROWS_AS(stream->mark(3), DeviceError);
  stream->mark(2);
  stream->synchronize();
  CHECK(stream->mark_seconds(0) >= before);
  CHECK(stream->mark_seconds(1) - stream->mark_seconds(0) >= 2e-3);
  CHECK(stream->mark_seconds(2) >= stream->mark_seconds(1));
  CHECK(stream->mark_seconds(2) <= monotonic_seconds());
  stream->begin_marks(1);
  CHECK(stream->marks_passed() == 0);
  CHECK_THROWS_AS(stream->mark_seconds(0), DeviceError);
  CHECK_THROWS_AS(stream->delay(std::nan("")), DeviceError);
}

TEST_CASE("marks may be counted from another thread") {
  const auto device = open_host_device();
  const auto stream = device->make_stream();
  stream->begin_marks(1000);
  size_t last = 0;
  bool ordered = true;
  std::thread watcher([&] {
    while (last < 1000) {
      const size_t now = stream->marks_passed();
      ordered = ordered && now >= last;
      last = now;
    }
  });
  for (size_t i = 0; i < 1000; ++i) stream->mark(i);
  watcher.join();
  CHECK(ordered);
}

TEST_CASE("memory without a cgroup limit is what meminfo says") {
  Machine m;
  m.file("/proc/meminfo", kMeminfo);
  m.file("/proc/self/cgroup", "0::/user.slice/session\n");
  m.file("/sys/fs/cgroup/user.slice/session/memory.max", "max\n");
  m.file("/sys/fs/cgroup/user.slice/session/memory.current", "4096\n");
  const MemoryInfo info = read_host_memory(m.root());
  CHECK(info.total == 16384 * kMiB);
  CHECK(info.available == 8192 * kMiB);
}

TEST_CASE("a cgroup v2 limit counts, also one of a level above") {
  Machine m;
  m.file("/proc/meminfo", kMeminfo);
  m.file("/proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  m.file("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  m.file("/sys/fs/cgroup/slurm/job_7/memory.max", std::to_string(4096 * kMiB) + "\n");
  m.file("/sys/fs/cgroup/slurm/job_7/memory.current", std::to_string(3000 * kMiB) + "\n");
  m.file("/sys/fs/cgroup/slurm/job_7/memory.stat",
         "anon 5\ninactive_file " + std::to_string(1000 * kMiB) + "\n");
  const MemoryInfo info = read_host_memory(m.root());
  CHECK(info.total == 4096 * kMiB);
  CHECK(info.available == 2096 * kMiB);
}

TEST_CASE("a cgroup v1 limit counts, in a container at the mount's root; a huge one is none") {
  Machine m;
  m.file("/proc/meminfo", kMeminfo);
  m.file("/proc/self/cgroup", "3:cpu,cpuacct:/docker/x\n2:memory:/docker/x\n1:name=systemd:/docker/x\n");
  m.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(1024 * kMiB));
  m.file("/sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(1000 * kMiB));
  m.file("/sys/fs/cgroup/memory/memory.stat",
         "inactive_file 1\ntotal_inactive_file " + std::to_string(100 * kMiB) + "\n");
  CHECK(read_host_memory(m.root()).available == 124 * kMiB);
  m.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  CHECK(read_host_memory(m.root()).available == 8192 * kMiB);
}

TEST_CASE("a machine that tells nothing has no memory and an unknown CPU, without an error") {
  Machine m;
  CHECK(read_host_memory(m.root()).available == 0);
  CHECK(read_cpu_model(m.root()) == "unknown CPU");
  CHECK(read_last_level_cache({0, 1}, m.root()) == 0);
  CHECK(count_cores({0, 1, 5}, m.root()) == 3);
  CHECK(read_cpu_quota(m.root()) == 0);
  const TelemetrySample s = open_host_telemetry(m.root())->sample();
  CHECK(!s.sm_MHz);
  CHECK(!s.power_W);
  CHECK(!s.host_load);
}

TEST_CASE("CPU quotas of either cgroup version") {
  Machine m;
  m.file("/proc/self/cgroup", "2:cpu,cpuacct:/a\n0::/a/b\n");
  m.file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  m.file("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  CHECK(read_cpu_quota(m.root()) == Approx(2.5));
  m.file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  m.file("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  CHECK(read_cpu_quota(m.root()) == Approx(2.5));
  m.file("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
  CHECK(read_cpu_quota(m.root()) == Approx(1.5));
}

TEST_CASE("caches and cores are counted once per instance") {
  Machine m;
  const auto cpu = [&](int n, const std::string& siblings, const std::string& l3) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(n);
    m.file(folder + "/topology/thread_siblings_list", siblings);
    m.file(folder + "/cache/index0/level", "1");
    m.file(folder + "/cache/index0/type", "Data");
    m.file(folder + "/cache/index0/size", "48K");
    m.file(folder + "/cache/index0/shared_cpu_list", siblings);
    m.file(folder + "/cache/index1/level", "3");
    m.file(folder + "/cache/index1/type", "Unified");
    m.file(folder + "/cache/index1/size", "32768K");
    m.file(folder + "/cache/index1/shared_cpu_list", l3);
  };
  cpu(0, "0,4", "0-1,4");
  cpu(1, "1", "0-1,4");
  cpu(2, "2", "2");
  cpu(4, "0,4", "0-1,4");
  CHECK(read_last_level_cache({0, 1, 4}, m.root()) == 32u << 20);
  CHECK(read_last_level_cache({0, 1, 2, 4}, m.root()) == 64u << 20);
  CHECK(count_cores({0, 1, 2, 4}, m.root()) == 3);
}

TEST_CASE("CPU model names of x86 and Arm") {
  Machine m;
  m.file("/proc/cpuinfo", "processor\t: 0\nmodel\t\t: 207\nmodel name\t: Xeon 8480C\nflags\t\t:\n");
  CHECK(read_cpu_model(m.root()) == "Xeon 8480C");
  m.file("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  CHECK(read_cpu_model(m.root()).find("implementer 0x41 part 0xd4f") != std::string::npos);
}

TEST_CASE("CPU lists") {
  CHECK(parse_cpu_list("0-3,8\n") == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(parse_cpu_list("5") == std::vector<int>{5});
  CHECK(parse_cpu_list("").empty());
  CHECK(parse_cpu_list("1-x").empty());
}

TEST_CASE("host telemetry: wrapping energy counter, packages only, busy share, mean clock") {
  Machine m;
  const std::string rapl = "/sys/class/powercap/intel-rapl:0";
  m.file(rapl + "/name", "package-0");
  m.file(rapl + "/max_energy_range_uj", "1000000000");
  m.file(rapl + "/energy_uj", "999000000");
  m.file("/sys/class/powercap/intel-rapl:0:0/name", "core");
  m.file("/sys/class/powercap/intel-rapl:0:0/energy_uj", "5");
  m.file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000");
  m.file("/sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000");
  m.file("/sys/class/thermal/thermal_zone3/type", "x86_pkg_temp");
  m.file("/sys/class/thermal/thermal_zone3/temp", "61000");
  m.file("/proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\n");
  const auto source = open_host_telemetry(m.root());
  CHECK(source->name() == "host");
  m.file(rapl + "/energy_uj", "1000000");
  m.file("/proc/stat", "cpu  150 0 125 825 0 0 0 0 0 0\n");
  const TelemetrySample s = source->sample();
  CHECK(*s.energy_J == Approx(2));
  CHECK(*s.sm_MHz == Approx(2500));
  CHECK(*s.temperature_C == Approx(61));
  CHECK(*s.host_load == Approx(0.75));
  m.file(rapl + "/energy_uj", "3000000");
  const TelemetrySample later = source->sample();
  CHECK(*later.energy_J == Approx(4));
  CHECK(*later.power_W > 0);
  CHECK(!later.host_load);  // no tick has passed
}

TEST_CASE("a rank's cores: at least one, never more than it may use") {
  CHECK(cores_for_rank(1) >= 1);
  CHECK(cores_for_rank(1000) == 1);
  CHECK(cores_for_rank(1) <= static_cast<int>(allowed_cpus().size()));
}

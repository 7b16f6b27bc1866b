#include "src/node/catalogue.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace tt::node {
namespace {

constexpr auto no = Compare::no, exact = Compare::exact, within = Compare::within;

constexpr CatalogueEntry kEntries[] = {
    // id, what, unit, compare, bom
    {"host.name", "host names all different", "", no, false},
    {"host.kind", "bare metal, virtual machine or container", "", exact, false},
    {"host.product", "system model", "", exact, true},
    {"host.bios", "system firmware", "", exact, true},
    {"os.release", "operating system", "", exact, true},
    {"os.kernel", "kernel", "", exact, true},
    {"os.cmdline", "kernel command line, hardware", "", exact, false},
    {"os.iommu", "IOMMU translation", "", exact, false},
    {"os.acs", "PCIe bridges that redirect peer-to-peer (ACS)", "bridges", exact, false},
    {"os.container_runtime", "container runtimes", "", exact, true},
    {"os.cdi", "CDI device files", "", exact, false},
    {"cpu.model", "CPU", "", exact, true},
    {"cpu.sockets", "CPU sockets", "", exact, true},
    {"cpu.cores", "CPU cores", "", exact, true},
    {"cpu.threads", "hardware threads", "", exact, true},
    {"cpu.online", "CPUs online", "", exact, false},
    {"cpu.microcode", "CPU microcode", "", exact, true},
    {"cpu.governor", "CPU frequency governor", "", exact, false},
    {"cpu.boost", "CPU boost", "", exact, false},
    {"cpu.max_MHz", "CPU highest clock", "MHz", exact, false},
    {"numa.nodes", "NUMA nodes", "", exact, true},
    {"numa.balancing", "automatic NUMA balancing", "", exact, false},
    {"memory.total", "memory", "GiB", within, true},
    {"memory.per_numa", "memory per NUMA node with CPUs", "GiB", within, false},
    {"memory.available", "memory available", "GiB", no, false},
    {"memory.swap", "swap space", "GiB", exact, false},
    {"memory.hugepages", "huge pages reserved", "", exact, false},
    {"memory.transparent_hugepages", "transparent huge pages", "", exact, false},
    {"memory.zone_reclaim", "zone reclaim", "", exact, false},
    {"memory.ecc_uncorrected", "memory errors, uncorrected", "", no, false},
    {"memory.ecc_corrected", "memory errors, corrected", "", no, false},
    {"limits.memlock", "locked memory limit", "KiB", exact, false},
    {"limits.nofile", "open files limit", "", exact, false},
    {"limits.nproc", "processes limit", "", exact, false},
    {"limits.stack", "stack limit", "KiB", exact, false},
    {"time.synchronized", "clock synchronised", "", exact, false},
    {"time.agreement", "clocks of all nodes agree", "ms", no, false},
    {"nic.count", "network cards", "", exact, true},
    {"nic.driver", "network card drivers", "", exact, true},
    {"nic.link", "network links", "", exact, false},
    {"nic.speed", "network link speed", "Mbit/s", exact, true},
    {"nic.mtu", "MTU", "bytes", exact, false},
    {"nic.pcie", "network cards on PCIe", "", exact, false},
    {"nic.numa", "network cards' NUMA nodes", "", exact, false},
    {"nic.bond", "bond members up", "", exact, false},
    {"rdma.count", "RDMA devices", "", exact, true},
    {"rdma.state", "RDMA ports", "", exact, false},
    {"rdma.rate", "RDMA port rate", "Gbit/s", exact, true},
    {"rdma.link_layer", "RDMA link layer", "", exact, true},
    {"rdma.firmware", "RDMA firmware", "", exact, true},
    {"rdma.gid", "RoCE v2 address", "", exact, false},
    {"rdma.link_downed", "RDMA link downs since start", "", no, false},
    {"gpu.count", "GPUs", "", exact, true},
    {"gpu.driver_sees", "GPUs with the driver, of those on the bus", "", exact, false},
    {"gpu.nvml", "NVML", "", exact, false},
    {"gpu.model", "GPU model", "", exact, true},
    {"gpu.memory", "GPU memory", "MiB", exact, true},
    {"gpu.vbios", "GPU firmware (VBIOS)", "", exact, true},
    {"gpu.serial", "GPU serial numbers", "", no, false},
    {"gpu.ecc", "GPU ECC mode", "", exact, false},
    {"gpu.ecc_uncorrected", "GPU memory errors, uncorrected", "", no, false},
    {"gpu.ecc_corrected", "GPU memory errors, corrected", "", no, false},
    {"gpu.remapped_rows", "GPU memory rows remapped", "", no, false},
    {"gpu.pcie", "GPU PCIe link", "", exact, false},
    {"gpu.pcie_max", "GPU PCIe link possible", "", exact, true},
    {"gpu.pcie_replays", "GPU PCIe replays", "", no, false},
    {"gpu.nvlinks", "NVLinks up", "", exact, true},
    {"gpu.nvlink_speed", "NVLink speed per link", "MB/s", exact, true},
    {"gpu.nvlink_errors", "NVLink errors", "", no, false},
    {"gpu.fabric", "NVLink fabric state", "", exact, false},
    {"gpu.power_limit", "GPU power limit", "W", exact, false},
    {"gpu.max_clock", "GPU highest clock", "MHz", exact, false},
    {"gpu.throttle", "GPU clocks held down by", "", no, false},
    {"gpu.temperature", "GPU temperature", "C", no, false},
    {"gpu.persistence", "GPU persistence mode", "", exact, false},
    {"gpu.compute_mode", "GPU compute mode", "", exact, false},
    {"gpu.mig", "GPU MIG mode", "", exact, false},
    {"gpu.xid", "Xid errors since start", "", no, false},
    {"gpu.computes", "a kernel runs on the GPU of every rank", "", no, false},
    {"driver.version", "NVIDIA driver", "", exact, true},
    {"driver.module", "NVIDIA kernel module", "", exact, true},
    {"driver.nouveau", "nouveau driver", "", exact, false},
    {"driver.peermem", "GPUDirect RDMA", "", exact, false},
    {"service.persistenced", "nvidia-persistenced", "", exact, false},
    {"service.fabricmanager", "Fabric Manager", "", exact, true},
    {"service.nvlsm", "NVLink subnet manager (NVLSM)", "", exact, true},
    {"software.cuda", "CUDA (highest that the driver runs)", "", exact, true},
    {"software.nccl", "NCCL", "", exact, true},
    {"software.cudnn", "cuDNN", "", exact, true},
    {"software.mpi", "MPI", "", exact, true},
    {"software.ibverbs", "libibverbs (rdma-core)", "", exact, true},
    {"software.ibumad", "libibumad", "", exact, true},
    {"software.ibdiags", "infiniband-diags", "", exact, true},
};

/// Levenshtein distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::span<const CatalogueEntry> catalogue() {
  return kEntries;
}

const CatalogueEntry* find_entry(std::string_view id) {
  const auto it = std::find_if(std::begin(kEntries), std::end(kEntries), [&](auto& e) { return e.id == id; });
  return it == std::end(kEntries) ? nullptr : it;
}

const CatalogueEntry& catalogue_entry(std::string_view id) {
  if (const CatalogueEntry* entry = find_entry(id)) return *entry;
  throw std::logic_error("no check has the id '" + std::string(id) + "'");
}

std::string_view nearest_id(std::string_view id) {
  return std::min_element(std::begin(kEntries), std::end(kEntries),
                          [&](auto& a, auto& b) { return distance(a.id, id) < distance(b.id, id); })
      ->id;
}

}  // namespace tt::node

// GPUs: what the driver says of each, judged; and the driver against the PCI bus.
#include <algorithm>

#include "src/node/sources.h"

namespace tt::node {
namespace {

/// A GPU that is busier than this has its link at full speed; an idle one may lower it.
constexpr int64_t kLoadedPercent = 10;

std::string label(const GpuInfo& gpu) {
  return "GPU " + std::to_string(gpu.index) + (gpu.pci ? " (" + printable(*gpu.pci, 20) + ")" : "");
}

Text text_of(const Text& t) {
  return t ? Text::of(printable(*t)) : t;
}
Text text_of(const Reading<int64_t>& n) {
  return n ? Text::of(std::to_string(*n)) : Text::unknown(n.why);
}
Text text_of(const Reading<double>& x) {
  return x ? Text::of(number_text(*x)) : Text::unknown(x.why);
}
Text on_off(const Reading<bool>& b) {
  return b ? Text::of(*b ? "on" : "off") : Text::unknown(b.why);
}

template <class Member>
std::vector<Item> items(const std::vector<GpuInfo>& gpus, Member member) {
  std::vector<Item> list;
  for (const GpuInfo& gpu : gpus) list.push_back({label(gpu), text_of(member(gpu))});
  return list;
}

Reading<int> small(const Reading<int64_t>& n) {
  return n ? Reading<int>::of(static_cast<int>(std::clamp<int64_t>(*n, -1, 1000)))
           : Reading<int>::unknown(n.why);
}

void add_pcie(const std::vector<GpuInfo>& gpus, Findings& out) {
  std::vector<Item> now, possible;
  std::string bad, expected;
  for (const GpuInfo& gpu : gpus) {
    const bool loaded = gpu.utilization_percent && *gpu.utilization_percent >= kLoadedPercent;
    Item item{label(gpu), link_text(small(gpu.pcie_generation), small(gpu.pcie_width))};
    Item most{label(gpu), link_text(small(gpu.pcie_max_generation), small(gpu.pcie_max_width))};
    if (item.value && most.value) {
      const bool narrow = *gpu.pcie_width < *gpu.pcie_max_width;
      const bool slow = loaded && *gpu.pcie_generation < *gpu.pcie_max_generation;
      if (narrow || slow)
        bad += (bad.empty() ? "" : "; ") + item.name + ": " + *item.value + " of " + *most.value;
      expected = expected.empty() ? *most.value : expected;
    } else if (item.value) {
      item.value = Text::unknown(most.value.why);
    }
    now.push_back(std::move(item));
    possible.push_back(std::move(most));
  }
  Finding& f = out.add("gpu.pcie", std::move(now));
  if (!expected.empty()) f.expected = expected + " (speed: under load only)";
  if (!bad.empty()) {
    f.status = Status::fail;
    f.reason = bad;
    f.remedy =
        "the link trained down: reseat GPU or riser, look at the slot's AER errors in the kernel log; "
        "`nvidia-smi -q -d PERFORMANCE`";
  } else if (f.status == Status::info) {
    f.status = Status::pass;
  }
  out.add("gpu.pcie_max", std::move(possible));
}

Text rows_text(const GpuInfo& gpu) {
  if (!gpu.remap_pending || !gpu.remap_failure)
    return Text::unknown(gpu.remap_pending ? gpu.remap_failure.why : gpu.remap_pending.why);
  if (*gpu.remap_failure) return Text::of("remapping failed");
  if (*gpu.remap_pending) return Text::of("remapping pending");
  const int64_t rows = gpu.remapped_corrected.value.value_or(0) + gpu.remapped_uncorrected.value.value_or(0);
  return Text::of(std::to_string(rows));
}

void add_memory_health(const std::vector<GpuInfo>& gpus, Findings& out) {
  judge(out.add("gpu.ecc", items(gpus, [](auto& g) { return on_off(g.ecc); })),
        equals("on", "`nvidia-smi -e 1`, then reset the GPU or restart the node"));
  judge(
      out.add("gpu.ecc_uncorrected",
              items(gpus, [](auto& g) { return text_of(g.ecc_volatile_uncorrected); })),
      equals("0",
             "drain the node and reset the GPU (`nvidia-smi -r -i N`); when it comes back, return the GPU"));
  out.add("gpu.ecc_corrected", items(gpus, [](auto& g) { return text_of(g.ecc_volatile_corrected); }));
  judge(out.add("gpu.remapped_rows", items(gpus, [](auto& g) { return rows_text(g); })),
        {"none pending, none failed", [](const std::string& v) { return !v.starts_with("remapping"); },
         "pending: reset the GPU (`nvidia-smi -r -i N`) so that the row is replaced; failed: the spare rows "
         "are used up, return the GPU"});
}

void add_nvlink(const std::vector<GpuInfo>& gpus, const Surroundings& around, Findings& out) {
  const auto up = [](const GpuInfo& g) {
    if (!g.nvlinks || !g.nvlinks_active)
      return Text::unknown(g.nvlinks ? g.nvlinks_active.why : g.nvlinks.why);
    return Text::of(std::to_string(*g.nvlinks_active) + " of " + std::to_string(*g.nvlinks));
  };
  // Links that are down everywhere on a node without a switch board are cards without bridges: nothing to
  // judge.
  const bool used = around.needs_fabric_manager() ||
                    std::any_of(gpus.begin(), gpus.end(),
                                [](const GpuInfo& g) { return g.nvlinks_active && *g.nvlinks_active > 0; });
  Finding& links = out.add("gpu.nvlinks", items(gpus, up));
  if (used)
    judge(links, {"all up",
                  [](const std::string& v) { return v.substr(0, v.find(' ')) == v.substr(v.rfind(' ') + 1); },
                  "NVLinks are down: see Fabric Manager's log and Xid 74 in the kernel log; `nvidia-smi "
                  "nvlink -s -i N`; reseat the GPU tray"});
  judge_alike(out.add("gpu.nvlink_speed", items(gpus, [](auto& g) { return text_of(g.nvlink_MBps); })),
              "a link trained down: `nvidia-smi nvlink -s -i N`, reset GPUs and NVSwitches together");
  judge(out.add("gpu.nvlink_errors", items(gpus, [](auto& g) { return text_of(g.nvlink_errors); })),
        equals("0",
               "replay, recovery or CRC errors on NVLink: `nvidia-smi nvlink -e -i N`; if they grow under "
               "load, return the GPU or baseboard"));
  const auto fabric = [](const GpuInfo& g) {
    if (!g.fabric_state) return g.fabric_state;
    if (*g.fabric_state != "completed") return g.fabric_state;
    if (!g.fabric_status) return g.fabric_status;
    return *g.fabric_status == "success" ? g.fabric_state : Text::of("completed with " + *g.fabric_status);
  };
  Finding& f = out.add("gpu.fabric", items(gpus, fabric));
  if (around.needs_fabric_manager())
    judge(f, equals("completed",
                    "the GPU has not joined the NVLink fabric: is Fabric Manager running (and NVLSM on "
                    "NVLink 5), is its version "
                    "the driver's? `nvidia-smi -q | grep -A 3 Fabric`, /var/log/fabricmanager.log"));
}

Text throttle_text(const GpuInfo& gpu) {
  if (!gpu.throttle) return Text::unknown(gpu.throttle.why);
  std::string text;
  for (const std::string& reason : *gpu.throttle) text += (text.empty() ? "" : ", ") + printable(reason, 40);
  return Text::of(text.empty() ? "nothing" : text);
}

void add_state(const std::vector<GpuInfo>& gpus, Findings& out) {
  Finding& power = out.add("gpu.power_limit", items(gpus, [](auto& g) { return text_of(g.power_limit_W); }));
  for (const GpuInfo& gpu : gpus)
    if (gpu.power_limit_W && gpu.default_power_limit_W && *gpu.power_limit_W < *gpu.default_power_limit_W) {
      power.status = Status::fail;
      power.expected = number_text(*gpu.default_power_limit_W);
      power.reason += (power.reason.empty() ? "" : "; ") + label(gpu) + ": " +
                      number_text(*gpu.power_limit_W) + " W, its default " +
                      number_text(*gpu.default_power_limit_W) + " W";
      power.remedy =
          "`nvidia-smi -i N -pl WATTS` sets it back; if it returns, the BMC or a site script caps it";
    }
  if (power.status == Status::info) power.status = Status::pass, power.expected = "not below the default";
  judge_alike(out.add("gpu.max_clock", items(gpus, [](auto& g) { return text_of(g.max_sm_MHz); })),
              "reset locked clocks: `nvidia-smi -rgc`");
  judge(out.add("gpu.throttle", items(gpus, throttle_text)),
        {"no hardware or thermal slowdown",
         [](const std::string& v) {
           for (const char* word : {"hw_slowdown", "thermal", "power_brake"})
             if (v.find(word) != std::string::npos) return false;
           return true;
         },
         "cooling or power: look at fans, inlet temperature, pump and power supplies in the BMC; `nvidia-smi "
         "-q -d PERFORMANCE,TEMPERATURE`"});
  Finding& heat = out.add("gpu.temperature", items(gpus, [](auto& g) { return text_of(g.temperature_C); }));
  for (const GpuInfo& gpu : gpus)
    if (gpu.temperature_C && gpu.slowdown_temperature_C &&
        *gpu.temperature_C >= *gpu.slowdown_temperature_C) {
      heat.status = Status::fail;
      heat.expected = "below its slowdown temperature";
      heat.reason += (heat.reason.empty() ? "" : "; ") + label(gpu) + ": " +
                     std::to_string(*gpu.temperature_C) + " C of " +
                     std::to_string(*gpu.slowdown_temperature_C) + " C";
      heat.remedy = "cooling: fans, pump, inlet temperature, heat sink";
    }
  judge(out.add("gpu.persistence", items(gpus, [](auto& g) { return on_off(g.persistence); })),
        equals("on",
               "`systemctl enable --now nvidia-persistenced` (or `nvidia-smi -pm 1`): without it the driver "
               "unloads between jobs"));
  judge(out.add("gpu.compute_mode", items(gpus, [](auto& g) { return g.compute_mode; })),
        {"default or exclusive process",
         [](const std::string& v) { return v == "default" || v == "exclusive process"; },
         "`nvidia-smi -c DEFAULT`"});
  // GPUs that cannot do MIG say so; that is as good as off
  judge(out.add("gpu.mig", items(gpus,
                                 [](auto& g) {
                                   return !g.mig && g.mig.why.find("ot supported") != std::string::npos
                                              ? Text::of("off")
                                              : on_off(g.mig);
                                 })),
        equals("off", "training wants whole GPUs: `nvidia-smi -mig 0`, then reset them"));
}

/// One that never came up on the bus is seen by nobody: only an expectation or a neighbour can tell
/// (gpu.count).
void add_count(const Surroundings& around, Findings& out) {
  const bool listed = static_cast<bool>(around.gpus);
  // One that the driver lists but cannot open ("GPU is lost") tells neither name nor UUID: it does not count.
  const auto works = [](const GpuInfo& gpu) { return gpu.name || gpu.uuid; };
  const int64_t with_driver =
      listed ? std::count_if(around.gpus->gpus.begin(), around.gpus->gpus.end(), works) : 0;
  const int64_t on_bus = around.pci ? std::count_if(around.pci->begin(), around.pci->end(), is_gpu) : 0;
  if (!listed && !around.pci)
    out.add("gpu.count", Text::unknown(around.pci.why + "; " + around.gpus.why));
  else if (!listed && on_bus > 0 && !around.container.empty())
    out.add("gpu.count", Text::unknown("a container without the driver cannot tell: " + around.gpus.why));
  else
    out.add("gpu.count", Reading<int64_t>::of(listed ? with_driver : on_bus)).reason =
        "nothing to judge it by: no --expect, no other node";
  if (on_bus == 0) return;
  Finding& f = out.add("gpu.driver_sees",
                       listed ? Text::of(std::to_string(with_driver) + " of " + std::to_string(on_bus))
                              : Text::of("0 of " + std::to_string(on_bus)));
  f.expected = std::to_string(on_bus) + " of " + std::to_string(on_bus);
  if (with_driver >= on_bus)
    f.status = Status::pass;
  else if (!around.container.empty())
    f.reason = "not judged: a container may be given a part of the GPUs";
  else {
    f.status = Status::fail;
    f.reason =
        *f.items[0].value + " GPUs on the bus work with the driver" + (listed ? "" : ": " + around.gpus.why);
    f.remedy = listed ? "a GPU fell off or failed to start: Xid 79 or RmInit errors in the kernel log; cold "
                        "start the node, then reseat the GPU"
                      : "install or repair the NVIDIA driver, or restart after its update: `nvidia-smi`, "
                        "`dmesg | grep NVRM`";
  }
}

}  // namespace

void inspect_gpus(const Sysroot& root, const Surroundings& around, Findings& out) {
  (void)root;
  add_count(around, out);
  if (!around.gpus || around.gpus->gpus.empty()) {
    if (around.has_gpus())
      out.add("gpu.nvml", Text::unknown(around.gpus ? "NVML lists no GPU" : around.gpus.why));
    return;
  }
  const auto& gpus = around.gpus->gpus;
  judge_alike(out.add("gpu.model", items(gpus, [](auto& g) { return text_of(g.name); })),
              "the node holds different GPUs: as ordered?");
  judge_alike(out.add("gpu.memory", items(gpus, [](auto& g) { return text_of(g.memory_MiB); })),
              "a GPU shows less memory than its siblings: reset it, else return it");
  judge_alike(out.add("gpu.vbios", items(gpus, [](auto& g) { return text_of(g.vbios); })),
              "bring all GPUs to one firmware (the vendor's update package)");
  out.add("gpu.serial", items(gpus, [](auto& g) { return text_of(g.serial); }));
  add_pcie(gpus, out);
  out.add("gpu.pcie_replays", items(gpus, [](auto& g) { return text_of(g.pcie_replays); }));
  add_memory_health(gpus, out);
  add_nvlink(gpus, around, out);
  add_state(gpus, out);
}

}  // namespace tt::node

// GPUs as a JSON document: live/nvml.json of a recorded tree.
#include <algorithm>

#include "common/error.h"
#include "src/node/gpu.h"
#include "src/node/json.h"

namespace tt::node {
namespace {

using nlohmann::json;

bool is_a(const json& j, bool) {
  return j.is_boolean();
}
// an unsigned number beyond int64 would wrap to a negative one
bool is_a(const json& j, int64_t) {
  return j.is_number_integer() && (!j.is_number_unsigned() || j.get<uint64_t>() <= INT64_MAX);
}
bool is_a(const json& j, double) {
  return j.is_number();
}
bool is_a(const json& j, const std::string&) {
  return j.is_string();
}
bool is_a(const json& j, const std::vector<std::string>&) {
  return j.is_array() && std::all_of(j.begin(), j.end(), [](const json& e) { return e.is_string(); });
}

/// One visitor for reading and for writing, so that the two cannot drift apart. Names are those of the file.
template <class Gpu, class Visitor>
void visit(Gpu& gpu, Visitor&& v) {
  v("name", gpu.name);
  v("uuid", gpu.uuid);
  v("pci", gpu.pci);
  v("serial", gpu.serial);
  v("vbios", gpu.vbios);
  v("memory_MiB", gpu.memory_MiB);
  v("ecc", gpu.ecc);
  v("ecc_pending", gpu.ecc_pending);
  v("ecc_volatile_corrected", gpu.ecc_volatile_corrected);
  v("ecc_volatile_uncorrected", gpu.ecc_volatile_uncorrected);
  v("ecc_aggregate_corrected", gpu.ecc_aggregate_corrected);
  v("ecc_aggregate_uncorrected", gpu.ecc_aggregate_uncorrected);
  v("remapped_corrected", gpu.remapped_corrected);
  v("remapped_uncorrected", gpu.remapped_uncorrected);
  v("remap_pending", gpu.remap_pending);
  v("remap_failure", gpu.remap_failure);
  v("pcie_generation", gpu.pcie_generation);
  v("pcie_max_generation", gpu.pcie_max_generation);
  v("pcie_width", gpu.pcie_width);
  v("pcie_max_width", gpu.pcie_max_width);
  v("pcie_replays", gpu.pcie_replays);
  v("nvlinks", gpu.nvlinks);
  v("nvlinks_active", gpu.nvlinks_active);
  v("nvlink_MBps", gpu.nvlink_MBps);
  v("nvlink_errors", gpu.nvlink_errors);
  v("fabric_state", gpu.fabric_state);
  v("fabric_status", gpu.fabric_status);
  v("utilization_percent", gpu.utilization_percent);
  v("temperature_C", gpu.temperature_C);
  v("slowdown_temperature_C", gpu.slowdown_temperature_C);
  v("max_sm_MHz", gpu.max_sm_MHz);
  v("power_limit_W", gpu.power_limit_W);
  v("default_power_limit_W", gpu.default_power_limit_W);
  v("persistence", gpu.persistence);
  v("mig", gpu.mig);
  v("compute_mode", gpu.compute_mode);
  v("throttle", gpu.throttle);
}

/// Reads one field of an object, as the header says.
class Reader {
 public:
  Reader(const json& object, std::string where) : object_(object), where_(std::move(where)) {}
  template <class T>
  void operator()(const char* name, Reading<T>& to) const {
    const auto it = object_.find(name);
    if (it == object_.end() || it->is_null()) {
      to = Reading<T>::unknown(std::string("NVML does not tell '") + name + "'");
    } else if (it->is_object() && it->contains("unreadable") && (*it)["unreadable"].is_string()) {
      to = Reading<T>::unknown(printable((*it)["unreadable"].get<std::string>()));
    } else if (is_a(*it, T{})) {
      to = Reading<T>::of(it->get<T>());
    } else {
      throw EnvironmentError(where_ + "." + name + ": " +
                             printable(it->dump(-1, ' ', true, json::error_handler_t::replace), 60) +
                             " is not of the right type");
    }
  }

 private:
  const json& object_;
  std::string where_;
};

class Writer {
 public:
  explicit Writer(json& object) : object_(object) {}
  template <class T>
  void operator()(const char* name, const Reading<T>& from) const {
    if (from)
      object_[name] = *from;
    else
      object_[name] = {{"unreadable", from.why}};
  }

 private:
  json& object_;
};

}  // namespace

Reading<GpuSet> parse_gpus(const std::string& text, const std::string& file) {
  const json document = parse_json(text);
  if (document.is_discarded() || !document.is_object()) throw EnvironmentError(file + ": not a JSON object");
  if (const auto error = document.find("error"); error != document.end()) {
    if (!error->is_string()) throw EnvironmentError(file + ": error: not a text");
    return Reading<GpuSet>::unknown(printable(error->get<std::string>(), 200));
  }
  GpuSet set;
  const Reader top(document, file);
  top("driver", set.driver);
  top("cuda", set.cuda);
  const auto gpus = document.find("gpus");
  if (gpus == document.end() || !gpus->is_array()) throw EnvironmentError(file + ": gpus: not a list");
  for (const json& entry : *gpus) {
    const std::string where = file + ": gpus[" + std::to_string(set.gpus.size()) + "]";
    if (!entry.is_object()) throw EnvironmentError(where + ": not an object");
    GpuInfo gpu{};
    gpu.index = static_cast<int>(set.gpus.size());
    visit(gpu, Reader(entry, where));
    set.gpus.push_back(std::move(gpu));
  }
  return Reading<GpuSet>::of(std::move(set));
}

std::string gpus_json(const Reading<GpuSet>& gpus) {
  json document = json::object();
  if (!gpus) {
    document["error"] = gpus.why;
  } else {
    Writer top(document);
    top("driver", gpus->driver);
    top("cuda", gpus->cuda);
    document["gpus"] = json::array();
    for (const GpuInfo& gpu : gpus->gpus) {
      json entry = json::object();
      visit(gpu, Writer(entry));
      document["gpus"].push_back(std::move(entry));
    }
  }
  return document.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Reading<GpuSet> read_gpus(const Sysroot& root) {
  if (root.live()) return read_gpus_nvml();
  const Text text = root.text("/live/nvml.json");
  if (!text) return Reading<GpuSet>::unknown("NVML: " + text.why);
  return parse_gpus(*text, root.root() + "/live/nvml.json");
}

}  // namespace tt::node

// Services: found among the running processes, their versions by package files and logs.
#include <algorithm>
#include <optional>
#include <set>

#include "src/node/sources.h"

namespace tt::node {
namespace {

/// Names of all processes, cut to 15 characters as the kernel keeps them. Unknown in a container, which does
/// not show the host's.
Reading<std::set<std::string>> processes(const Sysroot& root, const Surroundings& around) {
  using Names = Reading<std::set<std::string>>;
  if (!around.container.empty()) return Names::unknown("a container does not show the host's processes");
  const auto pids = root.list("/proc");
  if (!pids) return Names::unknown(pids.why);
  std::set<std::string> names;
  for (const std::string& pid : *pids) {
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (const Text comm = root.text("/proc/" + pid + "/comm")) names.insert(*comm);  // else it has just ended
  }
  if (names.empty()) return Names::unknown("/proc shows no process");
  return Names::of(std::move(names));
}

Text running(const Reading<std::set<std::string>>& names, const std::string& process) {
  if (!names) return Text::unknown(names.why);
  return Text::of(names->count(process.substr(0, 15)) ? "running" : "not running");
}

/// The version of the first package whose name starts so, by dpkg's list; "570.86.15-1" -> "570.86.15".
std::optional<std::string> package_version(const Sysroot& root, const std::string& start) {
  const Text status = root.text("/var/lib/dpkg/status");
  if (!status) return std::nullopt;
  bool inside = false;
  for (const std::string& line : split_lines(*status)) {
    if (line.starts_with("Package: ")) inside = line.substr(9).starts_with(start);
    if (inside && line.starts_with("Version: ")) {
      const std::string version = line.substr(9);
      return printable(version.substr(0, version.find('-')), 30);
    }
  }
  return std::nullopt;
}

/// "Fabric Manager version is : 570.86.15": what the log of the running one says last.
Text fabric_manager_version(const Sysroot& root) {
  constexpr std::string_view kWords = "Fabric Manager version is : ";
  const Text log = root.text("/var/log/fabricmanager.log");
  if (log) {
    const size_t at = log->rfind(kWords);
    if (at != std::string::npos) {
      const size_t start = at + kWords.size(), end = log->find_first_not_of("0123456789.", start);
      return Text::of(log->substr(start, std::min(end, log->size()) - start));
    }
  }
  if (const auto version = package_version(root, "nvidia-fabricmanager")) return Text::of(*version);
  return Text::unknown("neither /var/log/fabricmanager.log nor dpkg's list tells Fabric Manager's version");
}

/// Must run, and have exactly the driver's version.
void add_fabric_manager(const Sysroot& root, const Surroundings& around, const Text& state, Findings& out) {
  const Text version = fabric_manager_version(root);
  const Text driver = around.gpus ? around.gpus->driver : Text::unknown(around.gpus.why);
  Text value = state;
  if (state && *state == "running") value = Text::of("running, " + (version ? *version : "version unknown"));
  Finding& f = out.add("service.fabricmanager", value);
  f.expected = "running, " + (driver ? *driver : "the driver's version");
  if (!state) return;
  if (*state != "running") {
    f.status = Status::fail;
    f.reason = "Fabric Manager is not running";
    f.remedy =
        "`systemctl enable --now nvidia-fabricmanager` (package nvidia-fabricmanager of exactly the driver's "
        "version)";
  } else if (!version || !driver) {
    f.status = Status::unknown;
    f.reason = version ? driver.why : version.why;
  } else if (*version != *driver) {
    f.status = Status::fail;
    f.reason = "Fabric Manager " + *version + ", driver " + *driver;
    f.remedy = "Fabric Manager must have exactly the driver's version: install nvidia-fabricmanager " +
               *driver + " and restart it";
  } else {
    f.status = Status::pass;
  }
}

}  // namespace

void inspect_services(const Sysroot& root, const Surroundings& around, Findings& out) {
  if (!around.has_gpus()) return;
  const auto names = processes(root, around);
  judge(out.add("service.persistenced", running(names, "nvidia-persistenced")),
        equals("running", "`systemctl enable --now nvidia-persistenced`"));
  if (around.needs_fabric_manager())
    add_fabric_manager(root, around, running(names, "nv-fabricmanager"), out);
  if (around.nvlink5_board())
    judge(out.add("service.nvlsm", running(names, "nvlsm")),
          equals("running",
                 "NVLink 5 boards need the NVLink subnet manager: install nvlsm (package nvlink5-NNN) and "
                 "restart nvidia-fabricmanager"));
}

}  // namespace tt::node

// Writes recorded trees (--record).
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "src/node/gpu.h"
#include "src/node/inventory.h"
#include "src/node/live.h"

namespace tt::node {
namespace {

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) throw EnvironmentError("--record: cannot write " + file.string());
}

/// Only what the driver wrote: the rest is nobody's business.
std::string driver_lines(const std::string& log) {
  std::string kept;
  for (const std::string& line : split_lines(log))
    if (line.find("NVRM") != std::string::npos) kept += line + "\n";
  return kept;
}

}  // namespace

void record_tree(const Sysroot& root, const std::string& folder,
                 const std::map<std::string, std::string>& versions) try {
  (void)root.text("/proc/sys/kernel/hostname");
  root.copy_read(folder);
  if (!root.live()) return;
  using nlohmann::json;
  const std::filesystem::path live = folder + "/live";
  write(live / "nvml.json", gpus_json(read_gpus(root)));
  write(live / "versions.json", json(versions).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
  if (const auto clock = clock_synchronized(root))
    write(live / "adjtimex.json", json{{"synchronized", *clock}}.dump() + "\n");
  if (const Text log = kernel_log(root)) write(live / "kernel.log", driver_lines(*log));
} catch (const std::filesystem::filesystem_error& e) {
  throw EnvironmentError(std::string("--record: ") + e.what());
}

}  // namespace tt::node

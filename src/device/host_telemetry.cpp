#include "src/device/host_telemetry.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

#include "common/clock.h"

namespace tt {
namespace {

namespace fs = std::filesystem;

std::optional<double> read_double(const fs::path& path) {
  std::ifstream in(path);
  double value = 0;
  if (!(in >> value)) return std::nullopt;
  return value;
}

std::string read_word(const fs::path& path) {
  std::ifstream in(path);
  std::string word;
  in >> word;
  return word;
}

/// Sub-folders of `folder` whose name starts with `prefix`; none when it cannot be read.
std::vector<fs::path> folders(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path());
  std::sort(found.begin(), found.end());
  return found;
}

/// Energy counter of one package in microjoules; it wraps at `range`.
struct Rapl {
  fs::path file;
  double range = 0, last = 0, total = 0;
};

class HostTelemetry final : public TelemetrySource {
 public:
  explicit HostTelemetry(std::string root) : root_(std::move(root)) {
    for (const fs::path& zone : folders(root_ + "/sys/class/powercap", "intel-rapl:")) {
      // Packages only ("intel-rapl:0"): sub-zones ("intel-rapl:0:0") are parts of them and would count twice.
      const std::string name = zone.filename().string();
      if (std::count(name.begin(), name.end(), ':') != 1 || !read_word(zone / "name").starts_with("package"))
        continue;
      if (const auto now = read_double(zone / "energy_uj"))
        packages_.push_back(
            {zone / "energy_uj", read_double(zone / "max_energy_range_uj").value_or(0), *now, 0});
    }
    for (const fs::path& cpu : folders(root_ + "/sys/devices/system/cpu", "cpu"))
      if (read_double(cpu / "cpufreq/scaling_cur_freq")) clocks_.push_back(cpu / "cpufreq/scaling_cur_freq");
    for (const fs::path& zone : folders(root_ + "/sys/class/thermal", "thermal_zone"))
      if (read_word(zone / "type") == "x86_pkg_temp") temperatures_.push_back(zone / "temp");
    busy_share();
  }

  std::string name() const override { return "host"; }

  TelemetrySample sample() override {
    TelemetrySample s;
    s.t = monotonic_seconds();
    s.sm_MHz = mean_clock();
    read_energy(s);
    for (const fs::path& file : temperatures_)
      if (const auto t = read_double(file))
        s.temperature_C = std::max(s.temperature_C.value_or(*t / 1e3), *t / 1e3);
    s.host_load = busy_share();
    return s;
  }

 private:
  std::optional<double> mean_clock() const {
    double sum = 0;
    int n = 0;
    for (const fs::path& file : clocks_)
      if (const auto kHz = read_double(file)) sum += *kHz / 1e3, ++n;
    if (n > 0) return sum / n;
    std::ifstream in(root_ + "/proc/cpuinfo");  // virtual machines have no cpufreq
    std::string line;
    while (std::getline(in, line))
      if (const size_t colon = line.find(':'); line.starts_with("cpu MHz") && colon != std::string::npos) {
        std::istringstream value(line.substr(colon + 1));
        if (double MHz = 0; value >> MHz) sum += MHz, ++n;
      }
    if (n == 0) return std::nullopt;
    return sum / n;
  }

  void read_energy(TelemetrySample& s) {
    if (packages_.empty()) return;
    double total_uJ = 0;
    for (Rapl& package : packages_) {
      const auto now = read_double(package.file);
      if (!now) return;
      const double step = *now - package.last;
      package.total += step >= 0 ? step : step + package.range;
      package.last = *now;
      total_uJ += package.total;
    }
    s.energy_J = total_uJ * 1e-6;
    if (last_energy_ && s.t > last_energy_->first)
      s.power_W = (*s.energy_J - last_energy_->second) / (s.t - last_energy_->first);
    last_energy_ = {s.t, *s.energy_J};
  }

  /// (all - idle - iowait) / all of the ticks in the first line of /proc/stat since the call before.
  std::optional<double> busy_share() {
    std::ifstream in(root_ + "/proc/stat");
    std::string name;
    in >> name;
    std::vector<double> ticks;  // user nice system idle iowait irq softirq steal; guest time is in user
    for (double value = 0; ticks.size() < 8 && in >> value;) ticks.push_back(value);
    if (name != "cpu" || ticks.size() < 8) return std::nullopt;
    double all = 0;
    for (double value : ticks) all += value;
    const double idle = ticks[3] + ticks[4];
    const double all_step = all - all_ticks_, idle_step = idle - idle_ticks_;
    if (all_step <= 0) return std::nullopt;  // asked again within a tick
    all_ticks_ = all;
    idle_ticks_ = idle;
    return std::clamp(1 - idle_step / all_step, 0.0, 1.0);
  }

  std::string root_;
  std::vector<Rapl> packages_;
  std::vector<fs::path> clocks_, temperatures_;
  std::optional<std::pair<double, double>> last_energy_;
  double all_ticks_ = 0, idle_ticks_ = 0;
};

}  // namespace

std::shared_ptr<TelemetrySource> open_host_telemetry(const std::string& root) {
  return std::make_shared<HostTelemetry>(root);
}

}  // namespace tt

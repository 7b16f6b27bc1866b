#include "common/watchdog.h"

#include <unistd.h>

#include <cstdio>
#include <exception>

namespace tt {

struct Watchdog::Impl {
  std::function<void(const EarlyEnd&)> report;
};

Watchdog::Watchdog(Progress&, double) : impl_(std::make_unique<Impl>()) {}
Watchdog::~Watchdog() = default;
void Watchdog::join(const World&) {}
void Watchdog::set_device(const std::string&) {}
std::string Watchdog::trouble() const {
  return {};
}
void Watchdog::on_early_end(std::function<void(const EarlyEnd&)> report) {
  impl_->report = std::move(report);
}
void Watchdog::fail(ExitCode code, const std::string& reason) {
  std::fprintf(stderr, "%s\n", reason.c_str());
  try {
    if (impl_->report) impl_->report({code, reason, -1});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  std::fflush(nullptr);
  _exit(static_cast<int>(code));
}
void Watchdog::extend_phase(double) {}
void Watchdog::ending(ExitCode) {}
void Watchdog::leave() {}

}  // namespace tt

#include "common/exit_code.h"

#include <algorithm>
#include <array>

namespace tt {
namespace {

// From the lightest to the gravest.
constexpr std::array kBySeverity = {ExitCode::pass,      ExitCode::skipped,     ExitCode::gate,
                                    ExitCode::usage,     ExitCode::environment, ExitCode::timeout,
                                    ExitCode::wrong_data};

}  // namespace

int severity(ExitCode code) noexcept {
  const auto* at = std::find(kBySeverity.begin(), kBySeverity.end(), code);
  // A code that is none of ours (a cast) is a fault of the run, never a pass.
  return at == kBySeverity.end() ? severity(ExitCode::environment)
                                 : static_cast<int>(at - kBySeverity.begin());
}

ExitCode worst(ExitCode a, ExitCode b) noexcept {
  return severity(a) >= severity(b) ? a : b;
}

ExitCode from_severity(int severity) noexcept {
  if (severity < 0 || severity >= static_cast<int>(kBySeverity.size())) return ExitCode::environment;
  return kBySeverity[static_cast<size_t>(severity)];
}

const char* verdict_word(ExitCode code) noexcept {
  switch (code) {
    case ExitCode::pass:
      return "PASS";
    case ExitCode::gate:
      return "FAIL";
    case ExitCode::usage:
      return "USAGE";
    case ExitCode::environment:
      return "ERROR";
    case ExitCode::wrong_data:
      return "WRONG DATA";
    case ExitCode::timeout:
      return "TIMEOUT";
    case ExitCode::skipped:
      return "SKIPPED";
  }
  return "ERROR";
}

}  // namespace tt

// Exit codes of every executable and of scripts/campaign (docs/architecture.md, "Exit codes").
#pragma once

namespace tt {

enum class ExitCode : int {
  pass = 0,         // everything ran and every gate held
  gate = 1,         // a figure fell short of its gate
  usage = 2,        // bad option or value
  environment = 3,  // something the run needs is missing or broke
  wrong_data = 4,   // a result was wrong
  timeout = 5,      // the watchdog ended the run
  skipped = 77,     // the capability is absent; the reason is printed
};

/// Order in which codes outweigh each other: pass < skipped < gate < usage < environment < timeout < wrong_data.
/// Wrong data outweighs everything: it is the one fault that no retry excuses. Not having run never passes.
int severity(ExitCode code) noexcept;
ExitCode worst(ExitCode a, ExitCode b) noexcept;

/// The inverse of severity(); used to reduce codes over ranks with MPI_MAX.
ExitCode from_severity(int severity) noexcept;

/// "PASS", "FAIL", "USAGE", "ERROR", "WRONG DATA", "TIMEOUT", "SKIPPED".
const char* verdict_word(ExitCode code) noexcept;

}  // namespace tt

// Typed errors. An error says what was attempted, where, and with which value; main() catches once and turns it
// into the exit code it carries. Library code never exits and never prints.
#pragma once

#include <stdexcept>
#include <string>

#include "common/exit_code.h"

namespace tt {

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// A bad option or value: names the option, the value and what is accepted.
struct UsageError : Error {
  explicit UsageError(const std::string& what) : Error(ExitCode::usage, what) {}
};

/// The machine, a library or an input file does not allow the run.
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& what) : Error(ExitCode::environment, what) {}
};

/// A library call failed: `call` is the expression, `code` the library's number, `text` the library's own words.
struct LibraryError : EnvironmentError {
  LibraryError(const std::string& library, const std::string& call, long code, const std::string& text)
      : EnvironmentError(library + ": " + call + " failed: " + text + " (" + std::to_string(code) + ")") {}
};

struct WrongDataError : Error {
  explicit WrongDataError(const std::string& what) : Error(ExitCode::wrong_data, what) {}
};

struct TimeoutError : Error {
  explicit TimeoutError(const std::string& what) : Error(ExitCode::timeout, what) {}
};

/// The capability asked for is absent here; the reason is the message.
struct SkippedError : Error {
  explicit SkippedError(const std::string& what) : Error(ExitCode::skipped, what) {}
};

}  // namespace tt

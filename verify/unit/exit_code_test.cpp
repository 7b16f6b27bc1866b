#include "common/exit_code.h"

#include <string>
#include <vector>

#include "verify/unit/catch.h"

using namespace tt;

namespace {
const std::vector<ExitCode> kRising = {ExitCode::pass,      ExitCode::skipped,     ExitCode::gate,
                                       ExitCode::usage,     ExitCode::environment, ExitCode::timeout,
                                       ExitCode::wrong_data};
}

TEST_CASE("exit codes are those of the contract") {
  CHECK(static_cast<int>(ExitCode::pass) == 0);
  CHECK(static_cast<int>(ExitCode::gate) == 1);
  CHECK(static_cast<int>(ExitCode::usage) == 2);
  CHECK(static_cast<int>(ExitCode::environment) == 3);
  CHECK(static_cast<int>(ExitCode::wrong_data) == 4);
  CHECK(static_cast<int>(ExitCode::timeout) == 5);
  CHECK(static_cast<int>(ExitCode::skipped) == 77);
}

TEST_CASE("the graver exit code wins, whichever comes first") {
  for (size_t i = 0; i < kRising.size(); ++i)
    for (size_t j = 0; j < kRising.size(); ++j) {
      CAPTURE(i, j);
      CHECK(worst(kRising[i], kRising[j]) == kRising[std::max(i, j)]);
    }
}

TEST_CASE("severity and its inverse") {
  for (size_t i = 0; i < kRising.size(); ++i) {
    CHECK(severity(kRising[i]) == static_cast<int>(i));
    CHECK(from_severity(static_cast<int>(i)) == kRising[i]);
  }
}

TEST_CASE("what is no exit code of ours never counts as a pass") {
  CHECK(from_severity(-1) == ExitCode::environment);
  CHECK(from_severity(7) == ExitCode::environment);
  CHECK(severity(static_cast<ExitCode>(99)) == severity(ExitCode::environment));
}

TEST_CASE("verdict words") {
  CHECK(std::string(verdict_word(ExitCode::pass)) == "PASS");
  CHECK(std::string(verdict_word(ExitCode::gate)) == "FAIL");
  CHECK(std::string(verdict_word(ExitCode::usage)) == "USAGE");
  CHECK(std::string(verdict_word(ExitCode::environment)) == "ERROR");
  CHECK(std::string(verdict_word(ExitCode::wrong_data)) == "WRONG DATA");
  CHECK(std::string(verdict_word(ExitCode::timeout)) == "TIMEOUT");
  CHECK(std::string(verdict_word(ExitCode::skipped)) == "SKIPPED");
}

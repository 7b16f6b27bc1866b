// Catch2, version 2 or 3 alike: TEST_CASE, SECTION, REQUIRE…, GENERATE, Approx, and TT_SKIP.
#pragma once

#include <initializer_list>
#include <sstream>
#include <string>

#if CATCH2_VERSION == 3
#include <catch2/catch_all.hpp>
using Catch::Approx;  // version 2 has it there by itself
#else
#include <catch2/catch.hpp>
#endif

namespace tt::test {
/// True when `text` contains every one of `parts`; prints the text otherwise.
inline bool has(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos) {
      UNSCOPED_INFO("\"" << part << "\" is not in: " << text);
      return false;
    }
  return true;
}

/// The message of the `Exception` that `action` throws; fails the test when it throws another or none.
template <class Exception, class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  FAIL("the expected exception was not thrown");
  return "";
}
}  // namespace tt::test

/// Ends the test case as skipped, with the reason (verify/run counts it; version 2 has no notion of
/// skipping).
#define TT_SKIP(reason)       \
  do {                        \
    WARN("SKIP: " << reason); \
    return;                   \
  } while (false)

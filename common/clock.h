// The one host clock. Engines never read it; the harness does.
#pragma once

#include <string>

namespace tt {

/// CLOCK_MONOTONIC in seconds. Differences have about 50 ns of reading cost and 1 ns resolution.
double monotonic_seconds() noexcept;

/// Wall-clock time as RFC 3339 UTC with milliseconds, "2026-01-31T12:00:00.123Z".
std::string utc_now();

}  // namespace tt

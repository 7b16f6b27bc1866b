// Values as text (JSON) and back, without loss: for giving them to other ranks. The same forms make up the
// record.
#pragma once

#include <string>
#include <vector>

#include "common/identity.h"
#include "common/row.h"
#include "common/telemetry.h"

namespace tt {

// The from_* functions throw EnvironmentError for text that the to_text functions did not write.
std::string to_text(const Row& row);
Row row_from_text(const std::string& text);

std::string to_text(const RankIdentity& identity);
RankIdentity identity_from_text(const std::string& text);

std::string to_text(const std::vector<TelemetrySummary>& summaries);
std::vector<TelemetrySummary> summaries_from_text(const std::string& text);

std::string to_text(const std::vector<TelemetrySample>& series);
std::vector<TelemetrySample> series_from_text(const std::string& text);

}  // namespace tt

// What a record holds, for the writers (record_json.cpp, prometheus.cpp). Others use common/record.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/record.h"

namespace tt {

struct RankTelemetry {
  int rank = 0;
  std::string source;
  std::vector<TelemetrySample> series;  // t: seconds since the run's start
};

struct Record::Data {
  std::string tool;
  std::vector<std::string> command;
  std::string start_utc, end_utc;  // end: of the moment of writing until finished
  double start = 0, end_unix = 0;  // monotonic; seconds since 1970
  std::vector<std::pair<std::string, std::string>> settings, environment;
  int world_ranks = 0, world_nodes = 0;
  std::string launcher = "none";
  std::vector<RankIdentity> ranks;
  Versions versions;
  std::string injection;
  std::vector<Row> rows;
  std::vector<std::string> notes;
  std::vector<RankTelemetry> telemetry;

  bool finished = false;
  ExitCode code = ExitCode::environment;
  std::string reason = "the run did not come to its end";
  std::optional<int> culprit;
};

/// "pass" "fail" "usage" "error" "wrong" "timeout" "skipped"; "incomplete" for a run without an end;
/// "unknown" when it ended well but no row could be judged.
std::string verdict_of(const Record::Data& data);

std::string json_text(const Record::Data& data);
std::string prometheus_text(const Record::Data& data);

}  // namespace tt

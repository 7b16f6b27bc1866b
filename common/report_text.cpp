#include "common/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "common/statistics.h"

namespace tt {
namespace {

const RankIdentity* identity_of(int rank, const std::vector<RankIdentity>& ranks) {
  for (const RankIdentity& r : ranks)
    if (r.rank == rank) return &r;
  return nullptr;
}

std::string device_text(const DeviceIdentity& d) {
  std::string text = d.kind == "cuda" ? "GPU " : "";
  text += d.name.empty() ? "unnamed device" : d.name;
  if (!d.pci.empty()) text += " " + d.pci;
  return text;
}

const char* or_dash(const std::string& text) {
  return text.empty() ? "-" : text.c_str();
}

int64_t add_saturated(int64_t a, int64_t b) {
  return a > std::numeric_limits<int64_t>::max() - b ? std::numeric_limits<int64_t>::max() : a + b;
}

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ") + std::to_string(numbers[i]);
  return text;
}

std::string wrong_line(const Row& row, const std::vector<RankIdentity>& ranks) {
  std::string line = fmt::format("WRONG DATA: {}: {} wrong elements", row.key, row.check.wrong);
  if (const auto& m = row.check.first)
    line += fmt::format("; the first at {}, iteration {}, offset {}: expected {}, got {}",
                        called(m->rank, ranks), m->iteration, m->offset, m->expected, m->got);
  return line;
}

std::string verification_line(const std::vector<Row>& rows) {
  Check all;
  for (const Row& row : rows)
    if (!row.check.method.empty()) all.merge(row.check);
  if (all.method.empty()) return "verification: none was asked for";
  return fmt::format("verification: {} of {} iterations checked, {} wrong elements ({})", all.checked,
                     all.total, all.wrong, all.method);
}

/// Notes of one kind (alike up to the first colon) in one line each, however many rows have them.
std::vector<std::string> note_lines(const std::vector<Row>& rows) {
  struct Kind {
    std::string kind, first;
    int more = 0;
  };
  std::vector<Kind> kinds;
  for (const Row& row : rows)
    for (const std::string& note : row.notes) {
      const std::string kind = note.substr(0, note.find(':'));
      const auto known =
          std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.kind == kind; });
      if (known == kinds.end())
        kinds.push_back({kind, row.key + ": " + note});
      else
        ++known->more;
    }
  std::vector<std::string> lines;
  for (const Kind& k : kinds)
    lines.push_back("note: " + k.first + (k.more ? fmt::format(" (and {} more)", k.more) : ""));
  return lines;
}

std::string slowest_line(const OverallSlowest& s, const std::vector<RankIdentity>& ranks) {
  std::string line = "slowest rank: " + called(s.rank, ranks);
  if (!s.outlier) return line + fmt::format(", {:.3f} x its peers, within the peer gate", s.ratio);
  return line + fmt::format(", {:.3f} x its peers ({}), an outlier in {} of {} rows", s.ratio, s.reason,
                            s.rows, s.of_rows);
}

}  // namespace

std::string called(int rank, const std::vector<RankIdentity>& ranks) {
  const RankIdentity* r = identity_of(rank, ranks);
  if (!r) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (host {}, {})", rank, r->host, device_text(r->device));
}

std::string rank_line(const RankIdentity& r) {
  return fmt::format(
      "rank {:3d}  pid {}  host {}  device {}  PCI {}  NUMA {}  cpus {}  NIC {}", r.rank, r.pid, r.host,
      r.device.name.empty()
          ? "-"
          : r.device.name +
                (r.device.index >= 0 && r.device.kind == "cuda" ? " #" + std::to_string(r.device.index) : ""),
      or_dash(r.device.pci), or_dash(r.numa), or_dash(r.cpuset), or_dash(r.nic));
}

std::vector<std::vector<int>> shared_gpus(const std::vector<RankIdentity>& ranks) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> users;
  for (const RankIdentity& r : ranks)
    if (r.device.kind == "cuda" && !r.device.uuid.empty()) users[{r.host, r.device.uuid}].push_back(r.rank);
  std::vector<std::vector<int>> shared;
  for (auto& [gpu, sharers] : users)
    if (sharers.size() > 1) shared.push_back(sharers);
  std::sort(shared.begin(), shared.end());
  return shared;
}

std::string sharing_text(const std::vector<int>& sharers, const std::vector<RankIdentity>& ranks) {
  const RankIdentity* r = identity_of(sharers.front(), ranks);
  return fmt::format("ranks {} share GPU {} ({}) on host {}", joined(sharers), r->device.uuid,
                     device_text(r->device), r->host);
}

std::string memory_shortage(const std::string& what, const std::vector<MemoryDemand>& demands,
                            const std::vector<RankIdentity>& ranks) {
  struct Memory {
    int64_t needed = 0, available = std::numeric_limits<int64_t>::max(), most = 0;
    std::vector<int> users;
  };
  std::map<std::string, Memory> memories;
  for (size_t i = 0; i < demands.size(); ++i) {
    const RankIdentity* r = identity_of(static_cast<int>(i), ranks);
    std::string where = fmt::format("rank {}", i);
    if (r)
      where = "host " + r->host +
              (r->device.kind == "cuda" ? fmt::format(", GPU {} {}", r->device.pci, r->device.uuid) : "");
    Memory& m = memories[where];
    m.needed = add_saturated(m.needed, demands[i].needed);
    m.most = std::max(m.most, demands[i].needed);
    m.available = std::min(m.available, demands[i].available);
    m.users.push_back(static_cast<int>(i));
  }
  for (const auto& [where, m] : memories) {
    if (m.needed <= m.available) continue;
    if (m.users.size() == 1)
      return fmt::format("{}: rank {} needs {} bytes, {} bytes are available ({})", what, m.users[0],
                         m.needed, m.available, where);
    return fmt::format("{}: {} ranks need {} bytes ({} each), {} bytes are available ({})", what,
                       m.users.size(), m.needed, m.most, m.available, where);
  }
  return "";
}

std::optional<OverallSlowest> overall_slowest(const std::vector<Row>& rows) {
  bool outliers = false;
  int named = 0;
  for (const Row& row : rows) {
    outliers = outliers || (row.slowest && row.slowest->outlier);
    named += row.slowest.has_value();
  }
  if (named == 0) return std::nullopt;
  std::map<int, std::vector<double>> ratios;
  std::map<int, std::string> reasons;
  for (const Row& row : rows) {
    if (!row.slowest || row.slowest->outlier != outliers) continue;
    ratios[row.slowest->rank].push_back(row.slowest->ratio);
    reasons[row.slowest->rank] = row.slowest->reason;
  }
  std::optional<OverallSlowest> best;
  for (const auto& [rank, values] : ratios) {
    const OverallSlowest s{
        rank, outliers, static_cast<int>(values.size()), named, median_of(values).value_or(1), reasons[rank]};
    if (!best || std::pair(s.rows, s.ratio) > std::pair(best->rows, best->ratio)) best = s;
  }
  return best;
}

ExitCode code_of(const std::vector<Row>& rows) {
  if (rows.empty()) return ExitCode::environment;
  ExitCode code = ExitCode::skipped;
  for (const Row& row : rows)
    if (row.verdict != Verdict::skipped) code = ExitCode::pass;
  for (const Row& row : rows) {
    if (row.verdict == Verdict::wrong) code = worst(code, ExitCode::wrong_data);
    if (row.verdict == Verdict::fail) code = worst(code, ExitCode::gate);
  }
  return code;
}

std::vector<std::string> footer_lines(const std::vector<Row>& rows, const std::vector<RankIdentity>& ranks) {
  std::vector<std::string> lines;
  if (rows.empty()) return {"nothing was measured"};
  lines.push_back(verification_line(rows));
  for (const Row& row : rows) {
    if (row.verdict == Verdict::wrong) lines.push_back(wrong_line(row, ranks));
    if (row.verdict == Verdict::fail) lines.push_back(fmt::format("FAIL: {}: {}", row.key, row.reason));
    if (row.verdict == Verdict::skipped) lines.push_back(fmt::format("SKIPPED: {}: {}", row.key, row.reason));
  }
  for (std::string& line : note_lines(rows)) lines.push_back(std::move(line));
  if (const auto slowest = overall_slowest(rows)) lines.push_back(slowest_line(*slowest, ranks));
  return lines;
}

std::string reason_of(ExitCode code, const std::vector<Row>& rows, const std::vector<RankIdentity>& ranks) {
  if (rows.empty()) return "nothing was measured";
  const auto count = [&rows](Verdict v) {
    return std::count_if(rows.begin(), rows.end(), [v](const Row& r) { return r.verdict == v; });
  };
  for (const Row& row : rows)
    if (code == ExitCode::wrong_data && row.verdict == Verdict::wrong) return wrong_line(row, ranks);
  for (const Row& row : rows) {
    if (code == ExitCode::gate && row.verdict == Verdict::fail)
      return fmt::format("{} of {} rows fell short; the first: {}: {}", count(Verdict::fail), rows.size(),
                         row.key, row.reason);
    if (code == ExitCode::skipped && row.verdict == Verdict::skipped) return row.reason;
  }
  if (const auto unknown = count(Verdict::unknown); unknown > 0)
    return fmt::format("{} of {} rows measured with nothing to judge them by", unknown, rows.size());
  return fmt::format("{} {}, all that could be judged held", rows.size(), rows.size() == 1 ? "row" : "rows");
}

}  // namespace tt

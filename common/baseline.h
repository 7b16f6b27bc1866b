// Baselines and gates: verify/baselines/<sku>.json and --baseline FILE. docs/baselines.md describes the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/row.h"

namespace tt {

struct BaselineEntry {
  std::string key;        // a row's key, or its group with `sizes` given
  std::string metric;     // "busbw_GBps"; the median is compared
  double value = 0;
  bool higher_is_better = true;
  std::optional<double> tolerance;            // overrides --min-ratio: passes when ratio >= 1 - tolerance
  std::optional<int64_t> size_min, size_max;  // the window in which a group's entry is judged
  std::string origin;                         // "measured", "published: source", "computed: formula"
  std::string conditions;
};

class Baseline {
 public:
  Baseline() = default;
  /// Reads a file. EnvironmentError naming file, entry and field for broken JSON, a missing or mistyped field, an unknown
  /// direction, a value that is not positive and finite, two entries for one key and metric.
  static Baseline load(const std::string& path);

  bool empty() const { return entries_.empty(); }
  const std::vector<BaselineEntry>& entries() const { return entries_; }
  const std::string& sku() const { return sku_; }

  /// The entry for this row, exact key before group window.
  const BaselineEntry* find(const Row& row) const;

  /// Judges the row: verification first (wrong > 0: Verdict::wrong; asked for but nothing checked: fail "not verified"),
  /// then the baseline (no entry: unknown "no baseline" unless the verification itself is the verdict: pass), a null
  /// metric where one is expected: fail "not measured". `comparable` false (e.g. --layers): the baseline is not applied.
  void judge(Row& row, double min_ratio) const;

  /// Keys of exact-key entries of `tool` that no row has: each is a failed gate "not measured".
  std::vector<std::string> missing(const std::vector<Row>& rows) const;

 private:
  std::string sku_;
  std::vector<BaselineEntry> entries_;
};

}  // namespace tt

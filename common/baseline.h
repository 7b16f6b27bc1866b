// Baselines and gates: verify/baselines/<sku>.json and --baseline FILE. docs/baselines.md describes the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/row.h"

namespace tt {

struct BaselineEntry {
  bool is_group = false;  // "group" in the file: all rows of the group inside the window; else one exact key
  std::string key;        // the row's key or group
  std::string metric;     // "busbw_GBps"; the median is compared
  double value = 0;
  bool higher_is_better = true;
  std::optional<double> tolerance;            // overrides --min-ratio: passes when ratio >= 1 - tolerance
  std::optional<int64_t> size_min, size_max;  // the window of sizes in which the entry is judged
  std::string origin;                         // "measured", "published: source", "computed: formula"
  std::string conditions;
  std::string tool;      // the executable that measures it; empty: whichever is given the file
  bool required = true;  // exact keys: not having measured it is a failed gate
};

class Baseline {
 public:
  Baseline() = default;
  /// Reads a file. EnvironmentError naming file, entry and field for broken JSON, a missing or mistyped
  /// field, an unknown direction or origin, a value that is not positive and finite, two entries for one key
  /// and metric whose windows overlap, an unknown field.
  static Baseline load(const std::string& path);
  static std::string read(const std::string& path);  // its text alone
  /// The same for the file's text; `name` stands for the path in messages.
  static Baseline parse(const std::string& text, const std::string& name);

  bool empty() const { return entries_.empty(); }
  const std::vector<BaselineEntry>& entries() const { return entries_; }
  const std::string& sku() const { return sku_; }

  /// The entries that judge this row: those for its key, and for other metrics those for its group.
  std::vector<const BaselineEntry*> all_for(const Row& row) const;
  /// The first of them, or null.
  const BaselineEntry* find(const Row& row) const;

  /// Judges the row. Verification first: wrong > 0 is Verdict::wrong; asked for but nothing checked is fail
  /// "not verified". Then every entry for it: a metric that is absent or null is fail "not measured", a ratio
  /// below 1 - tolerance (else min_ratio) is fail; Row::baseline is the result nearest to or furthest below
  /// its gate. Without an entry: pass "verified; no baseline" when something was verified, else unknown "no
  /// baseline". Rows with comparable = false are not compared. A skipped row stays skipped.
  void judge(Row& row, double min_ratio) const;

  /// Keys of required entries for `tool` that no row has: each is a failed gate "not measured".
  std::vector<std::string> missing(const std::vector<Row>& rows, const std::string& tool) const;

 private:
  std::string sku_;
  std::vector<BaselineEntry> entries_;
};

}  // namespace tt

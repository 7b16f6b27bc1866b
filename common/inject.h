// Fault injection: for testing the suite itself and a site's alarm chain. Named in header, record and sheet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tt {

enum class FaultKind { slow, corrupt, hang, die };

struct Fault {
  FaultKind kind = FaultKind::slow;
  int rank = 0;
  double factor = 2.0;      // slow: this rank takes factor times as long per iteration (> 1)
  int64_t iteration = 0;    // corrupt, hang, die: at the first timed iteration whose number is >= this
  std::string phase;        // hang, die: at the start of this phase ("init", "allocate", "warm-up", ...); "" = measure
};

class Injection {
 public:
  Injection() = default;
  /// Parses one `--inject` text per fault: "slow:rank=1,factor=2", "corrupt:rank=2[,iteration=5]",
  /// "hang:rank=1[,phase=allocate]", "die:rank=3". Throws UsageError naming the text and the accepted kinds and keys,
  /// for a missing rank, a factor <= 1, a repeated key, text behind a number.
  static Injection parse(const std::vector<std::string>& texts);

  bool empty() const { return faults_.empty(); }
  const std::vector<Fault>& faults() const { return faults_; }
  /// The fault of this kind for this rank, if any.
  std::optional<Fault> find(FaultKind kind, int rank) const;
  /// As given, joined by a blank; for header, record and sheet.
  const std::string& text() const { return text_; }
  /// Throws UsageError when a fault names a rank >= `ranks`: a fault that cannot happen would let a test pass.
  void check_ranks(int ranks) const;

 private:
  std::vector<Fault> faults_;
  std::string text_;
};

}  // namespace tt

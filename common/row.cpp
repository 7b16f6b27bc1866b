#include "common/row.h"

#include <tuple>

namespace tt {

const char* word_of(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::fail:
      return "fail";
    case Verdict::wrong:
      return "wrong";
    case Verdict::unknown:
      return "unknown";
    case Verdict::skipped:
      return "skipped";
  }
  return "unknown";
}

void Check::merge(const Check& other) {
  checked += other.checked;
  total += other.total;
  wrong += other.wrong;
  if (method.empty()) method = other.method;
  if (!other.first) return;
  const auto place = [](const Mismatch& m) { return std::tuple(m.rank, m.iteration, m.offset); };
  if (!first || place(*other.first) < place(*first)) first = other.first;
}

const Metric* Row::metric(const std::string& name) const {
  for (const Metric& m : metrics)
    if (m.name == name) return &m;
  return nullptr;
}

}  // namespace tt

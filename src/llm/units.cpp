#include "src/llm/units.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace tt {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

int64_t parameters_in(const std::vector<Block>& blocks) {
  int64_t sum = 0;
  for (const Block& block : blocks) sum += block.count();
  return sum;
}

}  // namespace

int64_t ParamSpec::count() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t Block::count() const {
  int64_t sum = 0;
  for (const ParamSpec& p : params) sum += p.count();
  return sum;
}

FlatLayout::FlatLayout(std::vector<Unit> units, int ranks, bool by_unit, int64_t bucket_bytes)
    : units_(std::move(units)), ranks_(ranks) {
  if (ranks < 1 || bucket_bytes < 1)
    throw std::invalid_argument("FlatLayout: ranks and bucket size must be positive");
  place_units();
  cut_buckets(by_unit, bucket_bytes);
}

void FlatLayout::place_units() {
  for (Unit& unit : units_) {
    int64_t bytes = 0;
    for (Block& block : unit.frozen) {
      block.offset = bytes;
      bytes += round_up(block.count() * static_cast<int64_t>(size_of(block.type)), 4 * kAlignment);
    }
    unit.frozen_bytes = round_up(bytes, ranks_ * 4 * kAlignment);
    unit.trained_count = 0;
    for (Block& block : unit.trained) {
      block.offset = unit.trained_count;  // from the unit's start, until the unit is placed
      unit.trained_count += round_up(block.count(), kAlignment);
    }
  }
}

/// Units in the order of backward fill an open stretch; when it is large enough (or the model ends) it is
/// padded and cut.
void FlatLayout::cut_buckets(bool by_unit, int64_t bucket_bytes) {
  const int64_t grain = ranks_ * kAlignment;
  const int64_t wanted = std::max<int64_t>(grain, bucket_bytes / 4 / grain * grain);
  int64_t open = 0;  // where the open stretch begins
  for (int u = static_cast<int>(units_.size()) - 1; u >= 0; --u) {
    Unit& unit = units_[static_cast<size_t>(u)];
    unit.trained_offset = count_;
    for (Block& block : unit.trained) block.offset += count_;
    count_ += unit.trained_count;
    if (count_ == open || (!by_unit && u > 0 && count_ - open < wanted)) continue;
    const int64_t end = open + round_up(count_ - open, grain);
    unit.trained_count += end - count_;
    const int64_t step = by_unit ? end - open : wanted;
    for (; open < end; open += std::min(step, end - open)) {
      const int64_t count = std::min(step, end - open);
      const int64_t before =
          buckets_.empty() ? 0 : buckets_.back().shard_offset + buckets_.back().count / ranks_;
      buckets_.push_back({open, count, u, before});
    }
    count_ = end;
  }
}

int64_t FlatLayout::trained_parameters() const {
  int64_t sum = 0;
  for (const Unit& unit : units_) sum += parameters_in(unit.trained);
  return sum;
}

int64_t FlatLayout::frozen_parameters() const {
  int64_t sum = 0;
  for (const Unit& unit : units_) sum += parameters_in(unit.frozen);
  return sum;
}

int64_t FlatLayout::largest_unit() const {
  int64_t most = 0;
  for (const Unit& unit : units_) most = std::max(most, unit.trained_count);
  return most;
}

int64_t FlatLayout::largest_frozen_bytes() const {
  int64_t most = 0;
  for (const Unit& unit : units_) most = std::max(most, unit.frozen_bytes);
  return most;
}

std::vector<FlatLayout::Piece> FlatLayout::owned(int rank, int64_t first, int64_t count) const {
  std::vector<Piece> pieces;
  for (const Bucket& b : buckets_) {
    const int64_t share = b.count / ranks_, mine = b.offset + rank * share;
    const int64_t begin = std::max(first, mine), end = std::min(first + count, mine + share);
    if (begin < end) pieces.push_back({begin, b.shard_offset + begin - mine, end - begin});
  }
  return pieces;
}

}  // namespace tt

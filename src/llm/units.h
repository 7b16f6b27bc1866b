// How a model's parameters lie in memory: units (what is gathered and exchanged together: an embedding, a
// decoder layer, the head), blocks in them (one matrix: q, k and v side by side) and, over all units, one
// flat array of what is trained, cut into buckets and shards. Pure arithmetic, alike on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/dtype.h"

namespace tt {

struct ParamSpec {
  std::string name;            // Hugging Face's or PEFT's
  std::vector<int64_t> shape;  // [rows, cols] or [n]
  bool decay = true;           // AdamW's weight decay applies
  int64_t count() const;
};

/// Parameters that lie one after the other without gaps and are used as one matrix: all have the same number
/// of columns, or there is only one.
struct Block {
  DType type = DType::f32;  // as computed with; of trained blocks the master is f32 besides
  std::vector<ParamSpec> params;
  int64_t offset =
      0;  // set by FlatLayout: trained: elements from the flat array's start; frozen: bytes from the unit's
  int64_t cols() const { return params.front().shape.back(); }
  int64_t rows() const { return count() / cols(); }
  int64_t count() const;
};

struct Unit {
  std::string name;
  std::vector<Block> trained, frozen;
  int64_t trained_offset = 0, trained_count = 0;  // elements in the flat array, padding included
  int64_t frozen_bytes = 0;                       // padded to a multiple of the ranks
};

/// A stretch of the flat array that is exchanged at once. Rank r of n owns the r-th n-th of it.
struct Bucket {
  int64_t offset = 0, count = 0;  // count is a multiple of ranks * kAlignment
  int ready_unit = 0;             // when this unit's backward has ended, the whole bucket is there
  int64_t shard_offset = 0;  // of this rank's part in its shard array: sum of count / ranks of those before
};

/// Parameters begin at multiples of this many elements, so that vector loads and tensor cores can have them.
inline constexpr int64_t kAlignment = 128;

class FlatLayout {
 public:
  /// Units in forward order; the flat array holds them in the order of backward, the last unit first.
  /// `by_unit`: a bucket for each unit (fsdp); else units are joined until `bucket_bytes` of f32 gradient is
  /// reached, and one that is larger is cut into pieces of that size.
  FlatLayout(std::vector<Unit> units, int ranks, bool by_unit, int64_t bucket_bytes);

  const std::vector<Unit>& units() const { return units_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  int ranks() const { return ranks_; }
  int64_t count() const { return count_; }  // of the flat array, padding included
  int64_t shard_count() const { return count_ / ranks_; }
  int64_t trained_parameters() const;  // without padding
  int64_t frozen_parameters() const;
  int64_t largest_unit() const;  // of trained_count
  int64_t largest_frozen_bytes() const;

  /// A stretch of flat elements and where it lies in a rank's shard array.
  struct Piece {
    int64_t flat = 0, shard = 0, count = 0;
  };
  /// What `rank` owns of the flat elements first .. first + count - 1, in order.
  std::vector<Piece> owned(int rank, int64_t first, int64_t count) const;

 private:
  void place_units();
  void cut_buckets(bool by_unit, int64_t bucket_bytes);

  std::vector<Unit> units_;
  std::vector<Bucket> buckets_;
  int ranks_ = 1;
  int64_t count_ = 0;
};

}  // namespace tt

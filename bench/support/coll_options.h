// The options of coll_perf and its nccl-tests names: nccl-tests' letters with nccl-tests' meaning.
#pragma once

#include <string>
#include <vector>

#include "common/options.h"
#include "src/comm/coll_engine.h"

namespace tt {

struct CollOptions {
  SweepOptions sweep;
  std::vector<std::string> operations = {"all_reduce"};  // --coll, or fixed by the executable's name
  std::vector<std::string> types = {"float"};
  std::vector<std::string> redops = {"sum"};
  std::string root = "0";      // a rank of the group, or "all"
  int64_t aggregate = 1;       // -m
  int cycles = 1;              // -N
  int blocking = 0;            // -z
  int average = 3;             // -a: 0 rank 0, 1 mean, 2 minimum, 3 maximum over ranks
  int graph_launches = 0;      // -G
  int register_as = 0;         // -R
  int64_t unalign = 0;         // -u
  int skip = 0;                // -K
  bool cpu_time = false;       // -C
  bool timestamps = false;     // -S
  bool memory = false;         // -M
  bool per_iteration = false;  // -I
  bool show_algorithm = false;
  std::vector<int> scale;  // --scale; empty: all ranks only
};

/// `fixed`: the executable's name says which operation it is, so there is no --coll.
void add_coll_options(OptionSet& set, CollOptions& options, bool fixed);
/// UsageError for values and combinations that make no sense, before anything is started.
void check_coll_options(const CollOptions& options);

/// One table of rows: an operation, type, reduction and root over all sizes.
struct CollSweep {
  Collective op;
  DType type;
  ReduceOp redop;
  int root;
};
/// In nccl-tests' order: types, then reductions, then roots. UsageError for a root that is no rank.
std::vector<CollSweep> sweeps_of(const CollOptions& options, int ranks);

/// The specs of one line, out of place and in place; sizes that come to the same bytes after rounding are
/// there once. `group_suffix`: "/ranks=2" for a part of the ranks.
struct CollLine {
  CollSpec out_of_place;
  bool has_in_place;
  CollSpec in_place;
};
std::vector<CollLine> lines_of(const CollOptions& options, const CollSweep& sweep, int ranks, int cycle,
                               uint64_t seed, const std::string& group_suffix);

}  // namespace tt

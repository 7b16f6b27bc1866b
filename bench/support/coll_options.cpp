#include "bench/support/coll_options.h"

#include <charconv>
#include <set>

#include "common/error.h"

namespace tt {
namespace {

std::vector<DType> types_of(const std::vector<std::string>& texts) {
  if (texts == std::vector<std::string>{"all"}) return all_dtypes();
  std::vector<DType> types;
  for (const std::string& text : texts) types.push_back(parse_dtype("-d/--datatype", text));
  return types;
}

std::vector<ReduceOp> redops_of(const std::vector<std::string>& texts) {
  if (texts == std::vector<std::string>{"all"}) return all_reduce_ops();
  std::vector<ReduceOp> ops;
  for (const std::string& text : texts) ops.push_back(parse_reduce_op("-o/--op", text));
  return ops;
}

/// -1 for all.
int root_of(const std::string& text) {
  if (text == "all") return -1;
  int root = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), root);
  if (error != std::errc{} || end != text.data() + text.size() || root < 0)
    throw UsageError("-r/--root: '" + text + "' is no rank; accepted: 0, 1, ... or all");
  return root;
}

std::vector<int> roots_of(const CollOptions& o, Collective op, int ranks) {
  if (!has_root(op)) return {0};
  const int root = root_of(o.root);
  if (root >= ranks)
    throw UsageError("-r/--root: " + o.root + " is no rank of " + std::to_string(ranks) +
                     "; accepted: 0 to " + std::to_string(ranks - 1) + ", or all");
  if (root >= 0) return {root};
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  return all;
}

CollSpec spec_of(const CollOptions& o, const CollSweep& sweep, int64_t bytes, int cycle, uint64_t seed,
                 const std::string& group_suffix) {
  CollSpec spec;
  spec.op = sweep.op;
  spec.type = sweep.type;
  spec.redop = sweep.redop;
  spec.root = sweep.root;
  spec.bytes = static_cast<size_t>(bytes);
  spec.aggregate = o.aggregate;
  spec.unalign = o.unalign;
  spec.blocking = static_cast<Blocking>(o.blocking);
  spec.graph_steps = o.graph_launches > 0 ? o.sweep.iterations : 0;
  spec.seed = seed;
  spec.key_suffix = group_suffix;
  if (cycle > 0) spec.key_suffix += "/cycle=" + std::to_string(cycle + 1);
  return spec;
}

}  // namespace

void add_coll_options(OptionSet& set, CollOptions& o, bool fixed) {
  add_sweep(set, o.sweep);
  set.heading("Operation");
  if (!fixed)
    set.add_choices("--coll", o.operations, collective_names(), "collective operations, one table each",
                    true);
  set.add_choices("-d,--datatype", o.types, {}, "types as nccl-tests calls them, or all");
  set.add_choices("-o,--op", o.redops, {},
                  "sum, prod, max, min, avg, mulsum, or all; for operations that reduce");
  set.add_text("-r,--root", o.root, "root of broadcast, reduce, gather, scatter: a rank, or all");
  set.add_ints("--scale", o.scale, "measure on the first n ranks, for each n given, and print how it scales",
               1, 1 << 20);
  set.heading("Measurement");
  set.add_int("-m,--agg_iters", o.aggregate, "operations in one launch; times are per operation", 1, 1024);
  set.add_int("-N,--run_cycles", o.cycles, "measure all sizes this many times", 1, 1000000);
  set.add_int("-a,--average", o.average,
              "time in the table: 0 rank 0's, 1 mean, 2 minimum, 3 maximum over ranks (the record has all)",
              0, 3);
  set.add_int("-z,--blocking", o.blocking,
              "0 nothing, 1 wait and barrier, 2 wait after each step, 3 barrier between steps, not timed", 0,
              3);
  set.add_int("-G,--cudagraph", o.graph_launches,
              "record -n steps as a CUDA graph and launch it this many times", 0, 1000000);
  set.add_int("-R,--local_register", o.register_as, "register buffers: 1 local, 2 symmetric", 0, 2);
  set.add_int("-u,--unalign", o.unalign, "elements by which buffers are off their alignment", 0, 1 << 20);
  set.add_bool("-C,--report_cputime", o.cpu_time,
               "time that the host takes to launch, instead of the operation's");
  set.add_bool("-I,--per_iter_timing", o.per_iteration,
               "columns for min, max, p99 and cv of the iterations' times");
  set.add_int("-K,--per_iter_skip", o.skip, "leading iterations that count as warm-up (with -I 1)", 0,
              1000000000);
  set.add_bool("-S,--report_timestamps", o.timestamps, "end each line with the time of day");
  set.add_bool("-M,--memory", o.memory, "end with the memory taken");
  set.add_flag(
      "--show-algorithm", o.show_algorithm,
      "end each line with the algorithm and protocol that NCCL's log names; writing the log takes time");
}

void check_coll_options(const CollOptions& o) {
  sizes_of(o.sweep);
  types_of(o.types);
  redops_of(o.redops);
  root_of(o.root);
  if (o.per_iteration && o.graph_launches > 0)
    throw UsageError("-I/--per_iter_timing: 1 does not work with -G, whose steps are not timed one by one");
  if (o.blocking > 0 && o.graph_launches > 0)
    throw UsageError("-z/--blocking: " + std::to_string(o.blocking) + " does not work with -G; accepted: 0");
  if (o.cpu_time && o.graph_launches > 0)
    throw UsageError(
        "-C/--report_cputime: 1 does not work with -G, where the host launches once for all steps");
  if (o.skip > 0 && !o.per_iteration) throw UsageError("-K/--per_iter_skip: needs -I 1");
  if (o.skip >= o.sweep.iterations)
    throw UsageError("-K/--per_iter_skip: " + std::to_string(o.skip) + " leaves nothing of -n " +
                     std::to_string(o.sweep.iterations) + "; accepted: 0 to " +
                     std::to_string(o.sweep.iterations - 1));
}

std::vector<CollSweep> sweeps_of(const CollOptions& o, int ranks) {
  std::vector<CollSweep> sweeps;
  for (const std::string& name : o.operations) {
    const Collective op = *find_collective(name);
    const std::vector<ReduceOp> redops = reduces(op) ? redops_of(o.redops) : std::vector{ReduceOp::sum};
    for (DType type : types_of(o.types))
      for (ReduceOp redop : redops)
        for (int root : roots_of(o, op, ranks)) sweeps.push_back({op, type, redop, root});
  }
  return sweeps;
}

std::vector<CollLine> lines_of(const CollOptions& o, const CollSweep& sweep, int ranks, int cycle,
                               uint64_t seed, const std::string& group_suffix) {
  std::vector<CollLine> lines;
  std::set<size_t> sizes;
  for (int64_t bytes : sizes_of(o.sweep)) {
    CollLine line{spec_of(o, sweep, bytes, cycle, seed, group_suffix), has_in_place(sweep.op), {}};
    const CollCounts counts = counts_of(sweep.op, line.out_of_place.bytes, sweep.type, ranks);
    if (!sizes.insert(size_bytes(sweep.op, counts, sweep.type)).second) continue;
    line.in_place = line.out_of_place;
    line.in_place.in_place = true;
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tt

// The options that tools share: common/options.h's CommonOptions and SweepOptions.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "common/error.h"
#include "common/options.h"
#include "common/quote.h"
#include "common/size.h"

namespace tt {

void add_common(OptionSet& set, CommonOptions& o) {
  constexpr double kLongest = 1e7;  // seconds; about four months
  set.heading("Where it runs");
  set.add_choice("--device", o.device, {"auto", "cuda", "host"},
                 "device that computes; auto: cuda where it works");
  set.add_choice("--comm", o.comm, {"auto", "nccl", "mpi"},
                 "library that communicates; auto: nccl on cuda, mpi on host");
  set.add_choice("--bind", o.bind, {"numa", "core", "none"}, "what a rank is bound to");
  set.add_int("-g,--ngpus", o.gpus, "ranks to start on this node when there is no launcher", 1, 1024);
  set.add_flag("--share-gpu", o.share_gpu, "allow several ranks on one GPU");
  set.heading("How long it runs");
  set.add_double("--duration", o.duration_s, "soak: measure each row for at least this many seconds", 0,
                 kLongest, "SEC");
  set.add_double("-T,--timeout", o.timeout_s, "seconds that one phase or row may take; 0: no limit", 0,
                 kLongest, "SEC");
  set.heading("What it is judged by");
  set.add_text("--baseline", o.baseline, "file of expected figures", "FILE");
  set.add_double("--min-ratio", o.min_ratio, "a figure passes at this share of its baseline", 0, 10, "R");
  set.heading("What it writes");
  set.add_text("-J,--json", o.json, "file for the record of the run", "FILE");
  set.add_text("--prom", o.prom, "file for the figures in Prometheus' text format", "FILE");
  set.add_int("--telemetry-interval", o.telemetry_interval_ms,
              "milliseconds between readings of clocks and power", 1, 3600000, "MS");
  set.add_flag("--list", o.list, "print the keys of the rows that would be measured, and end");
  set.heading("For tests");
  set.add_int("--seed", o.seed, "seed of all random data", 0, std::numeric_limits<int64_t>::max());
  set.add_texts(
      "--inject", o.inject_texts,
      "a fault to be found: slow:rank=R,factor=F corrupt:rank=R hang:rank=R die:rank=R; may be repeated",
      "FAULT");
}

void finish_common(CommonOptions& o) {
  o.injection = Injection::parse(o.inject_texts);
  if (o.device == "host" && o.comm == "nccl")
    throw UsageError("--comm: \"nccl\" does not work with --device host; accepted: auto, mpi");
  if (!o.json.empty() && o.json == o.prom)
    throw UsageError("--prom: " + in_quotes(o.prom) + " is the file of --json too; accepted: another file");
}

namespace {

constexpr const char* kFactorLabel = "-f/--stepfactor";
constexpr size_t kMostSizes = 1000000;

double parse_factor(const std::string& text) {
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(factor) || !(factor > 1))
    throw UsageError(std::string(kFactorLabel) + ": " + in_quotes(text) +
                     " is no factor; accepted: a number above 1");
  return factor;
}

bool parse_check(const std::string& text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size() || count < 0)
    throw UsageError("-c/--check: " + in_quotes(text) +
                     " is not a number; accepted: 0 (no check) or 1 and more (check)");
  return count > 0;
}

/// The size after `size`, or nullopt where it would pass `max`. A factor near 1 still makes progress.
std::optional<int64_t> next_size(const SweepOptions& o, int64_t size) {
  if (o.factor == 0)
    return size > o.max_bytes - o.step_bytes ? std::nullopt : std::optional(size + o.step_bytes);
  const long double next = std::max<long double>(static_cast<long double>(size) * o.factor, size + 1.0L);
  if (next > static_cast<long double>(o.max_bytes)) return std::nullopt;
  return static_cast<int64_t>(next);
}

}  // namespace

void add_sweep(OptionSet& set, SweepOptions& o, const std::string& unit) {
  set.heading("Sizes and iterations");
  set.add_size("-b,--minbytes", o.min_bytes, "smallest size in " + unit);
  set.add_size("-e,--maxbytes", o.max_bytes, "largest size in " + unit);
  set.add_size("-i,--stepbytes", o.step_bytes, "step between sizes in " + unit + ", without -f", 1);
  set.add_custom(
      "-f,--stepfactor", [&o](const std::string& text) { o.factor = parse_factor(text); }, "",
      "factor between sizes; outweighs -i");
  set.add_int("-n,--iters", o.iterations, "timed iterations", 1, 1000000000);
  set.add_int("-w,--warmup_iters", o.warmup, "warm-up iterations at least; it goes on until times agree", 0,
              1000000000);
  set.add_custom(
      "-c,--check", [&o](const std::string& text) { o.check = parse_check(text); }, o.check ? "1" : "0",
      "verify the result of every timed iteration (0: no)");
}

std::vector<int64_t> sizes_of(const SweepOptions& o) {
  if (o.min_bytes > o.max_bytes)
    throw UsageError("-b/--minbytes: \"" + format_size(o.min_bytes) + "\" is above -e/--maxbytes \"" +
                     format_size(o.max_bytes) + "\"; accepted: -b not above -e");
  if (o.factor != 0 && !(o.factor > 1))
    throw UsageError(std::string(kFactorLabel) + ": " + std::to_string(o.factor) +
                     " is no factor; accepted: a number above 1");
  if (o.factor == 0 && o.step_bytes < 1)
    throw UsageError("-i/--stepbytes: " + std::to_string(o.step_bytes) +
                     " is no step; accepted: a size of at least 1");
  std::vector<int64_t> sizes;
  for (std::optional<int64_t> size = o.min_bytes; size; size = next_size(o, *size)) {
    if (sizes.size() == kMostSizes)
      throw UsageError("-i/--stepbytes: more than " + std::to_string(kMostSizes) + " sizes between -b \"" +
                       format_size(o.min_bytes) + "\" and -e \"" + format_size(o.max_bytes) +
                       "\"; accepted: a larger step or factor");
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace tt

// gemm_perf: does one GPU (or CPU) multiply matrices at the rate it should, correctly? docs/gemm_perf.md
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <map>
#include <thread>

#include "bench/support/model_shape.h"
#include "bench/support/tool.h"
#include "common/quote.h"
#include "common/size.h"
#include "common/table.h"
#include "src/device/sku.h"
#include "src/gemm/gemm_engine.h"
#include "src/gemm/plan.h"

namespace tt {
namespace {

constexpr int64_t kMiB = 1 << 20, kGiB = 1 << 30;

struct GemmToolOptions {
  GemmPlanOptions plan;
  GemmOptions gemm;
  int64_t iterations = 20, warmup = 10;
  bool check = true, rotate = true;
  double rest_s = -1;  // -1: 2 on cuda, 0 on the host
};

PeakType peak_type(GemmKind kind) {
  switch (kind) {
    case GemmKind::bf16:
      return PeakType::bf16;
    case GemmKind::fp16:
      return PeakType::fp16;
    case GemmKind::tf32:
      return PeakType::tf32;
    case GemmKind::fp32:
      return PeakType::fp32;
    case GemmKind::fp64:
      return PeakType::fp64;
    case GemmKind::int8:
      return PeakType::int8;
    case GemmKind::mxfp8:
      return PeakType::mxfp8;
    case GemmKind::nvfp4:
      return PeakType::nvfp4;
    default:
      return PeakType::fp8;
  }
}

std::string parse_bit(const std::string& option, const std::string& text) {
  if (text != "0" && text != "1")
    throw UsageError(option + ": " + in_quotes(text) + " is neither 0 nor 1; accepted: 0 or 1");
  return text;
}

const Table& table() {
  static const Table columns({{"type", "", 8},
                              {"layout", "", 6},
                              {"m", "", 7},
                              {"n", "", 7},
                              {"k", "", 7},
                              {"time", "us", 10},
                              {"TFLOPS", "median", 8},
                              {"min", "", 8},
                              {"max", "", 8},
                              {"%peak", "", 6},
                              {"clock", "MHz", 7},
                              {"power", "W", 6},
                              {"#wrong", "", 7},
                              {"what", "", 0}});
  return columns;
}

/// Whether a run on "auto" would find a GPU; for --list, which opens no device.
bool probably_cuda(const CommonOptions& common) {
  return common.device == "cuda" || (common.device == "auto" && access("/dev/nvidiactl", R_OK) == 0);
}

/// A rate with four significant digits or one after the point: a CPU core makes 0.05 TFLOPS, a GPU 1500.
std::string rate_cell(const std::optional<double>& rate) {
  return cell(rate, !rate || *rate >= 100 ? 1 : *rate >= 1 ? 3 : 4);
}

std::string table_line(const Row& row, const GemmProblem& p) {
  const Summary rate = row.metric(row.main_metric)->summary;
  const TelemetrySummary seen = row.telemetry.empty() ? TelemetrySummary{} : row.telemetry.front();
  const std::string clock = cell(seen.sm_MHz, 0) + (seen.throttled ? "*" : "");
  const std::string wrong = row.check.method.empty() ? "N/A" : std::to_string(row.check.wrong);
  const std::optional<double> percent =
      row.limit_ratio ? std::optional(100 * *row.limit_ratio) : std::nullopt;
  return table().line({traits(p.kind).name, p.layout(), std::to_string(p.m), std::to_string(p.n),
                       std::to_string(p.k), time_cell(row.metric("time_us")->summary.median),
                       rate_cell(rate.median), rate_cell(rate.min), rate_cell(rate.max),
                       row.limit ? cell(percent, 1) : "n/a", clock, cell(seen.power_W, 0), wrong,
                       p.label.empty() ? "-" : p.label});
}

std::string series_line(const SeriesPoint& p) {
  std::string throttle;
  for (const std::string& reason : p.throttle) throttle += (throttle.empty() ? "" : ",") + reason;
  return fmt::format("#   {:>7.1f} s {:>9} TFLOPS {:>6} MHz {:>6} W {:>5} C  {}", p.t_s, rate_cell(p.rate),
                     cell(p.sm_MHz_min, 0), cell(p.power_W_max, 0), cell(p.temperature_C_max, 0),
                     throttle.empty() ? "not throttled" : throttle);
}

/// What a soak held, and what held it down.
std::string held_line(const Row& row) {
  const std::string rate = rate_cell(row.metric(row.main_metric)->summary.median);
  std::string line = fmt::format("held {:.1f} s: median {} TFLOPS", row.end_s - row.start_s, rate);
  if (row.telemetry.empty()) return line + ", no telemetry";
  for (const TelemetrySummary& seen : row.telemetry) {
    std::string reasons;
    for (const std::string& reason : seen.throttle) reasons += (reasons.empty() ? "" : ", ") + reason;
    line += fmt::format("; rank {}: {} MHz, {} W (at most {}), {}", seen.rank, cell(seen.sm_MHz, 0),
                        cell(seen.power_W, 0), cell(seen.power_max_W, 0),
                        seen.throttled ? "LIMITED by " + reasons : std::string("not throttled"));
  }
  return line;
}

class GemmPerf final : public Tool {
 public:
  std::string name() const override { return "gemm_perf"; }
  std::string description() const override { return "rates of matrix products, every result verified"; }
  void add_options(OptionSet& set) override;
  void check_options(const CommonOptions&) override { check_plan(options_.plan); }
  std::vector<std::string> list(const CommonOptions& common) override {
    std::vector<std::string> keys;
    for (const GemmProblem& p : plan_problems(options_.plan, probably_cuda(common))) keys.push_back(p.key());
    return keys;
  }
  void run(Session& session, Device& device) override;

 private:
  /// A row, or why the problem cannot be done here (alike on all ranks).
  struct Outcome {
    std::optional<Row> row;
    std::string skipped;
  };
  Outcome measure(Session& session, Device& device, Stream& stream, const GemmProblem& problem);
  std::unique_ptr<GemmEngine> open(Session& session, Device& device, Stream& stream,
                                   const GemmProblem& problem, std::string& skipped);
  static void tune_alike(Session& session, GemmEngine& engine, Stream& stream);
  void rest(Session& session, const Device& device, const GemmProblem& problem) const;
  void say_ratios(Session& session) const;
  void say_step(Session& session) const;

  GemmToolOptions options_;
  std::vector<std::pair<GemmProblem, Row>> done_;
};

void GemmPerf::add_options(OptionSet& set) {
  GemmToolOptions& o = options_;
  const auto size_into = [](const char* name, std::optional<int64_t>& to) {
    return [name, &to](const std::string& text) {
      to = parse_size(name, text);
      if (*to < 1)
        throw UsageError(std::string(name) + ": " + in_quotes(text) +
                         " is too small; accepted: a size of at least 1");
    };
  };
  set.heading("What is multiplied: C[m,n] = op(A)[m,k] op(B)[k,n], row-major");
  set.add_choices("-d,--datatype", o.plan.types, accepted_kind_names(),
                  "types; bf16,fp8 on a GPU and fp32 on the host if not given");
  set.add_custom("-b,--minbytes", size_into("-b/--minbytes", o.plan.min), "", "smallest square in elements");
  set.add_custom("-e,--maxbytes", size_into("-e/--maxbytes", o.plan.max), "", "largest square in elements");
  set.add_custom("-i,--stepbytes", size_into("-i/--stepbytes", o.plan.step), "",
                 "step between sizes in elements");
  set.add_custom(
      "-f,--stepfactor",
      [&o](const std::string& text) {
        char* end = nullptr;
        o.plan.factor = std::strtod(text.c_str(), &end);
        if (text.empty() || *end != '\0' || !(*o.plan.factor > 1) || !std::isfinite(*o.plan.factor))
          throw UsageError("-f/--stepfactor: " + in_quotes(text) +
                           " is no factor; accepted: a number above 1");
      },
      "", "factor between sizes; 2 without -i");
  set.add_texts("--shapes", o.plan.shapes,
                "m,n,k or one number for all three; several parted by ';' or by giving it again");
  set.add_custom(
      "--ta", [&o](const std::string& text) { o.plan.ta = parse_bit("--ta", text); }, "0",
      "1: A is stored [k,m]");
  set.add_custom(
      "--tb", [&o](const std::string& text) { o.plan.tb = parse_bit("--tb", text); }, "",
      "1: B is stored [n,k]; the default is 1 for int8, fp8 and narrower, else 0");
  std::vector<std::string> models;
  for (const ModelConfig& preset : model_presets()) models.push_back(preset.name);
  set.add_custom(
      "--model", [&o](const std::string& text) { o.plan.model = shape_of(preset_named("--model", text)); },
      "",
      fmt::format("forward, dgrad and wgrad of every projection of a training step: {}",
                  fmt::join(models, ", ")));
  set.add_size("--tokens", o.plan.tokens, "tokens of that step on this rank: batch times sequence length", 1);

  set.heading("How it is measured");
  set.add_int("-n,--iters", o.iterations, "timed products", 1, 1000000000);
  set.add_int("-w,--warmup_iters", o.warmup, "products before (on the host: at least, until times agree)", 0,
              1000000000);
  set.add_bool("-c,--check", o.check, "verify the result of every timed product");
  set.add_double("--rest", o.rest_s,
                 "seconds of rest before each shape, so that the power limit of the one before does not "
                 "show; -1: 2 on a GPU, 0 on the host",
                 -1, 3600);
  set.add_bool("--rotate", o.rotate,
               "operands that fit in the cache are rotated, so that they come from memory");
  set.add_bool("--fast-accum", o.gemm.fast_accum,
               "fp8 on Hopper: 1 sums in the tensor core's accumulator, 0 moves sums to fp32 on the way");
  set.add_int("--algorithms", o.gemm.candidates, "cuBLASLt algorithms to time before; 1: its first choice", 1,
              1000);
  set.add_custom(
      "--workspace",
      [&o](const std::string& text) { o.gemm.workspace_bytes = parse_size("--workspace", text); }, "",
      "bytes that cuBLASLt may use beside the matrices; 256M from Hopper on, else 32M if not given");
}

void GemmPerf::run(Session& session, Device& device) {
  const bool cuda = device.kind() == DeviceKind::cuda;
  const std::unique_ptr<Stream> stream = device.make_stream();
  for (const std::string& line : table().header()) session.say(line);
  for (const GemmProblem& problem : plan_problems(options_.plan, cuda)) {
    Outcome outcome = measure(session, device, *stream, problem);
    if (!outcome.row) {
      // What nobody asked for by name is left out with a word; what was asked for is a row that says it was
      // skipped.
      if (options_.plan.types.empty()) {
        session.header("not run: " + problem.key() + ": " + outcome.skipped, true);
        continue;
      }
      Row row;
      row.key = problem.key();
      row.group = problem.group();
      row.verdict = Verdict::skipped;
      row.reason = outcome.skipped;
      session.header("skipped: " + row.key + ": " + row.reason);
      session.add(std::move(row));
      continue;
    }
    const Row row = session.add(std::move(*outcome.row));
    session.say(table_line(row, problem));
    for (const SeriesPoint& point : row.series) session.say(series_line(point));
    if (session.options().duration_s > 0) session.header(held_line(row), true);
    done_.emplace_back(problem, row);
  }
  if (done_.empty() && options_.plan.types.empty())
    throw SkippedError("none of the default types runs on this device");
  say_ratios(session);
  say_step(session);
}

GemmPerf::Outcome GemmPerf::measure(Session& session, Device& device, Stream& stream,
                                    const GemmProblem& problem) {
  const bool cuda = device.kind() == DeviceKind::cuda;
  Outcome outcome;
  const std::unique_ptr<GemmEngine> engine = open(session, device, stream, problem, outcome.skipped);
  if (!engine) return outcome;
  session.phase("tune " + problem.key());
  tune_alike(session, *engine, stream);
  rest(session, device, problem);

  MeasurePlan plan;
  plan.iterations = options_.iterations;
  plan.check = options_.check;
  plan.warmup.min_samples = options_.warmup;
  if (cuda) {
    // As many as were asked for and no more: more would drive the GPU into its power limit before the timed
    // part.
    plan.warmup.max_samples = plan.warmup.window = std::max<int64_t>(1, options_.warmup);
    plan.warmup.tolerance = 1e9;
  }
  Row row = session.measure(*engine, stream, plan);
  double ratio = engine->largest_ratio();
  session.world().all().all_max(std::span<double>(&ratio, 1));
  if (options_.check) row.params.emplace_back("check_largest_error_over_bound", ratio);
  const Sku* sku = find_sku(device.identity());
  if (const auto limit = peak(sku, peak_type(problem.kind)))
    row.limit = Limit{row.main_metric, *limit, peak_origin(sku)};
  outcome.row = std::move(row);
  return outcome;
}

/// The engine, or null with the reason in `skipped`. Collective: one rank that cannot makes all of them skip.
std::unique_ptr<GemmEngine> GemmPerf::open(Session& session, Device& device, Stream& stream,
                                           const GemmProblem& problem, std::string& skipped) {
  session.phase("allocate " + problem.key());
  const Group& all = session.world().all();
  const bool cuda = device.kind() == DeviceKind::cuda;
  std::unique_ptr<GemmEngine> engine;
  skipped = why_unsupported(device, problem.kind);
  if (skipped.empty()) {
    const int64_t workspace = cuda ? std::max<int64_t>(options_.gemm.workspace_bytes, 256 * kMiB) : 0;
    const int64_t available = device.memory().available;
    // The session adds up what the ranks of a host need; each rank's figure here is its own share of the
    // host.
    const int64_t sharers = cuda ? 1 : session.world().local().size();
    session.require_memory(problem.key(), gemm_bytes(problem, options_.gemm, {1, 1}) + workspace,
                           available * sharers);
    GemmSizing sizing = choose_sizing(problem, options_.gemm, available - workspace - available / 16,
                                      static_cast<int64_t>(device.last_level_cache_bytes()), options_.rotate,
                                      cuda ? 16 * kGiB : 512 * kMiB);
    sizing.slots = all.all_min(sizing.slots);  // chunks have to be alike on all ranks
    try {
      engine = std::make_unique<GemmEngine>(
          device, problem, options_.gemm, sizing,
          static_cast<uint64_t>(session.options().seed) + static_cast<uint64_t>(all.rank()), stream);
    } catch (const SkippedError& e) {
      skipped = e.what();
    }
  }
  for (const std::string& reason : all.all_gather(skipped)) {
    if (reason.empty()) continue;
    skipped = reason;
    return nullptr;
  }
  return engine;
}

/// Rank 0 searches, the others take what it found: a difference between ranks shall be one between devices.
void GemmPerf::tune_alike(Session& session, GemmEngine& engine, Stream& stream) {
  const Group& all = session.world().all();
  if (all.rank() == 0) engine.tune(stream);
  const std::string chosen = all.broadcast(engine.gemm().chosen(), 0);
  if (all.rank() != 0 && !engine.gemm().adopt(chosen)) engine.tune(stream);
}

void GemmPerf::rest(Session& session, const Device& device, const GemmProblem& problem) const {
  const double seconds = options_.rest_s >= 0 ? options_.rest_s : device.kind() == DeviceKind::cuda ? 2 : 0;
  if (seconds == 0) return;
  session.phase("rest before " + problem.key());
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

/// fp8 against bf16 where both ran: a ratio below 2, or below 1 at small sizes, is nature as often as fault,
/// so it is said and never judged by itself.
void GemmPerf::say_ratios(Session& session) const {
  const auto name_of = [](const GemmProblem& p) {
    return fmt::format("{}x{}x{} {}", p.m, p.n, p.k, p.label);
  };
  std::map<std::string, double> bf16;
  for (const auto& [p, row] : done_)
    if (p.kind == GemmKind::bf16) bf16[name_of(p)] = row.metric(row.main_metric)->summary.median.value_or(0);
  for (const auto& [p, row] : done_) {
    if (!traits(p.kind).tensor_scale && !traits(p.kind).scale_block) continue;
    const auto found = bf16.find(name_of(p));
    const std::optional<double> rate = row.metric(row.main_metric)->summary.median;
    if (found == bf16.end() || found->second == 0 || !rate) continue;
    session.header(
        fmt::format("{}/bf16 at {}: {:.2f}", traits(p.kind).name, found->first, *rate / found->second), true);
  }
}

/// With --model: all products of one training step together.
void GemmPerf::say_step(Session& session) const {
  if (!options_.plan.model) return;
  const ModelShape& model = *options_.plan.model;
  std::map<GemmKind, std::pair<double, double>> sums;  // seconds, operations
  std::map<GemmKind, size_t> rows;
  for (const auto& [p, row] : done_) {
    const double times = static_cast<double>(occurrences(model, p));
    sums[p.kind].first += times * row.metric("time_us")->summary.median.value_or(0) * 1e-6;
    sums[p.kind].second += times * p.operations();
    ++rows[p.kind];
  }
  for (const auto& [kind, sum] : sums) {
    if (rows[kind] != model_problems(model, options_.plan.tokens, kind).size())
      continue;  // some were skipped
    session.header(
        fmt::format(
            "{} {}: all projections of one step ({} layers and lm_head, {} tokens): {:.2f} ms, {:.1f} TFLOPS",
            model.name, traits(kind).name, model.layers, options_.plan.tokens, sum.first * 1e3,
            sum.second / sum.first / 1e12),
        true);
  }
}

}  // namespace
}  // namespace tt

int main(int argc, char** argv) {
  tt::GemmPerf tool;
  return tt::run_tool(argc, argv, tool);
}

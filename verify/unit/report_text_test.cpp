#include "common/report_text.h"

#include <limits>

#include "verify/unit/catch.h"

using namespace tt;
using tt::test::has;

namespace {

RankIdentity gpu(int rank, const std::string& host, const std::string& uuid) {
  RankIdentity r;
  r.rank = rank;
  r.host = host;
  r.device.kind = "cuda";
  r.device.name = "NVIDIA H200";
  r.device.uuid = uuid;
  r.device.pci = "0000:1b:00.0";
  r.device.index = 3;
  return r;
}

RankIdentity cpu(int rank, const std::string& host) {
  RankIdentity r;
  r.rank = rank;
  r.host = host;
  r.device.kind = "host";
  r.device.name = "Some CPU";
  return r;
}

Row row_with(Verdict verdict, const std::string& key = "k") {
  Row row;
  row.key = key;
  row.verdict = verdict;
  row.reason = "because";
  return row;
}

Row slow_row(int rank, double ratio, bool outlier) {
  Row row = row_with(Verdict::pass);
  row.slowest = Slowest{rank, ratio, outlier, "own time"};
  return row;
}

bool any_line(const std::vector<std::string>& lines, std::initializer_list<std::string> parts) {
  for (const std::string& line : lines) {
    bool all = true;
    for (const std::string& p : parts) all = all && line.find(p) != std::string::npos;
    if (all) return true;
  }
  return false;
}

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

}  // namespace

TEST_CASE("two ranks on one GPU are found by host and UUID", "[report]") {
  const std::vector<RankIdentity> ranks = {gpu(0, "a", "GPU-1"), gpu(1, "b", "GPU-1"), gpu(2, "a", "GPU-2"),
                                           gpu(3, "a", "GPU-1"), gpu(4, "a", ""),      gpu(5, "a", ""),
                                           cpu(6, "a"),          cpu(7, "a")};
  const auto shared = shared_gpus(ranks);
  REQUIRE(shared.size() == 1);
  CHECK(shared[0] == std::vector<int>{0, 3});
  CHECK(has(sharing_text(shared[0], ranks), {"ranks 0 and 3", "GPU-1", "host a", "NVIDIA H200"}));
}

TEST_CASE("a rank's line has everything by name, a dash for what is not known", "[report]") {
  RankIdentity r = gpu(12, "node6", "GPU-1");
  r.pid = 4711;
  r.numa = "1";
  r.cpuset = "8-15";
  r.nic = "mlx5_3";
  CHECK(has(rank_line(r),
            {"12", "4711", "node6", "NVIDIA H200 #3", "0000:1b:00.0", "NUMA 1", "8-15", "mlx5_3"}));
  CHECK(has(rank_line(cpu(0, "x")), {"PCI -", "NUMA -", "NIC -"}));
  CHECK(called(12, {r}) == "rank 12 (host node6, GPU NVIDIA H200 0000:1b:00.0)");
  CHECK(called(3, {r}) == "rank 3");
}

TEST_CASE("ranks of one host must fit in its memory together, ranks with GPUs each in their own",
          "[report]") {
  const std::vector<RankIdentity> hosts = {cpu(0, "a"), cpu(1, "a"), cpu(2, "b")};
  CHECK(memory_shortage("buffers", {{40, 100}, {60, 100}, {100, 100}}, hosts).empty());
  const std::string text = memory_shortage("buffers", {{40, 100}, {61, 100}, {1, 100}}, hosts);
  CHECK(has(text, {"buffers", "2 ranks need 101 bytes", "100 bytes are available", "host a"}));
  CHECK(has(memory_shortage("buffers", {{1, 100}, {1, 100}, {70368744177664, 5}}, hosts),
            {"rank 2 needs 70368744177664 bytes", "5 bytes are available", "host b"}));
  const std::vector<RankIdentity> gpus = {gpu(0, "a", "GPU-1"), gpu(1, "a", "GPU-2")};
  CHECK(memory_shortage("buffers", {{90, 100}, {90, 100}}, gpus).empty());
  CHECK_FALSE(
      memory_shortage("buffers", {{90, 100}, {90, 100}}, {gpu(0, "a", "G"), gpu(1, "a", "G")}).empty());
  // Sums that would wrap must not fit.
  CHECK_FALSE(memory_shortage("buffers", {{kMax, kMax - 1}, {kMax, kMax - 1}, {0, 1}}, hosts).empty());
}

TEST_CASE("the slowest rank overall is the one most often an outlier", "[report]") {
  CHECK_FALSE(overall_slowest({}));
  CHECK_FALSE(overall_slowest({row_with(Verdict::pass)}));
  const auto s = overall_slowest(
      {slow_row(0, 9.0, false), slow_row(1, 2.0, true), slow_row(1, 2.2, true), slow_row(3, 8.0, true)});
  REQUIRE(s);
  CHECK(s->rank == 1);
  CHECK(s->outlier);
  CHECK(s->rows == 2);
  CHECK(s->of_rows == 4);
  CHECK(s->ratio == Approx(2.1));
  const auto calm =
      overall_slowest({slow_row(2, 1.01, false), slow_row(2, 1.02, false), slow_row(0, 1.04, false)});
  CHECK(calm->rank == 2);
  CHECK_FALSE(calm->outlier);
}

TEST_CASE("rows decide the exit code, the worst of them", "[report]") {
  using V = Verdict;
  const auto code = [](std::initializer_list<Verdict> verdicts) {
    std::vector<Row> rows;
    for (Verdict v : verdicts) rows.push_back(row_with(v));
    return code_of(rows);
  };
  CHECK(code({}) == ExitCode::environment);  // not having run never passes
  CHECK(code({V::pass}) == ExitCode::pass);
  CHECK(code({V::unknown}) == ExitCode::pass);
  CHECK(code({V::skipped, V::skipped}) == ExitCode::skipped);
  CHECK(code({V::skipped, V::pass}) == ExitCode::pass);
  CHECK(code({V::fail, V::pass}) == ExitCode::gate);
  CHECK(code({V::skipped, V::fail}) == ExitCode::gate);
  CHECK(code({V::fail, V::wrong, V::pass}) == ExitCode::wrong_data);
}

TEST_CASE("the footer says what was verified, what failed and who was slow", "[report]") {
  Row good = slow_row(1, 2.0, true);
  good.check = {30, 40, 0, std::nullopt, "exact"};
  Row wrong = row_with(Verdict::wrong, "all_reduce/8");
  wrong.check = {40, 40, 7, Mismatch{2, 5, 17, 3, 4}, "exact"};
  Row quick = row_with(Verdict::pass);  // -c 0
  quick.check.total = 1000;
  const std::vector<RankIdentity> ranks = {cpu(0, "h0"), cpu(1, "h1"), cpu(2, "h2")};
  const auto lines = footer_lines(
      {good, wrong, quick, row_with(Verdict::fail, "gemm/9"), row_with(Verdict::skipped, "fp8")}, ranks);
  CHECK(any_line(lines, {"verification: 70 of 80 iterations checked, 7 wrong elements (exact)"}));
  CHECK(any_line(lines, {"WRONG DATA", "all_reduce/8", "rank 2", "h2", "iteration 5", "offset 17",
                         "expected 3, got 4"}));
  CHECK(any_line(lines, {"FAIL: gemm/9: because"}));
  CHECK(any_line(lines, {"SKIPPED: fp8: because"}));
  CHECK(any_line(lines, {"slowest rank: rank 1", "h1", "2.000", "outlier in 1 of 1"}));
  CHECK(footer_lines({}, ranks) == std::vector<std::string>{"nothing was measured"});
}

TEST_CASE("notes of one kind share a line", "[report]") {
  Row a = row_with(Verdict::pass, "a"), b = row_with(Verdict::pass, "b");
  a.notes = {"throttled: rank 0: x", "warm-up not stable"};
  b.notes = {"throttled: rank 1: y"};
  const auto lines = footer_lines({a, b, b}, {});
  CHECK(any_line(lines, {"note: a: throttled: rank 0: x (and 2 more)"}));
  CHECK(any_line(lines, {"note: a: warm-up not stable"}));
  CHECK_FALSE(any_line(lines, {"rank 1: y"}));
}

TEST_CASE("the reason follows the code", "[report]") {
  CHECK(reason_of(ExitCode::environment, {}, {}) == "nothing was measured");
  CHECK(has(reason_of(ExitCode::gate, {row_with(Verdict::pass), row_with(Verdict::fail, "x")}, {}),
            {"1 of 2", "x", "because"}));
  CHECK(reason_of(ExitCode::skipped, {row_with(Verdict::skipped)}, {}) == "because");
  CHECK(has(reason_of(ExitCode::pass, {row_with(Verdict::unknown)}, {}), {"nothing to judge"}));
}

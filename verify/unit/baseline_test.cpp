#include "common/baseline.h"

#include <cmath>
#include <limits>

#include "common/error.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::has;
using tt::test::message_of;

namespace {

std::string file_of(const std::string& entries) {
  return R"({"baseline_version": 1, "sku": "test", "entries": [)" + entries + "]}";
}

Baseline of(const std::string& entries) {
  return Baseline::parse(file_of(entries), "b.json");
}

const char* const kBusbw =
    R"({"key": "all_reduce/8", "metric": "busbw_GBps", "value": 100, "direction": "higher", "origin": "measured"})";

Row row_of(std::optional<double> busbw, int64_t size = 8) {
  Row row;
  row.key = "all_reduce/" + std::to_string(size);
  row.group = "all_reduce";
  row.size = size;
  Summary s;
  if (busbw) s = {1, busbw, busbw, busbw, busbw, busbw, std::nullopt};
  row.metrics = {{"busbw_GBps", s}};
  row.main_metric = "busbw_GBps";
  row.check = {20, 20, 0, std::nullopt, "exact"};
  return row;
}

Row judged(Row row, const Baseline& baseline, double min_ratio = 0.9) {
  baseline.judge(row, min_ratio);
  return row;
}

}  // namespace

TEST_CASE("a row is judged by the ratio to its baseline", "[baseline]") {
  const Baseline b = of(kBusbw);
  CHECK(judged(row_of(90.0), b).verdict == Verdict::pass);  // 0.90 is enough
  CHECK(judged(row_of(89.9), b).verdict == Verdict::fail);
  const Row row = judged(row_of(50.0), b);
  CHECK(row.baseline->ratio == Approx(0.5));
  CHECK_FALSE(row.baseline->pass);
  CHECK(has(row.reason, {"busbw_GBps", "50", "0.500", "100", "0.900"}));
}

TEST_CASE("lower is better turns the ratio round; a tolerance overrides the ratio", "[baseline]") {
  const Baseline b = of(
      R"({"key": "all_reduce/8", "metric": "busbw_GBps", "value": 10, "direction": "lower", "tolerance": 0.5, "origin": "measured"})");
  CHECK(judged(row_of(20.0), b).verdict == Verdict::pass);
  CHECK(judged(row_of(20.1), b).verdict == Verdict::fail);
  CHECK(judged(row_of(5.0), b).baseline->ratio == Approx(2));
}

TEST_CASE("a missing or null metric is a failed gate, never a pass", "[baseline]") {
  const Baseline b = of(kBusbw);
  const Row null = judged(row_of(std::nullopt), b);
  CHECK(null.verdict == Verdict::fail);
  CHECK(has(null.reason, {"not measured", "busbw_GBps", "all_reduce/8"}));
  Row without = row_of(100.0);
  without.metrics.clear();
  CHECK(judged(without, b).verdict == Verdict::fail);
  CHECK(judged(row_of(std::numeric_limits<double>::quiet_NaN()), b).verdict == Verdict::fail);
}

TEST_CASE("keys that no row has are named", "[baseline]") {
  const Baseline b =
      of(std::string(kBusbw) +
         R"(,{"key": "gone", "metric": "busbw_GBps", "value": 1, "direction": "higher", "origin": "measured"},
          {"key": "gone", "metric": "time_us", "value": 1, "direction": "lower", "origin": "measured"},
          {"key": "other", "metric": "tflops", "value": 1, "direction": "higher", "origin": "measured", "tool": "gemm_perf"},
          {"key": "nice", "metric": "tflops", "value": 1, "direction": "higher", "origin": "measured", "required": false},
          {"group": "g", "metric": "tflops", "value": 1, "direction": "higher", "origin": "measured"})");
  CHECK(b.missing({row_of(1.0)}, "all_reduce_perf") == std::vector<std::string>{"gone"});
  CHECK(b.missing({row_of(1.0)}, "gemm_perf") == std::vector<std::string>{"gone", "other"});
  CHECK(Baseline().missing({}, "x").empty());
}

TEST_CASE("wrong data outweighs every figure", "[baseline]") {
  Row row = row_of(1000.0);
  row.check.wrong = 3;
  row.check.first = Mismatch{2, 5, 17, 4, std::numeric_limits<double>::quiet_NaN()};
  const Row bad = judged(row, of(kBusbw));
  CHECK(bad.verdict == Verdict::wrong);
  CHECK_FALSE(bad.baseline);
  CHECK(has(bad.reason, {"3 wrong", "rank 2", "iteration 5", "offset 17", "expected 4", "got nan"}));
}

TEST_CASE("verification that did not happen fails", "[baseline]") {
  Row row = row_of(1000.0);
  row.check.checked = 0;
  const Row bad = judged(row, of(kBusbw));
  CHECK(bad.verdict == Verdict::fail);
  CHECK(bad.reason == "not verified");
}

TEST_CASE("without a baseline the verification is the verdict", "[baseline]") {
  CHECK(judged(row_of(1.0), {}).verdict == Verdict::pass);
  Row unchecked = row_of(1.0);
  unchecked.check = {};
  const Row row = judged(unchecked, {});
  CHECK(row.verdict == Verdict::unknown);
  CHECK(row.reason == "no baseline");
}

TEST_CASE("a row that is not comparable is not gated; a skipped one stays skipped", "[baseline]") {
  Row row = row_of(1.0);
  row.comparable = false;
  CHECK(judged(row, of(kBusbw)).verdict == Verdict::pass);
  CHECK_FALSE(judged(row, of(kBusbw)).baseline);
  Row skipped;
  skipped.verdict = Verdict::skipped;
  skipped.reason = "no such type";
  CHECK(judged(skipped, of(kBusbw)).verdict == Verdict::skipped);
  CHECK(judged(skipped, of(kBusbw)).reason == "no such type");
}

TEST_CASE("a group is judged only inside its window of sizes", "[baseline]") {
  const Baseline b = of(
      R"({"group": "all_reduce", "metric": "busbw_GBps", "value": 100, "direction": "higher", "size_min": 1024, "size_max": 2048, "origin": "measured"})");
  CHECK(judged(row_of(1.0, 8), b).verdict == Verdict::pass);  // slow by nature down there
  CHECK_FALSE(judged(row_of(1.0, 1023), b).baseline);
  CHECK(judged(row_of(1.0, 1024), b).verdict == Verdict::fail);
  CHECK(judged(row_of(1.0, 2048), b).verdict == Verdict::fail);
  CHECK_FALSE(judged(row_of(1.0, 2049), b).baseline);
  Row sizeless = row_of(1.0);
  sizeless.size.reset();
  CHECK_FALSE(judged(sizeless, b).baseline);
}

TEST_CASE("an exact key goes before its group, metric by metric; the worst result is kept", "[baseline]") {
  const Baseline b = of(
      std::string(kBusbw) +
      R"(,{"group": "all_reduce", "metric": "busbw_GBps", "value": 1, "direction": "higher", "origin": "measured"},
          {"group": "all_reduce", "metric": "time_us", "value": 10, "direction": "lower", "origin": "measured"})");
  Row row = row_of(100.0);
  row.metrics.push_back({"time_us", {1, 40.0, 40.0, 40.0, 40.0, 40.0, std::nullopt}});
  CHECK(b.all_for(row).size() == 2);
  CHECK(b.find(row)->value == 100);
  const Row bad = judged(row, b);
  CHECK(bad.verdict == Verdict::fail);
  CHECK(bad.baseline->metric == "time_us");
  CHECK(bad.baseline->ratio == Approx(0.25));
}

TEST_CASE("a baseline file that cannot be meant is refused with file, entry and field", "[baseline]") {
  const auto refused = [](const std::string& text) {
    return message_of<EnvironmentError>([&] { Baseline::parse(text, "b.json"); });
  };
  CHECK(has(refused("{\"sku\": "), {"b.json", "not valid JSON"}));
  CHECK(has(refused("[]"), {"b.json", "not an object"}));
  CHECK(has(refused(R"({"sku": "x", "entries": []})"), {"b.json", "baseline_version", "missing"}));
  CHECK(has(refused(R"({"baseline_version": 2, "sku": "x", "entries": []})"), {"baseline_version 2"}));
  CHECK(has(refused(R"({"baseline_version": 1, "sku": "x"})"), {"entries"}));
  CHECK(has(refused(R"({"baseline_version": 1, "sku": "x", "entries": [], "entires": 1})"), {"entires"}));

  const auto entry = [&](const std::string& fields) {
    return refused(file_of(std::string(kBusbw) + "," + fields));
  };
  const std::string good = R"("key": "k", "metric": "m", "direction": "higher", "origin": "measured")";
  CHECK(has(entry("{" + good + "}"), {"b.json, entry 2", "value", "missing"}));
  CHECK(has(entry("{" + good + R"(, "value": "1")" + "}"), {"entry 2", "value", "not a number"}));
  CHECK(has(entry("{" + good + R"(, "value": null)" + "}"), {"entry 2", "value"}));
  CHECK(has(entry("{" + good + R"(, "value": 0)" + "}"), {"value 0", "positive"}));
  CHECK(has(entry("{" + good + R"(, "value": -1)" + "}"), {"value -1"}));
  CHECK(has(entry("{" + good + R"(, "value": 1, "tolerence": 0.1)" + "}"), {"tolerence"}));
  CHECK(has(entry("{" + good + R"(, "value": 1, "tolerance": 1)" + "}"), {"tolerance"}));
  CHECK(has(entry("{" + good + R"(, "value": 1, "size_min": -1)" + "}"), {"size_min", "-1"}));
  CHECK(has(entry("{" + good + R"(, "value": 1, "size_min": 1.5)" + "}"), {"size_min", "1.5"}));
  CHECK(has(entry("{" + good + R"(, "value": 1, "size_max": 18446744073709551615)" + "}"), {"size_max"}));
  CHECK(has(entry("{" + good + R"(, "value": 1, "size_min": 9, "size_max": 8)" + "}"), {"size_min 9"}));
  CHECK(has(entry("{" + good + R"(, "value": 1, "group": "g")" + "}"), {"either 'key' or 'group'"}));
  CHECK(has(entry(R"({"key": "k", "metric": "m", "value": 1, "direction": "up", "origin": "measured"})"),
            {"direction 'up'"}));
  CHECK(has(entry(R"({"key": "k", "metric": "m", "value": 1, "direction": "higher", "origin": "guess"})"),
            {"origin 'guess'"}));
  CHECK(has(entry(kBusbw), {"entry 2", "second entry", "all_reduce/8", "busbw_GBps"}));
  CHECK(has(message_of<EnvironmentError>([] { Baseline::load("/nonexistent/b.json"); }),
            {"/nonexistent/b.json"}));
}

TEST_CASE("windows of one group may lie side by side but not overlap", "[baseline]") {
  const auto window = [](int min, int max) {
    return R"({"group": "g", "metric": "m", "value": 1, "direction": "higher", "origin": "published: x", "size_min": )" +
           std::to_string(min) + R"(, "size_max": )" + std::to_string(max) + "}";
  };
  CHECK(of(window(1, 7) + "," + window(8, 9)).entries().size() == 2);
  CHECK_THROWS_AS(of(window(1, 8) + "," + window(8, 9)), EnvironmentError);
}

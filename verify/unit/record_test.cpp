// Records: strict JSON whatever the figures, a lossless form of rows for other ranks, Prometheus text, atomic
// files.
#include "common/record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "common/error.h"
#include "common/wire.h"
#include "verify/unit/catch.h"

using namespace tt;
using Json = nlohmann::json;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Row full_row() {
  Row row;
  row.key = "all_reduce/float/sum/1048576";
  row.group = "all_reduce/float/sum";
  row.size = int64_t{1} << 40;
  row.params = {
      {"zeta", int64_t{-3}}, {"alpha", 2.0}, {"flag", true}, {"text", std::string("a\"b\\c\n\xc3\xa9")}};
  row.metrics = {{"time_us", {2, 1.0, 1.5, 1.5, 2.0, 2.0, 0.1 + 0.2}}, {"busbw_GBps", {}}};
  row.main_metric = "busbw_GBps";
  row.limit = Limit{"busbw_GBps", 450, "published: a data sheet"};
  row.limit_ratio = 1.0 / 3.0;
  row.baseline = BaselineResult{"time_us", "lower", "measured", 2, 1.5, 4.0 / 3, 0.9, true};
  row.ranks = {{0, 1.25, 0.0, 0.5}, {1, 2.5, std::nullopt, std::nullopt}};
  row.slowest = Slowest{1, 2.0, true, "arrival"};
  row.check = {40, 40, 1, Mismatch{1, 7, int64_t{1} << 41, 3, kNaN}, "exact"};
  TelemetrySummary t;
  t.rank = 1;
  t.samples = 3;
  t.power_W = 699.5;
  t.throttle = {"sw_power_cap"};
  t.throttled = true;
  row.telemetry = {t};
  row.series = {{0.5, 1.0, 100, 3.25, 1450.0, std::nullopt, 60.0, {"sw_power_cap"}}};
  row.notes = {"throttled"};
  row.comparable = false;
  row.verdict = Verdict::wrong;
  row.reason = "one wrong element";
  row.start_s = 0.125;
  row.end_s = 1e-9;
  return row;
}

Json parsed(const Record& record) {
  return Json::parse(record.json());
}  // strict: refuses NaN and Infinity

bool any_contains(const Json& texts, const std::string& part) {
  for (const Json& t : texts)
    if (t.get<std::string>().find(part) != std::string::npos) return true;
  return false;
}

std::string folder() {
  std::string name = (std::filesystem::temp_directory_path() / "tt-record-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  return name;
}

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a row survives the way to another rank without loss", "[record]") {
  const Row row = full_row();
  const Row back = row_from_text(to_text(row));
  CHECK(to_text(back) == to_text(row));
  CHECK(back.params == row.params);  // order and types: 2.0 stays a double, -3 an integer
  CHECK(*back.metrics[0].summary.cv == 0.1 + 0.2);
  CHECK(back.metrics[1].summary.n == 0);
  CHECK_FALSE(back.metrics[1].summary.median);
  CHECK(*back.limit_ratio == 1.0 / 3.0);
  CHECK(back.check.first->offset == int64_t{1} << 41);
  CHECK(std::isnan(back.check.first->got));
  CHECK(back.verdict == Verdict::wrong);
  CHECK_FALSE(back.comparable);
  CHECK_FALSE(back.ranks[1].arrival_us);
  CHECK(back.series[0].throttle == row.series[0].throttle);
  CHECK_THROWS_AS(row_from_text("{\"key\": 3}"), EnvironmentError);
  CHECK_THROWS_AS(row_from_text("nonsense"), EnvironmentError);
}

TEST_CASE("infinities that were found keep their sign", "[record]") {
  Row row = full_row();
  row.check.first->got = -INFINITY;
  row.check.first->expected = INFINITY;
  const Row back = row_from_text(to_text(row));
  CHECK(back.check.first->got == -INFINITY);
  CHECK(back.check.first->expected == INFINITY);
}

TEST_CASE("an unfinished record is valid and says incomplete", "[record]") {
  const Record record("gemm_perf", {"build/gemm_perf", "--json", "o.json"});
  const Json j = parsed(record);
  CHECK(j["verdict"] == "incomplete");
  CHECK(j["exit_code"] == 3);
  CHECK(j["rows"].empty());
  CHECK(j["culprit"].is_null());
  CHECK(j["command"][2] == "o.json");
  CHECK(j["end"].get<std::string>().size() == 24);
}

TEST_CASE("the first finish counts and the culprit is named", "[record]") {
  Record record("coll_perf", {"coll_perf"});
  RankIdentity one;
  one.rank = 1;
  one.host = "gpu07";
  one.device.name = "NVIDIA H200";
  record.set_ranks({one});
  record.finish(ExitCode::timeout, "rank 1 hangs", 1);
  record.finish(ExitCode::pass, "all is well");
  const Json j = parsed(record);
  CHECK(j["verdict"] == "timeout");
  CHECK(j["exit_code"] == 5);
  CHECK(j["reason"] == "rank 1 hangs");
  CHECK(j["culprit"]["host"] == "gpu07");
}

TEST_CASE("rows that nothing could judge do not make a pass", "[record]") {
  Record record("t", {});
  Row row;
  record.add_row(row);
  record.finish(ExitCode::pass, "");
  CHECK(parsed(record)["verdict"] == "unknown");
}

TEST_CASE("a number that is not finite becomes null and a note with its place", "[record]") {
  Record record("t", {});
  Row row = full_row();
  row.metrics[0].summary.mean = kNaN;
  row.ranks[0].time_us = INFINITY;
  row.params.emplace_back("bad", -INFINITY);
  record.add_row(row);
  const std::string text = record.json();
  CHECK(text.find("NaN") == std::string::npos);
  const Json j = Json::parse(text);
  CHECK(j["rows"][0]["metrics"]["time_us"]["mean"].is_null());
  CHECK(j["rows"][0]["ranks"][0]["time_us"].is_null());
  CHECK(any_contains(j["notes"], "/rows/0/metrics/time_us/mean"));
  CHECK(any_contains(j["notes"], "/rows/0/ranks/0/time_us"));
  CHECK(any_contains(j["notes"], "/rows/0/params/bad"));
  CHECK(j["rows"][0]["verification"]["first"]["got"].is_null());
  CHECK(j["rows"][0]["verification"]["first"]["got_text"] == "nan");
  CHECK_FALSE(any_contains(j["notes"], "verification"));
}

TEST_CASE("bytes that are not UTF-8 do not break the document", "[record]") {
  Record record("t", {"\xff\xfe", "ok"});
  record.add_note("caf\xe9");
  const Json j = parsed(record);
  CHECK(j["command"][1] == "ok");
  CHECK(j["notes"][0].get<std::string>().starts_with("caf"));
}

TEST_CASE("a record can be written while rows are being added", "[record]") {
  Record record("t", {});
  std::thread filler([&] {
    for (int i = 0; i < 200; ++i) record.add_row(full_row());
  });
  size_t rows = 0;
  for (int i = 0; i < 20; ++i) rows = std::max(rows, parsed(record)["rows"].size());
  filler.join();
  CHECK(rows <= 200);
  CHECK(record.rows().size() == 200);
}

// ---- Prometheus ----

namespace {

struct Exposition {
  std::map<std::string, std::string> help, type;
  std::map<std::string, double> samples;  // by name{labels}
};

/// Reads the text format and refuses what would break a scrape.
Exposition scrape(const std::string& text) {
  Exposition e;
  std::istringstream lines(text);
  std::string current;
  std::set<std::string> closed;
  for (std::string line; std::getline(lines, line);) {
    INFO(line);
    if (line.starts_with("# ")) {
      const bool help = line.starts_with("# HELP ");
      const std::string rest = line.substr(7);
      const std::string name = rest.substr(0, rest.find(' '));
      REQUIRE((help ? e.help : e.type).emplace(name, rest.substr(name.size() + 1)).second);
      continue;
    }
    const size_t end = line.rfind("} ");
    REQUIRE(end != std::string::npos);
    const std::string name = line.substr(0, line.find('{'));
    if (name != current) {
      REQUIRE(closed.insert(name).second);  // a name's samples stand together
      current = name;
    }
    REQUIRE(e.help.count(name) == 1);
    REQUIRE(e.type.count(name) == 1);
    REQUIRE(e.samples.emplace(line.substr(0, end + 1), std::stod(line.substr(end + 2))).second);
  }
  return e;
}

Row sized_row(const std::string& operation, int64_t size) {
  Row row;
  row.key = operation + "/" + std::to_string(size);
  row.metrics = {{"time_us", {1, 2.0, 2.0, 2.0, 2.0, 2.0, std::nullopt}}, {"busbw_GBps", {}}};
  row.check = {1, 1, 0, std::nullopt, "exact"};
  row.verdict = Verdict::pass;
  return row;
}

}  // namespace

TEST_CASE("Prometheus: two executables' files can be scraped together", "[record]") {
  Record coll("all_reduce_perf", {}), gemm("gemm_perf", {});
  for (int64_t size : {8, 16, 32}) {
    coll.add_row(sized_row("all_reduce", size));
    gemm.add_row(sized_row("gemm", size));
  }
  coll.add_row(sized_row("all_reduce", 8));  // -N: the same key again
  coll.finish(ExitCode::pass, "");
  const Exposition a = scrape(coll.prometheus()), b = scrape(gemm.prometheus());
  for (const auto& [name, help] : a.help) {
    INFO(name);
    if (b.help.count(name)) CHECK(b.help.at(name) == help);
    if (b.type.count(name)) CHECK(b.type.at(name) == a.type.at(name));
  }
  for (const auto& [sample, value] : a.samples) {
    (void)value;
    INFO(sample);
    CHECK(b.samples.count(sample) == 0);
  }
  CHECK(a.samples.count(
            "tt_time_us{tool=\"all_reduce_perf\",key=\"all_reduce/8\",occurrence=\"2\",stat=\"median\"}") ==
        1);
  CHECK(a.samples.at("tt_run_exit_code{tool=\"all_reduce_perf\"}") == 0);
  CHECK(b.samples.at("tt_run_exit_code{tool=\"gemm_perf\"}") == 3);
  CHECK(a.samples.at("tt_run_end_time_seconds{tool=\"all_reduce_perf\"}") > 1.7e9);
  CHECK(a.help.count("tt_busbw_GBps") == 0);  // a missing figure is left out, not 0
}

TEST_CASE("Prometheus: quotes, backslashes and newlines in labels are escaped", "[record]") {
  Record record("t", {});
  record.add_row(sized_row("a\"b\\c\nd", 1));
  const std::string text = record.prometheus();
  CHECK(text.find("key=\"a\\\"b\\\\c\\nd/1\"") != std::string::npos);
  scrape(text);
}

TEST_CASE("Prometheus: a figure that is not finite is left out", "[record]") {
  Record record("t", {});
  Row row = sized_row("x", 1);
  row.metrics[0].summary.max = kNaN;
  record.add_row(row);
  const Exposition e = scrape(record.prometheus());
  CHECK(e.samples.count("tt_time_us{tool=\"t\",key=\"x/1\",stat=\"max\"}") == 0);
  CHECK(e.samples.count("tt_time_us{tool=\"t\",key=\"x/1\",stat=\"min\"}") == 1);
}

// ---- files and surroundings ----

TEST_CASE("a file is replaced whole and nothing is left beside it", "[record]") {
  const std::string dir = folder(), path = dir + "/o.json";
  write_atomically(path, "first");
  write_atomically(path, std::string(1 << 20, 'x'));
  CHECK(content(path).size() == 1 << 20);
  CHECK_THROWS_AS(write_atomically(dir + "/none/o.json", "x"), EnvironmentError);
  const std::string message =
      test::message_of<EnvironmentError>([&] { write_atomically(dir + "/none/o.json", "x"); });
  CHECK(test::has(message, {dir + "/none/o.json", "No such file"}));
  std::filesystem::create_directory(dir + "/taken");
  CHECK_THROWS_AS(write_atomically(dir + "/taken", "x"), EnvironmentError);
  size_t entries = 0;
  for (const auto& e : std::filesystem::directory_iterator(dir)) entries += !e.path().empty();
  CHECK(entries == 2);
  std::filesystem::remove_all(dir);
}

TEST_CASE("only listed environment variables are recorded, and no secrets", "[record]") {
  ::setenv("NCCL_DEBUG", "INFO", 1);
  ::setenv("NCCL_SECRET_THING", "x", 1);
  ::setenv("UCX_API_TOKEN", "x", 1);
  ::setenv("HOME_OF_NOTHING", "x", 1);
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : recorded_environment()) found[name] = value;
  CHECK(found.at("NCCL_DEBUG") == "INFO");
  CHECK(found.count("NCCL_SECRET_THING") == 0);
  CHECK(found.count("UCX_API_TOKEN") == 0);
  CHECK(found.count("HOME_OF_NOTHING") == 0);
  for (const char* name : {"NCCL_DEBUG", "NCCL_SECRET_THING", "UCX_API_TOKEN", "HOME_OF_NOTHING"})
    ::unsetenv(name);
}

TEST_CASE("system versions are single lines", "[record]") {
  const Versions versions = system_versions();
  REQUIRE(versions.size() == 3);
  for (const auto& [name, version] : versions) {
    INFO(name << ": " << version);
    CHECK_FALSE(version.empty());
    CHECK(version.find('\n') == std::string::npos);
  }
}

TEST_CASE("checks merge by sums, the first wrong element being the lowest rank's", "[record]") {
  Check a{1, 2, 1, Mismatch{2, 0, 5, 1, 2}, ""};
  a.merge({10, 20, 3, Mismatch{1, 9, 7, 3, 4}, "exact"});
  a.merge({0, 0, 1, Mismatch{1, 9, 8, 3, 4}, "other"});
  CHECK(a.checked == 11);
  CHECK(a.total == 22);
  CHECK(a.wrong == 5);
  CHECK(a.method == "exact");
  CHECK(a.first->rank == 1);
  CHECK(a.first->offset == 7);
}

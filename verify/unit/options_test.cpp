#include "common/options.h"

#include <limits>
#include <map>

#include "common/error.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::has;
using tt::test::message_of;

namespace {

using Words = std::vector<std::string>;

OptionSet::Outcome parse(OptionSet& set, const Words& words) {
  std::vector<const char*> argv = {"made_perf"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  return set.parse(static_cast<int>(argv.size()), argv.data());
}

/// An executable's options: one of each kind, next to those that all share.
struct Made {
  Made() : set("made_perf", "measures nothing") {
    add_sweep(set, sweep);
    set.heading("What it measures");
    set.add_int("-m,--agg_iters", small, "an int", 1, 100);
    set.add_int("--offset", large, "an int64", -5, std::numeric_limits<int64_t>::max());
    set.add_double("--scale-factor", real, "a double", 0, 2.5);
    set.add_bool("-z,--blocking", blocking, "a bool");
    set.add_flag("--all-sizes", flag, "a flag");
    set.add_text("--name", text, "a text");
    set.add_choice("--transpose", choice, {"nn", "nt", "tn"}, "a choice");
    set.add_choices("-o,--op", ops, {"sum", "prod", "max"}, "choices", true);
    set.add_choices("--words", words, {}, "any words");
    set.add_ints("--scale", ints, "ints", 1, 4096);
    set.add_custom(
        "-d,--datatype", [this](const std::string& t) { type = parse_dtype("-d/--datatype", t); }, "float",
        "a type");
    add_common(set, common);
  }
  OptionSet::Outcome parse(const Words& given) { return ::parse(set, given); }
  std::map<std::string, std::string> settings() const {
    std::map<std::string, std::string> all;
    for (const auto& [name, value] : set.settings()) all[name] = value;
    return all;
  }

  OptionSet set;
  SweepOptions sweep;
  CommonOptions common;
  int small = 3;
  int64_t large = 0;
  double real = 0.5;
  bool blocking = false, flag = false;
  std::string text, choice = "nn";
  Words ops = {"sum"}, words;
  std::vector<int> ints = {1};
  DType type = DType::f32;
};

std::string refusal(const Words& given) {
  Made made;
  const std::string message = message_of<UsageError>([&] { made.parse(given); });
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

}  // namespace

TEST_CASE("defaults stay when nothing is given") {
  Made m;
  CHECK(m.parse({}) == OptionSet::Outcome::run);
  CHECK(m.small == 3);
  CHECK(m.ops == Words{"sum"});
  CHECK(m.ints == std::vector<int>{1});
  CHECK(m.sweep.min_bytes == 32 << 20);
  CHECK(m.common.min_ratio == 0.90);
  CHECK(m.common.timeout_s > 0);  // on by default
}

TEST_CASE("every kind of option takes its value, in every spelling") {
  Made m;
  CHECK(m.parse({"-b",
                 "8",
                 "--maxbytes=64M",
                 "-f2",
                 "-m100",
                 "--offset",
                 "-5",
                 "--scale-factor",
                 "2.5",
                 "-z",
                 "1",
                 "--name",
                 "a b",
                 "--transpose",
                 "tn",
                 "-o",
                 "all",
                 "--scale",
                 "1,2,4,8",
                 "--words=x,y",
                 "-d",
                 "bf16",
                 "--all-sizes",
                 "-c",
                 "0",
                 "-w0",
                 "--iters=7"}) == OptionSet::Outcome::run);
  CHECK(m.sweep.min_bytes == 8);
  CHECK(m.sweep.max_bytes == 64 << 20);
  CHECK(m.sweep.factor == 2);
  CHECK(m.small == 100);
  CHECK(m.large == -5);
  CHECK(m.real == 2.5);
  CHECK(m.blocking);
  CHECK(m.text == "a b");
  CHECK(m.choice == "tn");
  CHECK(m.ops == Words{"sum", "prod", "max"});
  CHECK(m.ints == std::vector<int>{1, 2, 4, 8});
  CHECK(m.words == Words{"x", "y"});
  CHECK(m.type == DType::bf16);
  CHECK(m.flag);
  CHECK_FALSE(m.sweep.check);
  CHECK(m.sweep.warmup == 0);
  CHECK(m.sweep.iterations == 7);
}

TEST_CASE("bad sizes name the option and the text") {
  const std::string text =
      GENERATE(as<std::string>{}, "-8", "", "12junk", "4KB", "8Q", "17179869185G", "-8K", "=8", "x");
  const std::string option = GENERATE(as<std::string>{}, "-b", "--maxbytes", "-i");
  CAPTURE(option, text);
  CHECK(has(refusal({option, text}), {option, "\"" + text + "\"", "accepted"}));
}

TEST_CASE("a bad value in each spelling") {
  CHECK(has(refusal({"-b-8"}), {"-b", "\"-8\""}));
  CHECK(has(refusal({"--minbytes=-8"}), {"--minbytes", "\"-8\""}));
  CHECK(has(refusal({"--minbytes="}), {"--minbytes", "accepted"}));
  CHECK(has(refusal({"--minbytes=", "8"}), {"--minbytes", "accepted"}));
  CHECK(has(refusal({"-b", "[8,9]"}), {"-b", "[8,9]"}));
  CHECK(has(refusal({"-b", "{}"}), {"-b", "{}"}));
  CHECK(has(refusal({"-b", "8 "}), {"-b", "\"8 \""}));
  CHECK(has(refusal({"-b", "\"8\""}), {"-b"}));
  CHECK(has(refusal({"-b", "8\n9"}), {"-b", "accepted"}));
}

TEST_CASE("values out of range name the range") {
  CHECK(has(refusal({"-i", "0"}), {"-i", "\"0\"", "at least 1"}));
  CHECK(has(refusal({"-m", "0"}), {"-m/--agg_iters", "\"0\"", "from 1 to 100"}));
  CHECK(has(refusal({"-m", "101"}), {"-m", "101", "from 1 to 100"}));
  CHECK(has(refusal({"-m", "-1"}), {"-m", "-1", "from 1 to 100"}));
  CHECK(has(refusal({"-m", "99999999999999999999"}), {"-m", "99999999999999999999", "from 1 to 100"}));
  CHECK(has(refusal({"-m", "2.5"}), {"-m", "2.5", "whole number"}));
  CHECK(has(refusal({"-m", "4294967297"}), {"-m", "4294967297"}));  // 1 in 32 bits
  CHECK(has(refusal({"--offset", "-6"}), {"--offset", "\"-6\""}));
  CHECK(has(refusal({"--offset", "9223372036854775808"}), {"--offset"}));
  CHECK(has(refusal({"--scale-factor", "2.6"}), {"--scale-factor", "2.6", "from 0 to 2.5"}));
  CHECK(has(refusal({"--scale-factor", "-0.1"}), {"--scale-factor", "-0.1"}));
  for (const char* text : {"nan", "inf", "1e999", "0x1", "1,5", "1 ", "", "one"})
    CHECK(has(refusal({"--scale-factor", text}), {"--scale-factor", "\"" + std::string(text) + "\""}));
  CHECK(has(refusal({"-z", "2"}), {"-z", "\"2\"", "0 or 1"}));
  CHECK(has(refusal({"-z", "true"}), {"-z", "true", "0 or 1"}));
  CHECK(has(refusal({"-f", "1"}), {"-f", "\"1\"", "above 1"}));
  CHECK(has(refusal({"-f", "0"}), {"-f", "\"0\"", "above 1"}));
  CHECK(has(refusal({"-f", "nan"}), {"-f", "nan"}));
  CHECK(has(refusal({"-f", "2x"}), {"-f", "2x"}));
  CHECK(has(refusal({"-n", "0"}), {"-n", "\"0\""}));
  CHECK(has(refusal({"-c", "-1"}), {"-c", "\"-1\""}));
  CHECK(has(refusal({"-T", "-1"}), {"-T", "\"-1\""}));
  CHECK(has(refusal({"--telemetry-interval", "0"}), {"--telemetry-interval", "\"0\""}));
  CHECK(has(refusal({"--seed", "-1"}), {"--seed", "\"-1\""}));
  CHECK(has(refusal({"-g", "0"}), {"-g", "\"0\""}));
}

TEST_CASE("unknown choices and types name the accepted") {
  CHECK(has(refusal({"--transpose", "tt"}), {"--transpose", "\"tt\"", "nn, nt, tn"}));
  CHECK(has(refusal({"--transpose", ""}), {"--transpose", "\"\"", "nn, nt, tn"}));
  CHECK(has(refusal({"--device", "gpu"}), {"--device", "\"gpu\"", "auto, cuda, host"}));
  CHECK(has(refusal({"-d", "fp17"}), {"-d", "\"fp17\"", "bfloat16"}));
  CHECK(has(refusal({"-o", "sum,mean"}), {"-o/--op", "\"mean\"", "sum, prod, max, or all"}));
  CHECK(has(refusal({"-o", "sum,all"}), {"-o", "\"all\""}));
  CHECK(has(refusal({"-o", "sum,,max"}), {"-o", "\"sum,,max\""}));
  CHECK(has(refusal({"-o", ""}), {"-o", "\"\""}));
  CHECK(has(refusal({"-o", "sum,sum"}), {"-o", "\"sum\"", "twice"}));
  CHECK(has(refusal({"--scale", "1,x"}), {"--scale", "\"x\""}));
  CHECK(has(refusal({"--scale", "0"}), {"--scale", "\"0\"", "from 1 to 4096"}));
  CHECK(has(refusal({"--scale", "1,01"}), {"--scale", "\"01\"", "twice"}));
  CHECK(has(refusal({"--scale", "1,"}), {"--scale", "\"1,\""}));
}

TEST_CASE("unknown options and stray words") {
  CHECK(has(refusal({"--bogus"}), {"unknown option", "\"--bogus\"", "--help"}));
  CHECK(has(refusal({"-y", "5"}), {"unknown option", "\"-y\""}));
  CHECK(has(refusal({"-8"}), {"\"-8\""}));
  CHECK(has(refusal({"--minbyte", "8"}), {"\"--minbyte\"", "--minbytes"}));
  CHECK(has(refusal({"--min-bytes=8"}), {"\"--min-bytes\"", "--minbytes"}));
  CHECK(has(refusal({"8"}), {"\"8\"", "not expected"}));
  CHECK(has(refusal({""}), {"\"\"", "not expected"}));
  CHECK(has(refusal({"-b", "8", "16"}), {"\"16\"", "not expected"}));
  CHECK(has(refusal({"--all-sizes", "1"}), {"\"1\"", "not expected"}));
  CHECK(has(refusal({"--all-sizes=0"}), {"--all-sizes", "\"--all-sizes=0\"", "alone"}));
  CHECK(has(refusal({"--", "-b", "8"}), {"accepted"}));
  CHECK(has(refusal({"-"}), {"\"-\""}));
}

TEST_CASE("a value that is missing") {
  CHECK(has(refusal({"-b"}), {"-b/--minbytes", "needs a value", "SIZE"}));
  CHECK(has(refusal({"--minbytes"}), {"-b/--minbytes", "needs a value"}));
  CHECK(has(refusal({"-b", "-e", "64"}), {"-b/--minbytes", "\"-e\""}));
  CHECK(has(refusal({"--json", "--prom", "x"}), {"--json", "\"--prom\""}));
  CHECK(has(refusal({"--json", "--prom=x"}), {"--json", "\"--prom=x\""}));
  CHECK(has(refusal({"-J", ""}), {"-J/--json", "\"\""}));
  CHECK(has(refusal({"--transpose"}), {"--transpose", "nn|nt|tn"}));
}

TEST_CASE("an option given twice is an error unless it is a list") {
  CHECK(has(refusal({"-b", "8", "-b", "8"}), {"-b/--minbytes", "2 times"}));
  CHECK(has(refusal({"-b", "8", "--minbytes", "9", "-b7"}), {"-b/--minbytes", "3 times"}));
  CHECK(has(refusal({"--all-sizes", "--all-sizes"}), {"--all-sizes", "2 times"}));
  CHECK(has(refusal({"-d", "float", "-d", "half"}), {"-d", "2 times"}));
  Made m;
  m.parse({"--inject", "slow:rank=1", "--inject", "die:rank=2", "-o", "sum", "-o", "max", "--scale", "1",
           "--scale=2"});
  CHECK(m.common.inject_texts == Words{"slow:rank=1", "die:rank=2"});
  CHECK(m.ops == Words{"sum", "max"});
  CHECK(m.ints == std::vector<int>{1, 2});
}

TEST_CASE("good values are taken beside a bad one, so that a record can tell") {
  const std::string bad =
      GENERATE(as<std::string>{}, "--minbytes=x", "--bogus", "word", "--min-ratio=x", "-b7 -b8");
  Made m;
  Words words = {"-J", "o.json", "-n", "5"};
  for (size_t start = 0, end; start < bad.size(); start = end + 1) {
    end = std::min(bad.find(' ', start), bad.size());
    words.insert(words.begin(), bad.substr(start, end - start));
  }
  CHECK_THROWS_AS(m.parse(words), UsageError);
  CHECK(m.common.json == "o.json");
  CHECK(m.sweep.iterations == 5);
}

TEST_CASE("help comes before any complaint, and is readable") {
  const Words given =
      GENERATE(Words{"--help"}, Words{"-h"}, Words{"-b", "12junk", "--help"}, Words{"--bogus", "-h"});
  Made m;
  CHECK(m.parse(given) == OptionSet::Outcome::help);
  const std::string help = m.set.help();
  CHECK(has(help, {"made_perf: measures nothing", "Sizes and iterations:", "What it measures:",
                   "Where it runs:", "-b, --minbytes SIZE", "[32M]", "nn|nt|tn", "--version",
                   "-T, --timeout SEC", "-J, --json FILE", "--inject FAULT", "(sum, prod, max, all)"}));
  size_t start = 0;
  for (size_t end; (end = help.find('\n', start)) != std::string::npos; start = end + 1) {
    CAPTURE(help.substr(start, end - start));
    CHECK(end - start <= 100);
  }
}

TEST_CASE("help shows the defaults, not what was given") {
  Made m;
  m.parse({"-b", "8", "--help"});
  CHECK(has(m.set.help(), {"[32M]"}));
}

TEST_CASE("the version is asked for") {
  Made m;
  CHECK(m.parse({"--version"}) == OptionSet::Outcome::version);
}

TEST_CASE("settings hold every option's final value by its long name") {
  Made m;
  m.parse({"-b", "1024", "-f", "2", "-d", "bf16", "-o", "sum,max", "--scale", "1,2", "--all-sizes", "-z", "1",
           "--inject", "slow:rank=1", "--inject", "die:rank=0", "--min-ratio", "0.8"});
  const std::map<std::string, std::string> s = m.settings();
  CHECK(s.at("minbytes") == "1K");
  CHECK(s.at("maxbytes") == "32M");
  CHECK(s.at("stepfactor") == "2");
  CHECK(s.at("datatype") == "bf16");
  CHECK(s.at("op") == "sum,max");
  CHECK(s.at("scale") == "1,2");
  CHECK(s.at("all-sizes") == "1");
  CHECK(s.at("blocking") == "1");
  CHECK(s.at("inject") == "slow:rank=1 die:rank=0");
  CHECK(s.at("min-ratio") == "0.8");
  CHECK(s.at("transpose") == "nn");
  CHECK(s.at("json").empty());
  CHECK(s.at("timeout") == "600");
  CHECK(s.at("agg_iters") == "3");
  CHECK(s.count("help") == 0);
}

TEST_CASE("the environment and files have no say in options") {
  OptionSet set("t", "d");
  int value = 1;
  set.add_int("--n", value, "n", 0, 9);
  CHECK(parse(set, {}) == OptionSet::Outcome::run);
  CHECK(set.parse(0, nullptr) == OptionSet::Outcome::run);
}

TEST_CASE("combinations of common options") {
  CommonOptions o;
  o.inject_texts = {"die:rank=1"};
  finish_common(o);
  CHECK(o.injection.find(FaultKind::die, 1));
  o.inject_texts = {"die:rnk=1"};
  CHECK(has(message_of<UsageError>([&] { finish_common(o); }), {"--inject", "die:rnk=1"}));
  o = CommonOptions();
  o.device = "host";
  o.comm = "nccl";
  CHECK(has(message_of<UsageError>([&] { finish_common(o); }), {"--comm", "nccl", "host", "auto, mpi"}));
  o = CommonOptions();
  o.json = o.prom = "file";
  CHECK(has(message_of<UsageError>([&] { finish_common(o); }), {"--prom", "\"file\""}));
}

namespace {
SweepOptions sweep(int64_t min, int64_t max, double factor, int64_t step = 1 << 20) {
  SweepOptions o;
  o.min_bytes = min;
  o.max_bytes = max;
  o.factor = factor;
  o.step_bytes = step;
  return o;
}
using Sizes = std::vector<int64_t>;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
}  // namespace

TEST_CASE("sizes of a sweep") {
  CHECK(sizes_of(sweep(65536, 71680, 0, 2048)) == Sizes{65536, 67584, 69632, 71680});
  CHECK(sizes_of(sweep(8, 64, 2)) == Sizes{8, 16, 32, 64});
  CHECK(sizes_of(sweep(8, 63, 2)) == Sizes{8, 16, 32});
  CHECK(sizes_of(sweep(8, 8, 0)) == Sizes{8});
  CHECK(sizes_of(sweep(8, 8, 2)) == Sizes{8});
  CHECK(sizes_of(SweepOptions{}) == Sizes{32 << 20});
  CHECK(sizes_of(sweep(0, 2, 0, 1)) == Sizes{0, 1, 2});
}

TEST_CASE("a sweep from 0 or with a factor near 1 moves on") {
  CHECK(sizes_of(sweep(0, 8, 2)) == Sizes{0, 1, 2, 4, 8});
  CHECK(sizes_of(sweep(1, 4, 1.001)) == Sizes{1, 2, 3, 4});
}

TEST_CASE("a sweep to the end of the range does not wrap") {
  CHECK(sizes_of(sweep(kMax / 2, kMax, 2)) == Sizes{kMax / 2, kMax - 1});
  CHECK(sizes_of(sweep(kMax - 1, kMax, 0, kMax)) == Sizes{kMax - 1});
  CHECK(sizes_of(sweep(1, kMax, 2)).size() == 63);
}

TEST_CASE("sweeps that cannot be are refused") {
  CHECK(
      has(message_of<UsageError>([] { sizes_of(sweep(64 << 10, 8, 2)); }), {"-b", "\"64K\"", "-e", "\"8\""}));
  CHECK(has(message_of<UsageError>([] { sizes_of(sweep(8, 64, 1)); }), {"-f"}));
  CHECK(has(message_of<UsageError>([] { sizes_of(sweep(8, 64, std::numeric_limits<double>::quiet_NaN())); }),
            {"-f"}));
  CHECK(has(message_of<UsageError>([] { sizes_of(sweep(8, 64, 0, 0)); }), {"-i"}));
  CHECK(has(message_of<UsageError>([] { sizes_of(sweep(0, 1ll << 40, 0, 1)); }), {"-i", "\"1T\""}));
}

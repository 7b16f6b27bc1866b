#include "common/error.h"
#include "src/node/expectation.h"
#include "src/node/inventory.h"
#include "src/node/peers.h"
#include "src/node/report.h"
#include "verify/unit/catch.h"
#include "verify/unit/node_files.h"

using namespace tt;
using namespace tt::node;
using tt::test::has;
using tt::test::message_of;

namespace {

Finding finding(const std::string& id, std::vector<std::pair<std::string, std::string>> items) {
  Finding f{.id = id, .items = {}};
  for (auto& [name, value] : items)
    f.items.push_back({name, value == "?" ? Text::unknown("cannot be read") : Text::of(value)});
  return f;
}

Node node_with(const std::string& host, std::vector<Finding> findings) {
  Node node{.host = host};
  findings.insert(findings.begin(), finding("host.name", {{"", host}}));
  node.findings = std::move(findings);
  return node;
}

}  // namespace

TEST_CASE("values of many parts make one text that names the odd one") {
  CHECK(value_text(finding("gpu.model", {{"", "H200"}})) == "H200");
  CHECK(value_text(finding("gpu.model", {{"GPU 0", "H200"}, {"GPU 1", "H200"}})) == "2 x H200");
  CHECK(value_text(finding("gpu.pcie", {{"GPU 0", "x16"}, {"GPU 1", "x8"}, {"GPU 2", "x16"}})) ==
        "2 x x16; GPU 1: x8");
  CHECK(value_text(finding("gpu.pcie", {{"GPU 0", "x16"}, {"GPU 1", "?"}})) == "GPU 0: x16; GPU 1: ?");
  CHECK(value_text(finding("gpu.pcie", {})) == "none");
}

TEST_CASE("a rule fails by its odd item, and is unknown, not passed, when one cannot be read") {
  const Rule rule = equals("on", "switch it on");
  Finding good = finding("gpu.ecc", {{"GPU 0", "on"}, {"GPU 1", "on"}});
  judge(good, rule);
  CHECK(good.status == Status::pass);
  CHECK(good.remedy.empty());
  Finding bad = finding("gpu.ecc", {{"GPU 0", "?"}, {"GPU 1", "off"}});
  judge(bad, rule);
  CHECK(bad.status == Status::fail);
  CHECK(has(bad.reason, {"GPU 1: off", "expected on"}));
  CHECK(bad.remedy == "switch it on");
  Finding unread = finding("gpu.ecc", {{"GPU 0", "on"}, {"GPU 1", "?"}});
  judge(unread, rule);
  CHECK(unread.status == Status::unknown);
  CHECK(unread.reason == "cannot be read");
  Finding none = finding("gpu.ecc", {});
  judge(none, rule);
  CHECK(none.status == Status::unknown);
}

TEST_CASE("siblings judge the odd port, kinds apart, and nothing without a majority") {
  Finding f = finding("rdma.rate", {{"a", "400"}, {"b", "400"}, {"c", "200"}, {"d", "100"}});
  judge_by_peers(f, {"x", "x", "x", "y"}, "cable");
  CHECK(f.status == Status::fail);
  CHECK(has(f.reason, {"c: 200", "400"}));
  Finding two = finding("rdma.rate", {{"a", "400"}, {"b", "200"}});
  judge_by_peers(two, {"x", "x"}, "cable");
  CHECK(two.status == Status::info);
  Finding alike = finding("rdma.rate", {{"a", "400"}, {"b", "400"}});
  judge_by_peers(alike, {"x", "x"}, "cable");
  CHECK(alike.status == Status::pass);
  Finding idle = finding("rdma.rate", {{"a", "400"}, {"b", "200"}});
  judge_by_peers(idle, {"", ""}, "cable");
  CHECK(idle.status == Status::info);
}

TEST_CASE("the odd node is named against the majority") {
  std::vector<Node> nodes;
  for (int i = 0; i < 4; ++i)
    nodes.push_back(
        node_with("n" + std::to_string(i), {finding("os.kernel", {{"", i == 2 ? "5.15" : "6.8"}})}));
  compare_nodes(nodes);
  for (int i = 0; i < 4; ++i) {
    const Finding& f = *nodes[static_cast<size_t>(i)].find("os.kernel");
    CHECK(f.status == (i == 2 ? Status::fail : Status::pass));
    if (i == 2) CHECK(has(f.reason + f.expected, {"3 of 4 nodes", "6.8"}));
    CHECK(nodes[static_cast<size_t>(i)].find("host.name")->status == Status::pass);
  }
}

TEST_CASE("two nodes that differ both fail: nobody knows which is off") {
  std::vector<Node> nodes{node_with("a", {finding("os.kernel", {{"", "5.15"}})}),
                          node_with("b", {finding("os.kernel", {{"", "6.8"}})})};
  compare_nodes(nodes);
  for (const Node& node : nodes) {
    CHECK(node.find("os.kernel")->status == Status::fail);
    CHECK(has(node.find("os.kernel")->reason, {"no majority", "5.15", "6.8"}));
  }
}

TEST_CASE("one node alone is not judged by neighbours; what differs by nature neither") {
  std::vector<Node> one{node_with("a", {finding("gpu.count", {{"", "0"}})})};
  compare_nodes(one);
  CHECK(one[0].find("gpu.count")->status == Status::info);
  CHECK(one[0].find("host.name")->status == Status::info);
  std::vector<Node> two{
      node_with("a", {finding("gpu.serial", {{"", "1"}}), finding("gpu.count", {{"", "0"}})}),
      node_with("b", {finding("gpu.serial", {{"", "2"}}), finding("gpu.count", {{"", "0"}})})};
  compare_nodes(two);
  CHECK(two[0].find("gpu.serial")->status == Status::info);
  CHECK(two[0].find("gpu.count")->status == Status::info);  // both lack them: proves nothing
}

TEST_CASE("memory may differ by two per cent, not by a module") {
  const auto run = [](const std::string& odd) {
    std::vector<Node> nodes;
    for (const std::string& v : {std::string("2015.5"), std::string("2014.9"), odd})
      nodes.push_back(node_with(v, {finding("memory.total", {{"", v}})}));
    compare_nodes(nodes);
    return nodes[2].find("memory.total")->status;
  };
  CHECK(run("2003.1") == Status::pass);
  CHECK(run("1889.6") == Status::fail);
}

TEST_CASE("a rule's own verdict stands in the comparison; unread values are left out") {
  std::vector<Node> nodes;
  for (int i = 0; i < 3; ++i)
    nodes.push_back(node_with("n" + std::to_string(i), {finding("gpu.ecc", {{"", i ? "off" : "?"}})}));
  for (Node& node : nodes) judge(node.findings[1], equals("on", "switch on"));
  compare_nodes(nodes);
  CHECK(nodes[0].find("gpu.ecc")->status == Status::unknown);
  CHECK(nodes[1].find("gpu.ecc")->status == Status::fail);
  CHECK(nodes[1].find("gpu.ecc")->remedy == "switch on");
}

TEST_CASE("names that occur twice and clocks that are off are found") {
  std::vector<Node> nodes{node_with("a", {finding("time.synchronized", {{"", "yes"}})}), node_with("a", {}),
                          node_with("b", {})};
  for (int i = 0; i < 3; ++i)
    nodes[static_cast<size_t>(i)].rank = i,
    nodes[static_cast<size_t>(i)].clock_s = 1000 + (i == 1 ? 2.5 : 0.001 * i);
  compare_nodes(nodes);
  CHECK(nodes[0].find("host.name")->status == Status::fail);
  CHECK(has(nodes[1].find("host.name")->reason, {"0, 1"}));
  CHECK(nodes[2].find("host.name")->status == Status::pass);
  CHECK(nodes[0].find("time.agreement")->status == Status::pass);
  CHECK(nodes[1].find("time.agreement")->status == Status::fail);
  CHECK(has(value_text(*nodes[1].find("time.agreement")), {"off"}));
}

TEST_CASE("8 GPUs expected on a node without any: 0 of 8, with a remedy") {
  Node node = node_with("a", {finding("gpu.count", {{"", "0"}})});
  apply_expectations(parse_expectations_json(R"({"gpu": {"count": 8}})", "order.json"), node);
  const Finding& f = *node.find("gpu.count");
  CHECK(f.status == Status::fail);
  CHECK(has(f.reason, {"0 of 8 GPUs"}));
  CHECK(!f.remedy.empty());
}

TEST_CASE("expectations: operators, choices, lists, absent and unreadable things") {
  CHECK(meets("570.86.15", ">= 570"));
  CHECK(!meets("565.57", ">=570"));
  CHECK(meets("5.17", "< 6"));
  CHECK(meets("16", "16"));
  CHECK(meets("unlimited", ">= 65536"));
  CHECK(!meets("a", "!= a"));
  const auto judged = [](Finding f, const std::string& json) {
    Node node = node_with("a", {std::move(f)});
    apply_expectations(parse_expectations_json(json, "o.json"), node);
    return node.findings.back();
  };
  CHECK(judged(finding("nic.speed", {{"a", "400000"}, {"b", "400000"}}), R"({"nic.speed": 400000})").status ==
        Status::pass);
  CHECK(judged(finding("nic.speed", {{"a", "400000"}, {"b", "200000"}}), R"({"nic.speed": 400000})").status ==
        Status::fail);
  CHECK(judged(finding("nic.speed", {{"a", "400000"}, {"b", "200000"}}), R"({"nic.speed": [400000, 200000]})")
            .status == Status::pass);
  CHECK(judged(finding("nic.speed", {{"a", "4"}, {"b", "4"}}), R"({"nic.speed": "2 x 4"})").status ==
        Status::pass);
  CHECK(judged(finding("memory.total", {{"", "2015.4"}}), R"({"memory.total": 2000})").status ==
        Status::pass);
  CHECK(judged(finding("memory.total", {{"", "1900"}}), R"({"memory.total": 2000})").status == Status::fail);
  const Finding unread = judged(finding("gpu.vbios", {{"", "?"}}), R"({"gpu.vbios": "96.00"})");
  CHECK(unread.status == Status::fail);
  CHECK(has(unread.reason, {"could not be read", "cannot be read"}));
  Node bare = node_with("a", {});
  apply_expectations(parse_expectations_json(R"({"gpu.model": "NVIDIA H200"})", "o.json"), bare);
  CHECK(bare.find("gpu.model")->status == Status::fail);
}

TEST_CASE("an exact expectation overrules a rule, one with an operator does not") {
  const auto judged = [](const std::string& json) {
    Finding f = finding("gpu.mig", {{"", "on"}});
    judge(f, equals("off", "r"));
    Node node = node_with("a", {f});
    apply_expectations(parse_expectations_json(json, "o.json"), node);
    return node.findings.back().status;
  };
  CHECK(judged(R"({"gpu.mig": "on"})") == Status::pass);
  CHECK(judged(R"({"gpu.mig": ">= a"})") == Status::fail);
}

TEST_CASE("broken expectation files are refused, naming file and field") {
  const auto json = [](const std::string& text) {
    return message_of<EnvironmentError>([&] { parse_expectations_json(text, "o.json"); });
  };
  for (const std::string& bad : {std::string(), std::string("{"), std::string("\xff\x00", 2),
                                 std::string(100000, '['), std::string("[]"), std::string("{}")})
    CHECK(has(json(bad), {"o.json"}));
  CHECK(has(json(R"({"gpu.counts": 8})"), {"gpu.counts", "gpu.count"}));
  CHECK(has(json(R"({"gpu": {"count": true}})"), {"gpu.count", "true"}));
  CHECK(has(json(R"({"gpu.count": []})"), {"gpu.count", "empty"}));
  CHECK(has(json(R"({"gpu.count": [[8]]})"), {"gpu.count"}));
  CHECK(has(json(R"({"gpu.count": null})"), {"gpu.count"}));
  CHECK(has(json(R"({"gpu.count": "  "})"), {"gpu.count"}));
  CHECK(has(json(R"({"gpu.count": 1e300})"), {"gpu.count"}));
  CHECK(has(message_of<EnvironmentError>([] { expectation_text("/nowhere/o.toml"); }),
            {"/nowhere/o.toml", "No such file"}));
#if __has_include(<toml++/toml.h>)
  const auto toml = [](const std::string& text) {
    return message_of<EnvironmentError>([&] { parse_expectations_toml(text, "o.toml"); });
  };
  CHECK(has(toml("gpu.count = "), {"o.toml", "line 1"}));
  CHECK(has(toml("[gpu]\ncount = 8\ncount = 9"), {"o.toml", "line 3"}));
  CHECK(has(toml(""), {"o.toml", "no expectation"}));
  CHECK(has(toml(std::string("\xff\xfe\x00gpu", 6)), {"o.toml"}));
  CHECK(has(toml("gpu.count = 2020-01-01"), {"gpu.count"}));
  CHECK(has(toml("gpu.count = 99999999999999999999"), {"o.toml"}));
  CHECK(has(toml("gpu.count = " + std::string(10000, '[')), {"o.toml"}));
  CHECK(has(toml("gpu.power_limit = inf"), {"gpu.power_limit"}));
  const auto good = parse_expectations_toml(
      "gpu.count = 8\n[gpu.x]\n[nic]\nspeed = [400000, 200000] # no newline at the end", "o.toml");
  REQUIRE(good.size() == 2);
  CHECK(good[0].choices == std::vector<std::string>{"8"});
  CHECK(good[1].id == "nic.speed");
#endif
}

TEST_CASE("a bill of materials frozen and compared is met, and a changed node is not") {
  Node node =
      node_with("a", {finding("os.kernel", {{"", "6.8 \"x\\y\""}}), finding("memory.total", {{"", "2015.5"}}),
                      finding("gpu.model", {{"GPU 0", "H200"}, {"GPU 1", "H200"}}),
                      finding("gpu.vbios", {{"GPU 0", "?"}})});
  const std::string bom = freeze_bom({node}, "made for a test");
  CHECK(has(bom, {"# made for a test\n", "gpu.model = \"2 x H200\"\n", "# gpu.vbios: unknown"}));
  CHECK(bom.find("host.name") == std::string::npos);
#if __has_include(<toml++/toml.h>)
  const auto expected = parse_expectations_toml(bom, "bom.toml");
  CHECK(expected.size() == 3);
  Node same = node;
  apply_expectations(expected, same);
  for (const char* id : {"os.kernel", "memory.total", "gpu.model"})
    CHECK(same.find(id)->status == Status::pass);
  Node changed = node;
  changed.findings[3].items.pop_back();
  apply_expectations(expected, changed);
  CHECK(changed.find("gpu.model")->status == Status::fail);
#endif
}

TEST_CASE("a node's report survives the way between ranks, and a broken one is refused") {
  Node node = node_with("h\xff", {finding("gpu.pcie", {{"GPU 0", "x16"}, {"GPU 1", "?"}})});
  judge(node.findings[1], equals("x8", "re\"seat\n"));
  node.clock_s = 1.5;
  node.rank = 7;
  const Node again = parse_node(to_text(node));
  CHECK(again.rank == 7);
  CHECK(again.clock_s == 1.5);
  CHECK(again.findings[1].status == Status::fail);
  CHECK(again.findings[1].remedy == "re\"seat\n");
  CHECK(value_text(again.findings[1]) == value_text(node.findings[1]));
  for (const char* bad : {"", "{}", "[]", "{\"host\": 1, \"rank\": 0, \"findings\": []}",
                          R"({"host": "a", "rank": 0, "findings": [{"id": "nonsense", "items": []}]})"})
    CHECK_THROWS_AS(parse_node(bad), EnvironmentError);
}

TEST_CASE("nodes that agree share a line; reasons and remedies stand below") {
  std::vector<Node> nodes;
  for (int i = 0; i < 12; ++i)
    nodes.push_back(
        node_with("n" + std::to_string(i), {finding("os.kernel", {{"", i == 3 ? "5.15" : "6.8"}})}));
  compare_nodes(nodes);
  const auto lines = table_lines(nodes);
  std::string all;
  int kernels = 0;
  for (const std::string& line : lines) {
    all += line + "\n";
    kernels += line.find("os.kernel") != std::string::npos;
  }
  CHECK(kernels == 2);
  CHECK(has(all, {"FAIL", "n3", "why: differs from 11 of 12 nodes", "remedy: ", "and 3 more"}));
  CHECK(hosts_text({"a", "b"}, 2) == "all 2");
  CHECK(hosts_text({"a"}, 1) == "a");
  CHECK(has(summary_line(nodes), {"24 checks on 12 nodes", "1 FAIL"}));
}

TEST_CASE("rows have a key of their own each, also when two hosts share a name") {
  std::vector<Node> nodes{node_with("a", {finding("os.kernel", {{"", "6.8"}})}), node_with("a", {})};
  nodes[1].rank = 4;
  const auto rows = to_rows(nodes);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].key == "node/host.name/a/rank0");
  CHECK(rows[2].key == "node/host.name/a/rank4");
  CHECK(rows[1].verdict == Verdict::unknown);
  CHECK(rows[1].reason == "not judged");
}

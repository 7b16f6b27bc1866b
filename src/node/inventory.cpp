#include "src/node/inventory.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "src/node/catalogue.h"
#include "src/node/sources.h"

namespace tt::node {
namespace {

using nlohmann::json;

size_t position(const std::string& id) {
  return static_cast<size_t>(&catalogue_entry(id) - catalogue().data());
}

void sort_by_catalogue(Node& node) {
  std::stable_sort(node.findings.begin(), node.findings.end(),
                   [](const Finding& a, const Finding& b) { return position(a.id) < position(b.id); });
}

}  // namespace

const Finding* Node::find(const std::string& id) const {
  const auto it =
      std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.id == id; });
  return it == findings.end() ? nullptr : &*it;
}

Node inspect(const Sysroot& root, const std::string& host, int rank,
             const std::map<std::string, std::string>& versions) {
  Node node{.host = host, .rank = rank};
  if (!root.live())
    if (const Text name = root.text("/proc/sys/kernel/hostname"); name && !name->empty())
      node.host = printable(*name, 64);
  const Surroundings around = survey(root, versions);
  Findings out;
  out.add("host.name", Text::of(node.host));
  for (const auto source :
       {inspect_os, inspect_cpu, inspect_memory, inspect_limits, inspect_clock, inspect_nics, inspect_rdma,
        inspect_gpus, inspect_driver, inspect_services, inspect_software})
    source(root, around, out);
  node.findings = out.take();
  sort_by_catalogue(node);
  return node;
}

void add_computes(Node& node, std::vector<Item> items) {
  Finding finding{.id = "gpu.computes", .items = std::move(items)};
  judge(finding,
        equals("yes",
               "CUDA does not work on this GPU: see Xid errors in the kernel log, compute mode and MIG; "
               "reset it (`nvidia-smi -r -i N`), and when that does not help, return it"));
  node.findings.push_back(std::move(finding));
  sort_by_catalogue(node);
}

std::string to_text(const Node& node) {
  json document{{"host", node.host}, {"rank", node.rank}, {"findings", json::array()}};
  if (node.clock_s) document["clock_s"] = *node.clock_s;
  for (const Finding& f : node.findings) {
    json items = json::array();
    for (const Item& item : f.items)
      items.push_back({{"name", item.name},
                       item.value ? json::object_t::value_type{"value", *item.value}
                                  : json::object_t::value_type{"why", item.value.why}});
    document["findings"].push_back({{"id", f.id},
                                    {"items", items},
                                    {"expected", f.expected},
                                    {"status", word_of(f.status)},
                                    {"reason", f.reason},
                                    {"remedy", f.remedy}});
  }
  // what a file held need not be UTF-8
  return document.dump(-1, ' ', false, json::error_handler_t::replace);
}

Node parse_node(const std::string& text) try {
  const json document = json::parse(text);
  Node node{.host = document.at("host"), .rank = document.at("rank")};
  if (document.contains("clock_s")) node.clock_s = document["clock_s"].get<double>();
  for (const json& f : document.at("findings")) {
    Finding finding{.id = f.at("id"), .items = {}};
    if (!find_entry(finding.id)) throw EnvironmentError("unknown check '" + printable(finding.id, 40) + "'");
    for (const json& item : f.at("items"))
      finding.items.push_back({item.at("name"), item.contains("value") ? Text::of(item["value"])
                                                                       : Text::unknown(item.at("why"))});
    finding.expected = f.at("expected");
    finding.status = parse_status(f.at("status"));
    finding.reason = f.at("reason");
    finding.remedy = f.at("remedy");
    node.findings.push_back(std::move(finding));
  }
  return node;
} catch (const json::exception& e) {
  throw EnvironmentError(std::string("a node's report cannot be read: ") + e.what());
}

std::vector<Row> to_rows(const std::vector<Node>& nodes) {
  std::vector<Row> rows;
  for (const Node& node : nodes) {
    const auto namesakes =
        std::count_if(nodes.begin(), nodes.end(), [&](const Node& n) { return n.host == node.host; });
    for (const Finding& f : node.findings) {
      const CatalogueEntry& entry = catalogue_entry(f.id);
      Row row;
      row.group = "node/" + f.id;
      row.key = row.group + "/" + node.host + (namesakes > 1 ? "/rank" + std::to_string(node.rank) : "");
      row.params = {
          {"check", f.id}, {"what", std::string(entry.what)}, {"host", node.host}, {"value", value_text(f)}};
      if (!entry.unit.empty()) row.params.emplace_back("unit", std::string(entry.unit));
      row.params.emplace_back("expected", f.expected);
      row.params.emplace_back("status", std::string(word_of(f.status)));
      if (!f.remedy.empty()) row.params.emplace_back("remedy", f.remedy);
      row.judged = true;
      row.verdict = f.status == Status::pass   ? Verdict::pass
                    : f.status == Status::fail ? Verdict::fail
                                               : Verdict::unknown;
      row.reason = f.status == Status::info ? (f.reason.empty() ? "not judged" : f.reason) : f.reason;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace tt::node

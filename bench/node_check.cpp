// T1: is every node healthy, complete and like its neighbours?
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "bench/support/tool.h"
#include "common/error.h"
#include "src/device/random.h"
#include "src/node/catalogue.h"
#include "src/node/expectation.h"
#include "src/node/inventory.h"
#include "src/node/report.h"

namespace tt {
namespace {

struct NodeCheckOptions {
  std::string sysroot = "/";
  std::string expect;
  std::string bom;     // "freeze:FILE" or "compare:FILE"
  std::string record;  // folder
};

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

double wall_clock_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// What rank 0 makes of a file or of the nodes' reports, or the error it met, the same on every rank.
template <class Make>
std::string on_rank0(const Group& all, Make make) {
  std::string text;
  if (all.rank() == 0) {
    try {
      text = "+" + make();
    } catch (const Error& e) {
      text = std::string("-") + e.what();
    }
  }
  text = all.broadcast(text, 0);
  if (text.at(0) == '-') throw EnvironmentError(text.substr(1));
  return text.substr(1);
}

/// Does a kernel run on this rank's GPU, and are its results right? "" on the host device.
std::string try_gpu(Device& device) {
  if (device.kind() != DeviceKind::cuda) return "";
  constexpr size_t kCount = 1 << 18;
  constexpr uint64_t kSeed = 20260131;
  try {
    const Buffer on_gpu = device.allocate(kCount * sizeof(float));
    const Buffer on_host = device.allocate_pinned(kCount * sizeof(float));
    const auto stream = device.make_stream();
    device.fill_random(on_gpu.data(), kCount, DType::f32, Fill::normal, kSeed, 0, *stream);
    device.copy(on_host.data(), on_gpu.data(), on_gpu.bytes(), *stream);
    stream->synchronize();
    const float* values = static_cast<const float*>(on_host.data());
    for (size_t e = 0; e < kCount; ++e)
      if (!(values[e] == random_value(DType::f32, Fill::normal, kSeed, e)))
        return "wrong at element " + std::to_string(e);
    return "yes";
  } catch (const Error& e) {
    return e.what();
  }
}

class NodeCheck final : public Tool {
 public:
  std::string name() const override { return "node_check"; }
  std::string description() const override {
    return "Is every node healthy, complete and like its neighbours? One rank per node looks.";
  }

  void add_options(OptionSet& set) override {
    set.heading("node_check");
    set.add_text("--expect", options_.expect, "what was ordered: a TOML file (or .json) of check = value");
    set.add_text("--bom", options_.bom,
                 "'freeze FILE' writes the bill of materials, 'compare FILE' holds the nodes to it");
    set.add_text("--sysroot", options_.sysroot,
                 "read a recorded tree instead of this machine; %h is the host name, %r the rank (every rank "
                 "is then a node)");
    set.add_text("--record", options_.record, "copy all that was read to the tree DIR/HOST, for --sysroot");
  }

  void check_options(const CommonOptions&) override {
    if (options_.bom.empty()) return;
    const size_t colon = options_.bom.find(':');
    const std::string verb = options_.bom.substr(0, colon);
    if ((verb != "freeze" && verb != "compare") || colon == std::string::npos ||
        colon + 1 == options_.bom.size())
      throw UsageError("--bom: '" + options_.bom + "' is neither 'freeze FILE' nor 'compare FILE'");
  }

  std::vector<std::string> list(const CommonOptions&) override {
    std::vector<std::string> keys;
    for (const auto& entry : node::catalogue()) keys.push_back("node/" + std::string(entry.id));
    return keys;
  }

  bool may_share_gpu(const CommonOptions&) const override { return true; }

  void run(Session& session, Device& device) override {
    World& world = session.world();
    session.phase("expectations");
    const auto expectations = read_expectations(world.all());
    session.phase("look at the node");
    const std::string mine = look(session, device);
    session.phase("compute on the GPUs");
    const std::string works = options_.sysroot == "/" ? try_gpu(device) : "";
    const std::vector<std::string> outcomes = world.all().all_gather(works);
    session.phase("compare the nodes");
    std::vector<node::Node> nodes;
    for (const std::string& text : world.all().all_gather(mine))
      if (!text.empty()) nodes.push_back(node::parse_node(text));
    for (node::Node& n : nodes) add_outcomes(n, session.ranks(), outcomes);
    node::compare_nodes(nodes);
    for (node::Node& n : nodes) node::apply_expectations(expectations, n);
    report(session, nodes);
  }

 private:
  /// With %r in --sysroot every rank is a node of its own, otherwise the first rank of each host speaks for
  /// it.
  bool speaks(const World& world) const {
    return world.local_rank() == 0 || options_.sysroot.find("%r") != std::string::npos;
  }

  /// Rank 0 reads the files, so that they need be on one node only.
  std::vector<node::Expectation> read_expectations(const Group& all) const {
    std::vector<node::Expectation> list;
    const auto add = [&](const std::string& file) {
      const std::string text = on_rank0(all, [&] { return node::expectation_text(file); });
      for (auto& e : node::parse_expectations(text, file)) list.push_back(std::move(e));
    };
    if (!options_.expect.empty()) add(options_.expect);
    if (options_.bom.starts_with("compare:")) add(options_.bom.substr(8));
    return list;
  }

  /// This rank's node as text; "" when another rank speaks for it. Collective.
  std::string look(Session& session, Device& device) const {
    World& world = session.world();
    std::string text, trouble;
    // All ranks leave the barrier together within far less than the 100 ms that clocks may differ by.
    world.all().barrier();
    const double clock = wall_clock_seconds();
    if (speaks(world)) {
      try {
        const std::string path =
            replaced(replaced(options_.sysroot, "%h", world.host()), "%r", std::to_string(world.rank()));
        const node::Sysroot root(path);
        std::map<std::string, std::string> versions;
        for (const auto& [library, version] : system_versions()) versions[library] = version;
        for (const auto& [library, version] : device.versions()) versions[library] = version;
        node::Node n = node::inspect(root, world.host(), world.rank(), versions);
        if (root.live()) n.clock_s = clock;
        if (!options_.record.empty()) node::record_tree(root, options_.record + "/" + n.host, versions);
        text = node::to_text(n);
      } catch (const Error& e) {
        trouble = "rank " + std::to_string(world.rank()) + " on " + world.host() + ": " + e.what();
      }
    }
    // One rank's broken tree ends the run on all of them, in the same words.
    for (const std::string& t : world.all().all_gather(trouble))
      if (!t.empty()) throw EnvironmentError(t);
    return text;
  }

  /// What came of the GPUs of this node's ranks.
  static void add_outcomes(node::Node& n, const std::vector<RankIdentity>& ranks,
                           const std::vector<std::string>& outcomes) {
    std::vector<node::Item> items;
    for (const RankIdentity& r : ranks)
      if (const std::string& outcome = outcomes[static_cast<size_t>(r.rank)];
          r.host == n.host && !outcome.empty())
        items.push_back(
            {"rank " + std::to_string(r.rank) + " (" + r.device.pci + ")", node::Text::of(outcome)});
    if (!items.empty()) node::add_computes(n, std::move(items));
  }

  void report(Session& session, const std::vector<node::Node>& nodes) const {
    if (options_.sysroot != "/")
      session.header("RECORDED: this is " + options_.sysroot + ", not the machine", true);
    for (const std::string& line : node::table_lines(nodes)) session.say(line);
    session.header(node::summary_line(nodes));
    for (Row& row : node::to_rows(nodes)) session.add(std::move(row));
    if (options_.bom.starts_with("freeze:"))
      on_rank0(session.world().all(), [&] {
        write_atomically(options_.bom.substr(7),
                         node::freeze_bom(nodes, "bill of materials of " + std::to_string(nodes.size()) +
                                                     " nodes, by node_check " TT_VERSION));
        return std::string();
      });
  }

  NodeCheckOptions options_;
};

/// `--bom freeze FILE`, two words behind one option, becomes `--bom freeze:FILE`.
std::vector<std::string> joined_bom(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 0; i < argc; ++i) {
    words.emplace_back(argv[i]);
    const bool two_follow = i + 2 < argc && argv[i + 1][0] != '-' && argv[i + 2][0] != '-';
    if (words.back() != "--bom" || !two_follow) continue;
    words.push_back(std::string(argv[i + 1]) + ":" + argv[i + 2]);
    i += 2;
  }
  return words;
}

}  // namespace
}  // namespace tt

int main(int argc, char** argv) {
  std::vector<std::string> words = tt::joined_bom(argc, argv);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  tt::NodeCheck tool;
  return tt::run_tool(static_cast<int>(words.size()), pointers.data(), tool);
}

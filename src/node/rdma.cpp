// RDMA devices: /sys/class/infiniband (InfiniBand and RoCE).
#include "src/node/peers.h"
#include "src/node/sources.h"

namespace tt::node {
namespace {

constexpr const char* kClass = "/sys/class/infiniband/";

struct Port {
  std::string label, kind;  // kind: board and link layer; ports of one kind should be alike
  Text state, rate, link_layer, gid;
  Reading<int64_t> link_downed;
  bool active = false;
};

/// "4: ACTIVE" -> "ACTIVE"
Text after_colon(const Text& text) {
  if (!text) return text;
  const size_t colon = text->find(": ");
  return Text::of(printable(colon == std::string::npos ? *text : text->substr(colon + 2), 40));
}

/// The first entry of the port's GID table that RoCE v2 can route: type "RoCE v2", an IPv4-mapped address.
Text routable_gid(const Sysroot& root, const std::string& at) {
  const auto entries = root.list(at + "/gids");
  if (!entries) return Text::unknown(entries.why);
  for (const std::string& entry : *entries) {
    const Text gid = root.text(at + "/gids/" + entry), type = root.text(at + "/gid_attrs/types/" + entry);
    if (gid && type && *type == "RoCE v2" && gid->starts_with("0000:0000:0000:0000:0000:ffff:"))
      return Text::of("GID " + printable(entry, 8));
  }
  return Text::of("none");
}

Port read_port(const Sysroot& root, const std::string& device, const std::string& number) {
  const std::string at = kClass + device + "/ports/" + number;
  Port port{.label = number == "1" ? device : device + "/" + number,
            .kind = {},
            .state = after_colon(root.text(at + "/state")),
            .rate = root.text(at + "/rate"),
            .link_layer = root.text(at + "/link_layer"),
            .gid = {},
            .link_downed = root.integer(at + "/counters/link_downed")};
  port.active = port.state && *port.state == "ACTIVE";
  if (port.rate) port.rate = Text::of(printable(port.rate->substr(0, port.rate->find(' ')), 20));
  const Text board = root.text(kClass + device + "/board_id");
  port.kind = (board ? *board : "") + "/" + (port.link_layer ? *port.link_layer : "");
  port.gid = routable_gid(root, at);
  return port;
}

template <class Member>
std::vector<Item> items(const std::vector<Port>& ports, Member member) {
  std::vector<Item> list;
  for (const Port& port : ports) list.push_back({port.label, member(port)});
  return list;
}

void add_firmware(const Sysroot& root, const std::vector<std::string>& devices, Findings& out) {
  std::vector<Item> list;
  std::vector<std::string> boards;
  for (const std::string& device : devices) {
    list.push_back({device, root.text(kClass + device + "/fw_ver")});
    const Text board = root.text(kClass + device + "/board_id");
    boards.push_back(board ? *board : "");
  }
  judge_by_peers(out.add("rdma.firmware", list), boards,
                 "bring all cards of a kind to one firmware: `mlxfwmanager` or `mstflint`");
}

}  // namespace

void inspect_rdma(const Sysroot& root, const Surroundings& around, Findings& out) {
  out.add("rdma.count", Reading<int64_t>::of(static_cast<int64_t>(around.rdma.size())));
  if (around.rdma.empty()) return;
  std::vector<Port> ports;
  for (const std::string& device : around.rdma)
    if (const auto numbers = root.list(kClass + device + "/ports"))
      for (const std::string& number : *numbers) ports.push_back(read_port(root, device, number));
  std::vector<std::string> all, active;
  for (const Port& port : ports) {
    all.push_back(port.kind);
    active.push_back(port.active ? port.kind : "");
  }
  judge_by_peers(out.add("rdma.state", items(ports, [](const Port& p) { return p.state; })), all,
                 "the port has no link or no subnet manager: cable, transceiver, switch port; `ibstat "
                 "DEVICE`, `rdma link`");
  judge_by_peers(out.add("rdma.rate", items(ports, [](const Port& p) { return p.rate; })), active,
                 "the link trained down: cable, transceiver or switch port (`mlxlink -d DEVICE -m`)");
  out.add("rdma.link_layer", items(ports, [](const Port& p) { return p.link_layer; }));
  out.add("rdma.link_downed", items(ports, [](const Port& p) {
            return p.link_downed ? Text::of(std::to_string(*p.link_downed))
                                 : Text::unknown(p.link_downed.why);
          }));
  std::vector<Item> gids;
  for (const Port& port : ports)
    if (port.active && port.link_layer && *port.link_layer == "Ethernet")
      gids.push_back({port.label, port.gid});
  if (!gids.empty())
    judge(out.add("rdma.gid", gids),
          {"a RoCE v2 IPv4 address", [](const std::string& v) { return v != "none"; },
           "give the port's network interface an IPv4 address: RoCE v2 has nothing to route by"});
  add_firmware(root, around.rdma, out);
}

}  // namespace tt::node

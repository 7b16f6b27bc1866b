// Network cards: /sys/class/net, those with a device behind them (not loopback, bridges, tunnels).
#include "src/node/peers.h"
#include "src/node/sources.h"

namespace tt::node {
namespace {

constexpr const char* kNet = "/sys/class/net/";

struct Nic {
  std::string name, label;  // "eth0", "eth0 (0000:00:03.0)"
  Text address, driver, state, pci_id;
  Reading<int64_t> speed_Mbps, mtu, numa;
  std::string rdma;  // name of its RDMA device, "" if it has none
};

Nic read_nic(const Sysroot& root, const std::string& name) {
  const std::string at = kNet + name;
  Nic nic{.name = name,
          .label = name,
          .address = {},
          .driver = {},
          .state = root.text(at + "/operstate"),
          .pci_id = {},
          .speed_Mbps = root.integer(at + "/speed"),
          .mtu = root.integer(at + "/mtu"),
          .numa = root.integer(at + "/device/numa_node"),
          .rdma = {}};
  const Text device = root.resolve(at + "/device");
  if (device) {
    std::string address = base_name(*device);
    // virtio sits on a bus of its own below its PCI function
    if (address.starts_with("virtio")) address = base_name(device->substr(0, device->rfind('/')));
    nic.address = Text::of(address);
    nic.label += " (" + printable(address, 20) + ")";
  }
  const Text driver = root.resolve(at + "/device/driver");
  nic.driver = root.exists(at + "/device/driver") && driver ? Text::of(base_name(*driver))
                                                            : Text::unknown(at + "/device/driver: not there");
  nic.pci_id = root.text(at + "/device/device");
  if (nic.speed_Mbps && *nic.speed_Mbps <= 0)  // what the kernel shows where the driver does not tell
    nic.speed_Mbps = Reading<int64_t>::unknown(at + "/speed: the driver does not tell");
  if (const auto devices = root.list(at + "/device/infiniband"); devices && !devices->empty())
    nic.rdma = devices->front();
  return nic;
}

Text as_text(const Reading<int64_t>& n) {
  return n ? Text::of(std::to_string(*n)) : Text::unknown(n.why);
}

template <class Member>
std::vector<Item> items(const std::vector<Nic>& nics, Member member) {
  std::vector<Item> list;
  for (const Nic& nic : nics) list.push_back({nic.label, member(nic)});
  return list;
}

/// Cards of one kind that are in use: same driver, device id and speed.
std::vector<std::string> kinds(const std::vector<Nic>& nics, bool with_speed) {
  std::vector<std::string> list;
  for (const Nic& nic : nics) {
    const bool up = nic.state && *nic.state == "up";
    list.push_back(!up || !nic.driver
                       ? ""
                       : *nic.driver + "/" + (nic.pci_id ? *nic.pci_id : "") +
                             (with_speed && nic.speed_Mbps ? "/" + std::to_string(*nic.speed_Mbps) : ""));
  }
  return list;
}

void add_pcie(const Sysroot& root, const std::vector<Nic>& nics, Findings& out) {
  std::vector<Item> now;
  std::string bad;
  bool judged = false;
  for (const Nic& nic : nics) {
    if (!nic.address || nic.address->find(':') == std::string::npos || !nic.pci_id ||
        nic.driver.value.value_or("").starts_with("virtio"))
      continue;
    const PciLink link = read_pci_link(root, *nic.address);
    now.push_back({nic.label, link_text(link.generation, link.width)});
    if (!link.width || !link.max_width || !link.generation || !link.max_generation) continue;
    judged = true;
    if (*link.width < *link.max_width || *link.generation < *link.max_generation)
      bad += (bad.empty() ? "" : "; ") + nic.label + ": " + *link_text(link.generation, link.width) + " of " +
             *link_text(link.max_generation, link.max_width);
  }
  if (now.empty()) return;
  Finding& f = out.add("nic.pcie", now);
  if (!judged) return;
  f.expected = "what card and slot can do";
  f.status = bad.empty() ? (f.status == Status::info ? Status::pass : f.status) : Status::fail;
  f.reason = bad.empty() ? f.reason : bad;
  if (!bad.empty())
    f.remedy =
        "the link trained down: reseat the card, look for dirt or a bad riser; `lspci -vvs ADDRESS` shows "
        "LnkSta";
}

void add_bonds(const Sysroot& root, const std::vector<std::string>& names, Findings& out) {
  std::vector<Item> members;
  for (const std::string& bond : names) {
    const Text slaves = root.text(kNet + bond + "/bonding/slaves");
    if (!slaves) continue;
    for (const std::string& slave : split_words(*slaves))
      members.push_back({bond + "/" + slave, root.text(kNet + slave + "/bonding_slave/mii_status")});
    if (split_words(*slaves).empty()) members.push_back({bond, Text::of("no members")});
  }
  if (members.empty()) return;
  judge(
      out.add("nic.bond", members),
      equals(
          "up",
          "a bond member is down: cable, transceiver or switch port; half the bandwidth is gone unnoticed"));
}

}  // namespace

void inspect_nics(const Sysroot& root, const Surroundings& around, Findings& out) {
  (void)around;
  const auto names = root.list("/sys/class/net");
  if (!names) {
    out.add("nic.count", Text::unknown(names.why));
    return;
  }
  std::vector<Nic> nics;
  for (const std::string& name : *names)
    if (root.exists(kNet + name + "/device")) nics.push_back(read_nic(root, name));
  out.add("nic.count", Reading<int64_t>::of(static_cast<int64_t>(nics.size())));
  if (!nics.empty()) {
    out.add("nic.driver", items(nics, [](const Nic& n) { return n.driver; }));
    out.add("nic.link", items(nics, [](const Nic& n) { return n.state; }));
    judge_by_peers(
        out.add("nic.speed", items(nics, [](const Nic& n) { return as_text(n.speed_Mbps); })),
        kinds(nics, false),
        "the link came up slower than its siblings': cable, transceiver or switch port (`ethtool NIC`)");
    judge_by_peers(
        out.add("nic.mtu", items(nics, [](const Nic& n) { return as_text(n.mtu); })), kinds(nics, true),
        "`ip link set NIC mtu N`, the same on all ports of the fabric, and in the network configuration");
    out.add("nic.numa", items(nics, [](const Nic& n) { return as_text(n.numa); }));
    add_pcie(root, nics, out);
  }
  add_bonds(root, *names, out);
}

}  // namespace tt::node

#include <climits>

#include "common/error.h"
#include "src/node/catalogue.h"
#include "src/node/gpu.h"
#include "src/node/pci.h"
#include "src/node/xid.h"
#include "verify/unit/catch.h"
#include "verify/unit/node_files.h"

using namespace tt;
using namespace tt::node;
using tt::test::has;
using tt::test::message_of;
using tt::test::Tree;

TEST_CASE("PCIe speeds are generations") {
  CHECK(*pcie_generation("2.5 GT/s PCIe") == 1);
  CHECK(*pcie_generation("16.0 GT/s PCIe") == 4);
  CHECK(*pcie_generation("32.0 GT/s") == 5);
  CHECK(*pcie_generation("64.0 GT/s PCIe") == 6);
  for (const char* bad : {"", "Unknown", "32", "320 GT/s", "-1", "\xff\xfe"}) {
    INFO(bad);
    if (std::string(bad) != "32") CHECK(!pcie_generation(bad));
  }
}

TEST_CASE("a PCI device's link is held against card and slot") {
  const Tree tree;
  const std::string port = "sys/devices/pci0000:00/0000:00:01.0/", device = port + "0000:01:00.0/";
  tree.link("sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0");
  for (const auto& [file, text] : {std::pair{"vendor", "0x15b3"},
                                   {"class", "0x020000"},
                                   {"current_link_width", "16"},
                                   {"max_link_width", "16"},
                                   {"current_link_speed", "16.0 GT/s PCIe"},
                                   {"max_link_speed", "32.0 GT/s PCIe"}})
    tree.put(device + file, text);
  const Sysroot root(tree.root());
  CHECK(*read_pci_link(root, "0000:01:00.0").max_generation == 5);
  tree.put(port + "max_link_width", "8");
  tree.put(port + "max_link_speed", "16.0 GT/s PCIe");
  const PciLink link = read_pci_link(root, "0000:01:00.0");
  CHECK(*link.max_generation == 4);  // a Gen5 card in a Gen4 slot is not degraded
  CHECK(*link.max_width == 8);
  CHECK(read_pci(root)->size() == 1);
  tree.put(device + "current_link_width", "255");  // what a device that fell off shows
  CHECK(!read_pci_link(root, "0000:01:00.0").width);
}

TEST_CASE("the ACS control register is found in the extended configuration space") {
  std::string config(4096, '\0');
  const auto put = [&](size_t at, uint32_t value) {
    for (int i = 0; i < 4; ++i) config[at + static_cast<size_t>(i)] = static_cast<char>(value >> 8 * i);
  };
  put(0x100, 0x148u << 20 | 1u << 16 | 0x0001);  // AER, next at 0x148
  put(0x148, 0x000u << 20 | 1u << 16 | 0x000d);  // ACS
  put(0x14c, 0x001d'005f);                       // control 0x001d, capability 0x005f
  REQUIRE(acs_control(config));
  CHECK(*acs_control(config) == 0x1d);
  CHECK(acs_redirects(0x1d));
  CHECK(!acs_redirects(0x01));
  put(0x100, 0x100u << 20 | 1u << 16 | 0x0001);  // a list that runs in circles ends
  CHECK(*acs_control(config) == 0);
  CHECK(!acs_control(std::string(64, '\0')));  // not root
  CHECK(!acs_control(""));
  CHECK(*acs_control(std::string(4096, '\xff')) == 0);  // a device that no longer answers
}

TEST_CASE("Xids are found among other lines") {
  const auto xids = parse_xids(
      "[   12.1] NVRM: loading NVIDIA UNIX Open Kernel Module\n"
      "[  100.2] NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the "
      "bus.\n"
      "[  101.0] NVRM: Xid (PCI:0000:5d:00): 31, pid=77, name=python, Ch 00000008\n"
      "NVRM: Xid (PCI:\nNVRM: Xid (PCI:x): \nNVRM: Xid (PCI:x): 99999999999999999999\nNVRM: Xid "
      "(PCI:0000:5e:00): 48");
  REQUIRE(xids.size() == 3);
  CHECK(xids[0].pci == "0000:5d:00");
  CHECK(xids[0].number == 79);
  CHECK(xids[2].number == 48);
  CHECK(xid_remedy(79));
  CHECK(!xid_remedy(31));  // a program's fault
  CHECK(parse_xids("").empty());
  CHECK(parse_xids(std::string(100000, '\xff')).empty());
}

TEST_CASE("GPUs are read from JSON; what is missing is unknown") {
  const auto gpus =
      parse_gpus(R"({"driver": "570.86.15", "gpus": [{"name": "NVIDIA H200", "pcie_width": 16, "ecc": true,
      "power_limit_W": 700, "throttle": ["gpu_idle"], "serial": null, "mig": {"unreadable": "Not Supported"}}]})",
                 "f");
  REQUIRE(gpus);
  CHECK(*gpus->driver == "570.86.15");
  CHECK(!gpus->cuda);
  const GpuInfo& gpu = gpus->gpus.at(0);
  CHECK(*gpu.name == "NVIDIA H200");
  CHECK(*gpu.ecc);
  CHECK(*gpu.power_limit_W == 700);
  CHECK(!gpu.serial);
  CHECK(gpu.mig.why == "Not Supported");
  CHECK(!gpu.vbios);
  const auto again = parse_gpus(gpus_json(gpus), "f");
  CHECK(*again->gpus.at(0).throttle == std::vector<std::string>{"gpu_idle"});
  CHECK(again->gpus.at(0).mig.why == "Not Supported");
  CHECK(parse_gpus(R"({"error": "Driver/library version mismatch"})", "f").why ==
        "Driver/library version mismatch");
}

TEST_CASE("broken GPU files are refused, naming file and field") {
  const auto refused = [](const std::string& text) {
    return message_of<EnvironmentError>([&] { parse_gpus(text, "nvml.json"); });
  };
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("[]"), std::string("\x00\xff\xfe", 3),
        std::string("null"), std::string(100000, '['), R"({"gpus": )" + std::string(100000, '[')})
    CHECK(has(refused(bad), {"nvml.json"}));
  CHECK(has(refused(R"({"gpus": 8})"), {"gpus", "not a list"}));
  CHECK(has(refused(R"({"gpus": [8]})"), {"gpus[0]"}));
  CHECK(has(refused(R"({"gpus": [{}, {"pcie_width": "16"}]})"), {"gpus[1]", "pcie_width", "\"16\""}));
  CHECK(has(refused(R"({"gpus": [{"memory_MiB": 18446744073709551615}]})"), {"memory_MiB"}));
  CHECK(has(refused(R"({"gpus": [{"throttle": [1]}]})"), {"throttle"}));
  CHECK(has(refused(R"({"gpus": [{"memory_MiB": 1e400}]})"), {"nvml.json"}));
}

TEST_CASE("the catalogue has every id once, and finds the nearest to a mistyped one") {
  for (const CatalogueEntry& a : catalogue())
    CHECK(std::count_if(catalogue().begin(), catalogue().end(), [&](auto& b) { return a.id == b.id; }) == 1);
  CHECK(nearest_id("gpu.counts") == "gpu.count");
  CHECK(nearest_id("memory.totl") == "memory.total");
  CHECK(find_entry("gpu") == nullptr);
}

#include "src/node/pci.h"

#include <algorithm>
#include <charconv>

namespace tt::node {
namespace {

constexpr const char* kDevices = "/sys/bus/pci/devices/";

Reading<int> read_width(const Sysroot& root, const std::string& path) {
  const auto lanes = root.integer(path);
  if (!lanes) return Reading<int>::unknown(lanes.why);
  // 0 and 255 are what the kernel shows for a link that is down or a device that no longer answers
  if (*lanes < 0 || *lanes > 32)
    return Reading<int>::unknown(path + ": " + std::to_string(*lanes) + " is not a link width");
  return Reading<int>::of(static_cast<int>(*lanes));
}

Reading<int> read_generation(const Sysroot& root, const std::string& path) {
  const Text speed = root.text(path);
  if (!speed) return Reading<int>::unknown(speed.why);
  auto generation = pcie_generation(*speed);
  if (!generation) generation.why = path + ": " + generation.why;
  return generation;
}

void limit(Reading<int>& value, const Reading<int>& above) {
  if (value && above && *above > 0) value.value = std::min(*value, *above);
}

}  // namespace

Reading<std::vector<PciDevice>> read_pci(const Sysroot& root) {
  using Devices = Reading<std::vector<PciDevice>>;
  const auto names = root.list("/sys/bus/pci/devices");
  if (!names) return Devices::unknown(names.why);
  std::vector<PciDevice> devices;
  for (const std::string& name : *names) {
    const auto vendor = root.integer(kDevices + name + "/vendor");
    const auto device = root.integer(kDevices + name + "/device");
    const auto class_code = root.integer(kDevices + name + "/class");
    if (vendor && class_code) devices.push_back({name, *vendor, device ? *device : 0, *class_code});
  }
  return Devices::of(std::move(devices));
}

bool is_gpu(const PciDevice& d) {
  return d.vendor == kNvidia && (d.class_code >> 8 == 0x0300 || d.class_code >> 8 == 0x0302);
}

bool is_nvswitch(const PciDevice& d) {
  return d.vendor == kNvidia && d.class_code >> 8 == 0x0680;
}

PciLink read_pci_link(const Sysroot& root, const std::string& address) {
  const std::string at = kDevices + address;
  PciLink link{read_width(root, at + "/current_link_width"), read_width(root, at + "/max_link_width"),
               read_generation(root, at + "/current_link_speed"),
               read_generation(root, at + "/max_link_speed")};
  const Text where = root.resolve(at);
  if (where && where->rfind('/') !=
                   std::string::npos) {  // devices/pci0000:15/PORT/DEVICE: the folder above is the port
    const std::string port = where->substr(0, where->rfind('/'));
    if (root.exists(port + "/max_link_width")) {
      limit(link.max_width, read_width(root, port + "/max_link_width"));
      limit(link.max_generation, read_generation(root, port + "/max_link_speed"));
    }
  }
  return link;
}

Reading<int> pcie_generation(const std::string& text) {
  const std::string number = text.substr(0, text.find(' '));
  constexpr const char* kSpeeds[] = {"2.5", "5", "8", "16", "32", "64"};
  for (int i = 0; i < 6; ++i)
    if (number == kSpeeds[i] || number == std::string(kSpeeds[i]) + ".0") return Reading<int>::of(i + 1);
  return Reading<int>::unknown("'" + printable(text, 40) + "' is not a PCIe speed");
}

Text link_text(const Reading<int>& generation, const Reading<int>& width) {
  if (!generation) return Text::unknown(generation.why);
  if (!width) return Text::unknown(width.why);
  return Text::of("Gen" + std::to_string(*generation) + " x" + std::to_string(*width));
}

Reading<int> acs_control(const std::string& config) {
  const auto word = [&](size_t at, int bytes) {
    uint32_t value = 0;
    for (int i = bytes - 1; i >= 0; --i)
      value = value << 8 | static_cast<unsigned char>(config[at + static_cast<size_t>(i)]);
    return value;
  };
  if (config.size() <= 256)
    return Reading<int>::unknown("configuration space beyond byte " + std::to_string(config.size()) +
                                 " is readable by root only");
  size_t at = 0x100;
  // At most as many capabilities as fit: a list that runs in circles ends.
  for (int steps = 0; steps < 960 && at >= 0x100 && at + 8 <= config.size(); ++steps) {
    const uint32_t header = word(at, 4);
    if ((header & 0xffff) == 0x000d) return Reading<int>::of(static_cast<int>(word(at + 6, 2)));
    at = header >> 20;
  }
  return Reading<int>::of(0);
}

}  // namespace tt::node

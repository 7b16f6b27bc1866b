#include "src/node/xid.h"

#include <algorithm>

#include "src/node/sysroot.h"

namespace tt::node {
namespace {

struct Meaning {
  int number;
  const char* remedy;
};

constexpr Meaning kMeanings[] = {
    {48, "double-bit ECC error, drain the node and reset the GPU; when it comes back, return it"},
    {61, "microcontroller breakpoint, update the driver and restart"},
    {62, "microcontroller halt, cold start the node; when it comes back, return the GPU"},
    {64, "row remapping failed, return the GPU"},
    {74,
     "NVLink error, look at nvidia-smi nvlink -e; reseat the GPU tray, when it comes back return GPU or "
     "baseboard"},
    {79,
     "the GPU has fallen off the bus, cold start the node; reseat the GPU, check its power and PCIe path, "
     "when it comes back return it"},
    {92, "high rate of corrected ECC errors, run the vendor's field diagnosis"},
    {94, "contained ECC error, restart the job and reset the GPU; when it comes back, return it"},
    {95, "uncontained ECC error, drain the node and reset the GPU; when it comes back, return it"},
    {110, "security fault, cold start the node; when it comes back, return the GPU"},
    {119, "GSP did not answer, reset the GPU and update driver and firmware"},
    {120, "GSP error, reset the GPU and update driver and firmware"},
    {121, "link error between CPU and GPU (C2C), restart the node; when it comes back, return it"},
    {136, "link training between CPU and GPU failed, restart the node; when it comes back, return it"},
    {140, "uncorrected ECC error, drain the node and reset the GPU"},
    {143, "GPU initialisation failed, cold start the node; when it comes back, return the GPU"},
    {144, "NVLink error, look at nvidia-smi nvlink -e; reset GPUs and switches"},
    {145, "NVLink error, look at nvidia-smi nvlink -e; reset GPUs and switches"},
    {146, "NVLink error, look at nvidia-smi nvlink -e; reset GPUs and switches"},
    {149, "NVLink error, look at nvidia-smi nvlink -e; reset GPUs and switches"},
};

}  // namespace

std::vector<Xid> parse_xids(const std::string& log) {
  constexpr std::string_view kStart = "NVRM: Xid (PCI:";
  std::vector<Xid> xids;
  for (const std::string& line : split_lines(log)) {
    const size_t start = line.find(kStart);
    const size_t close = start == std::string::npos ? start : line.find("): ", start);
    if (close == std::string::npos) continue;
    const size_t number = close + 3;
    const size_t end = std::min(line.find_first_not_of("0123456789", number), line.size());
    const auto value = to_integer(std::string_view(line).substr(number, end - number));
    const size_t pci = start + kStart.size();
    if (value && *value >= 0 && *value < 10000)
      xids.push_back({printable(line.substr(pci, close - pci), 20), static_cast<int>(*value)});
  }
  return xids;
}

std::optional<std::string> xid_remedy(int number) {
  for (const Meaning& meaning : kMeanings)
    if (meaning.number == number) return meaning.remedy;
  return std::nullopt;
}

}  // namespace tt::node

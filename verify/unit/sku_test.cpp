#include "src/device/sku.h"

#include "verify/unit/catch.h"

using namespace tt;

namespace {

const Sku* of(const std::string& name, const std::string& kind = "cuda") {
  DeviceIdentity device;
  device.kind = kind;
  device.name = name;
  return find_sku(device);
}

}  // namespace

TEST_CASE("products are told apart by their whole name") {
  CHECK(of("NVIDIA H200")->key == "h200-sxm");
  CHECK(of("NVIDIA H200 NVL")->key == "h200-nvl");
  CHECK(of("NVIDIA H100 80GB HBM3")->key == "h100-sxm");
  CHECK(of("NVIDIA H100 PCIe")->key == "h100-pcie");
  CHECK(of("NVIDIA B300 SXM6 AC")->key == "b300");
  CHECK(of("NVIDIA B200")->key != of("NVIDIA GB200")->key);
}

TEST_CASE("a slice, an unknown product and a CPU have no peak") {
  CHECK(!of("NVIDIA H200 MIG 1g.18gb"));
  CHECK(!of("NVIDIA H300"));
  CHECK(!of(""));
  CHECK(!of("NVIDIA H200", "host"));
  CHECK(!peak(nullptr, PeakType::bf16));
  CHECK(!peak_memory_GBps(nullptr));
  CHECK(peak_origin(nullptr).empty());
}

TEST_CASE("peaks are dense; a type that is not published has none") {
  CHECK(*peak(of("NVIDIA H200"), PeakType::bf16) == Approx(989.4));
  CHECK(*peak(of("NVIDIA H200"), PeakType::fp8) == Approx(1978.9));
  CHECK(*peak_memory_GBps(of("NVIDIA H200")) == Approx(4800));
  CHECK(!peak(of("NVIDIA H200"), PeakType::nvfp4));
  CHECK(!peak(of("NVIDIA A100-SXM4-80GB"), PeakType::fp8));
  CHECK(!peak(of("NVIDIA B300 SXM6 AC"), PeakType::int8));
  CHECK(peak_origin(of("NVIDIA B200")).find("dense peak of B200: NVIDIA") == 0);
}

TEST_CASE("within a product, narrower types are at least as fast") {
  for (const char* name :
       {"NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200", "NVIDIA GB200"}) {
    const Sku* sku = of(name);
    REQUIRE(sku);
    CHECK(*peak(sku, PeakType::bf16) >= 1.99 * *peak(sku, PeakType::tf32));
    CHECK(*peak(sku, PeakType::bf16) == *peak(sku, PeakType::fp16));
    CHECK(*peak(sku, PeakType::tf32) > *peak(sku, PeakType::fp32));
    if (const auto fp8 = peak(sku, PeakType::fp8))
      CHECK(*fp8 == Approx(2 * *peak(sku, PeakType::bf16)).epsilon(0.001));
    CHECK(sku->min_driver.size() > 5);
  }
}

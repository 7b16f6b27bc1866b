// The baseline files that the project ships can be read, and say under which conditions they hold.
#include <filesystem>

#include "common/baseline.h"
#include "verify/unit/catch.h"

using namespace tt;

TEST_CASE("every shipped baseline is readable and has conditions", "[baseline]") {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("verify/baselines")) {
    const Baseline baseline = Baseline::load(file.path().string());
    CHECK_FALSE(baseline.sku().empty());
    CHECK_FALSE(baseline.empty());
    for (const BaselineEntry& entry : baseline.entries()) CHECK_FALSE(entry.conditions.empty());
    ++files;
  }
  CHECK(files > 0);
}

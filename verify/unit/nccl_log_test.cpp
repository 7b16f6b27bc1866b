// Reading the algorithm out of NCCL's log.
#include "src/comm/nccl_log.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "verify/unit/catch.h"

using namespace tt;

TEST_CASE("the last whole line that names algorithm and protocol counts") {
  const std::string a =
      "n1:7:7 [0] NCCL INFO AllReduce: 64 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n";
  const std::string b =
      "n1:7:7 [0] NCCL INFO AllReduce: 9 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}\n";
  REQUIRE(algorithm_in(a) == "RING/LL");
  REQUIRE(algorithm_in(a + b) == "NVLS/SIMPLE");
  REQUIRE(algorithm_in(b + a + "n1:7:7 [0] NCCL INFO something else\n") == "RING/LL");
  REQUIRE(algorithm_in(a + b.substr(0, 60)) == "RING/LL");
  REQUIRE(algorithm_in("") == "");
  REQUIRE(algorithm_in("Algo\nproto LL\n") == "");
}

TEST_CASE("the log's file is read on from where it was, and is gone afterwards") {
  unsetenv("NCCL_DEBUG");
  std::string path;
  {
    NcclTuningLog log;
    REQUIRE(log.on());
    path = getenv("NCCL_DEBUG_FILE");
    const auto write = [&](const char* text) {
      std::FILE* file = std::fopen(path.c_str(), "a");
      REQUIRE(file);
      std::fputs(text, file);
      std::fclose(file);
    };
    REQUIRE(log.last_algorithm() == "");
    write("x -> Algo TREE proto LL128 y\n");
    REQUIRE(log.last_algorithm() == "TREE/LL128");
    REQUIRE(log.last_algorithm() == "");  // nothing new: the next row is not this one
    write("x -> Algo RING pro");
    REQUIRE(log.last_algorithm() == "");
    write("to SIMPLE y\n");
    REQUIRE(log.last_algorithm() == "RING/SIMPLE");

    NcclTuningLog second;  // NCCL_DEBUG is set now, as by a user: left alone
    REQUIRE_FALSE(second.on());
  }
  REQUIRE(std::fopen(path.c_str(), "r") == nullptr);
  for (const char* name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) unsetenv(name);
}

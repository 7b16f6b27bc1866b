#include "common/inject.h"

#include "common/error.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::has;
using tt::test::message_of;

TEST_CASE("no fault is injected unless asked for") {
  CHECK(Injection().empty());
  CHECK(Injection::parse({}).empty());
  CHECK(Injection::parse({}).text().empty());
}

TEST_CASE("faults of every kind") {
  const Injection i = Injection::parse(
      {"slow:rank=1,factor=2.5", "corrupt:iteration=5,rank=2", "hang:rank=1,phase=allocate", "die:rank=3"});
  REQUIRE(i.faults().size() == 4);
  REQUIRE(i.find(FaultKind::slow, 1));
  CHECK(i.find(FaultKind::slow, 1)->factor == 2.5);
  REQUIRE(i.find(FaultKind::corrupt, 2));
  CHECK(i.find(FaultKind::corrupt, 2)->iteration == 5);
  REQUIRE(i.find(FaultKind::hang, 1));
  CHECK(i.find(FaultKind::hang, 1)->phase == "allocate");
  REQUIRE(i.find(FaultKind::die, 3));
  CHECK(i.find(FaultKind::die, 3)->iteration == 0);
  CHECK(i.find(FaultKind::die, 3)->phase.empty());
  CHECK_FALSE(i.find(FaultKind::slow, 2));
  CHECK_FALSE(i.find(FaultKind::die, 1));
  CHECK(i.text() ==
        "slow:rank=1,factor=2.5 corrupt:iteration=5,rank=2 hang:rank=1,phase=allocate die:rank=3");
}

TEST_CASE("slow doubles the time when no factor is given") {
  CHECK(Injection::parse({"slow:rank=0"}).find(FaultKind::slow, 0)->factor == 2);
}

TEST_CASE("a malformed fault is refused, naming it and what is accepted") {
  const std::string text = GENERATE(
      as<std::string>{}, "", ":", "slow", "slow:", "hang", "slow:factor=2", "corrupt:iteration=3",
      "SLOW:rank=1", "sloow:rank=1", " slow:rank=1", "slow:rank=", "slow:rank", "slow:rank=x", "slow:rank=-1",
      "slow:rank=+1", "slow:rank=1x", "slow:rank=1.5", "slow:rank=0x1", "slow:rank= 1",
      "slow:rank=2147483648", "slow:rank=99999999999999999999", "slow:rank=1,", "slow:rank=1,,factor=2",
      "slow:rank=1,rank=2", "slow:rank=1 ,factor=2", "slow:rank=1,factor=1", "slow:rank=1,factor=0.5",
      "slow:rank=1,factor=-2", "slow:rank=1,factor=nan", "slow:rank=1,factor=inf", "slow:rank=1,factor=1e999",
      "slow:rank=1,factor=", "slow:rank=1,factor=2x", "slow:rank=1,factor=2,factor=3",
      "slow:rank=1,factor=2,5", "slow:rank=1,iteration=2", "slow:rank=1,phase=measure",
      "corrupt:rank=1,factor=2", "corrupt:rank=1,phase=measure", "corrupt:rank=1,iteration=-1",
      "corrupt:rank=1,iteration=9223372036854775808",
      "hang:rank=1,phase=", "hang:rank=1,phase=allocate,iteration=3", "die:rank=1,when=now",
      "slow:rank=1;factor=2", "slow=rank:1", "hang:rank=1,phase=a\nb", "slow:rank=1:factor=2");
  CAPTURE(text);
  const std::string message = message_of<UsageError>([&] { Injection::parse({text}); });
  CHECK(has(message, {"--inject", "slow:rank=R", "corrupt:", "hang:", "die:"}));
  CHECK(message.find('\n') == std::string::npos);
  if (text.find('\n') == std::string::npos) CHECK(has(message, {"\"" + text + "\""}));
}

TEST_CASE("one bad fault among good ones is refused") {
  CHECK_THROWS_AS(Injection::parse({"die:rank=1", "slow:rank=x"}), UsageError);
}

TEST_CASE("two faults of one kind for one rank contradict each other") {
  CHECK_THROWS_AS(Injection::parse({"slow:rank=1,factor=2", "slow:rank=1,factor=3"}), UsageError);
  CHECK(Injection::parse({"slow:rank=1", "slow:rank=2", "die:rank=1"}).faults().size() == 3);
}

TEST_CASE("a fault for a rank that does not exist is refused") {
  const Injection i = Injection::parse({"die:rank=3"});
  CHECK_NOTHROW(i.check_ranks(4));
  CHECK(has(message_of<UsageError>([&] { i.check_ranks(3); }), {"--inject", "rank 3", "0 to 2"}));
  CHECK_NOTHROW(Injection().check_ranks(1));
}

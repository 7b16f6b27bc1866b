#include "common/size.h"

#include <limits>

#include "common/error.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::has;
using tt::test::message_of;

TEST_CASE("sizes are digits and at most one suffix") {
  CHECK(parse_size("-b", "0") == 0);
  CHECK(parse_size("-b", "8") == 8);
  CHECK(parse_size("-b", "007") == 7);
  CHECK(parse_size("-b", "64K") == 65536);
  CHECK(parse_size("-b", "64k") == 65536);
  CHECK(parse_size("-i", "2M") == 2097152);
  CHECK(parse_size("-e", "4g") == 4294967296);
  CHECK(parse_size("-e", "65536G") == 70368744177664);
  CHECK(parse_size("-e", "1T") == 1099511627776);
  CHECK(parse_size("-e", "4294967300") == 4294967300);
  CHECK(parse_size("-e", "9223372036854775807") == std::numeric_limits<int64_t>::max());
  CHECK(parse_size("-e", "8388607T") == 8388607ll << 40);
}

TEST_CASE("a bad size is refused, naming option and text") {
  const std::string text = GENERATE(as<std::string>{}, "", " ", "-8", "-0", "+8", "12junk", "4KB", "4KK",
                                    "8Q", "8P", "8 K", " 8", "8 ", "1.5K", "0x10", "K", "1e3", "8K ", "nan",
                                    "17179869185G", "8388608T", "9223372036854775808", "18446744073709551616",
                                    "99999999999999999999999999", "8\n", "\xd9\xa3");
  CAPTURE(text);
  const std::string message = message_of<UsageError>([&] { parse_size("-b/--minbytes", text); });
  CHECK(has(message, {"-b/--minbytes", "K, M, G or T"}));
  CHECK(message.find('\n') == std::string::npos);
  if (text.find('\n') == std::string::npos) CHECK(has(message, {"\"" + text + "\""}));
}

TEST_CASE("a size with a zero byte inside is refused") {
  CHECK_THROWS_AS(parse_size("-b", std::string_view("8\0K", 3)), UsageError);
  CHECK_THROWS_AS(parse_size("-b", std::string_view("8\0", 2)), UsageError);
}

TEST_CASE("the message of a very long size stays short") {
  CHECK(message_of<UsageError>([] { parse_size("-b", std::string(100000, '9')); }).size() < 400);
}

TEST_CASE("sizes are printed exactly and read back") {
  CHECK(format_size(0) == "0");
  CHECK(format_size(1000) == "1000");
  CHECK(format_size(1024) == "1K");
  CHECK(format_size(65536) == "64K");
  CHECK(format_size(67584) == "66K");
  CHECK(format_size(1 << 20) == "1M");
  CHECK(format_size((1ll << 32) + 1) == "4294967297");
  CHECK(format_size(1ll << 50) == "1024T");
  const int64_t value = GENERATE(as<int64_t>{}, 0, 1, 1023, 1024, 1025, 65536, 1048576, 4294967300, 1ll << 40,
                                 3ll << 41, 1ll << 62, std::numeric_limits<int64_t>::max());
  CHECK(parse_size("x", format_size(value)) == value);
}

#include "common/table.h"

#include <limits>
#include <stdexcept>

#include "verify/unit/catch.h"

using namespace tt;

TEST_CASE("a table's lines") {
  const Table t({{"size", "B", 12}, {"type", "", 8}, {"time", "us", 8}});
  const std::vector<std::string> header = t.header();
  REQUIRE(header.size() == 2);
  CHECK(header[0] == "#       size      type      time");
  CHECK(header[1] == "#        (B)                (us)");
  CHECK(t.line({"1048576", "float", "12.34"}) == "     1048576     float     12.34");
}

TEST_CASE("a wide cell is shown whole") {
  const Table t({{"a", "", 3}, {"b", "", 3}});
  CHECK(t.line({"12345", "1"}) == "12345    1");
}

TEST_CASE("a head that fills its column keeps all its letters") {
  CHECK(Table({{"size", "", 4}, {"n", "", 2}}).header()[0] == "#size   n");
}

TEST_CASE("trailing columns without a unit leave no blanks behind") {
  CHECK(Table({{"size", "B", 6}, {"wrong", "", 6}}).header()[1] == "#  (B)");
}

TEST_CASE("a line with too few or too many cells is a fault of the program") {
  const Table t({{"a", "", 3}, {"b", "", 3}});
  CHECK_THROWS_AS(t.line({"1"}), std::invalid_argument);
  CHECK_THROWS_AS(t.line({"1", "2", "3"}), std::invalid_argument);
}

TEST_CASE("what has no value is a dash, never 0") {
  CHECK(cell(std::nullopt, 2) == "-");
  CHECK(cell(std::numeric_limits<double>::quiet_NaN(), 2) == "-");
  CHECK(cell(std::numeric_limits<double>::infinity(), 2) == "-");
  CHECK(time_cell(std::nullopt) == "-");
  CHECK(time_cell(std::numeric_limits<double>::quiet_NaN()) == "-");
  CHECK(cell(0, 2) == "0.00");
  CHECK(cell(1234.567, 1) == "1234.6");
  CHECK(cell(3.7, 0) == "4");
}

TEST_CASE("times have nccl-tests' precision") {
  CHECK(time_cell(0.29) == "0.29");
  CHECK(time_cell(99.99) == "99.99");
  CHECK(time_cell(99.996) == "100.0");
  CHECK(time_cell(100) == "100.0");
  CHECK(time_cell(999.94) == "999.9");
  CHECK(time_cell(999.96) == "1000");
  CHECK(time_cell(123456.7) == "123457");
}

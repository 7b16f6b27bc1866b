#include "common/statistics.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "verify/unit/catch.h"

using namespace tt;

namespace {
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<size_t> indices(const std::vector<Outlier>& found) {
  std::vector<size_t> all;
  for (const Outlier& o : found) all.push_back(o.index);
  return all;
}
using V = std::vector<double>;
using I = std::vector<size_t>;
}  // namespace

TEST_CASE("a summary of nothing is empty, not zero") {
  const Summary s = summarize({});
  CHECK(s.n == 0);
  CHECK(!s.min);
  CHECK(!s.median);
  CHECK(!s.mean);
  CHECK(!s.max);
  CHECK(!s.p99);
  CHECK(!s.cv);
}

TEST_CASE("a single value is its own minimum, median, maximum and p99, without a deviation") {
  const Summary s = summarize(V{3.5});
  CHECK(s.n == 1);
  CHECK(s.min == 3.5);
  CHECK(s.median == 3.5);
  CHECK(s.mean == 3.5);
  CHECK(s.max == 3.5);
  CHECK(s.p99 == 3.5);
  CHECK(!s.cv);
}

TEST_CASE("a summary of known answers") {
  const Summary s = summarize(V{2, 4, 4, 4, 5, 5, 7, 9});
  CHECK(s.n == 8);
  CHECK(s.min == 2);
  CHECK(s.median == 4.5);
  CHECK(s.mean == 5);
  CHECK(s.max == 9);
  CHECK(s.p99 == 9);
  CHECK(*s.cv == Approx(std::sqrt(32.0 / 7) / 5));
}

TEST_CASE("order does not matter") {
  const Summary s = summarize(V{9, 1, 5});
  CHECK(s.min == 1);
  CHECK(s.median == 5);
  CHECK(s.max == 9);
}

TEST_CASE("p99 is the nearest rank") {
  V v(100);
  std::iota(v.begin(), v.end(), 1);
  CHECK(summarize(v).p99 == 99);
  v.push_back(101);
  CHECK(summarize(v).p99 == 100);  // 99 of 101 are only 98.02 %
  v.resize(99);
  CHECK(summarize(v).p99 == 99);
  v.resize(200);
  std::iota(v.begin(), v.end(), 1);
  CHECK(summarize(v).p99 == 198);
}

TEST_CASE("small deviations of large values survive") {
  // Mean of squares minus squared mean would give 0 or nonsense here.
  const Summary s = summarize(V{1e9, 1e9 + 1e-3, 1e9 + 2e-3});
  CHECK(*s.cv == Approx(1e-12).epsilon(1e-3));
  CHECK(summarize(V{0.1, 0.1, 0.1}).cv == 0);
  CHECK(summarize(V{0.1, 0.1, 0.1}).mean == 0.1);
}

TEST_CASE("a mean of 0 has no coefficient of variation") {
  CHECK(!summarize(V{-1, 1}).cv);
  CHECK(!summarize(V{0, 0}).cv);
}

TEST_CASE("a figure that is not finite is a fault") {
  const double bad = GENERATE(as<double>{}, kNaN, kInf, -kInf);
  CHECK_THROWS_AS(summarize(V{1, bad, 2}), std::invalid_argument);
  CHECK_THROWS_AS(median_of(V{bad}), std::invalid_argument);
  CHECK_THROWS_AS(mad_of(V{1, bad}), std::invalid_argument);
  CHECK_THROWS_AS(find_outliers(V{1, bad, 2}), std::invalid_argument);
  CHECK_THROWS_AS(find_outliers(V{bad}), std::invalid_argument);
}

TEST_CASE("median and median absolute deviation") {
  CHECK(!median_of({}));
  CHECK(!mad_of({}));
  CHECK(median_of(V{3}) == 3);
  CHECK(median_of(V{3, 1}) == 2);
  CHECK(median_of(V{5, 1, 3}) == 3);
  CHECK(median_of(V{1.7e308, 1.6e308}) == Approx(1.65e308));
  CHECK(mad_of(V{3}) == 0);
  CHECK(mad_of(V{1, 1, 2, 2, 4, 6, 9}) == 1);
}

TEST_CASE("one slow of eight is found and measured against the others") {
  const V v = {10.0, 10.1, 9.9, 10.05, 20.0, 9.95, 10.0, 10.1};
  const std::vector<Outlier> found = find_outliers(v);
  REQUIRE(indices(found) == I{4});
  CHECK(found[0].peers_median == 10.0);
  CHECK(found[0].ratio == 2.0);
  CHECK(found[0].z == Approx(0.6745 * 10 / 0.05));
}

TEST_CASE("one fast of eight is found too") {
  CHECK(indices(find_outliers(V{10, 10, 5, 10, 10, 10, 10, 10})) == I{2});
}

TEST_CASE("identical values are no outliers, and a hair's breadth beside them neither") {
  CHECK(find_outliers(V{3, 3, 3, 3}).empty());
  // Peers without any scatter: the floor of MAD makes z = 6.7 here, but 1 % is inside the margin.
  CHECK(find_outliers(V{100, 100, 100, 101}).empty());
  CHECK(indices(find_outliers(V{100, 100, 100, 106})) == I{3});
}

TEST_CASE("scatter of the peers excuses what the margin alone would not") {
  CHECK(find_outliers(V{8, 9, 10, 11, 12, 13}).empty());
  CHECK(indices(find_outliers(V{8, 9, 10, 11, 12, 13}, 0.1, 0.05)).size() > 1);  // without the z-score
}

TEST_CASE("of two values either both are off or none") {
  CHECK(find_outliers(V{10, 10.2}).empty());
  CHECK(indices(find_outliers(V{10, 20})) == I{0, 1});
  CHECK(indices(find_outliers(V{20, 10})) == I{0, 1});
  // 1.0526 / 1 is 5.26 % above, 1 / 1.0526 only 4.997 % below.
  CHECK(indices(find_outliers(V{1, 1.0526})) == I{0, 1});
  CHECK(indices(find_outliers(V{1.0526, 1})) == I{0, 1});
}

TEST_CASE("fewer than two values have no peers") {
  CHECK(find_outliers({}).empty());
  CHECK(find_outliers(V{5}).empty());
}

TEST_CASE("peers of median 0 give no ratio and no outlier") {
  CHECK(find_outliers(V{0, 0, 0, 1}).empty());
  CHECK(find_outliers(V{0, 0}).empty());
}

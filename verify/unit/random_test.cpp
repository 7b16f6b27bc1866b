#include "src/device/random.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "src/device/convert.h"
#include "src/device/dtype_visit.h"
#include "src/device/random_inline.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

double stored_value(DType type, const void* data, size_t i) {
  return with_storage(type, [&](auto tag) {
    typename decltype(tag)::type x;
    std::memcpy(&x, static_cast<const char*>(data) + i * sizeof x, sizeof x);
    return to_double(x);
  });
}

constexpr DType kAll[] = {DType::int8,  DType::uint8,  DType::int32,  DType::uint32,
                          DType::int64, DType::uint64, DType::f16,    DType::f32,
                          DType::f64,   DType::bf16,   DType::f8e4m3, DType::f8e5m2};
constexpr Fill kFills[] = {Fill::normal, Fill::uniform, Fill::small_integers};

}  // namespace

TEST_CASE("the sum of twelve fields is that of a loop") {
  for (uint64_t e = 0; e < 10000; ++e) {
    const uint64_t bits = mix64(3, e);
    int sum = -186;
    for (int field = 0; field < 12; ++field) sum += static_cast<int>((bits >> (5 * field)) & 31);
    REQUIRE(detail::irwin_hall(bits) == sum);
  }
  CHECK(detail::irwin_hall(0) == -186);
  CHECK(detail::irwin_hall(~0ull) == 186);
}

TEST_CASE(
    "what is filled in is what random_value says, for every type, any length, offset and number of threads") {
  const size_t count = GENERATE(1, 7, 70001);
  const int threads = GENERATE(1, 3);
  for (DType type : kAll)
    for (Fill fill : kFills) {
      const uint64_t first = (1ull << 33) + 5;  // past 32 bits
      std::vector<char> data(count * 8 + 1, 'x');
      size_t size = 0;
      with_storage(type, [&](auto tag) { size = sizeof(typename decltype(tag)::type); });
      fill_random_on_host(data.data(), count, type, fill, 11, first, threads);
      for (size_t i = 0; i < count; i += 1 + count / 100)
        REQUIRE(stored_value(type, data.data(), i) == random_value(type, fill, 11, first + i));
      REQUIRE(stored_value(type, data.data(), count - 1) == random_value(type, fill, 11, first + count - 1));
      REQUIRE(data[count * size] == 'x');  // nothing behind the end
    }
}

TEST_CASE("random data does not change from one release to the next") {
  // Pinned values: host and cuda builds of different releases must agree on the data of a run.
  CHECK(mix64(1, 0) == 0xf0722ffbd0c5a66dull);
  CHECK(random_value(DType::f32, Fill::normal, 1, 0) == -0x1.e1178p-3);
  CHECK(random_value(DType::f64, Fill::uniform, 1, 1) == -0x1.045f5edbc7f8cp-2);
}

TEST_CASE("normal data is about N(0,1), with no zeros to speak of and random low mantissa bits") {
  const int n = 200000;
  const DType type = GENERATE(DType::f32, DType::f64, DType::bf16, DType::f16);
  double sum = 0, squares = 0, fourth = 0;
  int zeros = 0, beyond2 = 0;
  for (int e = 0; e < n; ++e) {
    const double x = random_value(type, Fill::normal, 42, static_cast<uint64_t>(e));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    zeros += x == 0;
    beyond2 += std::fabs(x) > 2;
    REQUIRE(std::fabs(x) < 5.9);
  }
  CHECK(std::fabs(sum / n) < 4 / std::sqrt(n));
  CHECK(squares / n == Approx(1).epsilon(0.015));
  CHECK(fourth / n == Approx(2.9).epsilon(0.05));  // Irwin-Hall of twelve: kurtosis 3 - 6/5/12 = 2.9
  CHECK(beyond2 / double(n) == Approx(0.0455).epsilon(0.1));
  CHECK(zeros < n / 10000);
}

TEST_CASE("every mantissa bit of normal floats is set in about half of the values") {
  const int n = 20000;
  std::vector<int> set(23);
  for (int e = 0; e < n; ++e) {
    const auto bits = std::bit_cast<uint32_t>(
        static_cast<float>(random_value(DType::bf16, Fill::normal, 9, static_cast<uint64_t>(e))));
    for (int b = 16; b < 23; ++b) set[static_cast<size_t>(b)] += (bits >> b) & 1;
  }
  for (int b = 16; b < 23; ++b) CHECK(set[static_cast<size_t>(b)] / double(n) == Approx(0.48).margin(0.1));
}

TEST_CASE("uniform data stays in [-1, 1) and fills it; integers fill their type") {
  double low = 1, high = -1;
  std::set<int> bytes;
  for (uint64_t e = 0; e < 20000; ++e) {
    const double x = random_value(DType::f32, Fill::uniform, 1, e);
    REQUIRE(x >= -1);
    REQUIRE(x < 1);
    low = std::min(low, x);
    high = std::max(high, x);
    bytes.insert(static_cast<int>(random_value(DType::int8, Fill::uniform, 1, e)));
  }
  CHECK(low < -0.99);
  CHECK(high > 0.99);
  CHECK(bytes.size() == 256);
  CHECK(*bytes.begin() == -128);
}

TEST_CASE("small integers are -2 to 2, or 0 to 4 for unsigned, evenly, in every type") {
  for (DType type : kAll) {
    std::map<double, int> seen;
    for (uint64_t e = 0; e < 5000; ++e) ++seen[random_value(type, Fill::small_integers, 7, e)];
    const bool is_unsigned = type == DType::uint8 || type == DType::uint32 || type == DType::uint64;
    REQUIRE(seen.size() == 5);
    CHECK(seen.begin()->first == (is_unsigned ? 0 : -2));
    CHECK(seen.rbegin()->first == (is_unsigned ? 4 : 2));
    for (const auto& [value, times] : seen) CHECK(times == Approx(1000).margin(150));
  }
}

TEST_CASE("int8 normal data is rounded 32 x, saturated evenly") {
  double sum = 0, squares = 0;
  for (uint64_t e = 0; e < 100000; ++e) {
    const double x = random_value(DType::int8, Fill::normal, 3, e);
    REQUIRE(std::fabs(x) <= 127);
    sum += x;
    squares += x * x;
  }
  CHECK(std::fabs(sum / 1e5) < 0.5);
  CHECK(std::sqrt(squares / 1e5) == Approx(32).epsilon(0.02));
}

TEST_CASE("seeds and elements give different data") {
  std::set<double> values;
  for (uint64_t seed = 0; seed < 50; ++seed)
    for (uint64_t e = 0; e < 50; ++e) values.insert(random_value(DType::f64, Fill::uniform, seed, e));
  CHECK(values.size() == 2500);
}

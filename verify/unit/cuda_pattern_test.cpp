// Data of collectives on an NVIDIA GPU: unit "[cuda]". Hidden from a plain run.
#include <algorithm>
#include <vector>

#include "src/comm/pattern.h"
#include "src/comm/step_graph.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

std::vector<char> fetch(Device& device, Stream& stream, const void* from, size_t bytes) {
  std::vector<char> data(bytes);
  device.copy(data.data(), from, bytes, stream);
  stream.synchronize();
  return data;
}

}  // namespace

TEST_CASE("cuda: data are the host's bit for bit, and a check finds the last element changed", "[.cuda]") {
  const auto device = open_device("cuda", 0, 1).device;
  const auto stream = device->make_stream();
  const auto runner = make_pattern_runner(*device, 1);
  const size_t count = 200003;
  for (DType type : all_dtypes())
    for (PatternKind kind : {PatternKind::copy, PatternKind::sum, PatternKind::mulsum, PatternKind::avg,
                             PatternKind::prod, PatternKind::max, PatternKind::min}) {
      INFO(name_of(type) << " kind " << static_cast<int>(kind));
      const size_t bytes = count * size_of(type);
      const Buffer buffer = device->allocate(bytes);
      Pattern p = make_pattern(type, kind, 3);
      p.key = 17;
      runner->generate(buffer.data(), count, p, 2, 1000, *stream);
      std::vector<char> host(bytes);
      generate_on_host(host.data(), count, p, 2, 1000, 2);
      REQUIRE(fetch(*device, *stream, buffer.data(), bytes) == host);

      p = make_pattern(type, kind, 1);  // one rank: its input is what comes out
      p.key = 18;
      const Expect expect = kind == PatternKind::copy ? Expect{Expect::Kind::copied, 0, count, 0}
                                                      : Expect{Expect::Kind::reduced, 0, 1, 0};
      runner->generate(buffer.data(), count, p, 0, 0, *stream);
      runner->check(buffer.data(), count, p, expect, *stream);
      const size_t last = bytes - 1;
      char byte = fetch(*device, *stream, buffer.at(last), 1)[0];
      byte = static_cast<char>(byte ^ 0x20);
      device->copy(buffer.at(last), &byte, 1, *stream);
      runner->check(buffer.data(), count, p, expect, *stream);
      const std::vector<Found> found = runner->collect(*stream);
      REQUIRE(found.size() == 2);
      REQUIRE(found[0].wrong == 0);
      REQUIRE(found[1].wrong == 1);
      REQUIRE(found[1].first == static_cast<int64_t>(count - 1));
      REQUIRE(runner->collect(*stream).empty());
    }
}

TEST_CASE("cuda: blocks of several sources are checked as the host checks them", "[.cuda]") {
  const auto device = open_device("cuda", 0, 1).device;
  const auto stream = device->make_stream();
  const auto runner = make_pattern_runner(*device, 1);
  Pattern p = make_pattern(DType::bf16, PatternKind::copy, 3);
  p.key = 5;
  const size_t block = 70001;
  const Buffer buffer = device->allocate(3 * block * 2);
  for (int r = 0; r < 3; ++r)
    runner->generate(buffer.at(static_cast<size_t>(r) * block * 2), block, p, r, 0, *stream);
  runner->check(buffer.data(), 3 * block, p, {Expect::Kind::copied, 0, block, 0}, *stream);
  runner->check(buffer.data(), 3 * block, p, {Expect::Kind::copied, 1, block, 0}, *stream);
  runner->check(buffer.data(), 3 * block, p, {Expect::Kind::untouched, 0, 1, 0}, *stream);
  device->set_bytes(buffer.data(), kPoison, buffer.bytes(), *stream);
  runner->check(buffer.data(), 3 * block, p, {Expect::Kind::untouched, 0, 1, 0}, *stream);
  const std::vector<Found> found = runner->collect(*stream);
  REQUIRE(found[0].wrong == 0);
  REQUIRE(found[1].wrong > static_cast<int64_t>(block));
  REQUIRE(found[1].first >= 0);
  REQUIRE(found[2].wrong > static_cast<int64_t>(block));
  REQUIRE(found[3].wrong == 0);
}

TEST_CASE("cuda: a recorded graph does its work at each launch, not while it is recorded", "[.cuda]") {
  const auto device = open_device("cuda", 0, 1).device;
  const auto stream = device->make_stream();
  const Buffer buffer = device->allocate(64);
  device->set_bytes(buffer.data(), 1, 64, *stream);
  const auto graph =
      record_graph(*device, *stream, [&] { device->set_bytes(buffer.data(), 2, 64, *stream); });
  REQUIRE(fetch(*device, *stream, buffer.data(), 64) == std::vector<char>(64, 1));
  for (int i = 0; i < 2; ++i) {
    graph->launch(*stream);
    REQUIRE(fetch(*device, *stream, buffer.data(), 64) == std::vector<char>(64, 2));
    device->set_bytes(buffer.data(), 1, 64, *stream);
  }
}

TEST_CASE("the host device has no graphs, and says so") {
  const auto device = open_host_device();
  const auto stream = device->make_stream();
  REQUIRE_THROWS_AS(record_graph(*device, *stream, [] {}), SkippedError);
}

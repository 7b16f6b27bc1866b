// Run on a machine with an NVIDIA GPU: unit "[cuda]". Hidden from a plain run.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "src/device/device.h"
#include "src/device/nvml.h"
#include "src/device/random.h"
#include "src/device/sku.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::message_of;

namespace {

std::unique_ptr<Device> open_gpu() {
  return open_device("cuda", 0, 1).device;
}

/// What a device buffer holds.
std::vector<char> fetch(Device& device, Stream& stream, const void* from, size_t bytes) {
  std::vector<char> data(bytes);
  device.copy(data.data(), from, bytes, stream);
  stream.synchronize();
  return data;
}

}  // namespace

TEST_CASE("cuda: the device says what it is", "[.cuda]") {
  const auto device = open_gpu();
  const DeviceIdentity& id = device->identity();
  CHECK(device->kind() == DeviceKind::cuda);
  CHECK(id.kind == "cuda");
  CHECK(id.name.find("NVIDIA") == 0);
  CHECK(id.uuid.size() == 40);
  CHECK(id.pci.size() == 12);
  CHECK(id.capability >= 80);
  CHECK(id.compute_units > 0);
  CHECK(device->last_level_cache_bytes() > 0);
  CHECK(device->memory().available > 0);
  CHECK(device->memory().available <= device->memory().total);
  for (const auto& [name, version] : device->versions()) CHECK(version.find("unknown") == std::string::npos);
  std::string why;
  const auto nvml = Nvml::open(why);
  INFO(why);
  REQUIRE(nvml);
  const auto same = nvml->by_uuid(id.uuid);
  REQUIRE(same);
  CHECK(*same->pci() == id.pci);
  CHECK(*same->name() == id.name);
  WARN(id.name << ": " << (find_sku(id) ? find_sku(id)->name : "not in the SKU table"));
}

TEST_CASE("cuda: more memory than there is is an error with both figures; the device works on", "[.cuda]") {
  const auto device = open_gpu();
  const auto refused = message_of<DeviceError>([&] { device->allocate(70368744177664); });
  CHECK(refused.find("70368744177664 bytes asked") != std::string::npos);
  CHECK(refused.find("out of memory") != std::string::npos);
  CHECK(refused.find(device->identity().name) != std::string::npos);
  CHECK_THROWS_AS(device->allocate_pinned(70368744177664), DeviceError);
  CHECK(device->allocate(1 << 20).bytes() == 1 << 20);
  CHECK(!device->allocate(0));
}

TEST_CASE("cuda: fill_random gives random_value's bits for every type, fill and odd count", "[.cuda]") {
  const auto device = open_gpu();
  const auto host = open_host_device();
  const auto stream = device->make_stream(), host_stream = host->make_stream();
  const size_t count = GENERATE(1, 255, 100003);
  const Fill fill = GENERATE(Fill::normal, Fill::uniform, Fill::small_integers);
  const uint64_t first = (1ull << 40) + 3;
  for (DType type : all_dtypes()) {
    const size_t bytes = count * size_of(type);
    const Buffer buffer = device->allocate(bytes + 64);
    CHECK(reinterpret_cast<uintptr_t>(buffer.data()) % 512 == 0);
    device->set_bytes(buffer.data(), 0x5a, bytes + 64, *stream);
    device->fill_random(buffer.data(), count, type, fill, 99, first, *stream);
    const std::vector<char> got = fetch(*device, *stream, buffer.data(), bytes + 64);
    std::vector<char> expected(bytes + 64, 0x5a);
    host->fill_random(expected.data(), count, type, fill, 99, first, *host_stream);
    INFO(name_of(type));
    REQUIRE(std::memcmp(got.data(), expected.data(), bytes + 64) == 0);
  }
}

TEST_CASE("cuda: copies of odd sizes and addresses in every direction", "[.cuda]") {
  const auto device = open_gpu();
  const auto stream = device->make_stream();
  const size_t bytes = GENERATE(0, 1, 13, 4097, (5 << 20) + 7);
  std::vector<char> source(bytes + 3);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<char>(mix64(1, i));
  const Buffer a = device->allocate(bytes + 3), b = device->allocate(bytes + 3),
               pinned = device->allocate_pinned(bytes + 3);
  device->set_bytes(b.data(), 0, bytes + 3, *stream);
  device->copy(a.at(1), source.data() + 2, bytes, *stream);  // plain host -> device
  device->copy(b.at(2), a.at(1), bytes, *stream);            // device -> device
  device->copy(pinned.data(), b.at(2), bytes, *stream);      // device -> pinned
  stream->synchronize();
  CHECK(std::memcmp(pinned.data(), source.data() + 2, bytes) == 0);
  const std::vector<char> all = fetch(*device, *stream, b.data(), bytes + 3);
  CHECK(all[0] == 0);
  CHECK(all[1] == 0);
  CHECK(all[bytes + 2] == 0);
}

TEST_CASE("cuda: sizes beyond 4 GiB", "[.cuda]") {
  const auto device = open_gpu();
  const auto stream = device->make_stream();
  const size_t bytes = (size_t{4} << 30) + 1;
  if (device->memory().available < static_cast<int64_t>(bytes) + (1 << 28))
    TT_SKIP("less than 4.25 GiB free");
  const Buffer buffer = device->allocate(bytes);
  device->set_bytes(buffer.data(), 0, bytes, *stream);
  device->fill_random(buffer.data(), bytes, DType::uint8, Fill::uniform, 4, 0, *stream);
  const std::vector<char> end = fetch(*device, *stream, buffer.at(bytes - 64), 64);
  for (size_t i = 0; i < 64; ++i)
    CHECK(static_cast<unsigned char>(end[i]) == random_value(DType::uint8, Fill::uniform, 4, bytes - 64 + i));
}

TEST_CASE("cuda: a delay lasts as long as asked, to 5 % from 20 us on", "[.cuda][timing]") {
  const auto device = open_gpu();
  const auto stream = device->make_stream();
  const double seconds = GENERATE(20e-6, 50e-6, 1e-3, 50e-3);
  std::vector<double> measured;
  for (int i = 0; i < 21; ++i) {
    stream->begin_marks(3);
    stream->delay(200e-6);  // until everything is enqueued
    stream->mark(0);
    stream->delay(seconds);
    stream->mark(1);
    stream->mark(2);
    stream->synchronize();
    const double mark = stream->mark_seconds(2) - stream->mark_seconds(1);
    measured.push_back(stream->mark_seconds(1) - stream->mark_seconds(0) - mark);
  }
  std::sort(measured.begin(), measured.end());
  WARN("asked " << seconds * 1e6 << " us, median " << measured[10] * 1e6 << ", from "
                << measured.front() * 1e6 << " to " << measured.back() * 1e6);
  CHECK(measured[10] == Approx(seconds).epsilon(0.05));
  CHECK_THROWS_AS(stream->delay(-1), DeviceError);
  CHECK_THROWS_AS(stream->delay(INFINITY), DeviceError);
}

TEST_CASE("cuda: marks are ordered, lie between the host's times, and are reused", "[.cuda]") {
  const auto device = open_gpu();
  const auto stream = device->make_stream();
  for (size_t count : {1, 40, 7}) {
    stream->begin_marks(count);
    CHECK(stream->marks_passed() == 0);
    const double before = monotonic_seconds();
    for (size_t i = 0; i < count; ++i) {
      stream->delay(30e-6);
      stream->mark(i);
    }
    stream->synchronize();
    const double after = monotonic_seconds();
    CHECK(stream->marks_passed() == count);
    for (size_t i = 0; i < count; ++i) {
      CHECK(stream->mark_seconds(i) > before - 20e-6);
      CHECK(stream->mark_seconds(i) < after + 20e-6);
      if (i > 0) CHECK(stream->mark_seconds(i) - stream->mark_seconds(i - 1) > 25e-6);
    }
    CHECK_THROWS_AS(stream->mark(count), DeviceError);
    CHECK_THROWS_AS(stream->mark_seconds(count), DeviceError);
  }
  stream->begin_marks(1);
  CHECK_THROWS_AS(stream->mark_seconds(0), DeviceError);
}

TEST_CASE("cuda: what beginning marks costs", "[.cuda][timing]") {
  const auto device = open_gpu();
  const auto stream = device->make_stream();
  stream->begin_marks(100);
  const double start = monotonic_seconds();
  for (int i = 0; i < 100; ++i) stream->begin_marks(100);
  WARN("begin_marks: " << (monotonic_seconds() - start) * 1e4 << " us");
  stream->begin_marks(100);
  stream->delay(2e-3);
  for (size_t i = 0; i < 100; ++i) stream->mark(i);
  stream->synchronize();
  WARN("mark: " << (stream->mark_seconds(99) - stream->mark_seconds(0)) / 99 * 1e6 << " us, stated "
                << stream->mark_cost() * 1e6);
}

TEST_CASE("cuda: another thread sees marks pass while this one waits", "[.cuda][timing]") {
  const auto device = open_gpu();
  const auto stream = device->make_stream();
  stream->begin_marks(20);
  for (size_t i = 0; i < 20; ++i) {
    stream->delay(5e-3);
    stream->mark(i);
  }
  std::atomic<bool> partial{false}, ordered{true};
  std::thread watcher([&] {
    size_t last = 0;
    while (last < 20) {
      const size_t now = stream->marks_passed();
      if (now < last) ordered = false;
      if (now > 0 && now < 20) partial = true;
      last = now;
      std::this_thread::yield();
    }
  });
  stream->synchronize();
  watcher.join();
  CHECK(partial);
  CHECK(ordered);
}

TEST_CASE("cuda: streams of other devices are refused", "[.cuda]") {
  const auto device = open_gpu();
  const auto host = open_host_device();
  const auto stream = host->make_stream();
  const Buffer buffer = device->allocate(16);
  CHECK_THROWS_AS(device->set_bytes(buffer.data(), 0, 16, *stream), DeviceError);
}

TEST_CASE("cuda: telemetry has clock, power and temperature of a working GPU", "[.cuda][timing]") {
  const auto device = open_gpu();
  const auto source = device->telemetry();
  REQUIRE(source);
  const TelemetrySample s = source->sample();
  REQUIRE(s.sm_MHz);
  REQUIRE(s.power_W);
  REQUIRE(s.temperature_C);
  CHECK(*s.sm_MHz > 100);
  CHECK(*s.power_W > 10);
  CHECK(*s.temperature_C > 5);
  if (s.energy_J) CHECK(*source->sample().energy_J >= *s.energy_J);
  const double start = monotonic_seconds();
  for (int i = 0; i < 20; ++i) source->sample();
  WARN("one sample takes " << (monotonic_seconds() - start) / 20 * 1e3 << " ms");
}

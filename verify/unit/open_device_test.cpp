#include <stdlib.h>

#include "src/device/cuda_library.h"
#include "src/device/device.h"
#include "src/device/plugin.h"
#include "verify/unit/catch.h"

using namespace tt;
using tt::test::message_of;

TEST_CASE("--device host is the host, without a remark") {
  const Opened opened = open_device("host", 0, 1);
  CHECK(opened.device->kind() == DeviceKind::host);
  CHECK(opened.why.empty());
}

TEST_CASE("an unknown device is a usage error with the accepted names") {
  CHECK(message_of<UsageError>([] { open_device("gpu", 0, 1); }).find("auto, cuda, host") !=
        std::string::npos);
}

// Where no CUDA device is usable, and with a name that matches none even where one is (the reason C24 asks
// for).
TEST_CASE("without a usable CUDA device auto takes the host and says why; cuda refuses with the same words") {
  const char* before = getenv("CUDA_VISIBLE_DEVICES");
  const std::string restore = before ? before : "";
  setenv("CUDA_VISIBLE_DEVICES", "GPU-deadbeef", 1);
  {
    const Opened opened = open_device("auto", 0, 1);
    CHECK(opened.device->kind() == DeviceKind::host);
    CHECK(opened.why.find("no CUDA device: ") == 0);
    const std::string refusal = message_of<EnvironmentError>([] { open_device("cuda", 0, 1); });
    CHECK(refusal.find("--device cuda: " + opened.why.substr(16)) == 0);
    if (CudaLibrary::get())
      CHECK(opened.why.find("GPU-deadbeef") != std::string::npos);
    else
      CHECK(opened.why.find("libtt_cuda.so") != std::string::npos);
  }
  before ? setenv("CUDA_VISIBLE_DEVICES", restore.c_str(), 1) : unsetenv("CUDA_VISIBLE_DEVICES");
}

// After the test above: CUDA reads the variable once.
TEST_CASE("an error thrown inside the CUDA library is caught here by its type") {
  const CudaLibrary* library = CudaLibrary::get();
  if (!library) TT_SKIP("no libtt_cuda.so beside this executable");
  auto* const open = library->function<Device*(int)>("tt_cuda_open_device");
  const std::string message = message_of<DeviceError>([&] { open(9999); });
  CHECK(message.find("cudaSetDevice(index) failed: ") != std::string::npos);
}

TEST_CASE("a missing plugin keeps the loader's words, and its symbols are errors that name them") {
  const Plugin plugin("libtt_no_such_thing.so");
  CHECK(!plugin.loaded());
  CHECK(plugin.error().find("libtt_no_such_thing.so: cannot open shared object file") != std::string::npos);
  CHECK(message_of<EnvironmentError>([&] { plugin.symbol("tt_function"); }).find("tt_function") !=
        std::string::npos);
}

TEST_CASE("a plugin is found on the loader's path, and a symbol it lacks is an error") {
  const Plugin plugin("libc.so.6");
  REQUIRE(plugin.loaded());
  CHECK(plugin.symbol("getpid") != nullptr);
  CHECK_THROWS_AS(plugin.symbol("tt_function"), EnvironmentError);
}

#include "src/node/live.h"

#include <sys/klog.h>
#include <sys/timex.h>

#include <cerrno>
#include <cstring>

#include "src/node/json.h"

namespace tt::node {
namespace {

constexpr const char* kClock = "/live/adjtimex.json";

std::string words_of(int error) {
  return std::strerror(error);
}

}  // namespace

Reading<bool> clock_synchronized(const Sysroot& root) {
  if (!root.live()) {
    const Text text = root.text(kClock);
    if (!text) return Reading<bool>::unknown(text.why);
    const auto json = parse_json(*text);
    if (!json.is_object() || !json.contains("synchronized") || !json["synchronized"].is_boolean())
      return Reading<bool>::unknown(std::string(kClock) + ": no 'synchronized' of true or false");
    return Reading<bool>::of(json["synchronized"].get<bool>());
  }
  // The state TIME_ERROR and the status bit STA_UNSYNC say that nobody steers it, whatever the daemon would
  // be called.
  timex t{};
  const int state = ::adjtimex(&t);
  if (state < 0) return Reading<bool>::unknown("adjtimex: " + words_of(errno));
  return Reading<bool>::of(state != TIME_ERROR && (t.status & STA_UNSYNC) == 0);
}

Text kernel_log(const Sysroot& root) {
  if (!root.live()) return root.text("/live/kernel.log");
  constexpr int kReadAll = 3, kBufferSize = 10;  // syslog(2)
  const int size = ::klogctl(kBufferSize, nullptr, 0);
  if (size < 0) return Text::unknown("kernel log: " + words_of(errno));
  std::string log(static_cast<size_t>(size), '\0');
  const int got = ::klogctl(kReadAll, log.data(), size);
  if (got < 0) return Text::unknown("kernel log: " + words_of(errno));
  log.resize(static_cast<size_t>(got));
  return Text::of(std::move(log));
}

}  // namespace tt::node

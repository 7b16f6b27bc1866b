// The watchdogs' messages and their form on the wire.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/progress.h"

namespace tt::watchdog {

enum class Kind : uint8_t {
  hello = 1,      // rank; text: the token; more: host          (rank -> coordinator, first of all)
  welcome = 2,    // more: the coordinator's host               (coordinator -> rank)
  beat = 3,       // the beat; text: phase; more: device        (both ways, every half second)
  ping = 4,       // answer with a beat at once                 (coordinator -> rank)
  failed = 5,     // code: exit code; text: reason              (rank -> coordinator)
  signalled = 6,  // code: signal number                        (rank -> coordinator)
  goodbye = 7,    // the run ended well here                    (both ways)
  end = 8,        // code: exit code; rank: culprit; text: why  (whoever reports -> everyone it is joined to)
};

/// One layout for all kinds; what a kind does not use stays at its default.
struct Message {
  Kind kind = Kind::beat;
  int32_t rank = -1;
  int32_t code = 0;
  uint64_t phase_number = 0;
  int64_t iteration = -1;
  Activity activity = Activity::own_work;
  double age_s = 0;    // time since the phase began
  double limit_s = 0;  // what the phase may take; 0: no deadline
  std::string text, more;
};

struct WireError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Magic, length, fields little-endian, texts with their length in front (cut at kMaxText).
inline constexpr size_t kMaxText = 8192;
std::string encode(const Message& message);

/// Cuts a byte stream into messages. Nothing that arrives can make it allocate more than one message's worth;
/// what is not ours throws WireError with the first wrong field.
class MessageReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  std::optional<Message> next();

 private:
  std::string buffer_;
};

}  // namespace tt::watchdog

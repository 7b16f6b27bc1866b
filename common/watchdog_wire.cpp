#include "common/watchdog_wire.h"

#include <bit>
#include <cmath>

namespace tt::watchdog {
namespace {

constexpr uint32_t kMagic = 0x31575454;  // "TTW1": the digit is the version
constexpr size_t kHeader = 8;            // magic, length of what follows
constexpr size_t kFixed = 1 + 4 + 4 + 8 + 8 + 1 + 8 + 8;
constexpr size_t kMaxBody = kFixed + 2 * (4 + kMaxText);

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i)
    out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}

void put_text(std::string& out, std::string_view text) {
  text = text.substr(0, kMaxText);
  put(out, static_cast<uint32_t>(text.size()));
  out.append(text);
}

class Fields {
 public:
  explicit Fields(std::string_view bytes) : left_(bytes) {}
  template <class T>
  T number() {
    uint64_t value = 0;
    const std::string_view bytes = take(sizeof(T));
    for (size_t i = 0; i < sizeof(T); ++i) value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
    return static_cast<T>(value);
  }
  double seconds() {
    const double value = std::bit_cast<double>(number<uint64_t>());
    if (!std::isfinite(value) || value < 0) throw WireError("a time that is none");
    return value;
  }
  std::string text() {
    const auto length = number<uint32_t>();
    if (length > kMaxText) throw WireError("text of " + std::to_string(length) + " bytes");
    return std::string(take(length));
  }
  void expect_end() const {
    if (!left_.empty()) throw WireError(std::to_string(left_.size()) + " bytes too many");
  }

 private:
  std::string_view take(size_t count) {
    if (left_.size() < count) throw WireError("message too short");
    const std::string_view front = left_.substr(0, count);
    left_.remove_prefix(count);
    return front;
  }
  std::string_view left_;
};

Message decode(std::string_view body) {
  Fields fields(body);
  Message m;
  const auto kind = fields.number<uint8_t>();
  if (kind < static_cast<uint8_t>(Kind::hello) || kind > static_cast<uint8_t>(Kind::end))
    throw WireError("kind " + std::to_string(kind));
  m.kind = static_cast<Kind>(kind);
  m.rank = fields.number<int32_t>();
  m.code = fields.number<int32_t>();
  m.phase_number = fields.number<uint64_t>();
  m.iteration = fields.number<int64_t>();
  const auto activity = fields.number<uint8_t>();
  if (activity > static_cast<uint8_t>(Activity::waiting))
    throw WireError("activity " + std::to_string(activity));
  m.activity = static_cast<Activity>(activity);
  m.age_s = fields.seconds();
  m.limit_s = fields.seconds();
  m.text = fields.text();
  m.more = fields.text();
  fields.expect_end();
  return m;
}

}  // namespace

std::string encode(const Message& m) {
  std::string body;
  put(body, static_cast<uint8_t>(m.kind));
  put(body, m.rank);
  put(body, m.code);
  put(body, m.phase_number);
  put(body, m.iteration);
  put(body, static_cast<uint8_t>(m.activity));
  put(body, std::bit_cast<uint64_t>(m.age_s));
  put(body, std::bit_cast<uint64_t>(m.limit_s));
  put_text(body, m.text);
  put_text(body, m.more);
  std::string frame;
  put(frame, kMagic);
  put(frame, static_cast<uint32_t>(body.size()));
  return frame + body;
}

std::optional<Message> MessageReader::next() {
  if (buffer_.size() >= 4 && Fields(buffer_).number<uint32_t>() != kMagic)
    throw WireError("not a watchdog's message");
  if (buffer_.size() < kHeader) return std::nullopt;
  const auto length = Fields(std::string_view(buffer_).substr(4)).number<uint32_t>();
  if (length > kMaxBody) throw WireError("message of " + std::to_string(length) + " bytes");
  if (buffer_.size() < kHeader + length) return std::nullopt;
  Message message = decode(std::string_view(buffer_).substr(kHeader, length));
  buffer_.erase(0, kHeader + length);
  return message;
}

}  // namespace tt::watchdog

#include "src/llm/megatron_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "common/error.h"

namespace tt {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26, kHeaderBytes = 34;
constexpr int64_t kLengthBytes = 4, kPointerBytes = 8;

template <class T>
T value_at(const char* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

}  // namespace

void MegatronTokens::fail(const std::string& what) const {
  throw EnvironmentError(index_.path() + ": " + what);
}

MegatronTokens::MegatronTokens(const std::string& index_path, const std::string& bin_path)
    : index_(index_path), bin_(bin_path) {
  read_header();
  check_sequences();
  check_documents();
  check_modes();
}

void MegatronTokens::read_header() {
  if (index_.bytes() < kHeaderBytes)
    fail(fmt::format("truncated: {} bytes, its header alone has {}", index_.bytes(), kHeaderBytes));
  const char* const data = index_.data();
  if (std::string_view(data, kMagic.size()) != kMagic)
    fail("does not begin as Megatron's indexed datasets do (MMIDIDX)");
  const auto version = value_at<uint64_t>(data + kVersionAt);
  if (version != 1) fail(fmt::format("version {}; read is version 1", version));
  constexpr TokenType kTypes[] = {TokenType::u8,  TokenType::i8,  TokenType::i16, TokenType::i32,
                                  TokenType::i64, TokenType::i64, TokenType::i64, TokenType::u16};
  const int code = static_cast<unsigned char>(data[kTypeAt]);
  if (code == 6 || code == 7)
    fail(fmt::format("dtype code {} ({}); tokens are integers", code, code == 6 ? "float64" : "float32"));
  if (code < 1 || code > 8) fail(fmt::format("dtype code {}; known are 1 to 8", code));
  type_ = kTypes[code - 1];

  const auto sequences = value_at<uint64_t>(data + kSequencesAt);
  const auto documents = value_at<uint64_t>(data + kDocumentsAt);
  const uint64_t body = static_cast<uint64_t>(index_.bytes() - kHeaderBytes);
  constexpr uint64_t kEach = kLengthBytes + kPointerBytes;
  if (sequences > body / kEach || documents > (body - sequences * kEach) / kPointerBytes)
    fail(fmt::format("truncated: {} bytes do not hold {} sequences and {} document indices", index_.bytes(),
                     sequences, documents));
  const uint64_t rest = body - sequences * kEach - documents * kPointerBytes;
  if (rest != 0 && rest != sequences)
    fail(fmt::format("{} bytes behind {} sequences and {} document indices", rest, sequences, documents));
  if (sequences == 0) fail("has no sequences");
  sequences_ = static_cast<int64_t>(sequences);
  document_indices_ = static_cast<int64_t>(documents);
}

int64_t MegatronTokens::length(int64_t sequence) const {
  return value_at<int32_t>(index_.data() + kHeaderBytes + sequence * kLengthBytes);
}

int64_t MegatronTokens::pointer(int64_t sequence) const {
  return value_at<int64_t>(index_.data() + kHeaderBytes + sequences_ * kLengthBytes +
                           sequence * kPointerBytes);
}

void MegatronTokens::check_sequences() {
  int64_t total = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    if (i % kBlock == 0) block_start_.push_back(total);
    const int64_t tokens = length(i), at = pointer(i);
    if (tokens < 0) fail(fmt::format("sequence {} has a length of {}", i, tokens));
    if (at < 0) fail(fmt::format("sequence {} has the negative pointer {}", i, at));
    if (at > bin_.bytes() || tokens > (bin_.bytes() - at) / bytes_of(type_))
      fail(fmt::format("sequence {}, {} tokens at pointer {}, goes beyond the {} bytes of {}", i, tokens, at,
                       bin_.bytes(), bin_.path()));
    if (total > std::numeric_limits<int64_t>::max() - tokens) fail("more tokens than can be counted");
    total += tokens;
  }
  block_start_.push_back(total);
}

void MegatronTokens::check_documents() const {
  const char* const from = index_.data() + kHeaderBytes + sequences_ * (kLengthBytes + kPointerBytes);
  int64_t before = 0;
  for (int64_t i = 0; i < document_indices_; ++i) {
    const auto index = value_at<int64_t>(from + i * kPointerBytes);
    if (index < before || index > sequences_ || (i == 0 && index != 0))
      fail(
          fmt::format("document index {} is {}; they rise from 0 to the {} sequences", i, index, sequences_));
    before = index;
  }
  if (before != sequences_) fail(fmt::format("the documents end at sequence {} of {}", before, sequences_));
}

void MegatronTokens::check_modes() const {
  const int64_t at =
      kHeaderBytes + sequences_ * (kLengthBytes + kPointerBytes) + document_indices_ * kPointerBytes;
  const std::string_view modes(index_.data() + at, static_cast<size_t>(index_.bytes() - at));
  const size_t other = modes.find_first_not_of('\0');
  if (other != std::string_view::npos)
    fail(fmt::format("sequence {} has mode {}; read is text alone (mode 0)", other,
                     static_cast<int>(static_cast<unsigned char>(modes[other]))));
}

void MegatronTokens::read(int64_t first, int64_t count, int64_t* to) const {
  const auto block = std::upper_bound(block_start_.begin(), block_start_.end() - 1, first) - 1;
  int64_t sequence = (block - block_start_.begin()) * kBlock;
  int64_t skip = first - *block;  // tokens from the sequence's start
  for (; count > 0; ++sequence) {
    const int64_t here = length(sequence);
    if (skip >= here) {
      skip -= here;
      continue;
    }
    const int64_t taken = std::min(count, here - skip);
    widen(bin_.data() + pointer(sequence) + skip * bytes_of(type_), type_, taken, to);
    to += taken;
    count -= taken;
    skip = 0;
  }
}

}  // namespace tt

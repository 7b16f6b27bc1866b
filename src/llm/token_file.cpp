#include "src/llm/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "common/error.h"
#include "common/quote.h"
#include "src/llm/megatron_tokens.h"
#include "src/llm/safetensors.h"

namespace tt {
namespace {

constexpr const char* kTensor = "tokens";

/// Turns the S + 1 ids of a sample into inputs and targets. `negative`: such ids may occur.
struct Splitter {
  std::string path;
  int64_t vocabulary = 0;
  bool negative = false;

  void split(int64_t sample, const std::vector<int64_t>& ids, std::span<int32_t> inputs,
             std::span<int32_t> targets) const {
    for (size_t p = 0; p < ids.size(); ++p) {
      const int64_t id = ids[p];
      if (id >= vocabulary || (id < 0 && !negative))
        throw EnvironmentError(
            fmt::format("{}: sample {}, position {}: token {} is not in the model's vocabulary, 0 to {}",
                        path, sample, p, id, vocabulary - 1));
      if (p + 1 < ids.size()) inputs[p] = static_cast<int32_t>(std::max<int64_t>(id, 0));
      if (p > 0) targets[p - 1] = id < 0 ? -1 : static_cast<int32_t>(id);
    }
  }
};

class RowSamples final : public SampleSource {
 public:
  RowSamples(const std::string& path, int64_t vocabulary)
      : file_(path), splitter_{path, vocabulary}, tensor_(find_tensor(file_)) {
    splitter_.negative = tensor_.dtype.starts_with('I') && has_negative();
  }
  int64_t seq() const { return width() - 1; }
  const TensorInfo& tensor() const { return tensor_; }
  int64_t samples() const override { return tensor_.count / width(); }
  bool masked() const override { return splitter_.negative; }
  void read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) override {
    ids_.resize(static_cast<size_t>(width()));
    file_.read(tensor_, i * width(), width(), ids_.data());
    splitter_.split(i, ids_, inputs, targets);
  }

 private:
  static const TensorInfo& find_tensor(const SafetensorsFile& file) {
    const TensorInfo* const tensor = file.find(kTensor);
    if (!tensor) throw EnvironmentError(file.path() + ": has no tensor " + in_quotes(kTensor));
    if (!SafetensorsFile::is_integer(*tensor))
      file.fail(*tensor, "is " + in_quotes(tensor->dtype) + "; tokens are integers");
    if (tensor->shape.empty() || tensor->shape.back() < 2 || tensor->count == 0)
      file.fail(*tensor, "is " + shape_text(tensor->shape) + "; needed are rows of two tokens or more");
    return *tensor;
  }

  bool has_negative() {
    constexpr int64_t kAtOnce = 1 << 16;
    for (int64_t first = 0; first < tensor_.count; first += kAtOnce) {
      ids_.resize(static_cast<size_t>(std::min(kAtOnce, tensor_.count - first)));
      file_.read(tensor_, first, static_cast<int64_t>(ids_.size()), ids_.data());
      if (*std::min_element(ids_.begin(), ids_.end()) < 0) return true;
    }
    return false;
  }

  int64_t width() const { return tensor_.shape.back(); }

  SafetensorsFile file_;
  Splitter splitter_;
  const TensorInfo& tensor_;
  std::vector<int64_t> ids_;
};

class FlatTokens final : public TokenStream {
 public:
  FlatTokens(const std::string& path, TokenType type) : file_(path), type_(type) {
    if (file_.bytes() % bytes_of(type) != 0)
      throw EnvironmentError(
          fmt::format("{}: {} bytes are no multiple of a token's {}; is --data-dtype right?", path,
                      file_.bytes(), bytes_of(type)));
  }
  const std::string& path() const override { return file_.path(); }
  int64_t tokens() const override { return file_.bytes() / bytes_of(type_); }
  void read(int64_t first, int64_t count, int64_t* to) const override {
    widen(file_.data() + first * bytes_of(type_), type_, count, to);
  }

 private:
  MappedFile file_;
  TokenType type_;
};

/// Samples of S + 1 tokens, each beginning with the last token of the one before.
class StreamSamples final : public SampleSource {
 public:
  StreamSamples(std::unique_ptr<TokenStream> tokens, int64_t seq, int64_t vocabulary)
      : tokens_(std::move(tokens)), splitter_{tokens_->path(), vocabulary}, seq_(seq) {
    if (samples() < 1)
      throw EnvironmentError(fmt::format("{}: {} tokens are too few for one sample of {} and its last target",
                                         tokens_->path(), tokens_->tokens(), seq));
  }
  int64_t samples() const override { return (tokens_->tokens() - 1) / seq_; }
  void read(int64_t i, std::span<int32_t> inputs, std::span<int32_t> targets) override {
    ids_.resize(static_cast<size_t>(seq_ + 1));
    tokens_->read(i * seq_, seq_ + 1, ids_.data());
    splitter_.split(i, ids_, inputs, targets);
  }

 private:
  std::unique_ptr<TokenStream> tokens_;
  Splitter splitter_;
  int64_t seq_;
  std::vector<int64_t> ids_;
};

TokenType flat_type_named(const std::string& text) {
  if (text == "u16") return TokenType::u16;
  if (text == "u32") return TokenType::u32;
  throw UsageError("--data-dtype: " + in_quotes(text) + " is not accepted; accepted: u16, u32");
}

TokenFile open_rows(const std::string& path, int64_t seq, int64_t vocabulary) {
  auto rows = std::make_unique<RowSamples>(path, vocabulary);
  const int64_t own = rows->seq();
  if (seq != 0 && seq != own)
    throw UsageError(fmt::format(
        "--seq-length: {} is asked for, but {} has samples of {} tokens (its tensor \"{}\" is {})", seq, path,
        own, kTensor, shape_text(rows->tensor().shape)));
  return {std::move(rows), own};
}

std::unique_ptr<TokenStream> open_stream(const std::string& path, const std::string& flat_type) {
  const std::string stem = path.substr(0, path.size() - 4);
  std::error_code error;
  if (path.ends_with(".idx") || std::filesystem::exists(stem + ".idx", error))
    return std::make_unique<MegatronTokens>(stem + ".idx", stem + ".bin");
  return std::make_unique<FlatTokens>(path, flat_type_named(flat_type));
}

}  // namespace

TokenFile open_token_file(const std::string& path, int64_t seq, const std::string& flat_type,
                          int64_t vocabulary, int64_t default_seq) {
  if (path.ends_with(".safetensors")) return open_rows(path, seq, vocabulary);
  if (!path.ends_with(".bin") && !path.ends_with(".idx"))
    throw UsageError("--data: " + in_quotes(path) +
                     " is neither a known source nor a token file (.safetensors, .bin, .idx)");
  if (seq == 0) seq = default_seq;
  return {std::make_unique<StreamSamples>(open_stream(path, flat_type), seq, vocabulary), seq};
}

}  // namespace tt

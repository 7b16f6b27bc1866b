// Megatron-LM's indexed datasets: tokens in X.bin, where its sequences begin and end in X.idx
// (megatron/core/datasets/indexed_dataset.py). The index, little-endian and without padding:
//   9 bytes "MMIDIDX\0\0", u64 version 1, u8 dtype code, u64 sequences n, u64 document indices d,
//   i32 length in tokens [n], i64 byte offset in X.bin [n], i64 document indices [d], perhaps u8 mode [n].
// Document k is made of sequences index[k] … index[k+1] - 1. Codes: 1 uint8, 2 int8, 3 int16, 4 int32, 5
// int64, 6 float64, 7 float32, 8 uint16; the two of floats hold no tokens and are refused.
#pragma once

#include <string>
#include <vector>

#include "src/llm/mapped_file.h"
#include "src/llm/token_stream.h"

namespace tt {

/// The sequences, one after the other in the order of the index, nothing between them: what Megatron's
/// GPTDataset reads in one epoch without shuffling.
class MegatronTokens final : public TokenStream {
 public:
  /// Maps both files and checks the whole index. EnvironmentError naming the file and, where it is one's
  /// fault, the sequence, its length and its pointer.
  MegatronTokens(const std::string& index_path, const std::string& bin_path);

  const std::string& path() const override { return bin_.path(); }
  int64_t tokens() const override { return block_start_.back(); }
  void read(int64_t first, int64_t count, int64_t* to) const override;

  int64_t sequences() const { return sequences_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void read_header();
  void check_sequences();
  void check_documents() const;
  void check_modes() const;
  int64_t length(int64_t sequence) const;
  int64_t pointer(int64_t sequence) const;

  MappedFile index_, bin_;
  TokenType type_ = TokenType::i32;
  int64_t sequences_ = 0, document_indices_ = 0;
  /// Tokens before every kBlock-th sequence, and in all.
  static constexpr int64_t kBlock = 256;
  std::vector<int64_t> block_start_;
};

}  // namespace tt

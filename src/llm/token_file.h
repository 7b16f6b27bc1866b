// Files of tokens to train on:
//   X.safetensors   an integer tensor "tokens", last dimension S + 1: its rows are the samples, in order; all
//                   leading dimensions are flattened, other tensors ignored. A negative id is a target that
//                   is not trained (and token 0 where it is an input).
//   X.bin + X.idx   Megatron's (megatron_tokens.h), either named. Its sequences are joined in order, with
//   nothing
//                   between them, as GPTDataset does before it shuffles; samples overlap by one token: sample
//                   i is tokens i S … i S + S, across the ends of documents. What is left at the end is
//                   dropped.
//   X.bin           without X.idx: little-endian u16 or u32 and nothing else; samples as above.
// Inputs are the first S tokens of a sample, targets the last S.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/llm/samples.h"

namespace tt {

struct TokenFile {
  std::unique_ptr<SampleSource> samples;
  int64_t seq = 0;  // S
};

/// `seq`: the S asked for; 0: the file's own, or default_seq where it has none. `flat_type`: "u16" or "u32",
/// of a flat .bin. UsageError for another name, and when the file's S is not the one asked for.
/// EnvironmentError naming the file for everything that is wrong with it, here or when a sample is read: an
/// id beyond the vocabulary is named with sample and position. Files are mapped and read as samples are; only
/// a safetensors file of a signed type is read once here, for negative ids.
TokenFile open_token_file(const std::string& path, int64_t seq, const std::string& flat_type,
                          int64_t vocabulary, int64_t default_seq);

}  // namespace tt

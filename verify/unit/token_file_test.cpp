// Token files: every format read right, and hostile ones refused with an error that names what is wrong.
#include "src/llm/token_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <functional>
#include <limits>

#include "common/error.h"
#include "src/llm/megatron_tokens.h"
#include "verify/unit/catch.h"
#include "verify/unit/node_files.h"
#include "verify/unit/safetensors_bytes.h"

using namespace tt;
using namespace tt::test;

namespace {

constexpr int64_t kVocabulary = 100;

/// Megatron's index, put together field by field.
struct Index {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t code = 8;  // uint16
  std::vector<int32_t> lengths;
  std::vector<int64_t> pointers, documents;
  std::string modes;
  uint64_t sequences() const { return lengths.size(); }
  std::string bytes() const {
    return magic + raw(std::vector{version}) + raw(std::vector{code}) + raw(std::vector{sequences()}) +
           raw(std::vector<uint64_t>{documents.size()}) + raw(lengths) + raw(pointers) + raw(documents) +
           modes;
  }
};

/// Three sequences of u16 in two documents, stored in another order than read: tokens 1 … 12.
struct Small {
  Index index;
  std::vector<uint16_t> bin = {6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5};
  Small() {
    index.lengths = {5, 0, 7};
    index.pointers = {14, 0, 0};
    index.documents = {0, 1, 3};
  }
};

struct Sample {
  std::vector<int32_t> inputs, targets;
};
Sample sample(const TokenFile& file, int64_t i) {
  Sample s{std::vector<int32_t>(static_cast<size_t>(file.seq), -9),
           std::vector<int32_t>(static_cast<size_t>(file.seq), -9)};
  file.samples->read(i, s.inputs, s.targets);
  return s;
}

using Ids = std::vector<int32_t>;

class Folder {
 public:
  std::string put(const std::string& name, const std::string& bytes) const {
    tree_.put(name, bytes);
    return path(name);
  }
  std::string path(const std::string& name) const { return tree_.root() + "/" + name; }
  /// Opens X.bin and X.idx with these bytes.
  TokenFile megatron(const std::string& idx, const std::string& bin, int64_t seq = 4) const {
    put("x.idx", idx);
    return open_token_file(put("x.bin", bin), seq, "u16", kVocabulary, 4);
  }
  std::string megatron_error(const Index& index, const std::string& bin) const {
    return message_of<EnvironmentError>([&] { megatron(index.bytes(), bin); });
  }
  TokenFile rows(const std::string& dtype, const std::string& shape, const std::string& data,
                 int64_t seq = 0) const {
    const std::string header =
        R"({"other":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"tokens":{"dtype":")" + dtype +
        R"(","shape":)" + shape + R"(,"data_offsets":[0,)" + std::to_string(data.size()) + "]}}";
    return open_token_file(put("t.safetensors", safetensors_bytes(header, data)), seq, "u16", kVocabulary, 9);
  }

 private:
  Tree tree_;
};

/// Opens and reads everything: it works, or the error is an EnvironmentError.
void survives(const std::function<TokenFile()>& open) {
  try {
    const TokenFile file = open();
    for (int64_t i = 0; i < file.samples->samples(); ++i)
      for (int32_t id : sample(file, i).inputs) REQUIRE((id >= 0 && id < kVocabulary));
  } catch (const EnvironmentError&) {
  }
}

}  // namespace

TEST_CASE("a flat file's samples overlap by one token", "[tokens]") {
  const Folder folder;
  const std::string path = folder.put("flat.bin", raw<uint16_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  const TokenFile file = open_token_file(path, 4, "u16", kVocabulary, 7);
  REQUIRE(file.seq == 4);
  REQUIRE(file.samples->samples() == 2);
  REQUIRE_FALSE(file.samples->masked());
  REQUIRE(sample(file, 0).inputs == Ids{1, 2, 3, 4});
  REQUIRE(sample(file, 0).targets == Ids{2, 3, 4, 5});
  REQUIRE(sample(file, 1).inputs == Ids{5, 6, 7, 8});
  REQUIRE(sample(file, 1).targets == Ids{6, 7, 8, 9});

  REQUIRE(open_token_file(path, 9, "u16", kVocabulary, 7).samples->samples() == 1);
  REQUIRE(open_token_file(path, 0, "u16", kVocabulary, 7).seq == 7);
  const TokenFile wide =
      open_token_file(folder.put("wide.bin", raw<uint32_t>({70000, 3, 70001})), 2, "u32", 70002, 7);
  REQUIRE(sample(wide, 0).inputs == Ids{70000, 3});
  REQUIRE(sample(wide, 0).targets == Ids{3, 70001});
}

TEST_CASE("a flat file that cannot be used is refused", "[tokens]") {
  const Folder folder;
  const auto error = [&](const std::string& bytes, const std::string& type, int64_t seq) {
    return message_of<EnvironmentError>([&] {
      const TokenFile file = open_token_file(folder.put("f.bin", bytes), seq, type, kVocabulary, 4);
      for (int64_t i = 0; i < file.samples->samples(); ++i) sample(file, i);
    });
  };
  REQUIRE(has(error("", "u16", 4), {"f.bin", "0 tokens"}));
  REQUIRE(has(error(raw<uint16_t>({1}), "u16", 1), {"1 tokens"}));
  REQUIRE(has(error(raw<uint16_t>({1, 2, 3, 4}), "u16", 4), {"4 tokens", "sample of 4"}));
  REQUIRE(has(error(raw<uint16_t>({1, 2, 3}), "u32", 1), {"6 bytes", "--data-dtype"}));
  REQUIRE(has(error(raw<uint16_t>({1, 2, 3, 4, 100}), "u16", 2),
              {"sample 1", "position 2", "token 100", "0 to 99"}));
  REQUIRE(
      has(error(raw<uint32_t>({1, 4294967295u}), "u32", 1), {"sample 0", "position 1", "token 4294967295"}));
  REQUIRE(has(message_of<EnvironmentError>(
                  [&] { open_token_file(folder.path("absent.bin"), 4, "u16", kVocabulary, 4); }),
              {"absent.bin", "No such file"}));
  REQUIRE(has(message_of<UsageError>([&] { open_token_file("tokens.txt", 4, "u16", kVocabulary, 4); }),
              {"--data", "tokens.txt", ".safetensors"}));
  REQUIRE(has(
      message_of<UsageError>([&] { open_token_file(folder.put("f.bin", "ab"), 4, "i64", kVocabulary, 4); }),
      {"--data-dtype", "i64", "u16, u32"}));
}

TEST_CASE("rows of a safetensors file are samples", "[tokens]") {
  const Folder folder;
  const TokenFile file = folder.rows("I64", "[2,1,3]", raw<int64_t>({1, 2, 3, 4, 5, 6}));
  REQUIRE(file.seq == 2);
  REQUIRE(file.samples->samples() == 2);
  REQUIRE_FALSE(file.samples->masked());
  REQUIRE(sample(file, 1).inputs == Ids{4, 5});
  REQUIRE(sample(file, 1).targets == Ids{5, 6});
  REQUIRE(folder.rows("U16", "[3]", raw<uint16_t>({1, 2, 3}), 2).samples->samples() == 1);
  REQUIRE(sample(folder.rows("I32", "[1,2]", raw<int32_t>({99, 0})), 0).inputs == Ids{99});
  REQUIRE(sample(folder.rows("U8", "[1,2]", raw<uint8_t>({99, 0})), 0).inputs == Ids{99});
}

TEST_CASE("negative ids are targets that are not trained", "[tokens]") {
  const Folder folder;
  const TokenFile file = folder.rows("I32", "[2,4]", raw<int32_t>({1, 2, 3, 4, 5, -100, -100, 6}));
  REQUIRE(file.samples->masked());
  REQUIRE(sample(file, 0).targets == Ids{2, 3, 4});
  REQUIRE(sample(file, 1).inputs == Ids{5, 0, 0});
  REQUIRE(sample(file, 1).targets == Ids{-1, -1, 6});
}

TEST_CASE("a safetensors file that cannot be used is refused", "[tokens]") {
  const Folder folder;
  const auto error = [&](const std::string& dtype, const std::string& shape, const std::string& data) {
    return message_of<EnvironmentError>([&] { sample(folder.rows(dtype, shape, data), 0); });
  };
  REQUIRE(has(error("F32", "[1,2]", raw<float>({1, 2})), {"t.safetensors", "tokens", "F32", "integers"}));
  REQUIRE(has(error("I32", "[]", raw<int32_t>({1})), {"tokens", "[]"}));
  REQUIRE(has(error("I32", "[2,1]", raw<int32_t>({1, 2})), {"tokens", "[2, 1]"}));
  REQUIRE(has(error("I32", "[0,5]", ""), {"tokens", "[0, 5]"}));
  REQUIRE(has(error("I32", "[1,3]", raw<int32_t>({1, 2, 100})),
              {"sample 0", "position 2", "token 100", "0 to 99"}));
  REQUIRE(
      has(error("I64", "[1,2]", raw<int64_t>({1, int64_t{1} << 32})), {"position 1", "token 4294967296"}));
  error("U64", "[1,2]", raw<uint64_t>({1, ~uint64_t{0}}));
  const std::string none =
      folder.put("none.safetensors",
                 safetensors_bytes(R"({"x":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", "abcd"));
  REQUIRE(has(message_of<EnvironmentError>([&] { open_token_file(none, 0, "u16", kVocabulary, 4); }),
              {"none.safetensors", "\"tokens\""}));
  REQUIRE(has(message_of<UsageError>([&] {
                folder.rows("I32", "[1,5]", raw<int32_t>({1, 2, 3, 4, 5}), 128);
              }),
              {"--seq-length", "128", "4 tokens", "[1, 5]"}));
}

TEST_CASE("Megatron's sequences are joined in the order of the index", "[tokens]") {
  const Folder folder;
  const Small small;
  const TokenFile file = folder.megatron(small.index.bytes(), raw(small.bin));
  REQUIRE(file.samples->samples() == 2);
  REQUIRE(sample(file, 0).inputs == Ids{1, 2, 3, 4});
  REQUIRE(sample(file, 0).targets == Ids{2, 3, 4, 5});
  REQUIRE(sample(file, 1).inputs == Ids{5, 6, 7, 8});  // across the documents
  REQUIRE(sample(file, 1).targets == Ids{6, 7, 8, 9});
  const TokenFile by_index = open_token_file(folder.path("x.idx"), 11, "u16", kVocabulary, 4);
  REQUIRE(sample(by_index, 0).inputs == Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});

  Index with_modes = small.index;
  with_modes.modes = std::string(3, '\0');
  REQUIRE(folder.megatron(with_modes.bytes(), raw(small.bin)).samples->samples() == 2);
}

TEST_CASE("every integer type of Megatron is read", "[tokens]") {
  const Folder folder;
  const auto read = [&](uint8_t code, const std::string& bin) {
    Index index;
    index.code = code;
    index.lengths = {3};
    index.pointers = {0};
    index.documents = {0, 1};
    const TokenFile file = folder.megatron(index.bytes(), bin, 2);
    return sample(file, 0).targets;
  };
  REQUIRE(read(1, raw<uint8_t>({1, 2, 3})) == Ids{2, 3});
  REQUIRE(read(2, raw<int8_t>({1, 2, 3})) == Ids{2, 3});
  REQUIRE(read(3, raw<int16_t>({1, 2, 3})) == Ids{2, 3});
  REQUIRE(read(4, raw<int32_t>({1, 2, 3})) == Ids{2, 3});
  REQUIRE(read(5, raw<int64_t>({1, 2, 3})) == Ids{2, 3});
  REQUIRE(read(8, raw<uint16_t>({1, 2, 3})) == Ids{2, 3});
  REQUIRE(has(message_of<EnvironmentError>([&] {
                read(4, raw<int32_t>({1, -2, 3}));
              }),
              {"x.bin", "sample 0", "position 1", "token -2"}));
}

TEST_CASE("many short sequences are found again", "[tokens]") {
  const Folder folder;
  Index index;
  std::vector<uint16_t> bin;
  index.documents = {0};
  for (int s = 0; s < 2000; ++s) {  // of 0 to 6 tokens
    index.lengths.push_back(s * 5 % 7);
    index.pointers.push_back(static_cast<int64_t>(2 * bin.size()));
    for (int t = 0; t < index.lengths.back(); ++t) bin.push_back(static_cast<uint16_t>(bin.size() % 97));
    index.documents.push_back(s + 1);
  }
  const TokenFile file = folder.megatron(index.bytes(), raw(bin), 10);
  REQUIRE(file.samples->samples() == static_cast<int64_t>(bin.size() - 1) / 10);
  for (int64_t i = 0; i < file.samples->samples(); ++i) {
    const Sample s = sample(file, i);
    for (int64_t p = 0; p < 10; ++p) {
      REQUIRE(s.inputs[static_cast<size_t>(p)] == (i * 10 + p) % 97);
      REQUIRE(s.targets[static_cast<size_t>(p)] == (i * 10 + p + 1) % 97);
    }
  }
}

TEST_CASE("a sequence behind 4 GiB is read where it lies", "[tokens]") {
  const Folder folder;
  constexpr int64_t kLong = int64_t{1} << 30;  // tokens of 4 bytes
  Index index;
  index.code = 4;
  index.lengths = {static_cast<int32_t>(kLong), 8};
  index.pointers = {0, 4 * kLong};
  index.documents = {0, 1, 2};
  folder.put("x.idx", index.bytes());
  const std::string path = folder.path("x.bin");
  const std::string last = raw<int32_t>({11, 12, 13, 14, 15, 16, 17, 18});
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  const bool sparse = ::ftruncate(fd, 4 * kLong + 32) == 0;
  const bool written = sparse && ::pwrite(fd, last.data(), last.size(), 4 * kLong) == 32;
  ::close(fd);
  if (!written) TT_SKIP("the temporary folder takes no sparse file of 4 GiB");
  const TokenFile file = open_token_file(path, 4, "u16", kVocabulary, 4);
  REQUIRE(file.samples->samples() == kLong / 4 + 1);
  REQUIRE(sample(file, kLong / 4 - 1).targets == Ids{0, 0, 0, 11});
  REQUIRE(sample(file, kLong / 4).inputs == Ids{11, 12, 13, 14});
  REQUIRE(sample(file, kLong / 4).targets == Ids{12, 13, 14, 15});

  index.pointers[1] = -4 * kLong;
  folder.put("x.idx", index.bytes());
  REQUIRE(has(message_of<EnvironmentError>([&] { open_token_file(path, 4, "u16", kVocabulary, 4); }),
              {"x.idx", "sequence 1", "-4294967296"}));
  index.pointers[1] = 4 * kLong + 4;
  folder.put("x.idx", index.bytes());
  REQUIRE(has(message_of<EnvironmentError>([&] { open_token_file(path, 4, "u16", kVocabulary, 4); }),
              {"x.idx", "sequence 1", "4294967300", "4294967328 bytes"}));
}

TEST_CASE("an index that cannot be right is refused", "[tokens]") {
  const Folder folder;
  const Small small;
  const std::string bin = raw(small.bin);
  const auto error = [&](const std::function<void(Index&)>& damage) {
    Index index = small.index;
    damage(index);
    return folder.megatron_error(index, bin);
  };
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  REQUIRE(has(error([](Index& i) { i.magic[0] = 'X'; }), {"x.idx", "MMIDIDX"}));
  REQUIRE(has(error([](Index& i) { i.version = 2; }), {"version 2"}));
  REQUIRE(has(error([](Index& i) { i.code = 6; }), {"code 6", "float64"}));
  REQUIRE(has(error([](Index& i) { i.code = 7; }), {"code 7", "float32"}));
  REQUIRE(has(error([](Index& i) { i.code = 0; }), {"code 0"}));
  REQUIRE(has(error([](Index& i) { i.code = 9; }), {"code 9"}));
  REQUIRE(has(error([](Index& i) { i.lengths[2] = -7; }), {"sequence 2", "-7"}));
  REQUIRE(has(error([](Index& i) { i.lengths[2] = 13; }), {"sequence 2", "13 tokens", "24 bytes"}));
  REQUIRE(has(error([](Index& i) { i.pointers[2] = 12; }), {"sequence 2", "pointer 12"}));
  REQUIRE(has(error([](Index& i) { i.pointers[2] = kHuge; }), {"sequence 2", std::to_string(kHuge)}));
  REQUIRE(has(error([](Index& i) { i.pointers[0] = -1; }), {"sequence 0", "-1"}));
  REQUIRE(has(error([](Index& i) { i.documents = {1, 2, 3}; }), {"document index 0 is 1"}));
  REQUIRE(has(error([](Index& i) { i.documents = {0, 4}; }), {"document index 1 is 4"}));
  REQUIRE(has(error([](Index& i) { i.documents = {0, 2, 1, 3}; }), {"document index 2 is 1"}));
  REQUIRE(has(error([](Index& i) { i.documents = {0, 1}; }), {"end at sequence 1 of 3"}));
  REQUIRE(has(error([](Index& i) { i.documents.clear(); }), {"end at sequence 0 of 3"}));
  REQUIRE(has(error([](Index& i) { i.modes = std::string("\0\1\0", 3); }), {"sequence 1", "mode 1"}));
  REQUIRE(has(error([](Index& i) { i.modes = "ab"; }), {"2 bytes behind"}));
  REQUIRE(has(error([](Index& i) { i = Index(); }), {"no sequences"}));
  REQUIRE(has(error([](Index& i) {
                i.lengths = {0};
                i.pointers = {0};
                i.documents = {0, 1};
              }),
              {"0 tokens"}));
  for (const size_t at : {18, 26})  // counts whose sizes would wrap
    for (const uint64_t count : {~uint64_t{0}, uint64_t{1} << 61, uint64_t{1} << 63, uint64_t{4}}) {
      std::string bytes = small.index.bytes();
      std::memcpy(bytes.data() + at, &count, sizeof(count));
      REQUIRE(has(message_of<EnvironmentError>([&] { folder.megatron(bytes, bin); }),
                  {"truncated", std::to_string(count)}));
    }
  std::filesystem::remove(folder.path("x.bin"));
  REQUIRE(has(
      message_of<EnvironmentError>([&] { open_token_file(folder.path("x.idx"), 4, "u16", kVocabulary, 4); }),
      {"x.bin", "No such file"}));
}

TEST_CASE("damaged token files give an error or valid tokens, whatever the damage", "[tokens]") {
  const Folder folder;
  const Small small;
  const std::string idx = small.index.bytes(), bin = raw(small.bin);
  for (size_t length = 0; length < idx.size(); ++length)  // no shorter index is whole
    REQUIRE(!message_of<EnvironmentError>([&] { folder.megatron(idx.substr(0, length), bin); }).empty());
  for (size_t length = 0; length < bin.size(); ++length)
    REQUIRE(!message_of<EnvironmentError>([&] { folder.megatron(idx, bin.substr(0, length)); }).empty());
  for (size_t at = 0; at < idx.size(); ++at)
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string bytes = idx;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      survives([&] { return folder.megatron(bytes, bin); });
    }
  for (size_t at = 0; at < bin.size(); ++at) {
    std::string bytes = bin;
    bytes[at] = static_cast<char>(bytes[at] ^ 0xff);
    survives([&] { return folder.megatron(idx, bytes); });
  }
  const std::string header = R"({"tokens":{"dtype":"I16","shape":[2,3],"data_offsets":[0,12]}})";
  const std::string rows = safetensors_bytes(header, raw<int16_t>({1, 2, 3, 4, 5, 6}));
  const auto open_rows = [&](const std::string& bytes) {
    return open_token_file(folder.put("d.safetensors", bytes), 0, "u16", kVocabulary, 4);
  };
  for (size_t length = 0; length < rows.size(); ++length)
    REQUIRE(!message_of<EnvironmentError>([&] { open_rows(rows.substr(0, length)); }).empty());
  for (size_t at = 0; at < rows.size(); ++at)
    for (const int flip : {0x01, 0x80}) {
      std::string bytes = rows;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      survives([&] { return open_rows(bytes); });
    }
}

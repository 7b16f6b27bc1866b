// Hugging Face folders: every form of the same model trains alike, damaged folders are refused, and what is
// written can be read.
#include "src/llm/hf_folder.h"

#include <algorithm>
#include <cmath>

#include "src/device/convert.h"
#include "src/llm/hf_write.h"
#include "verify/unit/known_run.h"

using namespace tt;
using namespace tt::test;

namespace {

std::vector<double> losses_of(OpsBench& bench, const std::string& dir, const KnownModel& known,
                              int64_t steps) {
  return KnownRun(bench, known, dir).losses(steps);
}

std::string error_of(const std::string& dir, int64_t layers = 0) {
  const std::string message = message_of<EnvironmentError>([&] { HfFolder folder(dir, layers); });
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

/// The model's tensors in two shards with an index.
void split(const Copied& copy) {
  Loose all(copy.path("model.safetensors"));
  Loose parts[] = {all, all};
  nlohmann::json index;
  for (size_t i = 0; i < all.tensors.size(); ++i) {
    const std::string name = all.tensors[i].name;
    const bool second = name.starts_with("model.layers.1.") || i % 5 == 0;
    parts[second ? 0 : 1].drop(name);
    index["weight_map"][name] = second ? "b.safetensors" : "a.safetensors";
  }
  index["metadata"]["total_size"] = 1;
  copy.put("a.safetensors", parts[0].bytes(1));
  copy.put("b.safetensors", parts[1].bytes(2));
  copy.put("model.safetensors.index.json", index.dump());
  std::filesystem::remove(copy.path("model.safetensors"));
}

const std::string kFull = "llama3-tiny-full";

}  // namespace

TEST_CASE("hf_folder: sharded, reordered and misaligned files are the same model (C25, C26)",
          "[hf_folder][llm]") {
  const KnownModel known(kFull);
  OpsBench bench("host");
  const std::vector<double> plain = losses_of(bench, known.model(), known, 2);
  const Copied copy(known.model());
  SECTION("two shards") {
    split(copy);
    CHECK(losses_of(bench, copy.dir(), known, 2) == plain);
  }
  SECTION("reordered, at odd addresses, without metadata") {
    Loose file(copy.path("model.safetensors"));
    std::reverse(file.tensors.begin(), file.tensors.end());
    const size_t length = file.bytes().size() % 8;
    for (const size_t residue : {1, 3}) {
      const std::string bytes = file.bytes((8 + residue - length) % 8);
      CHECK(bytes.size() % 8 ==
            residue);  // so is the header's length: all data is of 4 bytes, an even number
      copy.put("model.safetensors", bytes);
      CHECK(losses_of(bench, copy.dir(), known, 2) == plain);
    }
  }
}

TEST_CASE("hf_folder: a folder without all its weights is refused before any step (C25)", "[hf_folder]") {
  const KnownModel known(kFull);
  const Copied copy(known.model());
  SECTION("a shard is missing") {
    split(copy);
    std::filesystem::remove(copy.path("b.safetensors"));
    CHECK(has(error_of(copy.dir()), {"/b.safetensors: is not there", "index.json", "tensor \""}));
    // What remains is enough for nothing: the embedding and the head were spread over both.
    CHECK(has(error_of(copy.dir(), 1), {"/b.safetensors"}));
  }
  SECTION("a shard without a tensor that the index says it has") {
    split(copy);
    Loose shard(copy.path("b.safetensors"));
    shard.drop("model.layers.1.mlp.up_proj.weight");
    copy.put("b.safetensors", shard.bytes());
    CHECK(has(error_of(copy.dir()), {"b.safetensors", "\"model.layers.1.mlp.up_proj.weight\" is missing"}));
    CHECK_NOTHROW(HfFolder(copy.dir(), 1));
  }
  SECTION("a tensor in no shard") {
    split(copy);
    auto index = nlohmann::json::parse(copy.text("model.safetensors.index.json"));
    index["weight_map"].erase("model.norm.weight");
    copy.put("model.safetensors.index.json", index.dump());
    CHECK(has(error_of(copy.dir()), {"index.json", "\"model.norm.weight\" is missing"}));
  }
  SECTION("no weights at all") {
    std::filesystem::remove(copy.path("model.safetensors"));
    CHECK(has(error_of(copy.dir()), {copy.dir(), "no weights", "model.safetensors.index.json"}));
    copy.put("pytorch_model.bin", "x");
    CHECK(has(error_of(copy.dir()), {"pytorch_model.bin is not read"}));
  }
  SECTION("no config") {
    std::filesystem::remove(copy.path("config.json"));
    CHECK(has(error_of(copy.dir()), {"config.json", "No such file"}));
    CHECK(has(error_of("/nowhere"), {"/nowhere/config.json", "No such file"}));
  }
  SECTION("truncated") {
    const std::string bytes = copy.text("model.safetensors");
    for (const size_t length : {bytes.size() - 1, size_t{3000}, size_t{2000}, size_t{0}}) {
      copy.put("model.safetensors", bytes.substr(0, length));
      CHECK(has(error_of(copy.dir()), {"model.safetensors", "truncated"}));
    }
  }
}

TEST_CASE("hf_folder: an index cannot mean files outside its folder, and damaged ones are refused",
          "[hf_folder]") {
  const Copied copy(KnownModel(kFull).model());
  std::filesystem::rename(copy.path("model.safetensors"), copy.path("a.safetensors"));
  const auto with = [&](const std::string& index) {
    copy.put("model.safetensors.index.json", index);
    return error_of(copy.dir());
  };
  for (const char* name :
       {"../a.safetensors", "/etc/passwd", "..", "", ".", "sub/a.safetensors", "a\\u0000b"})
    CHECK(has(with(R"({"weight_map":{"model.norm.weight":")" + std::string(name) + "\"}}"),
              {"index.json", "weight_map.model.norm.weight", "not the name of a file in the folder"}));
  CHECK(has(with("{\"weight_map\":{}}"), {"\"weight_map\" is empty"}));
  CHECK(has(with("{\"weight_map\":[]}"), {"\"weight_map\" is not a JSON object"}));
  CHECK(has(with("{}"), {"\"weight_map\" is missing"}));
  CHECK(has(with("{\"weight_map\":{\"x\":1}}"), {"weight_map.x", "is 1, not a text"}));
  CHECK(has(with("{\"weight_map\":{\"x\":\"a\",\"x\":\"b\"}}"), {"\"x\" is there twice"}));
  CHECK(has(with("{"), {"not valid JSON"}));
}

TEST_CASE("hf_folder: wrong shapes and types are refused, naming both", "[hf_folder]") {
  const Copied copy(KnownModel(kFull).model());
  Loose file(copy.path("model.safetensors"));
  SECTION("transposed") {
    file.at("model.layers.0.mlp.down_proj.weight").shape = {176, 64};
    copy.put("model.safetensors", file.bytes());
    CHECK(has(error_of(copy.dir()), {"model.safetensors", "\"model.layers.0.mlp.down_proj.weight\"",
                                     "[176, 64]", "instead of [64, 176]"}));
  }
  SECTION("another vocabulary") {
    copy.change("config.json", {{"vocab_size", 257}});
    CHECK(has(error_of(copy.dir()), {"\"model.embed_tokens.weight\"", "[256, 64]", "[257, 64]"}));
  }
  SECTION("quantised") {
    auto& tensor = file.at("model.norm.weight");
    tensor.dtype = "F8_E4M3", tensor.bytes.resize(64);
    copy.put("model.safetensors", file.bytes());
    CHECK(has(error_of(copy.dir()), {"\"model.norm.weight\"", "\"F8_E4M3\"", "accepted: F32, BF16, F16"}));
  }
}

TEST_CASE("hf_folder: a missing head is right only where the embeddings are tied (C27)", "[hf_folder][llm]") {
  const KnownModel known(kFull);
  const Copied copy(known.model());
  Loose file(copy.path("model.safetensors"));
  file.drop("lm_head.weight");
  copy.put("model.safetensors", file.bytes());
  CHECK(has(error_of(copy.dir()), {"\"lm_head.weight\" is missing", "tie_word_embeddings false"}));
  copy.change("config.json", {{"tie_word_embeddings", true}});
  OpsBench bench("host");
  const std::vector<double> losses = losses_of(bench, copy.dir(), known, 3);
  CHECK(std::abs(losses[0] - known.facts.at("losses")[0].get<double>()) > 1e-3);  // another model

  // The same with the head as a copy; a head that differs contradicts the flag.
  Loose::Tensor head = file.at("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  file.tensors.push_back(head);
  copy.put("model.safetensors", file.bytes());
  CHECK(losses_of(bench, copy.dir(), known, 3) == losses);
  file.tensors.back().bytes[0] ^= 1;
  copy.put("model.safetensors", file.bytes());
  CHECK(has(error_of(copy.dir()), {"\"lm_head.weight\"", "tie_word_embeddings true"}));
}

TEST_CASE("hf_folder: what is not read is said, unless it is harmless", "[hf_folder]") {
  const Copied copy(KnownModel(kFull).model());
  Loose file(copy.path("model.safetensors"));
  file.tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {1}, "1234"});
  copy.put("model.safetensors", file.bytes());
  CHECK(HfFolder(copy.dir()).warnings().empty());
  file.tensors.push_back({"model.layers.0.self_attn.q_proj.bias", "I32", {1}, "1234"});
  file.tensors.push_back({"model.layers.2.mlp.up_proj.weight", "I32", {1}, "1234"});
  copy.put("model.safetensors", file.bytes());
  const HfFolder folder(copy.dir());
  REQUIRE(folder.warnings().size() == 1);
  CHECK(has(folder.warnings()[0], {"2 tensors", "q_proj.bias", "model.layers.2.mlp.up_proj.weight"}));
}

TEST_CASE("hf_folder: only the first layers", "[hf_folder]") {
  const Copied copy(KnownModel(kFull).model());
  Loose file(copy.path("model.safetensors"));
  for (const char* name : {"mlp.up_proj", "self_attn.o_proj", "input_layernorm"})
    file.drop("model.layers.1." + std::string(name) + ".weight");
  copy.put("model.safetensors", file.bytes());
  const HfFolder folder(copy.dir(), 1);
  CHECK(folder.config().layers == 1);
  CHECK(folder.layers_of_model() == 2);
  CHECK(folder.warnings().empty());
  CHECK(folder.tensors().size() == 9 + 3);
  CHECK(has(error_of(copy.dir()), {"model.layers.1.", "is missing"}));
  CHECK(has(message_of<UsageError>([&] { HfFolder(copy.dir(), 3); }), {"--layers: 3", "has 2 layers"}));
}

TEST_CASE("hf_folder: theta is read from either place, and its absence is known (C31)", "[hf_folder]") {
  const Copied copy(KnownModel("llama31-tiny-ropescaled-lora").model());
  const ModelConfig plain = HfFolder(copy.dir()).config();
  CHECK(plain.rope.type == "llama3");
  CHECK(plain.rope.theta == 500000);
  CHECK(plain.name == copy.dir());
  auto config = nlohmann::ordered_json::parse(copy.text("config.json"));
  auto scaling = config["rope_parameters"];
  scaling.erase("rope_theta");
  config.erase("rope_parameters");
  copy.put("config.json", config.dump());
  CHECK_FALSE(HfFolder(copy.dir()).config().rope.theta_given);
  for (const char* key : {"rope_type", "type"}) {
    auto old = scaling;
    old.erase("rope_type");
    old[key] = "llama3";
    config["rope_theta"] = 500000, config["rope_scaling"] = old;
    copy.put("config.json", config.dump());
    const ModelConfig c = HfFolder(copy.dir()).config();
    CHECK(rope_table(c.rope, c.head_dim, 64) == rope_table(plain.rope, plain.head_dim, 64));
  }
  config["rope_scaling"]["type"] = "yarn";
  copy.put("config.json", config.dump());
  CHECK(has(error_of(copy.dir()), {"config.json", "yarn"}));
}

TEST_CASE("hf_folder: a trained model is written and read again", "[hf_folder][llm]") {
  const KnownModel known(kFull);
  OpsBench bench("host");
  KnownRun run(bench, known);
  run.losses(1);
  Trainer& trainer = run.trainer();
  const HfFolder& folder = run.folder();
  const Tree tree;
  const std::string dir = tree.root() + "/out";
  const auto write = [&](DType type, int64_t shard_bytes) {
    write_hf_folder(trainer.context(), trainer.parameters(), folder.config(), dir, type, shard_bytes);
  };
  const auto check = [&](DType type) {
    const HfFolder written(dir);
    CHECK(written.warnings().empty());
    CHECK(written.config().vocabulary == 256);
    CHECK(written.config().rope.theta == folder.config().rope.theta);
    for (const TrainedPlace& place : trained_places(trainer.parameters().layout())) {
      const StoredTensor& stored = written.tensors().at(place.spec->name);
      std::vector<float> expected = fetch(trainer.context(), trainer.parameters(), place, Quantity::master);
      if (type == DType::bf16)
        for (float& x : expected) x = to_float(to_bf16(x));
      INFO(place.spec->name);
      CHECK(stored.file->floats(place.spec->name) == expected);
    }
  };
  SECTION("one file of f32") {
    write(DType::f32, kShardBytes);
    CHECK(names_in(dir) == std::vector<std::string>{"config.json", "model.safetensors"});
    CHECK(has(read_text_file(dir + "/config.json"), {"\"dtype\": \"float32\""}));
    check(DType::f32);
  }
  SECTION("shards of bf16") {
    write(DType::bf16, 40000);
    const auto names = names_in(dir);
    REQUIRE(names.size() > 4);
    CHECK(names[1] == "model-00001-of-0000" + std::to_string(names.size() - 2) + ".safetensors");
    CHECK(has(read_text_file(dir + "/config.json"), {"\"dtype\": \"bfloat16\""}));
    check(DType::bf16);
    for (size_t i = 1; i + 1 < names.size(); ++i)
      CHECK(std::filesystem::file_size(dir + "/" + names[i]) < 44000);
    const auto index = nlohmann::json::parse(read_text_file(dir + "/model.safetensors.index.json"));
    CHECK(index["metadata"]["total_size"] == 2 * folder.config().parameters());
  }
  SECTION("nothing is left of what could not be written") {
    {
      const SmallDisk disk(20000);
      CHECK(has(message_of<EnvironmentError>([&] { write(DType::f32, kShardBytes); }),
                {"cannot write", "model.safetensors", "File too large"}));
    }
    CHECK(names_in(tree.root()).empty());
    tree.put("out/mine", "x");
    CHECK(has(message_of<EnvironmentError>([&] { write(DType::f32, kShardBytes); }), {dir, "not empty"}));
    CHECK(names_in(dir) == std::vector<std::string>{"mine"});
  }
}

#include <algorithm>
#include <set>

#include "src/llm/llama_layout.h"
#include "src/llm/optimizer.h"
#include "src/llm/units.h"
#include "verify/unit/catch.h"

using namespace tt;

namespace {

Unit unit_of(const std::string& name, std::vector<int64_t> trained) {
  Unit unit;
  unit.name = name;
  for (size_t i = 0; i < trained.size(); ++i) {
    Block block;
    block.params = {{name + "." + std::to_string(i), {trained[i]}}};
    unit.trained.push_back(block);
  }
  return unit;
}

/// Every element of every parameter lies in one bucket that is ready no earlier than its unit, and belongs to
/// one rank.
void check_layout(const FlatLayout& layout) {
  int64_t end = 0, shard = 0;
  for (const Bucket& b : layout.buckets()) {
    CHECK(b.offset == end);
    CHECK(b.count > 0);
    CHECK(b.count % (layout.ranks() * kAlignment) == 0);
    CHECK(b.shard_offset == shard);
    end += b.count;
    shard += b.count / layout.ranks();
  }
  CHECK(end == layout.count());
  for (size_t u = 0; u < layout.units().size(); ++u)
    for (const Block& block : layout.units()[u].trained) {
      CHECK(block.offset % kAlignment == 0);
      for (const Bucket& b : layout.buckets())
        if (block.offset < b.offset + b.count && b.offset < block.offset + block.count())
          CHECK(b.ready_unit <= static_cast<int>(u));
      int64_t owned = 0;
      for (int r = 0; r < layout.ranks(); ++r)
        for (const FlatLayout::Piece& p : layout.owned(r, block.offset, block.count())) {
          owned += p.count;
          CHECK(p.shard + p.count <= layout.shard_count());
        }
      CHECK(owned == block.count());
    }
}

}  // namespace

TEST_CASE("a flat layout covers every parameter once, whatever the ranks and buckets", "[llm]") {
  for (const int ranks : {1, 2, 3, 8})
    for (const bool by_unit : {false, true})
      for (const int64_t bucket : {int64_t{1}, int64_t{4096}, int64_t{1} << 20}) {
        const FlatLayout layout(
            {unit_of("a", {1000, 7}), unit_of("b", {}), unit_of("c", {5000}), unit_of("d", {1})}, ranks,
            by_unit, bucket);
        check_layout(layout);
        CHECK(layout.trained_parameters() == 6008);
        if (by_unit) CHECK(layout.buckets().size() == 3);
      }
}

TEST_CASE("a layout without trained parameters has no buckets", "[llm]") {
  const FlatLayout layout({unit_of("a", {})}, 4, false, 1 << 20);
  CHECK(layout.count() == 0);
  CHECK(layout.buckets().empty());
}

TEST_CASE("Llama's units hold each parameter once, adapters beside their projection", "[llm]") {
  ModelConfig config = *find_preset("llama3.2-1b");
  config.layers = 2;
  LlamaRefs refs;
  LlamaLayoutOptions options;
  options.train_all = true;
  const FlatLayout full(llama_units(config, options, refs), 2, false, 1 << 20);
  CHECK(full.trained_parameters() == config.parameters());
  CHECK(refs.lm_head.unit == refs.embedding_unit);  // tied

  options.train_all = false;
  options.precision = Precision::fp8;
  options.lora.resize(2);
  options.lora[1][static_cast<size_t>(Linear::k)] = LoraModule{8, 2.0};
  options.lora[1][static_cast<size_t>(Linear::v)] = LoraModule{4, 2.0};
  const FlatLayout lora(llama_units(config, options, refs), 2, true, 1 << 20);
  CHECK(lora.frozen_parameters() == config.parameters());
  CHECK(lora.trained_parameters() == 12 * (config.hidden + config.kv_size()));
  const ProjectionRefs& qkv = refs.layers[1].projections[0];
  REQUIRE(qkv.adapters.size() == 2);
  CHECK(qkv.stacked_rank == 12);
  CHECK(qkv.adapters[1].row == 8);
  CHECK(qkv.adapters[1].column == config.q_size() + config.kv_size());
  CHECK(qkv.narrow);
  check_layout(lora);
}

TEST_CASE("the learning rate follows transformers' schedules", "[llm]") {
  OptimizerOptions o;
  o.lr = 2;
  CHECK(learning_rate(o, 5, 10) == 2);
  o.warmup_steps = 4;
  CHECK(learning_rate(o, 0, 10) == 0);
  CHECK(learning_rate(o, 1, 10) == 0.5);
  o.schedule = Schedule::cosine;
  CHECK(learning_rate(o, 4, 10) == 2);
  CHECK(learning_rate(o, 7, 10) == Approx(1));
  CHECK(learning_rate(o, 10, 10) == Approx(0).margin(1e-12));
}

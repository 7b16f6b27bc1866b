#include "src/llm/llama_layout.h"

#include "common/error.h"
#include "common/quote.h"

namespace tt {
namespace {

/// Adds blocks to a unit and says where they are.
class UnitBuilder {
 public:
  UnitBuilder(std::string name, int index, bool trained, DType compute)
      : trained_(trained), compute_(compute), index_(index) {
    unit_.name = std::move(name);
  }

  /// A block of the model proper: trained in pre-training, else frozen.
  BlockRef base(std::vector<ParamSpec> params, DType frozen_type) {
    return add(trained_, trained_ ? compute_ : frozen_type, std::move(params));
  }
  BlockRef base(std::vector<ParamSpec> params) { return base(std::move(params), compute_); }
  BlockRef adapter(std::vector<ParamSpec> params) { return add(true, compute_, std::move(params)); }
  Unit take() { return std::move(unit_); }

 private:
  BlockRef add(bool trained, DType type, std::vector<ParamSpec> params) {
    std::vector<Block>& blocks = trained ? unit_.trained : unit_.frozen;
    Block block;
    block.type = type;
    block.params = std::move(params);
    blocks.push_back(std::move(block));
    return {index_, trained, static_cast<int>(blocks.size()) - 1};
  }

  Unit unit_;
  bool trained_;
  DType compute_;
  int index_;
};

std::string layer_name(int64_t layer) {
  return "model.layers." + std::to_string(layer) + ".";
}

ProjectionRefs add_projection(UnitBuilder& unit, const ModelConfig& config, Projection projection,
                              int64_t layer, DType compute, bool narrow, const LlamaLayoutOptions& options) {
  ProjectionRefs refs;
  refs.narrow = narrow;
  std::vector<ParamSpec> weights, as;
  for (const Linear linear : linears_of(projection)) {
    const int64_t out = out_features(config, linear), in = in_features(config, linear);
    refs.in = in;
    weights.push_back({layer_name(layer) + module_name(linear) + ".weight", {out, in}});
    if (!options.lora.empty()) {
      const auto& module = options.lora.at(static_cast<size_t>(layer))[static_cast<size_t>(linear)];
      if (module) {
        as.push_back({lora_name(layer, linear, 'A'), {module->rank, in}});
        refs.adapters.push_back({linear, *module, refs.stacked_rank, refs.out, out, {}});
        refs.stacked_rank += module->rank;
      }
    }
    refs.out += out;
  }
  refs.weight = unit.base(std::move(weights), narrow ? DType::f8e4m3 : compute);
  if (!as.empty()) refs.a = unit.adapter(std::move(as));
  for (AdapterRefs& adapter : refs.adapters)
    adapter.b = unit.adapter({{lora_name(layer, adapter.linear, 'B'), {adapter.out, adapter.module.rank}}});
  return refs;
}

}  // namespace

const char* name_of(Precision precision) noexcept {
  return precision == Precision::fp32 ? "fp32" : precision == Precision::bf16 ? "bf16" : "fp8";
}

Precision parse_precision(std::string_view option, std::string_view text) {
  for (const Precision p : {Precision::fp32, Precision::bf16, Precision::fp8})
    if (text == name_of(p)) return p;
  throw UsageError(std::string(option) + ": unknown precision " + in_quotes(text) +
                   "; accepted: fp32, bf16, fp8");
}

std::vector<Linear> linears_of(Projection projection) {
  switch (projection) {
    case Projection::qkv:
      return {Linear::q, Linear::k, Linear::v};
    case Projection::o:
      return {Linear::o};
    case Projection::gate_up:
      return {Linear::gate, Linear::up};
    default:
      return {Linear::down};
  }
}

std::string lora_name(int64_t layer, Linear linear, char matrix) {
  return "base_model.model." + layer_name(layer) + module_name(linear) + ".lora_" + matrix + ".weight";
}

std::vector<Unit> llama_units(const ModelConfig& config, const LlamaLayoutOptions& options, LlamaRefs& refs) {
  const DType compute = options.precision == Precision::fp32 ? DType::f32 : DType::bf16;
  const int64_t h = config.hidden, vocabulary = config.vocabulary;
  std::vector<Unit> units;
  refs = {};
  {
    UnitBuilder unit("embedding", 0, options.train_all, compute);
    refs.embedding = unit.base({{"model.embed_tokens.weight", {vocabulary, h}}});
    units.push_back(unit.take());
  }
  for (int64_t l = 0; l < config.layers; ++l) {
    const bool narrow =
        options.precision == Precision::fp8 && l >= options.fp8_keep && l < config.layers - options.fp8_keep;
    LayerRefs layer;
    layer.unit = static_cast<int>(units.size());
    UnitBuilder unit("layer " + std::to_string(l), layer.unit, options.train_all, compute);
    layer.norm1 = unit.base({{layer_name(l) + "input_layernorm.weight", {h}, options.decay_norms}});
    layer.norm2 = unit.base({{layer_name(l) + "post_attention_layernorm.weight", {h}, options.decay_norms}});
    for (int p = 0; p < kProjections; ++p)
      layer.projections[static_cast<size_t>(p)] =
          add_projection(unit, config, static_cast<Projection>(p), l, compute, narrow, options);
    units.push_back(unit.take());
    refs.layers.push_back(std::move(layer));
  }
  refs.head_unit = static_cast<int>(units.size());
  UnitBuilder unit("head", refs.head_unit, options.train_all, compute);
  refs.final_norm = unit.base({{"model.norm.weight", {h}, options.decay_norms}});
  refs.lm_head = config.tied_embeddings ? refs.embedding : unit.base({{"lm_head.weight", {vocabulary, h}}});
  units.push_back(unit.take());
  return units;
}

}  // namespace tt

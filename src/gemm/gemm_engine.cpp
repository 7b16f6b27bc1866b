#include "src/gemm/gemm_engine.h"

#include <algorithm>
#include <cmath>

#include "src/device/random.h"
#include "src/gemm/block_scales.h"

namespace tt {
namespace {

constexpr int64_t kMostSets = 64, kMostSlots = 64;
constexpr float kScaleA = 0.5f, kScaleB = 0.25f;  // fp8: powers of two, so that they are exact in every type

int64_t align(int64_t bytes) {
  return (bytes + 511) / 512 * 512;
}
size_t unsign(int64_t bytes) {
  return static_cast<size_t>(bytes);
}

double alpha_of(GemmKind kind) {
  return traits(kind).tensor_scale ? double{kScaleA} * double{kScaleB} : 1.0;
}

int64_t set_bytes(const GemmProblem& p) {
  return align(p.a_bytes()) + align(p.b_bytes()) + align(scale_bytes(p.kind, p.m, p.k)) +
         align(scale_bytes(p.kind, p.n, p.k));
}

/// Random operand: about N(0,1), int8 N(0,32); 4-bit codes uniformly.
void fill_operand(Device& device, void* to, int64_t count, Element e, uint64_t seed, Stream& stream) {
  switch (e) {
    case Element::f64:
      return device.fill_random(to, unsign(count), DType::f64, Fill::normal, seed, 0, stream);
    case Element::f32:
      return device.fill_random(to, unsign(count), DType::f32, Fill::normal, seed, 0, stream);
    case Element::f16:
      return device.fill_random(to, unsign(count), DType::f16, Fill::normal, seed, 0, stream);
    case Element::bf16:
      return device.fill_random(to, unsign(count), DType::bf16, Fill::normal, seed, 0, stream);
    case Element::e4m3:
      return device.fill_random(to, unsign(count), DType::f8e4m3, Fill::normal, seed, 0, stream);
    case Element::e5m2:
      return device.fill_random(to, unsign(count), DType::f8e5m2, Fill::normal, seed, 0, stream);
    case Element::s8:
      return device.fill_random(to, unsign(count), DType::int8, Fill::normal, seed, 0, stream);
    case Element::e2m1:
      return device.fill_random(to, unsign((count + 1) / 2), DType::uint8, Fill::uniform, seed, 0, stream);
    case Element::s32:
      break;  // never an operand
  }
}

/// Scales of one operand: one float, or random block scales between 1/2 and 2.
void fill_scales(Device& device, void* to, GemmKind kind, int64_t bytes, float tensor_scale, uint64_t seed,
                 Stream& stream) {
  std::vector<uint8_t> scales(unsign(bytes));
  if (traits(kind).tensor_scale) {
    memcpy(scales.data(), &tensor_scale, sizeof(tensor_scale));
  } else {
    const bool ue8m0 =
        traits(kind).scale_block == 32;  // 126, 127, 128: 1/2, 1, 2; UE4M3 0x30 … 0x40: 0.5 … 2
    for (size_t e = 0; e < scales.size(); ++e)
      scales[e] = static_cast<uint8_t>(ue8m0 ? 126 + mix64(seed, e) % 3 : 0x30 + mix64(seed, e) % 17);
  }
  device.copy(to, scales.data(), scales.size(), stream);
  stream.synchronize();
}

/// Mean square of an operand's elements, for judging what change of a result can be detected.
double mean_square(Element e) {
  return e == Element::s8 ? 1023.0 : e == Element::e2m1 ? 8.5625 : 1.0;
}

/// Writes `value`, rounded to the encoding, to host memory.
void encode(Element e, double value, void* to) {
  const auto put = [&](auto x) { memcpy(to, &x, sizeof(x)); };
  switch (e) {
    case Element::f64:
      return put(value);
    case Element::f32:
      return put(static_cast<float>(value));
    case Element::f16:
      return put(from_double<F16>(value));
    case Element::bf16:
      return put(from_double<Bf16>(value));
    case Element::s32:
      return put(static_cast<int32_t>(value));
    default:
      break;  // never a result
  }
}

}  // namespace

const char* rate_name(GemmKind kind) {
  return kind == GemmKind::int8 ? "tops" : "tflops";
}

int64_t gemm_bytes(const GemmProblem& p, const GemmOptions& options, const GemmSizing& sizing) {
  const FreivaldsShape shape = freivalds_shape(p, 1, options.fast_accum);
  return sizing.sets * set_bytes(p) + sizing.slots * align(p.c_bytes()) +
         Freivalds::bytes(shape, sizing.sets, sizing.slots);
}

GemmSizing choose_sizing(const GemmProblem& p, const GemmOptions& options, int64_t available,
                         int64_t cache_bytes, bool rotate, int64_t most_result_bytes) {
  GemmSizing s;
  const int64_t touched = p.a_bytes() + p.b_bytes() + p.c_bytes();
  if (rotate && p.a_bytes() + p.b_bytes() <= cache_bytes)
    s.sets = std::clamp<int64_t>((2 * cache_bytes + touched - 1) / touched, 1, kMostSets);
  s.slots = std::clamp<int64_t>(most_result_bytes / p.c_bytes(), 1, kMostSlots);
  while (gemm_bytes(p, options, s) > available && (s.sets > 1 || s.slots > 1)) {
    s.slots = (s.slots + 1) / 2;
    if (s.slots == 1) s.sets = (s.sets + 1) / 2;
  }
  return s;
}

GemmEngine::GemmEngine(Device& device, const GemmProblem& problem, const GemmOptions& options,
                       const GemmSizing& sizing, uint64_t seed, Stream& stream)
    : device_(device),
      problem_(problem),
      options_(options),
      sizing_(sizing),
      seed_(seed),
      gemm_(open_gemm(device, problem, options)),
      a_(device.allocate(unsign(sizing.sets * align(problem.a_bytes())))),
      b_(device.allocate(unsign(sizing.sets * align(problem.b_bytes())))),
      a_scale_(device.allocate(unsign(sizing.sets * align(scale_bytes(problem.kind, problem.m, problem.k))))),
      b_scale_(device.allocate(unsign(sizing.sets * align(scale_bytes(problem.kind, problem.n, problem.k))))),
      c_(device.allocate(unsign(sizing.slots * align(problem.c_bytes())))),
      freivalds_(std::make_unique<Freivalds>(
          device, freivalds_shape(problem, alpha_of(problem.kind), options.fast_accum), sizing.sets,
          sizing.slots, seed, stream)) {
  for (int64_t set = 0; set < sizing.sets; ++set) {
    fill(set, seed, stream);
    freivalds_->learn(set, view_a(problem_, operands(set)), view_b(problem_, operands(set)), stream);
  }
  stream.synchronize();
}

void GemmEngine::fill(int64_t set, uint64_t seed, Stream& stream) {
  const GemmOperands x = operands(set);
  const KindTraits& t = traits(problem_.kind);
  const auto key = [&](uint64_t what) { return mix64(seed, 4 * static_cast<uint64_t>(set) + what); };
  fill_operand(device_, const_cast<void*>(x.a), problem_.m * problem_.k, t.a, key(0), stream);
  fill_operand(device_, const_cast<void*>(x.b), problem_.k * problem_.n, t.b, key(1), stream);
  if (!x.a_scale) return;
  fill_scales(device_, const_cast<void*>(x.a_scale), problem_.kind,
              scale_bytes(problem_.kind, problem_.m, problem_.k), kScaleA, key(2), stream);
  fill_scales(device_, const_cast<void*>(x.b_scale), problem_.kind,
              scale_bytes(problem_.kind, problem_.n, problem_.k), kScaleB, key(3), stream);
}

GemmOperands GemmEngine::operands(int64_t i) const {
  const int64_t set = i % sizing_.sets;
  GemmOperands x;
  x.a = a_.at(unsign(set * align(problem_.a_bytes())));
  x.b = b_.at(unsign(set * align(problem_.b_bytes())));
  if (a_scale_) {
    x.a_scale = a_scale_.at(unsign(set * align(scale_bytes(problem_.kind, problem_.m, problem_.k))));
    x.b_scale = b_scale_.at(unsign(set * align(scale_bytes(problem_.kind, problem_.n, problem_.k))));
  }
  return x;
}

char* GemmEngine::result(int64_t i) const {
  return c_.at(unsign(i % sizing_.slots * align(problem_.c_bytes())));
}

void GemmEngine::tune(Stream& stream) {
  gemm_->tune(operands(0), result(0), stream);
}

void GemmEngine::step(Stream& stream, int64_t i) {
  gemm_->run(operands(i), result(i), stream);
}

void GemmEngine::prepare(Stream& stream, int64_t first, int64_t count) {
  // All ones: NaN in every floating-point type, -1 in int32.
  for (int64_t i = first; i < first + count; ++i)
    device_.set_bytes(result(i), 0xff, unsign(problem_.c_bytes()), stream);
}

Check GemmEngine::verify(Stream& stream, int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i)
    freivalds_->test(i % sizing_.slots, i % sizing_.sets, result(i), stream);
  freivalds_->collect(stream);
  Check check;
  check.method = freivalds_->method();
  check.checked = check.total = count;
  for (int64_t i = first; i < first + count; ++i) {
    const GemmOperands x = operands(i);
    const FreivaldsVerdict v =
        freivalds_->verdict(i % sizing_.slots, view_a(problem_, x), view_b(problem_, x), result(i), stream);
    largest_ratio_ = std::max(largest_ratio_, v.largest_ratio);
    check.wrong += v.wrong;
    if (v.first && !check.first)
      check.first = Mismatch{0, i, v.first->offset, v.first->expected, v.first->got};
  }
  return check;
}

void GemmEngine::corrupt(Stream& stream, int64_t i) {
  const Element out = traits(problem_.kind).out;
  const int64_t offset = static_cast<int64_t>(mix64(seed_ ^ 0xc0, static_cast<uint64_t>(i)) %
                                              static_cast<uint64_t>(problem_.m * problem_.n));
  char* const at = result(i) + bytes_of(out, offset);
  double stored = 0, value = 0;  // 8 bytes are enough for every encoding
  device_.copy(&stored, at, unsign(bytes_of(out, 1)), stream);
  stream.synchronize();
  with_element(out, [&](auto tag) { value = decode<decltype(tag)::value>(&stored, 0); });
  // Large enough to be found, and to be seen for what it is: at least a typical element.
  const double k = static_cast<double>(problem_.k);
  const double a2 = k * mean_square(traits(problem_.kind).a), b2 = k * mean_square(traits(problem_.kind).b);
  const double typical = alpha_of(problem_.kind) * std::sqrt(a2 * b2 / k);
  value += std::max(freivalds_->detectable_change(a2, b2), std::round(typical));
  encode(out, value, &stored);
  device_.copy(at, &stored, unsign(bytes_of(out, 1)), stream);
  stream.synchronize();
}

std::vector<Rate> GemmEngine::rates(double seconds) const {
  return {{rate_name(problem_.kind), problem_.operations() / seconds / 1e12}};
}

Row GemmEngine::describe() const {
  const GemmTuning tuning = gemm_->tuning();
  const KindTraits& t = traits(problem_.kind);
  Row row;
  row.key = problem_.key();
  row.group = problem_.group();
  if (problem_.m == problem_.n && problem_.n == problem_.k) row.size = problem_.m;
  row.main_metric = rate_name(problem_.kind);
  row.params = {{"type", std::string(t.name)},
                {"m", problem_.m},
                {"n", problem_.n},
                {"k", problem_.k},
                {"layout", problem_.layout()}};
  if (!problem_.label.empty()) row.params.emplace_back("label", problem_.label);
  row.params.emplace_back("algorithm", tuning.algorithm);
  if (tuning.algorithm_id) row.params.emplace_back("algorithm_id", *tuning.algorithm_id);
  if (tuning.candidates > 0) row.params.emplace_back("algorithms_timed", int64_t{tuning.candidates});
  if (tuning.best_us) row.params.emplace_back("search_best_us", *tuning.best_us);
  if (tuning.first_choice_us) row.params.emplace_back("search_first_choice_us", *tuning.first_choice_us);
  if (t.tensor_scale) row.params.emplace_back("fast_accum", options_.fast_accum);
  row.params.emplace_back("workspace_bytes", gemm_->workspace_bytes());
  row.params.emplace_back("operand_sets", sizing_.sets);
  row.params.emplace_back("result_slots", sizing_.slots);
  if (!tuning.note.empty()) row.notes.push_back(tuning.note);
  return row;
}

}  // namespace tt

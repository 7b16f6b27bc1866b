#include "src/gemm/freivalds.h"

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "src/device/cuda_library.h"
#include "src/device/random.h"

namespace tt {
namespace {

constexpr int64_t kMostBlocks = 512;  // so that the reference of a very wide C stays small beside C

int64_t align(int64_t bytes) {
  return (bytes + 511) / 512 * 512;
}

int64_t reference_bytes(const FreivaldsShape& s) {
  return align(s.m * s.sums() * 8) + align(s.m * 8) + align(s.blocks * 8) + align(kSampledEntries * 3 * 8);
}

double element_at(Element e, const void* data, int64_t index) {
  double value = 0;
  with_element(e, [&](auto tag) { value = decode<decltype(tag)::value>(data, index); });
  return value;
}

}  // namespace

OperandView view_a(const GemmProblem& p, const GemmOperands& x) {
  const KindTraits& t = traits(p.kind);
  OperandView v;
  v.data = x.a;
  v.element = t.a;
  v.outer = p.m;
  v.k = p.k;
  v.outer_stride = p.ta ? 1 : p.k;
  v.k_stride = p.ta ? p.m : 1;
  v.scale_block = t.scale_block;
  if (t.scale_block) v.scales = static_cast<const uint8_t*>(x.a_scale);
  return v;
}

OperandView view_b(const GemmProblem& p, const GemmOperands& x) {
  const KindTraits& t = traits(p.kind);
  OperandView v;
  v.data = x.b;
  v.element = t.b;
  v.outer = p.n;
  v.k = p.k;
  v.outer_stride = p.tb ? p.k : 1;
  v.k_stride = p.tb ? 1 : p.n;
  v.scale_block = t.scale_block;
  if (t.scale_block) v.scales = static_cast<const uint8_t*>(x.b_scale);
  return v;
}

double accumulation_error(GemmKind kind, int64_t k, bool fast_accum) {
  const double u = traits(kind).unit_roundoff, root = std::sqrt(static_cast<double>(k));
  switch (kind) {
    case GemmKind::int8:
      return 0;
    case GemmKind::tf32:
      return u * root + 0x1p-9 / root;  // the operands are cut to 10 fraction bits
    case GemmKind::fp8:
    case GemmKind::fp8_e5m2:
      return fast_accum ? u * (8 / root + 0.25 + root / 64) : u * 8 / root + 0x1p-23 * root;
    default:
      return u * root;
  }
}

FreivaldsShape freivalds_shape(const GemmProblem& p, double alpha, bool fast_accum) {
  FreivaldsShape s;
  s.m = p.m;
  s.n = p.n;
  s.k = p.k;
  // Narrower blocks where the accumulator is less precise, so that a single wrong element still stands out.
  const bool narrow = traits(p.kind).unit_roundoff > 0x1p-20;
  s.block = std::max<int64_t>(narrow ? 32 : 256, (p.n + kMostBlocks - 1) / kMostBlocks);
  s.block = (s.block + 31) / 32 * 32;
  s.blocks = (p.n + s.block - 1) / s.block;
  s.out = traits(p.kind).out;
  switch (s.out) {
    case Element::bf16:
      s.fraction_bits = 7, s.min_exponent = -126;
      break;
    case Element::f16:
      s.fraction_bits = 10, s.min_exponent = -14;
      break;
    case Element::f32:
      s.fraction_bits = 23, s.min_exponent = -126;
      break;
    case Element::f64:
      s.fraction_bits = 52, s.min_exponent = -1022;
      break;
    default:
      s.fraction_bits = -1;
      break;
  }
  s.alpha = alpha;
  // Our own sums are in double too, which shows for fp64: of a block's columns twice, and over k.
  const double own = 0x1p-53 * (1 + 2 * std::sqrt(static_cast<double>(s.block) / static_cast<double>(p.k)));
  s.epsilon = accumulation_error(p.kind, p.k, fast_accum) + own;
  return s;
}

FreivaldsKernels cuda_freivalds() {
  const CudaLibrary* library = CudaLibrary::get();
  if (!library) throw EnvironmentError("libtt_cuda.so: " + CudaLibrary::error());
  return {library->function<FreivaldsKernels::Reference>("tt_cuda_freivalds_reference"),
          library->function<FreivaldsKernels::Test>("tt_cuda_freivalds_test"),
          library->function<FreivaldsKernels::Entries>("tt_cuda_freivalds_entries")};
}

int64_t Freivalds::bytes(const FreivaldsShape& s, int64_t sets, int64_t slots) {
  const int64_t located = align(s.block * 16) + align(s.block * 24);
  return sets * reference_bytes(s) + align(s.n) + 2 * align(kSampledEntries * 8) + align(s.k * s.sums() * 8) +
         align(slots * static_cast<int64_t>(sizeof(FreivaldsFinding))) + located;
}

Freivalds::Freivalds(Device& device, const FreivaldsShape& shape, int64_t sets, int64_t slots, uint64_t seed,
                     Stream& stream)
    : device_(device),
      shape_(shape),
      kernels_(device.kind() == DeviceKind::cuda ? cuda_freivalds() : host_freivalds()),
      signs_(device.allocate(static_cast<size_t>(shape.n))),
      entry_rows_(device.allocate(kSampledEntries * sizeof(int64_t))),
      entry_columns_(device.allocate(kSampledEntries * sizeof(int64_t))),
      scratch_(device.allocate(static_cast<size_t>(shape.k * shape.sums() * 8))),
      references_(device.allocate(static_cast<size_t>(sets * reference_bytes(shape)))),
      findings_(device.allocate(static_cast<size_t>(slots) * sizeof(FreivaldsFinding))),
      found_(static_cast<size_t>(slots)) {
  std::vector<uint8_t> signs(static_cast<size_t>(shape.n));
  for (size_t j = 0; j < signs.size(); ++j) signs[j] = mix64(seed ^ 0x5e1f, j) & ((1u << kSignVectors) - 1);
  const auto random_below = [&](int64_t e, int64_t limit) {
    return static_cast<int64_t>(mix64(seed ^ 0xe417, static_cast<uint64_t>(e)) %
                                static_cast<uint64_t>(limit));
  };
  for (int64_t e = 0; e < kSampledEntries; ++e) {
    rows_.push_back(e < 4 ? (e & 1) * (shape.m - 1) : random_below(2 * e, shape.m));
    columns_.push_back(e < 4 ? (e >> 1) * (shape.n - 1) : random_below(2 * e + 1, shape.n));
  }
  device.copy(signs_.data(), signs.data(), signs.size(), stream);
  device.copy(entry_rows_.data(), rows_.data(), rows_.size() * sizeof(int64_t), stream);
  device.copy(entry_columns_.data(), columns_.data(), columns_.size() * sizeof(int64_t), stream);
  device.copy(findings_.data(), found_.data(), found_.size() * sizeof(FreivaldsFinding), stream);
  stream.synchronize();  // the sources live on this stack
}

FreivaldsReference Freivalds::reference_of(int64_t set) {
  char* at = references_.at(static_cast<size_t>(set * reference_bytes(shape_)));
  FreivaldsReference r;
  r.sums = reinterpret_cast<double*>(at);
  at += align(shape_.m * shape_.sums() * 8);
  r.a_norm2 = reinterpret_cast<double*>(at);
  at += align(shape_.m * 8);
  r.b_norm2 = reinterpret_cast<double*>(at);
  at += align(shape_.blocks * 8);
  r.entries = reinterpret_cast<double*>(at);
  return r;
}

void Freivalds::learn(int64_t set, const OperandView& a, const OperandView& b, Stream& stream) {
  kernels_.reference(shape_, a, b, static_cast<const uint8_t*>(signs_.data()),
                     static_cast<const int64_t*>(entry_rows_.data()),
                     static_cast<const int64_t*>(entry_columns_.data()),
                     static_cast<double*>(scratch_.data()), reference_of(set), stream);
}

void Freivalds::test(int64_t slot, int64_t set, const void* c, Stream& stream) {
  auto* finding = static_cast<FreivaldsFinding*>(findings_.data()) + slot;
  kernels_.test(shape_, reference_of(set), c, static_cast<const uint8_t*>(signs_.data()),
                static_cast<const int64_t*>(entry_rows_.data()),
                static_cast<const int64_t*>(entry_columns_.data()), finding, stream);
}

void Freivalds::collect(Stream& stream) {
  const size_t bytes = found_.size() * sizeof(FreivaldsFinding);
  device_.copy(found_.data(), findings_.data(), bytes, stream);
  stream.synchronize();
  const std::vector<FreivaldsFinding> none(found_.size());
  device_.copy(findings_.data(), none.data(), bytes, stream);
  stream.synchronize();
}

FreivaldsVerdict Freivalds::verdict(int64_t slot, const OperandView& a, const OperandView& b, const void* c,
                                    Stream& stream) {
  const FreivaldsFinding& f = found_[static_cast<size_t>(slot)];
  FreivaldsVerdict v;
  v.wrong = static_cast<int64_t>(f.wrong);
  v.largest_ratio = bits_as<double>(f.largest_ratio);
  if (f.wrong == 0) return v;
  if (f.first_entry != ~uint64_t{0}) {
    const int64_t row = rows_[f.first_entry], column = columns_[f.first_entry];
    v.first = furthest_off(row, column, 1, a, b, c, stream);
  } else {
    const int64_t row = static_cast<int64_t>(f.first_sum) / shape_.blocks;
    const int64_t column = static_cast<int64_t>(f.first_sum) % shape_.blocks * shape_.block;
    v.first = furthest_off(row, column, std::min(shape_.block, shape_.n - column), a, b, c, stream);
  }
  return v;
}

WrongEntry Freivalds::furthest_off(int64_t row, int64_t first_column, int64_t columns, const OperandView& a,
                                   const OperandView& b, const void* c, Stream& stream) {
  const size_t count = static_cast<size_t>(columns);
  std::vector<int64_t> where(2 * count, row);
  for (size_t j = 0; j < count; ++j) where[count + j] = first_column + static_cast<int64_t>(j);
  std::vector<double> expected(3 * count);
  const int64_t offset = row * shape_.n + first_column;
  std::vector<char> got(static_cast<size_t>(bytes_of(shape_.out, columns)));

  Buffer where_there = device_.allocate(where.size() * sizeof(int64_t));
  Buffer expected_there = device_.allocate(expected.size() * sizeof(double));
  const auto* rows = static_cast<const int64_t*>(where_there.data());
  device_.copy(where_there.data(), where.data(), where.size() * sizeof(int64_t), stream);
  kernels_.entries(shape_, a, b, rows, rows + count, columns, static_cast<double*>(expected_there.data()),
                   stream);
  device_.copy(expected.data(), expected_there.data(), expected.size() * sizeof(double), stream);
  device_.copy(got.data(), static_cast<const char*>(c) + bytes_of(shape_.out, offset), got.size(), stream);
  stream.synchronize();

  WrongEntry worst;
  double worst_error = -1;
  for (size_t j = 0; j < count; ++j) {
    const double value = element_at(shape_.out, got.data(), static_cast<int64_t>(j));
    double error = std::abs(value - expected[3 * j]);
    if (std::isnan(error)) error = INFINITY;  // a NaN is as far off as can be
    if (error > worst_error)
      worst = {offset + static_cast<int64_t>(j), expected[3 * j], value}, worst_error = error;
  }
  return worst;
}

std::string Freivalds::method() const {
  return "Freivalds in double (" + std::to_string(kSignVectors) + " sign vectors, blocks of " +
         std::to_string(std::min(shape_.block, shape_.n)) + " columns, 8 sigma) + " +
         std::to_string(kSampledEntries) + " sampled entries";
}

double Freivalds::detectable_change(double a_norm2, double b_norm2) const {
  if (shape_.fraction_bits < 0) return 1;
  const double typical = 4 * shape_.alpha * std::sqrt(a_norm2 * b_norm2 / static_cast<double>(shape_.k));
  const double spacings =
      static_cast<double>(shape_.block) * spacing_squared(typical, shape_.fraction_bits, shape_.min_exponent);
  return 4 * sum_bound(spacings, shape_.epsilon, shape_.alpha, a_norm2,
                       b_norm2 * static_cast<double>(shape_.block), shape_.fraction_bits);
}

}  // namespace tt

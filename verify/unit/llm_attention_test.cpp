// Causal attention and its gradient on either device against the double-precision reference.
//
// Bounds. f32: a score is a dot product of head_dim terms; its error, up to a few hundred roundings of 2^-24,
// is a relative one of the probability. bf16: implementations round p, and in the gradient ds, to bf16 before
// they multiply them further (2^-8 of each term), and the gradient sees `out` rounded (2^-8 of the mean of
// dp). The reference's magnitudes are sums of the terms' sizes, so a few times 2^-8 of them bounds it all.
#include <algorithm>
#include <cmath>

#include "verify/unit/llm_fixture.h"

using namespace tt;
using namespace tt::test;

namespace {

constexpr double kFloatSteps = 1024;
constexpr double kBf16Steps = 4 * 0x1p16;  // 4 * 2^-8, in units of 2^-24

struct Case {
  int64_t batch, seq, heads, kv_heads, head_dim;
  DType type;
  double score_scale = 1;  // of q: large ones make one key win, and overflow where exp is taken unshifted
};

AttentionShape shape_of(const Case& x) {
  AttentionShape s;
  s.batch = x.batch, s.seq = x.seq, s.heads = x.heads, s.kv_heads = x.kv_heads, s.head_dim = x.head_dim;
  return s;
}

/// One matrix [tokens, (heads + 2 kv_heads) head_dim] with q, k, v side by side, as the layers use it.
struct Packed {
  Packed(OpsBench& bench, const Case& x)
      : q_cols(x.heads * x.head_dim),
        kv_cols(x.kv_heads * x.head_dim),
        rows(x.batch * x.seq),
        matrix(bench, x.type, rows, q_cols + 2 * kv_cols) {}
  Packed(OpsBench& bench, const Case& x, const Doubles& q, const Doubles& k, const Doubles& v)
      : q_cols(x.heads * x.head_dim),
        kv_cols(x.kv_heads * x.head_dim),
        rows(x.batch * x.seq),
        matrix(bench, x.type, rows, q_cols + 2 * kv_cols, side_by_side(q, k, v)) {}
  Matrix q() const { return matrix.view().columns(0, q_cols); }
  Matrix k() const { return matrix.view().columns(q_cols, kv_cols); }
  Matrix v() const { return matrix.view().columns(q_cols + kv_cols, kv_cols); }
  Doubles columns(const Doubles& all, int64_t first, int64_t count) const {
    Doubles part;
    for (int64_t r = 0; r < rows; ++r) {
      const auto at = all.begin() + r * (q_cols + 2 * kv_cols) + first;
      part.insert(part.end(), at, at + count);
    }
    return part;
  }
  Doubles side_by_side(const Doubles& q, const Doubles& k, const Doubles& v) const {
    Doubles all;
    for (int64_t r = 0; r < rows; ++r) {
      all.insert(all.end(), q.begin() + r * q_cols, q.begin() + (r + 1) * q_cols);
      all.insert(all.end(), k.begin() + r * kv_cols, k.begin() + (r + 1) * kv_cols);
      all.insert(all.end(), v.begin() + r * kv_cols, v.begin() + (r + 1) * kv_cols);
    }
    return all;
  }
  int64_t q_cols, kv_cols, rows;
  DeviceMatrix matrix;
};

void check_attention(OpsBench& bench, const Case& x) {
  INFO(name_of(x.type) << " batch " << x.batch << " seq " << x.seq << " heads " << x.heads << ":"
                       << x.kv_heads << " head_dim " << x.head_dim << " scores x" << x.score_scale << " by "
                       << bench.ops().attention_name(shape_of(x), x.type));
  const AttentionShape shape = shape_of(x);
  const int64_t rows = x.batch * x.seq, q_cols = x.heads * x.head_dim, kv_cols = x.kv_heads * x.head_dim;
  const Doubles q = rounded(normals(rows * q_cols, 1, x.score_scale), x.type),
                k = rounded(normals(rows * kv_cols, 2), x.type),
                v = rounded(normals(rows * kv_cols, 3), x.type),
                dout = rounded(normals(rows * q_cols, 4), x.type);
  const reference::AttentionDims dims{x.batch, x.seq, x.heads, x.kv_heads, x.head_dim};
  const auto expected = reference::attention(dims, q, k, v);
  const auto gradient = reference::attention_backward(dims, q, k, v, dout);

  const Packed in(bench, x, q, k, v);
  const DeviceMatrix out(bench, x.type, rows, q_cols), d(bench, x.type, rows, q_cols, dout);
  const DeviceArray lse(bench, DType::f32, x.batch * x.heads * x.seq);
  const auto forward = [&] {
    bench.ops().attention(shape, in.q(), in.k(), in.v(), out.view(), lse.as<float>(), bench.stream());
  };
  forward();
  const double steps = x.score_scale * kFloatSteps + (x.type == DType::bf16 ? kBf16Steps : 0);
  check_within("out", out.values(), expected.out,
               allowed_error(x.type, expected.out, expected.magnitude, steps));
  Doubles lse_size;
  for (const double value : expected.lse) lse_size.push_back(1 + std::abs(value));
  check_within("lse", lse.values(), expected.lse,
               allowed_error(DType::f32, expected.lse, lse_size, kFloatSteps));
  const auto once = out.bytes();
  forward();
  CHECK((out.bytes() == once));

  const Packed grad(bench, x), again(bench, x);
  for (const Packed* to : {&grad, &again})
    bench.ops().attention_backward(shape, in.q(), in.k(), in.v(), out.view(), lse.as<float>(), d.view(),
                                   to->q(), to->k(), to->v(), bench.stream());
  CHECK((grad.matrix.bytes() == again.matrix.bytes()));
  const Doubles all = grad.matrix.values();
  check_within("dq", grad.columns(all, 0, q_cols), gradient.dq,
               allowed_error(x.type, gradient.dq, gradient.dq_magnitude, steps));
  check_within("dk", grad.columns(all, q_cols, kv_cols), gradient.dk,
               allowed_error(x.type, gradient.dk, gradient.dk_magnitude, steps));
  check_within("dv", grad.columns(all, q_cols + kv_cols, kv_cols), gradient.dv,
               allowed_error(x.type, gradient.dv, gradient.dv_magnitude, steps));
}

void sequences_and_heads(OpsBench& bench) {
  for (const DType type : kActivations) {
    for (const int64_t dim : {16, 64, 128})
      for (const int64_t seq : {1, 5, 64, 100}) check_attention(bench, {2, seq, 4, 2, dim, type});
    check_attention(bench, {1, 257, 2, 1, 64, type});
    check_attention(bench, {3, 33, 4, 4, 16, type});  // as many k/v heads as heads
    check_attention(bench, {2, 65, 8, 2, 64, type});  // four heads each
    check_attention(bench, {2, 31, 4, 1, 128, type});
  }
}

void large_scores(OpsBench& bench) {
  for (const DType type : kActivations) check_attention(bench, {1, 100, 2, 2, 64, type, 30});
}

}  // namespace

TEST_CASE("llm: attention and its gradient", "[llm]") {
  on_host(sequences_and_heads);
}
TEST_CASE("cuda: llm: attention and its gradient", "[.cuda]") {
  on_cuda(sequences_and_heads);
}
TEST_CASE("llm: attention with large scores", "[llm]") {
  on_host(large_scores);
}
TEST_CASE("cuda: llm: attention with large scores", "[.cuda]") {
  on_cuda(large_scores);
}

TEST_CASE("llm: attention's bits do not depend on the number of threads", "[llm]") {
  std::vector<std::vector<char>> bits;
  const Case x{2, 70, 4, 2, 16, DType::f32};
  for (const int threads : {1, 2, 5}) {
    OpsBench bench("host", threads);
    const Packed in(bench, x, normals(140 * 64, 1), normals(140 * 32, 2), normals(140 * 32, 3)),
        grad(bench, x);
    const DeviceMatrix out(bench, x.type, 140, 64), d(bench, x.type, 140, 64, normals(140 * 64, 4));
    const DeviceArray lse(bench, DType::f32, 2 * 4 * 70);
    bench.ops().attention(shape_of(x), in.q(), in.k(), in.v(), out.view(), lse.as<float>(), bench.stream());
    bench.ops().attention_backward(shape_of(x), in.q(), in.k(), in.v(), out.view(), lse.as<float>(), d.view(),
                                   grad.q(), grad.k(), grad.v(), bench.stream());
    bits.push_back(grad.matrix.bytes());
    CHECK((bits.back() == bits.front()));
  }
}

TEST_CASE("llm: attention over heads that do not divide is refused", "[llm]") {
  OpsBench bench("host");
  const Case x{1, 4, 3, 2, 16, DType::f32};
  const Packed in(bench, x);
  const DeviceMatrix out(bench, x.type, 4, 48);
  CHECK_THROWS_AS(
      bench.ops().attention(shape_of(x), in.q(), in.k(), in.v(), out.view(), nullptr, bench.stream()),
      std::logic_error);
}

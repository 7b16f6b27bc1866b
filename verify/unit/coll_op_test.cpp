// Counts, factors and outputs of the collectives, and the table's cells.
#include "src/comm/coll_op.h"

#include <algorithm>

#include "bench/support/coll_table.h"
#include "common/error.h"
#include "verify/unit/catch.h"

using namespace tt;

TEST_CASE("counts are those of nccl-tests") {
  // 1 MiB of floats over 4 ranks.
  CollCounts c = counts_of(Collective::all_reduce, 1 << 20, DType::f32, 4);
  REQUIRE((c.send == 262144 && c.recv == 262144 && c.count == 262144));
  c = counts_of(Collective::all_gather, 1 << 20, DType::f32, 4);
  REQUIRE((c.send == 65536 && c.recv == 262144 && c.count == 65536 && c.send_at == 65536 && c.recv_at == 0));
  c = counts_of(Collective::reduce_scatter, 1 << 20, DType::f32, 4);
  REQUIRE((c.send == 262144 && c.recv == 65536 && c.count == 65536 && c.send_at == 0 && c.recv_at == 65536));
  c = counts_of(Collective::alltoall, 1 << 20, DType::f32, 4);
  REQUIRE((c.send == 262144 && c.recv == 262144 && c.count == 65536));

  SECTION("a block is a multiple of 16 bytes") {
    REQUIRE(counts_of(Collective::all_gather, 100, DType::f32, 3).count == 8);     // 25 / 3 = 8
    REQUIRE(counts_of(Collective::all_gather, 100, DType::uint8, 3).count == 32);  // 33
    REQUIRE(counts_of(Collective::all_gather, 63, DType::f64, 4).count == 0);
    REQUIRE(size_bytes(Collective::all_gather, counts_of(Collective::all_gather, 100, DType::f32, 3),
                       DType::f32) == 96);
  }
  SECTION("sizes beyond 32 bits stay whole") {
    REQUIRE(counts_of(Collective::all_reduce, 4294967300ull, DType::uint8, 2).count == 4294967300ull);
    REQUIRE(counts_of(Collective::scatter, size_t{1} << 40, DType::uint8, 2).count == size_t{1} << 39);
  }
  SECTION("an incomplete element is left out") {
    REQUIRE(counts_of(Collective::all_reduce, 11, DType::f32, 2).count == 2);
  }
}

TEST_CASE("bus factors, and one rank has none") {
  REQUIRE(*bus_factor(Collective::all_reduce, 4) == Approx(1.5));
  REQUIRE(*bus_factor(Collective::all_reduce, 8) == Approx(1.75));
  for (Collective op : {Collective::all_gather, Collective::reduce_scatter, Collective::alltoall,
                        Collective::gather, Collective::scatter})
    REQUIRE(*bus_factor(op, 4) == Approx(0.75));
  for (Collective op : {Collective::broadcast, Collective::reduce, Collective::sendrecv})
    REQUIRE(*bus_factor(op, 4) == 1);
  for (Collective op : all_collectives()) REQUIRE_FALSE(bus_factor(op, 1));
}

TEST_CASE("names are found, others not") {
  for (Collective op : all_collectives()) REQUIRE(find_collective(name_of(op)) == op);
  REQUIRE_FALSE(find_collective("all_recude"));
  REQUIRE_FALSE(find_collective(""));
}

TEST_CASE("what a rank holds afterwards") {
  const CollCounts c = counts_of(Collective::reduce_scatter, 64, DType::f32, 2);  // 8 elements per rank
  CollOutput o = output_of(Collective::reduce_scatter, c, 1, 2, 0, false);
  REQUIRE((o.at == 0 && o.count == 8 && o.expect.base == 8));
  o = output_of(Collective::reduce_scatter, c, 1, 2, 0, true);
  REQUIRE((o.at == 8 && o.count == 8 && o.expect.base == 8));

  const CollCounts r = counts_of(Collective::reduce, 64, DType::f32, 2);
  REQUIRE(output_of(Collective::reduce, r, 0, 2, 0, false).expect.kind == Expect::Kind::reduced);
  REQUIRE(output_of(Collective::reduce, r, 1, 2, 0, false).expect.kind == Expect::Kind::untouched);
  o = output_of(Collective::reduce, r, 1, 2, 0, true);
  REQUIRE((o.expect.kind == Expect::Kind::copied && o.expect.source == 1));  // in place its input is to stay

  const CollCounts a = counts_of(Collective::alltoall, 64, DType::f32, 2);
  o = output_of(Collective::alltoall, a, 1, 2, 0, false);
  REQUIRE(
      (o.expect.kind == Expect::Kind::copied && o.expect.block == 8 && o.expect.base == 8 && o.count == 16));
  REQUIRE(output_of(Collective::sendrecv, r, 0, 3, 0, false).expect.source == 2);
}

TEST_CASE("cells have nccl-tests' width and precision") {
  REQUIRE(fitted(1.234, 7) == "   1.23");
  REQUIRE(fitted(12345.67, 7) == "12345.7");
  REQUIRE(fitted(123456.7, 7) == " 123457");
  REQUIRE(fitted(12345678.9, 7) == "1.2e+07");
  REQUIRE(fitted(std::nullopt, 6) == "     -");
}

TEST_CASE("the time shown is the one that -a asks for") {
  Row row;
  Summary time, rate;
  time.median = 30;
  rate.median = 2;
  row.metrics = {{"time_us", time}, {"algbw_GBps", rate}};
  for (int r = 0; r < 3; ++r) {
    RankFigures f;
    f.rank = r;
    f.time_us = 10.0 * (3 - r);  // 30, 20, 10
    row.ranks.push_back(f);
  }
  REQUIRE(*shown_figures(row, 0).time_us == Approx(30));
  REQUIRE(*shown_figures(row, 1).time_us == Approx(20));
  REQUIRE(*shown_figures(row, 1).algbw == Approx(3));
  REQUIRE(*shown_figures(row, 2).time_us == Approx(10));
  REQUIRE(*shown_figures(row, 3).time_us == Approx(30));
  REQUIRE_FALSE(shown_figures(row, 3).busbw);
}

TEST_CASE("the footer's mean leaves out rows without a bus") {
  Row with, without;
  Summary s;
  s.median = 4;
  with.metrics = {{"time_us", s}, {"busbw_GBps", s}};
  REQUIRE(coll_footer({with, without}, 3)[1] == "# Avg bus bandwidth    : 4");
  REQUIRE(coll_footer({without}, 3)[1] == "# Avg bus bandwidth    : -");
  with.check.wrong = 7;
  REQUIRE(coll_footer({with}, 3)[0] == "# Out of bounds values : 1 FAILED");
}

TEST_CASE("sweeps come in nccl-tests' order, and keys differ") {
  CollOptions o;
  o.operations = {"reduce", "all_gather"};
  o.types = {"float", "bf16"};
  o.redops = {"sum", "max"};
  o.root = "all";
  o.sweep.min_bytes = o.sweep.max_bytes = 1024;
  const auto sweeps = sweeps_of(o, 3);
  REQUIRE(sweeps.size() == 2 * 2 * 3 + 2);
  REQUIRE((sweeps[1].root == 1 && sweeps[3].redop == ReduceOp::max && sweeps[6].type == DType::bf16));
  std::vector<std::string> keys;
  for (const CollSweep& s : sweeps)
    keys.push_back(row_key(lines_of(o, s, 3, 0, 1, "").at(0).out_of_place, 3));
  std::sort(keys.begin(), keys.end());
  REQUIRE(std::unique(keys.begin(), keys.end()) == keys.end());
  REQUIRE(row_key(lines_of(o, sweeps[0], 3, 0, 1, "").at(0).out_of_place, 3) ==
          "reduce/float/sum/1024/out-of-place");
}

TEST_CASE("combinations that make no sense are refused") {
  CollOptions o;
  check_coll_options(o);
  o.root = "-1";
  REQUIRE_THROWS_AS(check_coll_options(o), UsageError);
  o.root = "5";
  o.operations = {"broadcast"};
  REQUIRE_THROWS_AS(sweeps_of(o, 4), UsageError);
  o = {};
  o.per_iteration = true, o.graph_launches = 1;
  REQUIRE_THROWS_AS(check_coll_options(o), UsageError);
  o = {};
  o.skip = 1;
  REQUIRE_THROWS_AS(check_coll_options(o), UsageError);
}

"""coll_perf and its nccl-tests names: table, figures, verification, sizes, options."""
import re
import unittest
from pathlib import Path

import tt

OPERATIONS = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv", "gather", "scatter"]
NO_IN_PLACE = {"alltoall", "sendrecv"}


def median(row, metric):
    return row["metrics"][metric]["median"] if metric in row["metrics"] else None


def memory_available():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


class Coll(tt.TestCase):
    def setUp(self):
        tt.require_exe("coll_perf")

    def measured(self, *args, ranks=2, rc=0, timeout=120):
        """The run and its record."""
        out = self.tmp / "out.json"
        r = tt.run(*args, "-J", out, ranks=ranks, timeout=timeout)
        self.assert_rc(r, rc)
        return r, tt.record(out)


class Sizes(Coll):
    def test_step_with_a_suffix(self):  # case C01
        r, record = self.measured("all_reduce_perf", "-b", "64K", "-e", "70K", "-i", "2K", "-d", "uint8", "-n", "2")
        sizes = ["65536", "67584", "69632", "71680"]
        self.assertEqual([cells[0] for cells in r.table], sizes)
        self.assertEqual([cells[1] for cells in r.table], sizes)
        self.assertEqual(len(record["rows"]), 8)

    def test_bad_sizes(self):  # cases C01, C02
        for option, text in [("-i", "2Q"), ("-i", "0"), ("-e", "17179869185G"), ("-b", "12junk"), ("-b", "4KB"), ("-b", "-8"),
                             ("-b", "")]:
            with self.subTest(option=option, text=text):
                r = tt.run("all_reduce_perf", option, text)
                self.assert_usage_error(r, option, text)

    def test_first_above_last(self):
        self.assert_usage_error(tt.run("all_reduce_perf", "-b", "1M", "-e", "1K"), "-b", "-e", "1M", "1K")

    def test_more_than_memory(self):  # case C03
        for ranks in (None, 2):
            r = tt.run("all_reduce_perf", "-b", "65536G", "-e", "65536G", ranks=ranks)
            self.assert_rc(r, 3)
            self.assertEqual(r.table, [])
            lines = [line for line in (r.out + r.err).splitlines() if "70368744177664 bytes" in line]
            self.assertEqual(len(lines), 1, r)
            self.assertRegex(lines[0], r"\d+ bytes are available")
            self.assertNotIn("PASS", r.out)

    def test_above_four_gibibytes(self):  # case C15
        size = 4294967300
        if memory_available() < 2.5 * size:
            r = tt.run("all_reduce_perf", "-b", size, "-e", size, "-d", "uint8", "-n", "1", "-w", "0", timeout=300)
            self.assert_rc(r, 3)
            self.assert_says(r, str(size))
            return
        r, record = self.measured("all_reduce_perf", "-b", size, "-e", size, "-d", "uint8", "-n", "1", "-w", "0", ranks=None,
                                  timeout=600)
        self.assertEqual([cells[:2] for cells in r.table], [[str(size), str(size)]])
        for row in record["rows"]:
            self.assertEqual(row["size"], size)
            self.assertEqual(row["verification"]["wrong"], 0)
            self.assertGreater(row["verification"]["checked"], 0)

    def test_sizes_that_round_to_the_same_bytes_are_measured_once(self):
        # nccl-tests rounds a rank's block down to 16 bytes: 8, 16, 32 bytes over 4 ranks are 0.
        r, record = self.measured("all_gather_perf", "-b", "8", "-e", "128", "-f", "2", "-n", "2", ranks=4)
        self.assertEqual([cells[0] for cells in r.table], ["0", "64", "128"])
        keys = [row["key"] for row in record["rows"]]
        self.assertEqual(len(set(keys)), len(keys))
        self.assertIsNone(median(record["rows"][0], "busbw_GBps"))
        self.assertEqual(r.table[0][6:9], ["-", "-", "N/A"])  # nothing moved, nothing to verify


class Figures(Coll):
    def test_one_sample(self):  # case C05
        _, record = self.measured("all_reduce_perf", "-b", "8", "-e", "8", "-n", "1", "-w", "0", ranks=2)
        time = record["rows"][0]["metrics"]["time_us"]
        self.assertEqual(time["n"], 1)
        self.assertEqual(len({time[k] for k in ("min", "median", "mean", "max", "p99")}), 1)
        self.assertIsNone(time["cv"])

    def test_one_rank_has_no_bus(self):  # case C06
        for operation in ("alltoall", "all_reduce", "broadcast", "sendrecv"):
            r, record = self.measured(f"{operation}_perf", "-b", "1M", "-e", "1M", "-n", "3", ranks=1)
            cells = r.table[0]
            self.assertEqual(cells[7], "-")
            self.assertRegex(r.out, r"# Avg bus bandwidth +: -")
            for row in record["rows"]:
                self.assertIsNone(median(row, "busbw_GBps"))
                self.assertGreater(median(row, "algbw_GBps"), 0)
            if operation in NO_IN_PLACE:
                self.assertEqual(cells[9:], ["N/A"] * 4)
                self.assertEqual(len(record["rows"]), 1)

    def test_rates_follow_from_the_time(self):  # case C07
        factors = {"all_reduce": 1.5, "all_gather": 0.75, "reduce_scatter": 0.75, "alltoall": 0.75, "broadcast": 1, "reduce": 1,
                   "sendrecv": 1, "gather": 0.75, "scatter": 0.75}
        _, record = self.measured("coll_perf", "--coll", "all", "-b", "1M", "-e", "1M", "-n", "3", ranks=4)
        seen = set()
        for row in record["rows"]:
            operation = row["key"].split("/")[0]
            seen.add(operation)
            time, algbw, busbw = (median(row, m) for m in ("time_us", "algbw_GBps", "busbw_GBps"))
            self.assertEqual(row["size"], 1 << 20)
            self.assertAlmostEqual(algbw * time * 1000 / row["size"], 1, places=6)
            self.assertAlmostEqual(busbw / algbw, factors[operation], places=6)
        self.assertEqual(seen, set(OPERATIONS))

    def test_the_slow_rank_is_named_and_times_are_maxima(self):  # case C14
        r, record = self.measured("all_reduce_perf", "-b", "4M", "-e", "4M", "-n", "8", "--inject", "slow:rank=1,factor=3")
        self.assertRegex(r.out, r"slowest rank: rank 1\b")
        for row in record["rows"]:
            self.assertEqual(row["slowest"]["rank"], 1)
            self.assertEqual(len({rank["time_us"] for rank in row["ranks"]}), 2)
            self.assertAlmostEqual(median(row, "algbw_GBps") * median(row, "time_us") * 1000 / row["size"], 1, places=6)

    def test_aggregated_operations_count_singly(self):
        r, record = self.measured("all_reduce_perf", "-b", "64K", "-e", "64K", "-m", "8", "-n", "3")
        row = record["rows"][0]
        self.assertAlmostEqual(median(row, "algbw_GBps") * median(row, "time_us") * 1000 / row["size"], 1, places=6)
        single = self.measured("all_reduce_perf", "-b", "64K", "-e", "64K", "-n", "3")[1]["rows"][0]
        # Eight times as long would mean the step's time; machines are noisy, so far from it is enough.
        self.assertLess(median(row, "time_us"), 5 * median(single, "time_us"))


class Verification(Coll):
    def test_every_operation_type_and_reduction(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                r, record = self.measured("coll_perf", "--coll", "all", "-d", "float,bf16,int8,f8e4m3,uint64", "-o", "all",
                                          "-r", str(ranks - 1), "-b", "1004", "-e", "5020", "-i", "4016", "-n", "2", "-w", "0",
                                          ranks=ranks, timeout=300)
                for row in record["rows"]:
                    self.assertEqual(row["verification"]["wrong"], 0, row["key"])
                    self.assertEqual(row["verdict"], "pass", row["key"])
                    self.assertEqual(row["verification"]["checked"], row["verification"]["total"])
                self.assertEqual({row["key"].split("/")[0] for row in record["rows"]}, set(OPERATIONS))

    def test_all_types_and_roots(self):
        _, record = self.measured("coll_perf", "--coll", "reduce,broadcast", "-d", "all", "-r", "all", "-b", "96", "-e", "96",
                                  "-n", "1", "-w", "0", ranks=3, timeout=300)
        self.assertEqual(len(record["rows"]), 2 * 12 * 3 * 2)
        keys = [row["key"] for row in record["rows"]]
        self.assertEqual(len(set(keys)), len(keys))

    def test_one_corrupt_element_is_found_and_other_rows_are_reported(self):  # case C13
        r, record = self.measured("all_reduce_perf", "-b", "1K", "-e", "64K", "-f", "8", "-n", "20", "--inject",
                                  "corrupt:rank=2", ranks=4, rc=4)
        self.assertEqual(len(r.table), 3)
        self.assertEqual(len(record["rows"]), 6)
        for row in record["rows"]:
            check = row["verification"]
            self.assertGreater(check["checked"], 0)
            self.assertEqual(check["wrong"], 1)
            self.assertEqual(check["first"]["rank"], 2)
            self.assertEqual(check["first"]["offset"], row["size"] // 4 // 2)
            self.assertNotEqual(check["first"]["expected"], check["first"]["got"])
        self.assertRegex(r.out, r"# Out of bounds values : 6 FAILED")
        self.assert_says(r, "rank 2")

    def test_corruption_is_found_in_every_operation(self):
        # Ranks that a rooted operation gives nothing must have their buffers as they were.
        _, record = self.measured("coll_perf", "--coll", "all", "-b", "4K", "-e", "4K", "-n", "2", "-w", "0", "--inject",
                                  "corrupt:rank=1", ranks=3, rc=4)
        for row in record["rows"]:
            self.assertEqual(row["verification"]["wrong"], 1, row["key"])
            self.assertEqual(row["verdict"], "wrong", row["key"])

    def test_without_check_nothing_is_called_verified(self):
        r, record = self.measured("all_reduce_perf", "-b", "1K", "-e", "1K", "-n", "2", "-c", "0")
        self.assertEqual([r.table[0][8], r.table[0][12]], ["N/A", "N/A"])
        self.assertEqual(record["rows"][0]["verification"]["checked"], 0)


class Layout(Coll):
    HEAD = ["#                                                              out-of-place                       in-place          ",
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong",
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)"]
    ROW = (r"^ {8}1024 {11}256     float     sum      -1"
           r"  {us}  {bw}  {bw}       0  {us}  {bw}  {bw}       0$").replace("{us}", r"[ \d.]{7}").replace("{bw}", r"[ \d.]{6}")

    def test_as_nccl_tests(self):
        r, _ = self.measured("all_reduce_perf", "-b", "1K", "-e", "1K", "-n", "3")
        lines = [line.rstrip() for line in r.lines]
        at = lines.index(self.HEAD[0].rstrip())
        self.assertEqual(lines[at:at + 3], [h.rstrip() for h in self.HEAD])
        self.assertRegex(r.lines[at + 3], self.ROW)
        self.assertIn("# Out of bounds values : 0 OK", lines)
        self.assertRegex(r.out, r"(?m)^# Avg bus bandwidth    : [\d.e+-]+$")

    def test_extra_columns(self):
        r, _ = self.measured("all_reduce_perf", "-b", "1K", "-e", "2K", "-f", "2", "-n", "4", "-I", "1", "-K", "1", "-S", "1",
                             "-M", "1")
        self.assertRegex(r.out, r"i_min +i_max +i_p99 +i_cv%")
        for cells in r.table:
            self.assertEqual(len(cells), 5 + 2 * 8 + 2)
            self.assertRegex(" ".join(cells[-2:]), r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$")
        self.assertRegex(r.out, r"(?m)^# Memory usage +: ")

    def test_letters_that_change_how_it_is_measured(self):
        for args in (["-z", "1"], ["-z", "2"], ["-z", "3"], ["-C", "1"], ["-u", "3"], ["-m", "4"], ["-a", "0"], ["-a", "1"],
                     ["-a", "2"], ["--show-algorithm"], ["-u", "1", "-d", "bfloat16", "-m", "3", "-z", "1"]):
            with self.subTest(args=args):
                r, record = self.measured("coll_perf", "--coll", "all_reduce,all_gather", "-b", "4K", "-e", "4K", "-n", "3", *args)
                self.assertEqual(len(r.table), 2)
                self.assertTrue(all(row["verification"]["wrong"] == 0 for row in record["rows"]))

    def test_cycles(self):
        r, record = self.measured("all_reduce_perf", "-b", "1K", "-e", "1K", "-n", "2", "-N", "3")
        self.assertEqual(len(r.table), 3)
        self.assertEqual(len({row["key"] for row in record["rows"]}), 6)

    def test_scale(self):
        r, record = self.measured("all_reduce_perf", "-b", "64K", "-e", "64K", "-n", "3", "--scale", "1,2,4", ranks=4)
        self.assertEqual(len(r.table), 3)
        self.assertEqual([row["params"]["ranks"] for row in record["rows"]], [1, 1, 2, 2, 4, 4])
        self.assertTrue(record["rows"][0]["key"].endswith("/ranks=1"))
        self.assertFalse(record["rows"][-1]["key"].endswith("ranks=4"))
        scaling = [line for line in r.lines if re.match(r"# +all_reduce +float +sum", line)]
        self.assertEqual(len(scaling), 2)
        self.assertIn("100.0 %", scaling[0])

    def test_record_fits_the_schema(self):
        schema = tt.ROOT / "docs" / "record.schema.json"
        if not schema.exists():
            self.skipTest("there is no docs/record.schema.json")
        try:
            import jsonschema
        except ImportError:
            self.skipTest("there is no python3-jsonschema")
        _, record = self.measured("coll_perf", "--coll", "all_reduce,alltoall", "-b", "8", "-e", "64K", "-f", "8", "-n", "3",
                                  ranks=2)
        jsonschema.validate(record, tt.strict_json(schema.read_text()))

    def test_sixty_four_ranks(self):
        r, record = self.measured("coll_perf", "--coll", "all_reduce,all_gather", "-b", "1K", "-e", "16K", "-f", "16", "-n", "2",
                                  "-w", "1", ranks=64, timeout=300)
        self.assertEqual(len(r.table), 4)
        self.assertEqual(len(record["rows"]), 8)
        # One line for each rank, and what does not depend on their number.
        self.assertLess(len(r.lines), 64 + 60)


class Options(Coll):
    def test_bad_values(self):
        for args, texts in [(["-d", "floaty"], ["-d", "floaty", "bfloat16"]), (["-o", "summ"], ["-o", "summ", "mulsum"]),
                            (["-r", "x"], ["-r", "'x'"]), (["-z", "4"], ["-z", "4"]), (["-a", "7"], ["-a", "7"]),
                            (["-m", "0"], ["-m", "0"]), (["-K", "1"], ["-K", "-I"]), (["-n", "5", "-I", "1", "-K", "5"], ["-K", "5"]),
                            (["-I", "1", "-G", "2"], ["-I", "-G"]), (["-z", "3", "-G", "2"], ["-z", "-G"]),
                            (["-N", "0"], ["-N", "0"]), (["--coll", "all_gather"], ["--coll"])]:
            with self.subTest(args=args):
                self.assert_usage_error(tt.run("all_reduce_perf", *args), *texts)
        self.assert_usage_error(tt.run("coll_perf", "--coll", "all_recude"), "--coll", "all_recude", "all_reduce")

    def test_values_that_depend_on_the_ranks(self):
        for args, text in [(["--scale", "1,4"], "4"), (["-r", "2"], "2")]:
            r = tt.run("broadcast_perf", "-b", "8", "-e", "8", *args, ranks=2)
            self.assert_rc(r, 2)
            self.assert_says(r, args[0], text)

    def test_what_needs_a_gpu_is_skipped_with_the_reason(self):
        for args in (["-G", "1"], ["-R", "1"], ["-R", "2"]):
            r = tt.run("all_reduce_perf", "--device", "host", "-b", "8", "-e", "8", *args)
            self.assert_rc(r, 77)
            self.assert_says(r, args[0])
            self.assertEqual(r.table, [])

    def test_ranks_without_a_launcher(self):
        r, record = self.measured("all_gather_perf", "-b", "1K", "-e", "1K", "-n", "2", "-g", "2", ranks=None)
        self.assertEqual(record["world"]["ranks"], 2)
        self.assertEqual(record["tool"], "all_gather_perf")
        self.assertTrue(record["rows"][0]["key"].startswith("all_gather/"))

    def test_list(self):
        r = tt.run("coll_perf", "--coll", "all_reduce,alltoall", "-b", "1K", "-e", "2K", "-f", "2", "--list")
        self.assert_rc(r, 0)
        self.assertEqual(r.lines, ["all_reduce/float/sum/1024/out-of-place", "all_reduce/float/sum/1024/in-place",
                                   "all_reduce/float/sum/2048/out-of-place", "all_reduce/float/sum/2048/in-place",
                                   "alltoall/float/none/1024/out-of-place", "alltoall/float/none/2048/out-of-place"])


class OneGpu(Coll):
    """What one GPU can show: NCCL with one rank, and several ranks that share it over MPI."""

    def setUp(self):
        super().setUp()
        tt.require_gpus(1)

    def test_nccl_on_one_rank(self):
        for args in ([], ["-m", "4"], ["-z", "1"], ["-z", "3"], ["-G", "5"], ["-G", "5", "-m", "3"], ["-R", "1"], ["-u", "1"],
                     ["-C", "1"]):
            with self.subTest(args=args):
                r, record = self.measured("coll_perf", "--coll", "all", "--device", "cuda", "-b", "1K", "-e", "16M", "-f", "128",
                                          "-n", "5", *args, ranks=None)
                self.assertIn("nccl", record["versions"])
                for row in record["rows"]:
                    self.assertEqual(row["params"]["comm"], "nccl")
                    self.assertEqual(row["verdict"], "pass", row["key"])

    def test_symmetric_windows_work_or_are_skipped_with_the_reason(self):
        r = tt.run("all_reduce_perf", "--device", "cuda", "-b", "1M", "-e", "1M", "-R", "2")
        self.assertIn(r.rc, (0, 77), r)
        if r.rc == 77:
            self.assert_says(r, "-R 2")

    def test_all_types_and_reductions(self):
        _, record = self.measured("coll_perf", "--coll", "all", "--device", "cuda", "-d", "all", "-o", "all", "-b", "1004",
                                  "-e", "1004", "-n", "2", ranks=None, timeout=300)
        self.assertTrue(all(row["verification"]["wrong"] == 0 for row in record["rows"]))

    def test_ranks_that_share_the_gpu_over_mpi(self):
        _, record = self.measured("coll_perf", "--coll", "all", "--device", "cuda", "--comm", "mpi", "-d", "float,bf16,f8e5m2",
                                  "-o", "all", "-b", "1004", "-e", "64K", "-f", "8", "-n", "2", ranks=3, timeout=300)
        self.assertTrue(all(row["verification"]["wrong"] == 0 for row in record["rows"]))

    def test_corruption_is_found_on_the_device(self):
        _, record = self.measured("coll_perf", "--coll", "all_reduce,broadcast", "--device", "cuda", "-b", "1M", "-e", "1M", "-n",
                                  "4", "--inject", "corrupt:rank=0", ranks=None, rc=4)
        for row in record["rows"]:
            self.assertEqual(row["verification"]["wrong"], 1, row["key"])
            self.assertEqual(row["verification"]["first"]["offset"], (1 << 20) // 4 // 2)

    def test_more_than_the_gpu_has(self):
        r = tt.run("all_reduce_perf", "--device", "cuda", "-b", "1T", "-e", "1T")
        self.assert_rc(r, 3)
        self.assert_says(r, "1099511627776")


if __name__ == "__main__":
    unittest.main()

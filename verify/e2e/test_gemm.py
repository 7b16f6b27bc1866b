"""gemm_perf as users run it: on the host everywhere, on a GPU where there is one."""
import os
import re
import unittest
from functools import lru_cache

import tt

HOST = ("--device", "host")
QUICK = ("-n", "4", "-w", "1")


@lru_cache(maxsize=None)
def why_no_fp32():
    r = tt.run("gemm_perf", *HOST, "-d", "fp32", "--shapes", "16", *QUICK, timeout=120)
    return next((line for line in r.lines if "SKIPPED" in line), "SKIPPED") if r.rc == 77 else ""


def require_fp32():
    """Skips the test when the build found neither CBLAS nor oneDNN."""
    if why_no_fp32():
        raise unittest.SkipTest(why_no_fp32())


class Gemm(tt.TestCase):
    def setUp(self):
        tt.require_exe("gemm_perf")

    def assert_rc(self, result, code):
        """code None: 0, or 77 where the machine lacks the type."""
        if code is None:
            self.assertIn(result.rc, (0, 77), str(result))
        else:
            super().assert_rc(result, code)

    def rows(self, *args, code=0, **kwargs):
        out = self.tmp / "out.json"
        r = tt.run("gemm_perf", *args, "-J", out, timeout=kwargs.pop("timeout", 120), **kwargs)
        self.assert_rc(r, code)
        return r, tt.record(out)


class Rows(Gemm):
    def setUp(self):
        super().setUp()
        require_fp32()

    def test_figures_follow_from_time_and_shape(self):
        _, record = self.rows(*HOST, "-d", "fp32", "--shapes", "64,96,128", *QUICK)
        row, = record["rows"]
        self.assertEqual(row["key"], "gemm/fp32/nn/64x96x128")
        rate, time = row["metrics"]["tflops"], row["metrics"]["time_us"]
        self.assertAlmostEqual(rate["median"] * time["median"] * 1e6 / (2 * 64 * 96 * 128), 1, places=6)
        self.assertAlmostEqual(rate["max"] * time["min"] * 1e6 / (2 * 64 * 96 * 128), 1, places=6)
        check = row["verification"]
        self.assertEqual((check["checked"], check["wrong"]), (check["total"], 0))
        self.assertGreater(check["checked"], 0)
        self.assertIn("Freivalds", check["method"])
        self.assertLess(row["params"]["check_largest_error_over_bound"], 1)
        self.assertIn("algorithm", row["params"])
        self.assertIsNone(row["limit_ratio"])  # nobody knows a CPU's peak: n/a, never a guess

    def test_odd_sizes_in_all_layouts_are_right(self):
        for kind in ("fp32", "fp64", "bf16", "int8"):
            for layout in (("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")):
                with self.subTest(kind=kind, layout=layout):
                    r, record = self.rows(*HOST, "-d", kind, "--ta", layout[0], "--tb", layout[1], "--shapes",
                                          "1,17,33;127,1,65;129,255,3;1,1,1", *QUICK, code=None)
                    if r.rc == 77:
                        continue  # the reason is in test_types_that_are_not_there
                    self.assertEqual([row["verification"]["wrong"] for row in record["rows"]], [0] * 4, r)

    def test_sweep_in_elements(self):
        r, record = self.rows(*HOST, "-d", "fp32", "-b", "32", "-e", "128", "-f", "2", *QUICK)
        self.assertEqual([row["size"] for row in record["rows"]], [32, 64, 128])
        self.assertEqual(len(r.table), 3)

    def test_list_measures_nothing(self):
        r = tt.run("gemm_perf", "--list", "-d", "bf16", "--model", "llama3.1-8b", "--tokens", "8K")
        self.assert_rc(r, 0)
        self.assertEqual(len(r.lines), 24)
        self.assertIn("gemm/bf16/tn/4096x14336x8192/down_proj.wgrad", r.lines)

    def test_soak_has_a_series(self):
        _, record = self.rows(*HOST, "-d", "fp32", "--shapes", "128", "--duration", "2")
        row, = record["rows"]
        self.assertGreaterEqual(len(row["series"]), 1)
        # What the last round of each second left behind is verified, and the record says how much that was.
        self.assertGreater(row["verification"]["checked"], 20)
        self.assertLessEqual(row["verification"]["checked"], row["verification"]["total"])
        self.assertEqual(row["verification"]["wrong"], 0)

    def test_ranks_share_the_cores(self):
        _, record = self.rows(*HOST, "-d", "fp32", "--shapes", "64", *QUICK, ranks=2)
        threads = int(re.search(r", (\d+) threads?$", record["rows"][0]["params"]["algorithm"]).group(1))
        self.assertLessEqual(2 * threads, max(2, len(os.sched_getaffinity(0))))


class Refusals(Gemm):
    def test_usage(self):
        for args, texts in ((["-d", "bf61"], ["-d", "bf61", "fp8_e5m2"]),
                            (["--shapes", "1,2"], ["--shapes", '"1,2"']),
                            (["--shapes", "0"], ["--shapes", '"0"']),
                            (["--shapes", "8Q"], ["--shapes", '"8Q"']),
                            (["--shapes", "64", "-b", "64"], ["--shapes", "-b"]),
                            (["--model", "llama9"], ["--model", "llama9", "llama3.1-405b"]),
                            (["--model", "llama2-7b", "--ta", "1"], ["--model", "--ta"]),
                            (["--ta", "2"], ["--ta", '"2"', "0 or 1"]),
                            (["-b", "0"], ["-b", '"0"']),
                            (["-f", "1"], ["-f", '"1"']),
                            (["-d", "int8", "--shapes", "1,1,1M"], ["int8", "1048576", "int32"])):
            with self.subTest(args=args):
                self.assert_usage_error(tt.run("gemm_perf", *args), *texts)

    def test_types_that_are_not_there(self):
        r, record = self.rows(*HOST, "-d", "fp8", "--shapes", "64", code=77)
        self.assert_says(r, "SKIPPED", "fp8 needs a GPU")
        self.assertEqual(record["rows"][0]["verdict"], "skipped")
        require_fp32()
        # In a list it is left out and said; the others count.
        r, record = self.rows(*HOST, "-d", "fp32,nvfp4", "--shapes", "64", *QUICK)
        self.assert_says(r, "nvfp4 needs a GPU")
        self.assertEqual([row["verdict"] for row in record["rows"]], ["pass", "skipped"])

    def test_more_than_the_memory_is_refused_with_full_numbers(self):
        r, record = self.rows(*HOST, "-d", "fp32", "--shapes", "4M,4M,8", code=3)
        needed, available = map(int, re.search(r"needs? (\d+) bytes.*?(\d+) bytes are available", r.out + r.err).groups())
        self.assertGreaterEqual(needed, (4 << 20) ** 2 * 4)
        self.assertGreater(available, 0)
        self.assertEqual(record["rows"], [])

    def test_result_above_4_GiB(self):
        """C15: 65536 x 65536 bf16 is 8589934592 bytes; verified whole, or refused with the numbers; never shrunk."""
        out = self.tmp / "out.json"
        r = tt.run("gemm_perf", *HOST, "-d", "bf16", "--shapes", "65536,65536,8", "-n", "1", "-w", "0", "-J", out, timeout=600)
        if r.rc == 77:
            self.skipTest(r.out.splitlines()[-1])
        if r.rc == 3:
            needed = int(re.search(r"needs? (\d+) bytes", r.out + r.err).group(1))
            self.assertGreaterEqual(needed, 8589934592)
            return
        self.assert_rc(r, 0)
        row, = tt.record(out)["rows"]
        self.assertEqual((row["params"]["m"], row["params"]["n"]), (65536, 65536))
        self.assertEqual((row["verification"]["checked"], row["verification"]["wrong"]), (1, 0))


class Faults(Gemm):
    def setUp(self):
        super().setUp()
        require_fp32()

    def test_corrupt_is_wrong_data_and_named(self):
        r, record = self.rows(*HOST, "-d", "fp32", "--shapes", "200,300,100", "-n", "10", "-w", "1", "--inject",
                              "corrupt:rank=1,iteration=5", code=4, ranks=2)
        row, = record["rows"]
        first = row["verification"]["first"]
        self.assertEqual(row["verdict"], "wrong")
        self.assertEqual(first["rank"], 1)
        self.assertGreaterEqual(first["iteration"], 5)
        self.assertTrue(0 <= first["offset"] < 200 * 300)
        self.assertGreater(abs(first["got"] - first["expected"]), 5)  # a typical element is 10
        self.assertGreaterEqual(row["verification"]["wrong"], 1)
        self.assert_says(r, "rank 1", f"offset {first['offset']}", "expected", "got", "corrupt:rank=1")

    def test_slow_rank_is_named(self):
        r, record = self.rows(*HOST, "-d", "fp32", "--shapes", "256", "-n", "20", "-w", "3", "--inject",
                              "slow:rank=1,factor=2", ranks=2)
        self.assertEqual(record["rows"][0]["slowest"]["rank"], 1, record["rows"][0])
        self.assert_says(r, "rank 1")
        medians = {rank["rank"]: rank["time_us"] for rank in record["rows"][0]["ranks"]}
        self.assertGreater(medians[1], medians[0])


class OnGpu(Gemm):
    def setUp(self):
        super().setUp()
        tt.require_gpus()

    def test_fp8_against_bf16_is_said_and_not_judged(self):
        r, record = self.rows("--device", "cuda", "-d", "bf16,fp8", "--shapes", "1024;8192", timeout=300)
        if any(row["verdict"] == "skipped" for row in record["rows"]):
            self.skipTest("this GPU has no FP8")
        self.assertEqual(len(re.findall(r"fp8/bf16 at .*: \d+\.\d\d", r.out)), 2, r)
        self.assertTrue(all(row["limit"] is None or row["limit_ratio"] < 1.05 for row in record["rows"]))

    def test_every_type_and_layout_is_right_or_says_why_not(self):
        kinds = "bf16,fp16,tf32,fp32,fp64,int8,fp8,fp8_e5m2,mxfp8,nvfp4"
        _, record = self.rows("--device", "cuda", "-d", kinds, "--shapes", "1024,768,512", "--rest", "0", timeout=300)
        self.assertEqual(len(record["rows"]), 10)
        for row in record["rows"]:
            self.assertIn(row["verdict"], ("pass", "skipped"), row["key"])
            self.assertTrue(row["verdict"] == "pass" or row["reason"])
        for layout in ("00", "01", "10", "11"):
            r, record = self.rows("--device", "cuda", "-d", "bf16,fp32", "--ta", layout[0], "--tb", layout[1], "--shapes",
                                  "1,17,33;264,520,1032", "--rest", "0", timeout=300)
            self.assertEqual([row["verification"]["wrong"] for row in record["rows"]], [0] * 4, r)

    def test_result_above_4_GiB(self):
        out = self.tmp / "out.json"
        r = tt.run("gemm_perf", "--device", "cuda", "-d", "bf16", "--shapes", "65536,65536,8", "-n", "2", "--rest", "0", "-J", out,
                   timeout=300)
        if r.rc == 3:
            self.assert_says(r, "bytes are available")
            return
        self.assert_rc(r, 0)
        self.assertEqual(tt.record(out)["rows"][0]["verification"]["wrong"], 0)

    def test_corrupt_on_every_type(self):
        for kind in ("bf16", "fp16", "tf32", "fp32", "fp64", "int8", "fp8"):
            with self.subTest(kind=kind):
                r = tt.run("gemm_perf", "--device", "cuda", "-d", kind, "--shapes", "2048", "-n", "3", "--rest", "0", "--algorithms",
                           "1", "--inject", "corrupt:rank=0", timeout=120)
                self.assertIn(r.rc, (4, 77), r)


if __name__ == "__main__":
    unittest.main()

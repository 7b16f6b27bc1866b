"""What needs one GPU: the right device, sharing it, figures that make sense, faults that are found on it."""
import subprocess
import unittest

import tt


def uuid():
    out = subprocess.run(["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
    return out.stdout.split()[0]


class Gpu(tt.TestCase):
    def setUp(self):
        tt.require_gpus(1)
        self.out = self.tmp / "out.json"

    def run_ok(self, *args, code=0, **kw):
        result = tt.run(*args, "-J", self.out, timeout=kw.pop("timeout", 120), **kw)
        self.assert_rc(result, code)
        return result, tt.record(self.out)


class Device(Gpu):
    def test_auto_takes_the_gpu(self):
        _, doc = self.run_ok("all_reduce_perf", "-b", "8", "-e", "1K", "-f", "4")
        device = doc["ranks"][0]["device"]
        self.assertEqual(device["kind"], "cuda")
        self.assertEqual(device["uuid"], uuid())

    def test_abbreviated_uuid(self):
        short = uuid()[:12]
        _, doc = self.run_ok("gemm_perf", "-b", "256", "-e", "256", "-d", "bf16", "--rest", "0", env={"CUDA_VISIBLE_DEVICES": short})
        self.assertEqual(doc["ranks"][0]["device"]["uuid"], uuid())
        self.assertEqual(doc["environment"]["CUDA_VISIBLE_DEVICES"], short)

    def test_hidden_gpu_falls_back_and_says_so(self):
        result, doc = self.run_ok("all_reduce_perf", "-b", "8", "-e", "64", env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(doc["ranks"][0]["device"]["kind"], "host")
        self.assert_says(result, "host")

    def test_cuda_asked_for_but_hidden(self):
        result = tt.run("all_reduce_perf", "--device", "cuda", "-b", "8", "-e", "64", env={"CUDA_VISIBLE_DEVICES": ""})
        self.assert_rc(result, 3)


class Sharing(Gpu):
    """C12: two ranks on one GPU are refused by name, unless asked for."""

    def setUp(self):
        super().setUp()
        if tt.gpus() > 1:
            self.env = {"CUDA_VISIBLE_DEVICES": "0"}
        else:
            self.env = {}

    def test_refused(self):
        result = tt.run("all_reduce_perf", "-b", "8", "-e", "64", ranks=2, env=self.env)
        self.assert_rc(result, 3)
        self.assert_says(result, uuid(), "--share-gpu")

    def test_comm_mpi_shares(self):
        result, doc = self.run_ok("all_reduce_perf", "--comm", "mpi", "-b", "8", "-e", "4M", "-f", "8", ranks=2, env=self.env)
        self.assertEqual(len(doc["ranks"]), 2)
        self.assertTrue(all(row["verification"]["wrong"] == 0 and row["verification"]["checked"] > 0 for row in doc["rows"]))
        self.assert_says(result, "ranks 0 and 1 share GPU " + uuid())

    def test_every_operation_through_staging(self):
        for tool in ("all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv", "gather", "scatter"):
            with self.subTest(tool):
                self.run_ok(f"{tool}_perf", "--comm", "mpi", "-b", "1K", "-e", "64K", "-f", "8", "-n", "3", ranks=3, env=self.env)


class Faults(Gpu):
    def test_corrupt_collective(self):
        result, doc = self.run_ok("all_reduce_perf", "-b", "1M", "-e", "1M", "--inject", "corrupt:rank=0", code=4)
        self.assertEqual(doc["exit_code"], 4)
        self.assert_says(result, "expected", "got")

    def test_corrupt_product(self):
        for dtype in ("bf16", "fp8", "fp16", "tf32", "fp32", "fp64", "int8"):
            with self.subTest(dtype):
                self.run_ok("gemm_perf", "-b", "512", "-e", "512", "-d", dtype, "--rest", "0", "-n", "4", "--inject", "corrupt:rank=0", code=4)

    def test_slow_rank(self):
        env = {"CUDA_VISIBLE_DEVICES": "0"} if tt.gpus() > 1 else {}
        result, _ = self.run_ok("all_reduce_perf", "--comm", "mpi", "-b", "4M", "-e", "4M", "--inject", "slow:rank=1,factor=3", ranks=2, env=env)
        self.assert_says(result, "rank 1")

    def test_hang(self):
        result, doc = self.run_ok("all_reduce_perf", "-b", "1M", "-e", "1M", "--inject", "hang:rank=0", "-T", "10", code=5)
        self.assertLess(result.seconds, 20)
        self.assertEqual(doc["exit_code"], 5)


class Products(Gpu):
    def test_every_type_is_right(self):
        for dtype in ("bf16", "fp16", "tf32", "fp32", "fp64", "int8", "fp8"):
            for shape in ("512,512,512", "1024,256,4096", "256,128,272"):
                with self.subTest(f"{dtype} {shape}"):
                    _, doc = self.run_ok("gemm_perf", "--shapes", shape, "-d", dtype, "--rest", "0", "-n", "4")
                    for row in doc["rows"]:
                        self.assertEqual(row["verification"]["wrong"], 0)
                        self.assertGreater(row["verification"]["checked"], 0)

    def test_block_scaled_types_are_refused_before_blackwell(self):
        result, doc = self.run_ok("gemm_perf", "-b", "512", "-e", "512", "-d", "bf16", "--rest", "0")
        if "H100" not in doc["ranks"][0]["device"]["name"] and "H200" not in doc["ranks"][0]["device"]["name"]:
            raise unittest.SkipTest("not a Hopper GPU")
        for dtype in ("mxfp8", "nvfp4"):
            result = tt.run("gemm_perf", "-b", "512", "-e", "512", "-d", dtype, "--rest", "0")
            self.assert_rc(result, 77)

    def test_large_result_is_verified_to_the_end(self):
        """C15: a result of 8 GiB and more."""
        _, doc = self.run_ok("gemm_perf", "--shapes", "65536,65536,8", "-d", "bf16", "-n", "2", "--rest", "0")
        self.assertEqual(doc["rows"][0]["verification"]["wrong"], 0)

    def test_fp8_against_bf16_is_reported_not_gated(self):
        """C17: FP8 may be the slower one at a small size."""
        result, doc = self.run_ok("gemm_perf", "-b", "1024", "-e", "8192", "-f", "8", "-d", "bf16,fp8", "--rest", "0.2")
        self.assert_says(result, "fp8/bf16")

    def test_telemetry_is_attached(self):
        _, doc = self.run_ok("gemm_perf", "-b", "8192", "-e", "8192", "-d", "bf16", "--rest", "0", "--duration", "3", "--telemetry-interval", "20")
        seen = doc["rows"][0]["telemetry"]
        self.assertTrue(seen)


class Large(Gpu):
    def test_four_gib_and_one_element(self):
        _, doc = self.run_ok("all_reduce_perf", "-b", "4294967300", "-e", "4294967300", "-d", "uint8", "-n", "1", "-w", "0")
        self.assertEqual(doc["rows"][0]["size"], 4294967300)
        self.assertEqual(doc["rows"][0]["verification"]["wrong"], 0)


if __name__ == "__main__":
    unittest.main()

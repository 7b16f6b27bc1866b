"""Runs inside jobs of a real two-node Slurm: slurm/campaign.sbatch, srun --mpi=pmix."""
import json
import sys
import time
import unittest

import nodes
import tt

BATCH = tt.ROOT / "slurm/campaign.sbatch"
FOUR_ON_TWO = [(0, "node1", 0, 0), (1, "node1", 1, 0), (2, "node2", 0, 1), (3, "node2", 1, 1)]

# Stands in for an executable: a record with the host of every task.
STUB = r'''#!{python}
import json, os, signal, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "hang" in sys.argv or "deaf" in sys.argv:
    time.sleep(987654)
if os.environ["SLURM_PROCID"] == "0":
    row = dict(key="a", group="a", size=1, main_metric="bw_GBps", metrics=dict(bw_GBps=dict(n=1, median=2)), verdict="pass")
    json.dump(dict(record_version=1, tool="stub_perf", verdict="pass", exit_code=0, reason="", rows=[row], ranks=[],
                   world=dict(ranks=int(os.environ["SLURM_NTASKS"]), nodes=int(os.environ["SLURM_NNODES"]))),
              open(sys.argv[sys.argv.index("--json") + 1], "w"))
sys.exit(4 if "wrong" in sys.argv else 0)
'''


class Slurm(nodes.TestCase):
    slurm = True

    def stub_plan(self, *steps):
        build = self.tmp / "bin"
        build.mkdir()
        (build / "stub_perf").write_text(STUB.replace("{python}", sys.executable))
        (build / "stub_perf").chmod(0o755)
        plan = self.tmp / "plan.toml"
        plan.write_text("".join(f'[[step]]\nid = "{step_id}"\nexecutable = "stub_perf"\nargs = {json.dumps(args)}\n'
                                f"time_limit_s = {limit}\n" for step_id, args, limit in steps))
        return ["--build", build, "--output", self.tmp / "out", plan]

    def sheet(self):
        return tt.record(self.tmp / "out/sheet.json")

    def test_a_campaign_on_two_nodes(self):
        tt.require_exe("all_reduce_perf", "gemm_perf")
        plan = self.tmp / "plan.toml"
        plan.write_text('[defaults]\ntime_limit_s = 100\n'
                        '[[step]]\nid = "T2"\nexecutable = "gemm_perf"\nargs = ["-b", "64", "-e", "64", "-n", "3"]\n'
                        '[[step]]\nid = "T4"\nexecutable = "all_reduce_perf"\nargs = ["-b", "8", "-e", "4K", "-f", "8"]\n')
        rc, output = self.submit("-N2", BATCH, plan, "--build", tt.BUILD, "--device", "host", "--output", self.tmp / "out",
                                 timeout=170)
        self.assertEqual(rc, 0, output)
        sheet = self.sheet()
        self.assertEqual([s["verdict"] for s in sheet["steps"]], ["PASS", "PASS"], output)
        self.assertIn("srun", sheet["launcher"])
        self.assertEqual(sheet["inventory"]["hosts"][0]["names"], ["node1", "node2"])
        record = tt.record(self.tmp / "out/T4-all_reduce_perf/record.json")
        self.assertEqual([(r["rank"], r["host"], r["local_rank"], r["node"]) for r in record["ranks"]], FOUR_ON_TWO)
        world = record["world"]
        self.assertEqual((world["ranks"], world["nodes"], world["launcher"]), (4, 2, "srun"))
        header = (self.tmp / "out/T4-all_reduce_perf/stdout").read_text()
        for rank in record["ranks"]:
            self.assertTrue(any(rank["host"] in line and str(rank["pid"]) in line.split() for line in header.splitlines()), header)

    def test_the_jobs_exit_code_is_the_campaigns(self):
        rc, output = self.submit("-N2", BATCH, *self.stub_plan(("T1", [], 30), ("T2", ["wrong"], 30)))
        self.assertEqual(rc, 4, output)
        self.assertEqual([s["verdict"] for s in self.sheet()["steps"]], ["PASS", "WRONG DATA"])
        world = tt.record(self.tmp / "out/T1-stub_perf/record.json")["world"]
        self.assertEqual(world, {"ranks": 4, "nodes": 2})

    def test_the_time_limit_ends_tasks_on_both_nodes(self):
        for how in ("hang", "deaf"):
            with self.subTest(how):
                for name in ("bin", "out"):
                    tt.shutil.rmtree(self.tmp / name, ignore_errors=True)
                rc, output = self.submit("-N2", BATCH, *self.stub_plan(("T1", [how], 3)))
                self.assertEqual(rc, 5, output)
                self.assertEqual(self.sheet()["steps"][0]["verdict"], "TIMEOUT")
                for node in ("node1", "node2"):
                    self.assertEqual(self.processes_on(node, "stub_perf"), [])

    def test_a_cancelled_job_leaves_valid_sheets(self):
        args = ["-N2", BATCH, *self.stub_plan(("T1", [], 30), ("T2", ["hang"], 100))]
        r = self.on("node1", "sbatch", "--parsable", "--output=job.out", *args)
        self.assert_rc(r, 0)
        job, deadline = r.out.strip(), time.monotonic() + 30 * tt.TIME_SCALE
        while not self.processes_on("node2", "stub_perf") or not (self.tmp / "out/T2-stub_perf/stdout").exists():
            self.assertLess(time.monotonic(), deadline, "the second step did not start")
            time.sleep(0.1)
        self.on("node1", "scancel", "--full", job)
        self.wait_job(job, 30)
        self.assertEqual(self.sheet()["steps"][0]["verdict"], "PASS")
        self.assertEqual(self.sheet()["exit_code"], 3)
        for node in ("node1", "node2"):
            self.assertEqual(self.processes_on(node, "stub_perf"), [])

    def test_one_node_of_the_job(self):
        rc, output = self.submit("-N1", "-w", "node2", BATCH, *self.stub_plan(("T1", [], 30)))
        self.assertEqual(rc, 0, output)
        self.assertEqual(tt.record(self.tmp / "out/T1-stub_perf/record.json")["world"], {"ranks": 2, "nodes": 1})

    def test_tasks_that_mpi_did_not_join_are_refused(self):
        """srun without --mpi=pmix starts N lone ranks, or MPI itself gives up; it never passes."""
        tt.require_exe("all_reduce_perf")
        r = self.on("node1", "srun", "-N2", "--ntasks-per-node=1", "--mpi=none", tt.exe("all_reduce_perf"), "--device", "host",
                    "-b", "8", "-e", "8", "-T", "20")
        self.assertNotEqual(r.rc, 0, r)


if __name__ == "__main__":
    unittest.main()

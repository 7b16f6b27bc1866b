"""Where ranks are bound: inside what they were given, as hwloc's (or a recorded) topology says."""
import os
import unittest
from pathlib import Path

import tt

SMALL = ("-b", "8", "-e", "8", "-n", "2", "--device", "host")
TOPOLOGIES = Path(__file__).resolve().parent / "topologies"


class Pinning(tt.TestCase):
    def setUp(self):
        tt.require_exe("all_reduce_perf")
        self.out = self.tmp / "o.json"

    def ranks_of(self, result):
        self.assert_rc(result, 0)
        return tt.record(self.out)["ranks"]

    def test_part_of_the_cores(self):
        """C10: taskset allows one core, two ranks share it."""
        tt.require_program("taskset", "mpirun")
        last = max(os.sched_getaffinity(0))
        command = ["taskset", "-c", last, *tt.mpirun_command(), "-np", 2, tt.exe("all_reduce_perf"), *SMALL, "--bind", "core",
                   "-J", self.out]
        with tt.Running(command) as running:
            result = running.wait()
        self.assertEqual([r["cpuset"] for r in self.ranks_of(result)], [str(last)] * 2)
        warnings = [line for line in result.lines if "warning" in line]
        self.assertEqual(len(warnings), 1, result)
        self.assertIn("ranks 0 and 1 share a core", warnings[0])

    def test_one_core_each(self):
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 2:
            self.skipTest("needs two CPUs")
        ranks = self.ranks_of(tt.run("all_reduce_perf", *SMALL, "--bind", "core", "-J", self.out, ranks=2))
        self.assertNotEqual(ranks[0]["cpuset"], ranks[1]["cpuset"])

    def test_not_bound(self):
        ranks = self.ranks_of(tt.run("all_reduce_perf", *SMALL, "--bind", "none", "-J", self.out))
        self.assertEqual(ranks[0]["binding"], "none")

    def test_recorded_two_socket_node(self):
        """The ranks of a host without GPUs are dealt out over its sockets."""
        result = tt.run("all_reduce_perf", *SMALL, "-J", self.out, ranks=4,
                        mpi_args=("-x", f"HWLOC_XMLFILE={TOPOLOGIES / 'two-sockets-8-gpus.xml'}"))
        ranks = self.ranks_of(result)
        self.assertEqual([str(r["numa"]) for r in ranks], ["0", "0", "1", "1"])
        self.assertEqual([r["cpuset"] for r in ranks], ["0-7,16-23"] * 2 + ["8-15,24-31"] * 2)
        self.assertEqual({r["nic"] for r in ranks}, {"mlx5_0"})

    def test_bound_for_real_by_a_recorded_topology(self):
        if not {0, 1} <= os.sched_getaffinity(0):
            self.skipTest("needs CPUs 0 and 1")
        result = tt.run("all_reduce_perf", *SMALL, "-J", self.out, ranks=2,
                        mpi_args=("-x", f"HWLOC_XMLFILE={TOPOLOGIES / 'cpus-0-1-as-sockets.xml'}", "-x", "HWLOC_THISSYSTEM=1"))
        self.assertEqual([r["cpuset"] for r in self.ranks_of(result)], ["0", "1"])


if __name__ == "__main__":
    unittest.main()

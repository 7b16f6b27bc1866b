"""How ranks are started and find each other: launchers, -g, usage errors before MPI, what happens when MPI itself fails."""
import unittest

import tt

SMALL = ("-b", "8", "-e", "8", "-n", "2", "--device", "host")


class Launch(tt.TestCase):
    def setUp(self):
        tt.require_exe("all_reduce_perf")

    def test_ranks_of_mpirun(self):
        out = self.tmp / "o.json"
        r = tt.run("all_reduce_perf", *SMALL, "-J", out, ranks=3)
        self.assert_rc(r, 0)
        record = tt.record(out)
        self.assertEqual([(x["rank"], x["local_rank"]) for x in record["ranks"]], [(0, 0), (1, 1), (2, 2)])
        self.assertEqual(record["world"]["ranks"], 3)
        self.assertEqual(record["world"]["nodes"], 1)
        self.assertEqual(record["world"]["launcher"], "mpirun")
        self.assertEqual(len({x["host"] for x in record["ranks"]}), 1)

    def test_g_starts_the_ranks_of_this_node(self):
        tt.require_program("mpirun")
        out = self.tmp / "o.json"
        r = tt.run("all_reduce_perf", *SMALL, "-g", "3", "-J", out,
                   env={"OMPI_ALLOW_RUN_AS_ROOT": None, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": None})
        self.assert_rc(r, 0)
        self.assertEqual(tt.record(out)["world"]["ranks"], 3)

    def test_g_without_mpirun_says_what_to_do(self):
        r = tt.run("all_reduce_perf", *SMALL, "-g", "2", env={"PATH": "/nonexistent"})
        self.assert_rc(r, 3)
        self.assert_says(r, "-g 2", "mpirun")

    def test_g_under_a_launcher_is_a_usage_error(self):
        r = tt.run("all_reduce_perf", *SMALL, "-g", "2", ranks=2)
        self.assert_usage_error(r, "-g 2", "mpirun", "leave -g out")

    def test_usage_error_under_mpirun_is_said_once(self):
        r = tt.run("all_reduce_perf", "--no-such-option", ranks=4)
        self.assert_usage_error(r, "no-such-option")
        self.assertEqual(r.err.count("no-such-option"), 1, r)

    def test_help_version_list_once_and_without_mpi(self):
        for option in ("--help", "--version", "--list"):
            with self.subTest(option):
                alone = tt.run("all_reduce_perf", option, env={"OMPI_MCA_pml": "nonexistent"})
                self.assert_rc(alone, 0)
                self.assertTrue(alone.out.strip(), alone)
                together = tt.run("all_reduce_perf", option, ranks=3)
                self.assert_rc(together, 0)
                self.assertEqual(together.out, alone.out)

    def test_fault_for_a_rank_that_is_not_there(self):
        r = tt.run("all_reduce_perf", *SMALL, "--inject", "hang:rank=7", ranks=2)
        self.assert_rc(r, 2)
        self.assertEqual(r.err.count("error: "), 1, r)

    def test_sixty_four_ranks(self):
        out = self.tmp / "o.json"
        r = tt.run("all_reduce_perf", *SMALL, "-J", out, ranks=64, timeout=170)
        self.assert_rc(r, 0)
        self.assertEqual(tt.record(out)["world"]["ranks"], 64)
        rank_lines = [line for line in r.lines if line.startswith("# rank ")]
        self.assertEqual(len(rank_lines), 64)
        self.assertLess(len(r.lines) - len(rank_lines), 40, r)


class TasksThatDidNotJoin(tt.TestCase):
    """C08: the launcher started several tasks, MPI made a world of one of each."""

    def setUp(self):
        tt.require_exe("all_reduce_perf")

    def test_slurm_step(self):
        out = self.tmp / "o.json"
        r = tt.run("all_reduce_perf", *SMALL, "-J", out,
                   env={"SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": 2, "SLURM_PROCID": 1})
        self.assert_rc(r, 3)
        self.assert_says(r, "2 tasks", "MPI world 1", "srun --mpi=pmix")
        self.assertIn("srun --mpi=pmix", tt.record(out)["reason"])
        self.assertEqual(r.table, [])

    def test_a_batch_script_is_no_step(self):
        job = {"SLURM_JOB_ID": 7, "SLURM_NTASKS": 2, "SLURM_PROCID": 0}
        for step in (None, "batch", "4294967291"):
            with self.subTest(step):
                self.assert_rc(tt.run("all_reduce_perf", *SMALL, env={**job, "SLURM_STEP_ID": step}), 0)

    def test_one_rank_of_mpirun_inside_a_step_is_meant(self):
        r = tt.run("all_reduce_perf", *SMALL, ranks=1,
                   env={"SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": 2, "SLURM_PROCID": 1})
        self.assert_rc(r, 0)


class MpiFails(tt.TestCase):
    def setUp(self):
        tt.require_exe("all_reduce_perf")

    def test_mpi_init_that_ends_the_process_is_an_environment_error(self):
        """Open MPI ends a process whose MPI_Init fails with 1, which is our "a gate fell short"."""
        tt.require_program("ompi_info")
        out = self.tmp / "o.json"
        r = tt.run("all_reduce_perf", *SMALL, "-J", out, env={"OMPI_MCA_pml": "nonexistent"})
        self.assert_rc(r, 3)
        self.assertIn("MPI_Init", tt.record(out)["reason"])


class EarlyErrors(tt.TestCase):
    """C04: an error before anything is measured has the same code with and without a record, and the record says why."""

    def setUp(self):
        tt.require_exe("all_reduce_perf")

    def test_no_gpu(self):
        if tt.gpus():
            self.skipTest("this machine has a GPU")
        for ranks in (None, 2):
            with self.subTest(ranks):
                out = self.tmp / f"{ranks}.json"
                without = tt.run("all_reduce_perf", "-b", "8", "-e", "8", "--device", "cuda", ranks=ranks)
                given = tt.run("all_reduce_perf", "-b", "8", "-e", "8", "--device", "cuda", "-J", out, ranks=ranks)
                self.assert_rc(without, 3)
                self.assert_rc(given, 3)
                self.assertEqual(given.err.count("error: "), 1, given)
                record = tt.record(out)
                self.assertEqual(record["exit_code"], 3)
                self.assertIn("--device cuda", record["reason"])
        self.assertEqual(tt.files_in(self.tmp), ["2.json", "None.json"])

    def test_a_record_that_cannot_be_written(self):
        r = tt.run("all_reduce_perf", *SMALL, "-J", self.tmp / "no" / "such" / "o.json", ranks=2)
        self.assert_rc(r, 3)
        self.assert_says(r, "no/such/o.json")


if __name__ == "__main__":
    unittest.main()

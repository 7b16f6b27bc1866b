"""Options as users type them, on every executable that is built: exit 2 and one line, or help."""
import unittest

import tt

TOOLS = ("gemm_perf", "coll_perf", "all_reduce_perf", "node_check")
SWEEPS = ("gemm_perf", "all_reduce_perf")
BAD_SIZES = ("-8", "", "12junk", "4KB", "8Q", "17179869185G")


class EveryTool(tt.TestCase):
    def tools(self, names=TOOLS):
        """Those that are built; each in a subtest."""
        built = [name for name in names if (tt.BUILD / name).exists()]
        if not built:
            self.skipTest(f"none of {', '.join(names)} is built")
        return built

    def test_what_is_no_option_of_any(self):
        for tool in self.tools():
            for args, texts in ((["--bogus"], ["--bogus", "--help"]),
                                (["--devise", "host"], ["--devise", "--device"]),
                                (["stray"], ["stray"]),
                                (["--device", "gpu"], ["--device", "gpu", "auto, cuda, host"]),
                                (["--bind", "socket"], ["--bind", "socket", "numa, core, none"]),
                                (["--timeout", "-1"], ["--timeout", "-1"]),
                                (["-T", "soon"], ["-T", "soon"]),
                                (["--min-ratio", "nan"], ["--min-ratio", "nan"]),
                                (["--seed"], ["--seed", "needs a value"]),
                                (["--seed", "1", "--seed", "1"], ["--seed", "2 times"]),
                                (["--json", "--prom", "x"], ["--json", "--prom"]),
                                (["--inject", "slow:rank=x"], ["--inject", "slow:rank=x"])):
                with self.subTest(tool=tool, args=args):
                    r = tt.run(tool, *args)
                    self.assert_usage_error(r, *texts)
                    self.assertEqual(len(r.err.splitlines()), 1, r)

    def test_help_and_version(self):
        for tool in self.tools():
            with self.subTest(tool=tool):
                r = tt.run(tool, "--help")
                self.assert_rc(r, 0)
                self.assert_says(r, "Usage:", "--device auto|cuda|host", "-J, --json FILE", "--version", "--list")
                self.assertEqual(r.err, "")
                self.assertLessEqual(max(map(len, r.lines)), 100)
                r = tt.run(tool, "--version")
                self.assert_rc(r, 0)
                self.assertIn((tt.ROOT / "VERSION").read_text().strip(), r.out)

    def test_bad_sizes(self):
        for tool in self.tools(SWEEPS):
            for option in ("-b", "-e", "-i"):
                for size in BAD_SIZES:
                    with self.subTest(tool=tool, option=option, size=size):
                        r = tt.run(tool, option, size)
                        self.assert_usage_error(r, option, f'"{size}"')
                        self.assertLess(r.seconds, 10 * tt.TIME_SCALE)

    def test_sweeps_that_cannot_be(self):
        for tool in self.tools(SWEEPS):
            for args, texts in ((["-b", "2K", "-e", "1K"], ["-b", "2K", "-e", "1K"]), (["-i", "0"], ["-i", '"0"']),
                                (["-f", "1"], ["-f", '"1"']), (["-n", "0"], ["-n", '"0"']), (["-w", "-1"], ["-w", '"-1"'])):
                with self.subTest(tool=tool, args=args):
                    self.assert_usage_error(tt.run(tool, *args), *texts)

    def test_unknown_types(self):
        for tool in self.tools(SWEEPS):
            with self.subTest(tool=tool):
                self.assert_usage_error(tt.run(tool, "-d", "fp17"), "-d", '"fp17"', "accepted")

    def test_the_record_of_a_usage_error_names_the_cause(self):
        for tool in self.tools(SWEEPS):
            with self.subTest(tool=tool):
                out = self.tmp / f"{tool}.json"
                self.assert_usage_error(tt.run(tool, "-b", "12junk", "-J", out), "12junk")
                record = tt.record(out)
                self.assertEqual((record["exit_code"], record["verdict"]), (2, "usage"))
                self.assertIn('"12junk"', record["reason"])
        self.assertTrue(all(name.endswith(".json") for name in tt.files_in(self.tmp)))

    def test_several_ranks_complain_once_and_end_with_2(self):
        for tool in self.tools(SWEEPS):
            with self.subTest(tool=tool):
                r = tt.run(tool, "-b", "12junk", ranks=2)
                self.assert_rc(r, 2)
                self.assertEqual(sum('"12junk"' in line for line in r.err.splitlines()), 1, r)


class Sizes(tt.TestCase):
    def setUp(self):
        tt.require_exe("all_reduce_perf")

    def sizes(self, *args):
        r = tt.run("all_reduce_perf", *args, "-n", "1", "-w", "0", ranks=2)
        self.assert_rc(r, 0)
        return [int(row[0]) for row in r.table]

    def test_the_step_has_a_suffix(self):
        self.assertEqual(self.sizes("-b", "64K", "-e", "70K", "-i", "2K", "-d", "uint8"), [65536, 67584, 69632, 71680])

    def test_the_factor(self):
        self.assertEqual(self.sizes("-b", "8", "-e", "65", "-f", "2"), [8, 16, 32, 64])


if __name__ == "__main__":
    unittest.main()

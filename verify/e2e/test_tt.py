"""The helpers that all command-line tests stand on: they must fail when they should."""
import os
import sys
import time
import unittest

import tt

SHELL = "/bin/sh"


class Runs(tt.TestCase):
    def test_output_code_and_environment(self):
        r = tt.run(SHELL, "-c", "echo out $A; echo err >&2; exit 7", env={"A": "b"})
        self.assertEqual((r.rc, r.out, r.err, r.timed_out), (7, "out b\n", "err\n", False))

    def test_a_launchers_variables_are_not_inherited(self):
        os.environ["SLURM_PROCID"] = "3"
        self.addCleanup(os.environ.pop, "SLURM_PROCID")
        self.assertEqual(tt.run(SHELL, "-c", "echo $SLURM_PROCID").out, "\n")
        self.assertEqual(tt.run(SHELL, "-c", "echo $SLURM_PROCID", env={"SLURM_PROCID": 1}).out, "1\n")

    def test_a_signal_is_told_apart_from_a_code(self):
        self.assertEqual(tt.run(SHELL, "-c", "kill -9 $$").rc, -9)

    def test_the_time_limit_kills_everything(self):
        # A child in a session of its own, whose parent is gone: the hardest to find.
        with tt.start(SHELL, "-c", "(setsid sleep 1000 &) ; sleep 1000") as running:
            running.until(lambda r: sum("sleep" in c for c in r.processes().values()) >= 2)
            r = running.wait(timeout=0.2)
            self.assertTrue(r.timed_out)
            self.assertEqual(running.processes(), {})

    def test_an_orphan_is_reported_and_killed(self):
        r = tt.run(SHELL, "-c", "setsid sleep 1000 & exit 0")
        self.assertEqual(r.rc, 0)
        self.assertIn("sleep 1000", "".join(r.leftovers.values()))
        self.assertLess(r.seconds, 20)

    def test_wrong_codes_and_missing_text_fail(self):
        r = tt.run(SHELL, "-c", "echo option -b >&2; exit 2")
        self.assert_usage_error(r, "-b")
        self.assertRaises(AssertionError, self.assert_rc, r, 0)
        self.assertRaises(AssertionError, self.assert_says, r, "-e")
        self.assertRaises(AssertionError, self.assert_usage_error, r, "-e")

    def test_an_executable_that_is_not_there_skips(self):
        self.assertRaises(unittest.SkipTest, tt.require_exe, "no_such_perf")

    def test_ranks(self):
        r = tt.run(sys.executable, "-c", "import os; print(os.environ['OMPI_COMM_WORLD_RANK'])", ranks=3)
        self.assert_rc(r, 0)
        self.assertEqual(sorted(r.lines), ["0", "1", "2"])

    def test_ranks_can_be_found(self):
        with tt.start("/bin/sleep", "1000", ranks=2) as running:
            ranks = running.until(lambda r: len(r.ranks("sleep")) == 2 and r.ranks("sleep"))
            os.kill(ranks[1], 9)
            self.assertNotEqual(running.wait(30).rc, 0)


class Json(tt.TestCase):
    def test_strictness(self):
        self.assertEqual(tt.strict_json('{"a": [1, 2.5, null]}'), {"a": [1, 2.5, None]})
        for bad in ("NaN", "[Infinity]", "-Infinity", "1e999", '{"a": 1, "a": 2}', "", "[1,]", "{} x"):
            with self.subTest(bad):
                self.assertRaises(ValueError, tt.strict_json, bad)

    def test_a_broken_record_names_its_file(self):
        (self.tmp / "r.json").write_text('{"a": NaN}')
        with self.assertRaisesRegex(AssertionError, "r.json.*NaN"):
            tt.record(self.tmp / "r.json")


# Stands in for the Catch2 binary: its test cases hang, die or fail when their names say so.
UNIT = """
import os, sys, time
cases = CASES
if sys.argv[1].startswith("--list"):
    print("\\n".join(cases))
    sys.exit()
out = open(sys.argv[sys.argv.index("-o") + 1], "w", buffering=1)
wanted = [line.strip().strip('"') for line in open(sys.argv[sys.argv.index("-f") + 1])]
out.write("<Catch>")
for case in cases:
    if case not in wanted:
        continue
    out.write(f'<TestCase name="{case}">')
    out.flush()
    if "hangs" in case: time.sleep(1000)
    if "dies" in case: os.kill(os.getpid(), 11)
    if "leaves" in case: os._exit(0)
    if "skips" in case: out.write("<Warning>SKIP: no GPU</Warning>")
    if "breaks" in case: out.write("\\x01<")
    good = str("fails" not in case).lower()
    out.write(f'<OverallResult success="{good}" durationInSeconds="0.5"/></TestCase>')
out.write("</Catch>")
out.close()
sys.exit(any("fails" in c for c in wanted))
"""


class Runner(tt.TestCase):
    """verify/run itself, on modules made for the purpose."""

    def verify(self, text, *args, limit=3, cases=("a case",)):
        folder = self.tmp / "verify"
        (folder / "e2e").mkdir(parents=True)
        (folder / "run").write_bytes((tt.ROOT / "verify/run").read_bytes())
        (folder / "e2e/tt.py").write_bytes((tt.ROOT / "verify/e2e/tt.py").read_bytes())
        if text is not None:
            (folder / "e2e/test_made.py").write_text("import os, time, unittest\n" + text)
        build = self.tmp / "build"
        build.mkdir()
        (build / "unit").write_text(f"#!{sys.executable}\n{UNIT.replace('CASES', repr(cases))}")
        (build / "unit").chmod(0o755)
        return tt.run(sys.executable, folder / "run", "--build", build, "--limit", limit, *args, timeout=100,
                      env={"BUILD": None, "TT_TIME_SCALE": 1})

    def test_counts(self):
        r = self.verify("class T(unittest.TestCase):\n"
                        "  def test_good(self): pass\n"
                        "  def test_bad(self): self.assertEqual(1, 2, 'the reason')\n"
                        "  def test_sub(self):\n"
                        "    for i in range(3):\n"
                        "      with self.subTest(i=i): self.assertEqual(i, 1)\n"
                        "  def test_skip(self): self.skipTest('no hardware')\n")
        self.assertEqual(r.lines[-1], "2 passed, 2 failed, 1 skipped")
        self.assertEqual(r.rc, 1)
        self.assert_says(r, "the reason", "test_made.T.test_skip: no hardware", "(i=0)", "(i=2)")

    def test_good(self):
        r = self.verify("class T(unittest.TestCase):\n  def test_good(self): pass\n")
        self.assertEqual((r.rc, r.lines[-1]), (0, "2 passed, 0 failed, 0 skipped"))

    def test_a_hanging_or_dying_test_does_not_stop_the_rest(self):
        began = time.monotonic()
        r = self.verify("class T(unittest.TestCase):\n"
                        "  def test_a(self): pass\n"
                        "  def test_b_hangs(self): time.sleep(1000)\n"
                        "  def test_c_dies(self): os._exit(0)\n"
                        "  def test_d(self): pass\n")
        self.assertEqual((r.rc, r.lines[-1]), (1, "3 passed, 2 failed, 0 skipped"))
        self.assert_says(r, "test_made.T.test_b_hangs", "took longer than 3 s", "test_made.T.test_c_dies")
        self.assertLess(time.monotonic() - began, 60)

    def test_what_cannot_be_imported_or_set_up_fails(self):
        r = self.verify("class T(unittest.TestCase):\n"
                        "  @classmethod\n  def setUpClass(cls): raise RuntimeError('no ground')\n"
                        "  def test_a(self): pass\n")
        self.assertEqual((r.rc, r.lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assert_says(r, "no ground")

    def test_broken_module(self):
        r = self.verify("import no_such_module\n")
        self.assertEqual((r.rc, r.lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assert_says(r, "no_such_module")

    def test_a_skipped_class_is_counted(self):
        r = self.verify("class T(unittest.TestCase):\n"
                        "  @classmethod\n  def setUpClass(cls): raise unittest.SkipTest('nothing here')\n"
                        "  def test_a(self): pass\n"
                        "@unittest.skip('not now')\nclass U(unittest.TestCase):\n"
                        "  def test_a(self): pass\n")
        self.assertEqual((r.rc, r.lines[-1]), (0, "1 passed, 0 failed, 2 skipped"))
        self.assert_says(r, "nothing here", "not now")

    def test_unit_cases_that_hang_or_die_do_not_stop_the_rest(self):
        r = self.verify(None, cases=("a", "b fails", "c hangs", "d dies", "e skips", "f leaves", "g", "h breaks", "i"))
        self.assertEqual((r.rc, r.lines[-1]), (1, "3 passed, 5 failed, 1 skipped"))
        self.assert_says(r, "unit: c hangs\n    | took longer than 3 s", "unit: d dies\n    | ended with -11",
                         "unit: f leaves\n    | ended with 0", "unit: e skips: no GPU", "unit: h breaks")

    def test_a_missing_unit_binary_is_a_failure(self):
        r = tt.run(sys.executable, tt.ROOT / "verify/run", "--build", self.tmp, "--only", "unit:")
        self.assertEqual((r.rc, r.lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_nothing_ran_is_a_failure(self):
        r = self.verify(None, "--only", "no such test")
        self.assertEqual((r.rc, r.lines[-1]), (1, "0 passed, 0 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()

"""Two ranks of every executable under valgrind: no error whose culprit is code of ours.

An error is ours when the first frame of its stack that is not the C or C++ library lies in an object of the build. MPI's and
the BLAS's own findings are not judged here: nobody can mend them in this project.
"""
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import tt

LIBRARY_NAMES = ("libc.so", "libc-", "libm.so", "libstdc++", "ld-linux", "libpthread", "libgcc", "libgomp", "vgpreload")

# Executable -> arguments of a run that is small but goes through all phases, verification included.
SMALL_RUNS = {
    "coll_perf": ["--coll", "all_reduce,alltoall,reduce_scatter", "-b", "8", "-e", "1K", "-f", "128", "-n", "2", "-d", "float,bfloat16"],
    "gemm_perf": ["-b", "33", "-e", "33", "-n", "2", "-d", "fp32"],
    "node_check": [],
}


def is_library(obj):
    return any(name in Path(obj).name for name in LIBRARY_NAMES)


def ours(error):
    """The text of this error's culprit frame, if that is code of the build."""
    for stack in error.findall("stack"):
        for frame in stack.findall("frame"):
            obj = frame.findtext("obj", "")
            if not obj or is_library(obj):
                continue
            if Path(obj).resolve().is_relative_to(tt.BUILD):
                return f"{error.findtext('kind')}: {frame.findtext('fn')} ({frame.findtext('file')}:{frame.findtext('line')})"
            break
    return None


class Valgrind(tt.TestCase):
    def check(self, name, *arguments):
        tt.require_exe(name)
        tt.require_program("valgrind", "mpirun")
        if (tt.BUILD / "config.mk").exists() and b"asan" in Path(tt.exe(name)).read_bytes()[:1 << 22]:
            raise unittest.SkipTest("valgrind and AddressSanitizer exclude each other; this build has the latter")
        record = self.tmp / "record.json"
        command = ["valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite", "--xml=yes",
                   f"--xml-file={self.tmp}/%p.xml", "--child-silent-after-fork=yes",
                   tt.exe(name), "--device", "host", *arguments, "--timeout", "240", "-J", str(record)]
        result = tt.run("/usr/bin/env", *command, ranks=2, timeout=280, env={"OMP_NUM_THREADS": "2"})
        self.assert_rc(result, 0)
        tt.record(record)
        reports = [p for p in sorted(self.tmp.glob("*.xml"))]
        self.assertGreaterEqual(len(reports), 2, f"a report of each rank expected:\n{result}")
        found = set()
        for report in reports:
            for error in ElementTree.parse(report).iter("error"):
                culprit = ours(error)
                if culprit:
                    found.add(culprit)
        self.assertFalse(found, "\n".join(sorted(found)))

    def test_coll_perf(self):
        self.check("coll_perf", *SMALL_RUNS["coll_perf"])

    def test_gemm_perf(self):
        self.check("gemm_perf", *SMALL_RUNS["gemm_perf"])

    def test_node_check(self):
        self.check("node_check", *SMALL_RUNS["node_check"])

    def test_every_executable_is_here(self):
        """A new executable must be added to SMALL_RUNS."""
        names = {p.stem for p in (tt.ROOT / "bench").glob("*.cpp")}
        self.assertEqual(names, set(SMALL_RUNS))


if __name__ == "__main__":
    unittest.main()

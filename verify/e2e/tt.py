"""Helpers of all command-line tests: run an executable of the build as a user would, look at what came out.

    import unittest
    import tt

    class Sizes(tt.TestCase):
        def setUp(self):
            tt.require_exe("coll_perf")

        def test_two_ranks(self):
            out = self.tmp / "out.json"
            r = tt.run("all_reduce_perf", "-b", "8", "-e", "64", "-J", out, ranks=2)
            self.assert_rc(r, 0)
            rows = tt.record(out)["rows"]

    if __name__ == "__main__":
        unittest.main()

BUILD (environment) names the folder of the executables, by default build/ of this checkout. `tt.start()` gives a run
that is still going on, for tests that send signals to ranks. Every process that a run starts carries a mark in its
environment and is killed by it when the run is over, whatever session or parent it has by then.
TT_TIME_SCALE stretches all time limits (sanitizer builds, slow machines).
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", ROOT / "build")).resolve()
TIME_SCALE = float(os.environ.get("TT_TIME_SCALE", "1"))

# A launcher's variables around the tests would be taken for a launch of the tested executable.
LAUNCHER_PREFIXES = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "PRTE_", "HYDRA_", "MPI_LOCAL")


# ---- what the machine and the build offer ----

def exe(name):
    """The path of an executable: of the build, or as given when there is a slash in the name."""
    name = str(name)
    return name if "/" in name else str(BUILD / name)


def require_exe(*names):
    """Skips the test when one of these executables is not built."""
    for name in names:
        if not os.access(exe(name), os.X_OK):
            raise unittest.SkipTest(f"{name} is not built in {BUILD.name}/")


def require_program(*names):
    """Skips the test when one of these programs is not on PATH."""
    for name in names:
        if not shutil.which(name):
            raise unittest.SkipTest(f"there is no {name} on this machine")


@lru_cache(maxsize=None)
def gpus():
    """How many GPUs this machine has, by their device files."""
    return len([p for p in Path("/dev").glob("nvidia[0-9]*")])


def require_gpus(count=1):
    if gpus() < count:
        raise unittest.SkipTest(f"needs {count} GPU(s), this machine has {gpus()}")


@lru_cache(maxsize=None)
def mpirun_command():
    """mpirun and the flags that let any number of ranks run on a small machine."""
    if not shutil.which("mpirun"):
        return None
    version = subprocess.run(["mpirun", "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if any(word in version.stdout for word in ("Open MPI", "OpenRTE", "PRRTE", "prte")):
        return ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    return ["mpirun"]


def environment(changes=None):
    """This process's environment without a launcher's variables, then `changes` (a value of None removes the name)."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_PREFIXES)}
    env.update(LC_ALL="C", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if not (shutil.which("ssh") or shutil.which("rsh")):
        env["OMPI_MCA_plm_rsh_agent"] = "false"  # Open MPI 4 refuses to start even local ranks when it finds no remote shell
    for name, value in (changes or {}).items():
        env.pop(name, None)
        if value is not None:
            env[name] = str(value)
    return env


# ---- processes ----

def processes_with(name, value):
    """{pid: command line} of the live processes that have name=value in their environment."""
    found, wanted = {}, f"{name}={value}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted not in (entry / "environ").read_bytes().split(b"\0"):
                continue
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                continue
            found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except (OSError, IndexError):
            continue  # ended meanwhile, or not ours to read
    return found


def kill_with(name, value):
    """Kills them all, until none is left (a process may be forking while we look)."""
    for _ in range(50):
        pids = [pid for pid in processes_with(name, value) if pid != os.getpid()]
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)


class Result:
    """What came of a run. rc: exit status, -N when signal N ended it. timed_out: killed by the time limit given to run().
    seconds: from start to end. leftovers: {pid: command} that still lived 1 s after the end and were killed."""

    def __init__(self, command, rc, out, err, seconds, timed_out, leftovers):
        self.command, self.rc, self.out, self.err = command, rc, out, err
        self.seconds, self.timed_out, self.leftovers = seconds, timed_out, leftovers

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def table(self):
        """The cells of every line of standard output that is neither empty nor a # line."""
        return [line.split() for line in self.lines if line.strip() and not line.lstrip().startswith("#")]

    def __str__(self):
        ended = f"killed after {self.seconds:.1f} s" if self.timed_out else f"ended with {self.rc} after {self.seconds:.1f} s"
        return (f"$ {' '.join(self.command)}\n{ended}\n--- stdout\n{clip(self.out)}\n--- stderr\n{clip(self.err)}"
                + (f"\n--- left over: {self.leftovers}" if self.leftovers else ""))


def clip(text, limit=6000):
    return text if len(text) <= limit else f"{text[:limit // 2]}\n[... {len(text) - limit} characters ...]\n{text[-limit // 2:]}"


class Running:
    """A run that is going on. Use as a context manager, or call wait() or stop()."""

    def __init__(self, command, env=None, cwd=None):
        self.command, self.mark = [str(c) for c in command], uuid.uuid4().hex
        # Files, not pipes: an orphan that keeps a pipe open must not keep us waiting.
        self._out, self._err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.started = time.monotonic()
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err,
                                        env={**environment(env), "TT_RUN_MARK": self.mark}, cwd=cwd, start_new_session=True)

    def processes(self):
        """{pid: command line} of all live processes of this run, mpirun and its helpers among them."""
        return processes_with("TT_RUN_MARK", self.mark)

    def ranks(self, program=None):
        """{rank: pid} of the processes that have a rank from the launcher."""
        found = {}
        for pid, command in self.processes().items():
            try:
                names = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for name in names:
                if name.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")) and (program is None or program in command):
                    found[int(name.partition(b"=")[2])] = pid
        return found

    def text(self):
        """(stdout, stderr) so far."""
        return tuple(os.pread(f.fileno(), 1 << 30, 0).decode(errors="replace") for f in (self._out, self._err))

    def until(self, condition, timeout=30, what="the awaited state"):
        """Waits until condition(self) is true and returns its value; AssertionError when the run ends or time is up."""
        deadline = time.monotonic() + timeout * TIME_SCALE
        while True:
            value = condition(self)
            if value:
                return value
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come about:\n{self.stop()}")
            time.sleep(0.05)

    def wait(self, timeout=60):
        """Waits for the end, kills all at the time limit, returns the Result."""
        timed_out = False
        try:
            self.process.wait(max(0.01, timeout * TIME_SCALE - (time.monotonic() - self.started)))
        except subprocess.TimeoutExpired:
            timed_out = True
        seconds = time.monotonic() - self.started
        return self._end(seconds, timed_out)

    def stop(self):
        """Kills what still runs and returns the Result."""
        running = self.process.poll() is None
        return self._end(time.monotonic() - self.started, running)

    def _end(self, seconds, timed_out):
        leftovers = {}
        if not timed_out:
            deadline = time.monotonic() + 1
            leftovers = self.processes()
            while leftovers and time.monotonic() < deadline:
                time.sleep(0.05)
                leftovers = self.processes()
        if timed_out or leftovers:
            kill_with("TT_RUN_MARK", self.mark)
            if self.process.poll() is None:
                self.process.kill()
        rc = self.process.wait()
        out, err = self.text()
        return Result(self.command, rc, out, err, seconds, timed_out, leftovers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._out.close()
        self._err.close()


def command_of(args, ranks=None, mpi_args=()):
    command = [exe(args[0]), *map(str, args[1:])]
    if ranks is None:
        return command
    if mpirun_command() is None:
        raise unittest.SkipTest("there is no mpirun on this machine")
    return [*mpirun_command(), *map(str, mpi_args), "-np", str(ranks), *command]


def start(*args, ranks=None, env=None, cwd=None, mpi_args=()):
    """Starts an executable of the build, with `ranks` under mpirun, and returns the Running."""
    return Running(command_of(args, ranks, mpi_args), env=env, cwd=cwd)


def run(*args, ranks=None, env=None, timeout=60, cwd=None, mpi_args=()):
    """Runs an executable of the build to its end, with `ranks` under mpirun, and returns the Result. `env` is added to the
    environment (None removes a name). After `timeout` seconds everything it started is killed (timed_out)."""
    with start(*args, ranks=ranks, env=env, cwd=cwd, mpi_args=mpi_args) as running:
        return running.wait(timeout)


# ---- what came out ----

def strict_json(text):
    """Parses JSON as the standard has it: no NaN or Infinity, no number beyond a double, no name twice in an object."""
    def no_constant(name):
        raise ValueError(f"{name} is not JSON")

    def finite(digits):
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise ValueError(f"{digits} does not fit a double")
        return value

    def no_twins(pairs):
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"the name {name!r} occurs more than once in one object")
        return dict(pairs)

    return json.loads(text, parse_constant=no_constant, parse_float=finite, object_pairs_hook=no_twins)


def record(path):
    """The record at `path`, parsed strictly; AssertionError saying what is wrong with it."""
    path = Path(path)
    try:
        return strict_json(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError) as problem:
        raise AssertionError(f"{path.name} is not a record: {problem}") from None


def files_in(folder):
    """Names of everything in a folder, sorted: temporary files that were left behind show up here."""
    return sorted(p.name for p in Path(folder).iterdir())


class TestCase(unittest.TestCase):
    """unittest's, with a temporary folder `tmp` of each test's own, and messages that hold the whole run."""

    @property
    def tmp(self):
        if not hasattr(self, "_tmp"):
            self._tmp = Path(tempfile.mkdtemp(prefix="tt-"))
            self.addCleanup(shutil.rmtree, self._tmp, ignore_errors=True)
        return self._tmp

    def assert_rc(self, result, code):
        if result.timed_out or result.rc != code:
            self.fail(f"exit code {code} expected:\n{result}")

    def assert_says(self, result, *texts):
        """Each text occurs in standard output or standard error."""
        both = result.out + "\n" + result.err
        for text in texts:
            if text not in both:
                self.fail(f"{text!r} expected in the output:\n{result}")

    def assert_usage_error(self, result, *texts):
        """Exit 2, one line on standard error that holds all texts, and nothing measured."""
        self.assert_rc(result, 2)
        lines = [line for line in result.err.splitlines() if line.strip()]
        if not any(all(text in line for text in texts) for line in lines):
            self.fail(f"one line with all of {texts} expected:\n{result}")
        if result.table:
            self.fail(f"no rows expected after a usage error:\n{result}")

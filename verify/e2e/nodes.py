"""Several hosts on one machine for tests: cluster/nodes.sh (network namespaces) and cluster/slurm.sh (a real Slurm on them).

    class Hosts(nodes.TestCase):           # two nodes for all tests of the class; skipped where the machine can't
        slurm = True                       # with Slurm on them
        def test(self):
            r = self.on("node1", "mpirun", "-np", "4", "-H", "node1:2,node2:2", ...)
"""
import os
import shutil
import subprocess
import time
import unittest
from pathlib import Path

import tt

SCRIPTS = tt.ROOT / "verify/e2e/cluster"
# What it takes, beside root: program -> Debian package.
PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "sshd": "openssh-server", "ssh": "openssh-client",
            "nft": "nftables"}
SLURM_PROGRAMS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "srun": "slurm-client", "munged": "munge"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Cluster:
    """Two nodes, made anew; `down()` leaves nothing behind."""

    def __init__(self, name, slurm=False):
        missing = why_not(slurm)
        if missing:
            raise unittest.SkipTest(f"no cluster of network namespaces here: {missing}")
        self.folder, self.slurm = tt.BUILD / f"cluster-{name}", slurm
        self._script("nodes.sh", "down")  # what a test that was killed may have left
        up = self._script("slurm.sh" if slurm else "nodes.sh", "up")
        if up.returncode:
            self.down()
            text = (up.stdout + up.stderr).strip()
            if "namespaces allowed" in text or "Operation not permitted" in text:
                raise unittest.SkipTest(f"no cluster of network namespaces here: {text}")
            raise RuntimeError(f"the cluster did not come up: {text}")

    def _script(self, script, *args, timeout=120):
        # Not by tt.run: it would kill the nodes as left over.
        return subprocess.run([SCRIPTS / script, *args], env={**tt.environment(), "CLUSTER_DIR": str(self.folder)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)

    def command(self, node, *args):
        return [SCRIPTS / "nodes.sh", "exec", node, *args]

    def fault(self, *args):
        done = self._script("nodes.sh", "fault", *args)
        if done.returncode:
            raise RuntimeError(f"fault {' '.join(args)}: {done.stderr}")

    def down(self):
        self._script("nodes.sh", "down")
        if self.folder.exists():
            shutil.rmtree(self.folder, ignore_errors=True)


def why_not(slurm):
    """Why this machine can have no cluster; empty if it can."""
    if os.geteuid() != 0:
        return "not root"
    wanted = {**PROGRAMS, **(SLURM_PROGRAMS if slurm else {})}
    missing = sorted({package for program, package in wanted.items() if not shutil.which(program, path=PATH)})
    if missing:
        return f"not installed: {', '.join(missing)}"
    folder = str(tt.BUILD)
    if any(c.isspace() for c in folder) or folder.startswith(("/run/", "/dev/", "/proc/", "/sys/")):
        return f"the build folder {folder} can't be shared by the nodes"
    return ""


class TestCase(tt.TestCase):
    slurm = False
    cluster = None

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(cls.__name__.lower(), cls.slurm)
        cls.addClassCleanup(cls.cluster.down)

    @property
    def env(self):
        return {"CLUSTER_DIR": self.cluster.folder}

    def on(self, node, *args, timeout=60, cwd=None, env=None):
        """Runs a command on a node."""
        return tt.run(*self.cluster.command(node, *args), env={**self.env, **(env or {})}, timeout=timeout, cwd=cwd or self.tmp)

    def processes_on(self, node, *words):
        """Command lines of a node's processes that hold one of the words."""
        script = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null"
        lines = self.on(node, "bash", "-c", script).lines
        return [line for line in lines if any(word in line for word in words)]

    def submit(self, *args, timeout=120, cwd=None, env=None):
        """sbatch, then waits for the job's end. Returns (exit code, the job's output)."""
        cwd = cwd or self.tmp
        r = self.on("node1", "sbatch", "--parsable", "--output=job.out", *args, cwd=cwd, env=env)
        self.assert_rc(r, 0)
        job = r.out.strip().split(";")[0]
        return self.wait_job(job, timeout), Path(cwd, "job.out").read_text(errors="replace")

    def wait_job(self, job, timeout=120):
        deadline = time.monotonic() + timeout * tt.TIME_SCALE
        while True:
            text = self.on("node1", "scontrol", "show", "job", "-o", job).out
            fields = dict(word.split("=", 1) for word in text.split() if "=" in word)
            if fields.get("JobState") not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", None):
                return int(fields["ExitCode"].split(":")[0])
            if time.monotonic() > deadline:
                self.on("node1", "scancel", "--full", job)
                self.fail(f"job {job} did not end:\n{text}")
            time.sleep(0.3)

"""How ranks are started: mpirun, srun inside a Slurm job, or a single process."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

from . import hostlist
from .codes import ENVIRONMENT, USAGE, CampaignError

LAUNCHERS = ("auto", "mpirun", "srun", "single")


@dataclass
class Launcher:
    """What all steps share. `hosts` is empty for this machine alone."""
    kind: str  # "mpirun", "srun" or "single"
    why: str
    hosts: list = field(default_factory=list)
    flavour: str = ""  # of mpirun: "openmpi" or "hydra"
    slurm_nodes: int = 0

    @property
    def nodes(self):
        return len(self.hosts) or self.slurm_nodes or 1

    def describe(self):
        names = [host.name for host in self.hosts]
        where = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "this machine"
        return f"{self.kind} ({self.why}), {self.nodes} node{'' if self.nodes == 1 else 's'}: {where}"

    def command(self, program, ranks, per_node, environ, job_name):
        """The whole command line for `ranks` ranks, `per_node` on each node (None: the launcher's choice)."""
        if self.kind == "single":
            return program
        if self.kind == "srun":
            return self._srun(program, ranks, per_node, job_name)
        if self.flavour == "hydra":
            return self._hydra(program, ranks, per_node, environ)
        return self._openmpi(program, ranks, per_node, environ)

    def _used_hosts(self, ranks, per_node):
        """Only as many hosts as the ranks fill: one rank runs on the first."""
        if per_node:
            return self.hosts[:-(-ranks // per_node)]
        return self.hosts[:ranks]

    @staticmethod
    def _crowded(ranks, per_node):
        """Ranks that wait by spinning would keep the working ones from their core. An error on the crowded side costs a
        GPU node nothing that shows: it has many more cores than ranks."""
        return (per_node or ranks) > (os.cpu_count() or 1) // 2

    def _openmpi(self, program, ranks, per_node, environ):
        # The suite binds ranks itself, next to their GPU; the launcher's own binding would only narrow that.
        command = ["mpirun", "-np", str(ranks), "--bind-to", "none"]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        if self.hosts:
            hosts = self._used_hosts(ranks, per_node)
            slots = per_node or -(-ranks // len(hosts))
            command += ["-H", ",".join(f"{host.name}:{host.slots or slots}" for host in hosts)]
            # A host that vanishes is noticed after about 11 s instead of at the time limit.
            for name, value in (("time", 5), ("intvl", 2), ("probes", 3)):
                command += ["--mca", f"oob_tcp_keepalive_{name}", str(value)]
        elif not self.slurm_nodes:
            command.append("--oversubscribe")  # Open MPI counts cores; two ranks on a core with two threads are fine
        if not self.hosts and not (shutil.which("ssh") or shutil.which("rsh")):
            command += ["--mca", "plm_rsh_agent", "false"]  # Open MPI 4 wants a remote shell even for local ranks
        if per_node:
            command += ["-N", str(per_node)]
        if self._crowded(ranks, per_node):
            command += ["--mca", "mpi_yield_when_idle", "1"]
        for name in sorted(environ):
            command += ["-x", name]
        return command + program

    def _hydra(self, program, ranks, per_node, environ):
        command = ["mpirun", "-n", str(ranks)]
        if per_node:
            command += ["-ppn", str(per_node)]
        if self.hosts:
            command += ["-hosts", ",".join(host.name for host in self._used_hosts(ranks, per_node))]
        for name in sorted(environ):
            command += ["-genv", name, environ[name]]
        return command + program

    def _srun(self, program, ranks, per_node, job_name):
        # --kill-on-bad-exit: without it the other ranks of a dead one are waited for, for ever.
        command = ["srun", "--mpi=pmix", "--kill-on-bad-exit=1", "--cpu-bind=none", f"--job-name={job_name}", f"-n{ranks}"]
        nodes = -(-ranks // per_node) if per_node else min(ranks, self.nodes)
        command.append(f"-N{nodes}")
        if per_node:
            command.append(f"--ntasks-per-node={per_node}")
        if self._crowded(ranks, per_node):
            command.append("--export=ALL,OMPI_MCA_mpi_yield_when_idle=1")
        if self.hosts:
            command.append("-w" + ",".join(host.name for host in self._used_hosts(ranks, per_node)))
        return command + program


def kill_slurm_step(job_name):
    """Ends the step of this name in the present job: its tasks outlive an srun that was killed."""
    job = os.environ.get("SLURM_JOB_ID", "")
    try:
        listed = subprocess.run(["squeue", "--steps", "-h", "-o", "%i %j", *(["-j", job] if job else [])],
                                capture_output=True, text=True, timeout=10, check=False).stdout
        for line in listed.splitlines():
            step, _, name = line.strip().partition(" ")
            if name.strip() == job_name:
                subprocess.run(["scancel", "--signal=KILL", step], capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"campaign: could not end Slurm step {job_name}: {error}", file=sys.stderr)


def choose(wanted, hosts_text, environ=os.environ):
    """Finds the launcher. CampaignError when the wanted one is not there, or the host list is none."""
    try:
        hosts = hostlist.parse(hosts_text) if hosts_text is not None else []
    except hostlist.HostListError as error:
        raise CampaignError(USAGE, f"--hosts {error}") from None
    in_job = "SLURM_JOB_ID" in environ
    kind, why = wanted, "--launcher"
    if wanted == "auto":
        if in_job and shutil.which("srun"):
            kind, why = "srun", f"inside Slurm job {environ['SLURM_JOB_ID']}"
        elif shutil.which("mpirun"):
            kind, why = "mpirun", "found on PATH"
        elif hosts:
            raise CampaignError(ENVIRONMENT, "--hosts needs a launcher, but there is no mpirun on PATH and no Slurm job")
        else:
            kind, why = "single", "no mpirun on PATH"
    elif wanted != "single" and not shutil.which(wanted):
        raise CampaignError(ENVIRONMENT, f"--launcher {wanted}: no {wanted} on PATH")
    if kind == "single" and hosts:
        raise CampaignError(USAGE, "--hosts needs --launcher mpirun or srun, not single")
    nodes = 0
    if in_job and kind in ("srun", "mpirun") and not hosts:
        nodes = int(environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or 1)
        try:
            hosts = hostlist.parse(environ.get("SLURM_JOB_NODELIST", "")) if kind == "srun" else []
        except hostlist.HostListError:
            hosts = []  # a form that is not known here; srun knows its nodes itself
    return Launcher(kind, why, hosts, _mpirun_flavour() if kind == "mpirun" else "", nodes)


def _mpirun_flavour():
    try:
        text = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        text = ""
    return "hydra" if any(word in text for word in ("HYDRA", "Hydra", "Intel(R) MPI")) else "openmpi"

"""The command line: options, what is found on the machine, then the campaign."""

import argparse
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from . import campaign, devices, launch, plan, recording, sheet
from .codes import ENVIRONMENT, USAGE, CampaignError

HOME = Path(__file__).resolve().parent.parent  # scripts/, or share/train-tests/ once installed
HOST_RANKS = 2  # per node, on the host device


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise CampaignError(USAGE, message)


def parse(argv):
    p = Parser(prog="campaign", allow_abbrev=False,
               description="Runs a plan of measurements layer by layer and ends in a PASS/FAIL sheet. "
                           "Exit code: 0 pass, 1 a gate fell short, 2 usage, 3 environment, 4 wrong data, 5 timeout, "
                           "77 skipped; the worst step decides.")
    p.add_argument("plan", nargs="?", metavar="PLAN", help="TOML file, or the name of a plan that came with the suite (quick)")
    p.add_argument("--build", metavar="DIR", help="folder of the executables (default: found next to this script)")
    p.add_argument("--launcher", choices=launch.LAUNCHERS, help="default auto: srun inside a Slurm job, else mpirun")
    p.add_argument("--hosts", metavar="LIST", help="such as 'node[01-16]', 'nodes[006,011]' or node1:8,node2:8")
    p.add_argument("-np", "--np", type=_positive, metavar="N", help="ranks in all, where the plan says \"auto\"")
    p.add_argument("-N", "--ranks-per-node", type=_positive, metavar="N", help="ranks on each node, where the plan says \"auto\"")
    p.add_argument("--device", choices=("auto", "cuda", "host"), help="default auto: cuda where there are GPUs")
    p.add_argument("--keep-going", action="store_true", help="go on to higher layers after a failure")
    p.add_argument("--results", metavar="DIR", default="results", help="where campaigns are kept (default: results)")
    p.add_argument("--output", metavar="DIR", help="this campaign's own folder (default: RESULTS/PLAN-TIME)")
    p.add_argument("--resume", metavar="DIR", help="go on with the campaign in DIR: steps that passed are not repeated")
    p.add_argument("--baseline", metavar="FILE", help="judge the whole campaign by this file")
    p.add_argument("--record-baseline", metavar="FILE", help="write a baseline from this campaign's good runs")
    p.add_argument("--from", dest="sources", nargs="+", metavar="DIR", default=[],
                   help="with --record-baseline: from these campaigns instead of a new one")
    p.add_argument("--inject", action="append", metavar="FAULT", help="passed on to every executable that has such a rank: "
                                                                       "a test of the alarm chain, marked as such in the sheet")
    p.add_argument("--list", action="store_true", help="print what would be run, and run nothing")
    p.add_argument("--version", action="store_true")
    return p.parse_args(argv)


def _positive(text):
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 1 << 24):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 on")
    return int(text)


@dataclass
class Setup:
    """What was asked for and what was found; all that a campaign needs to know."""
    plan: plan.Plan
    launcher: launch.Launcher
    device: str
    gpus: devices.Gpus
    build: Path
    keep_going: bool
    np: int | None = None
    per_node: int | None = None
    inject: list = field(default_factory=list)
    baseline: Path | None = None
    options: dict = field(default_factory=dict)  # for --resume

    def executable(self, name):
        return Path(name) if "/" in name else self.build / name

    def ranks_of(self, step):
        """(ranks in all, ranks per node or None); (None, None) for a command that is not to be launched."""
        nodes = self.launcher.nodes
        if step.ranks is None:
            return None, None
        if step.ranks == "nodes":
            return nodes, 1 if nodes > 1 else None
        if step.ranks == "auto":
            return self._auto_ranks(step, nodes)
        per_node = step.ranks_per_node or (-(-step.ranks // nodes) if nodes > 1 else None)
        if self.launcher.kind == "single" and step.ranks > 1:
            raise CampaignError(ENVIRONMENT, f"{self.plan.path}: step {step.id}: ranks: {step.ranks} need a launcher, "
                                             f"but there is none ({self.launcher.why})")
        return step.ranks, per_node

    def _auto_ranks(self, step, nodes):
        if self.launcher.kind == "single":
            if self.launcher.why != "--launcher" and (self.gpus.count > 1 or self.device == "host"):
                raise CampaignError(ENVIRONMENT, f"step {step.id} needs several ranks, but there is {self.launcher.why}")
            return 1, None
        per_node = self.per_node or step.ranks_per_node
        if self.np:
            return self.np, per_node or (-(-self.np // nodes) if nodes > 1 else None)
        slots = {host.slots for host in self.launcher.hosts}
        if per_node is None and len(slots) == 1 and None not in slots:
            per_node = slots.pop()
        if per_node is None:
            on_host = step.device == "host" or (step.device == "auto" and self.device == "host")
            per_node = HOST_RANKS if on_host else self.gpus.count
            if per_node == 0:
                raise CampaignError(ENVIRONMENT, f"step {step.id}: no GPU seen from here ({self.gpus.how}); say with -N how many "
                                                 "there are on each node")
        return per_node * nodes, per_node if nodes > 1 or self.per_node else None

    def faults_for(self, ranks):
        """The injected faults whose rank exists among `ranks`; what is no fault is left for the executable to refuse."""
        named = [(text, re.search(r"\brank=([0-9]+)\b", text)) for text in self.inject]
        return [text for text, rank in named if rank is None or int(rank[1]) < (ranks or 0)]


def find_build(asked):
    """The folder of the executables: as asked, else beside an installed campaign, else the newest build of this checkout."""
    if asked:
        folder = Path(asked)
        if not folder.is_dir():
            raise CampaignError(ENVIRONMENT, f"--build {asked}: no such folder")
        return folder.resolve()
    for folder in (HOME.parent.parent / "bin", HOME.parent / "build", HOME.parent / "build/nocuda"):
        if any((folder / name).exists() for name in ("coll_perf", "gemm_perf", "node_check")):
            return folder
    raise CampaignError(ENVIRONMENT, "no executables found; build them (make), or say with --build where they are")


def find_device(asked, gpus, build):
    """(device, how it was found). cuda only where a GPU and the library for it are there, as --device auto of the tools."""
    if asked in ("cuda", "host"):
        return asked, f"--device {asked}; {gpus.how}"
    if gpus.count == 0:
        return "host", gpus.how
    if not any((folder / "libtt_cuda.so").exists() for folder in (build, build.parent / "lib")):
        return "host", f"{gpus.how}, BUT NOT USED: this build has no CUDA (no libtt_cuda.so)"
    return "cuda", gpus.how


def make_setup(o, former):
    """Checks everything that can be checked before the first step."""
    kept = former["options"] if former else {}

    def option(name, value):
        return value if value is not None else kept.get(name)

    build = find_build(option("build", o.build))
    gpus = devices.count_gpus()
    device, how = find_device(option("device", o.device) or "auto", gpus, build)
    launcher = launch.choose(option("launcher", o.launcher) or "auto", option("hosts", o.hosts))
    if o.plan:
        path = plan.find(o.plan)
    else:
        path = Path(o.resume) / "plan.toml" if former else plan.find("quick")
    loaded = plan.load(path, device)
    if former and not o.plan:
        loaded.path = Path(former["plan"])  # baselines are named relative to the first plan
    baseline = option("baseline", str(Path(o.baseline).resolve()) if o.baseline else None)
    if baseline is None and loaded.baseline:
        baseline = loaded.path.parent / loaded.baseline
    inject = o.inject or kept.get("inject") or []
    options = {"build": str(build), "device": option("device", o.device), "launcher": option("launcher", o.launcher),
               "hosts": option("hosts", o.hosts), "np": option("np", o.np), "per_node": option("per_node", o.ranks_per_node),
               "inject": inject, "baseline": str(baseline) if baseline else None}
    setup = Setup(loaded, launcher, device, devices.Gpus(gpus.count, how), build, o.keep_going, options["np"],
                  options["per_node"], inject, baseline, options)
    drop_unbuilt(setup)
    return setup


def drop_unbuilt(setup):
    """Steps whose executable is not there: left out if the plan allows it (skip_unbuilt), else an error."""
    kept = []
    for step in setup.plan.steps:
        if step.executable is None or os.access(setup.executable(step.executable), os.X_OK):
            kept.append(step)
        elif not setup.plan.skip_unbuilt:
            raise CampaignError(ENVIRONMENT, f"{setup.plan.path}: step {step.id}: executable: there is no {step.executable} in "
                                             f"{setup.build}")
    if not kept:
        raise CampaignError(ENVIRONMENT, f"{setup.plan.path}: none of its executables is in {setup.build}: build them first")
    setup.plan.steps = kept


def run(argv):
    o = parse(argv)
    if o.version:
        version = next((f for f in (HOME / "VERSION", HOME.parent / "VERSION") if f.exists()), None)
        print(f"campaign {version.read_text().strip() if version else 'of unknown version'}")
        return 0
    if o.sources:
        if not o.record_baseline:
            raise CampaignError(USAGE, "--from goes with --record-baseline")
        if o.plan or o.resume:
            raise CampaignError(USAGE, "--from takes finished campaigns: neither PLAN nor --resume goes with it")
        return recording.record(o.record_baseline, [Path(s) for s in o.sources])
    if o.resume and o.output:
        raise CampaignError(USAGE, "--resume names the folder already: --output does not go with it")
    former = campaign.load_former(Path(o.resume)) if o.resume else None
    setup = make_setup(o, former)
    if o.list:
        print_list(setup)
        return 0
    folder = choose_folder(o, setup)
    running = campaign.Campaign(setup, folder, former)
    print(f"# plan {setup.plan.path}; {setup.launcher.describe()}; device {setup.device}: {setup.gpus.how}; results in {folder}",
          flush=True)
    code = running.run()
    print()
    print(sheet.text(running.document), end="")
    print(f"sheets: {folder / 'sheet.md'}, {folder / 'sheet.json'}")
    if o.record_baseline:
        recorded = recording.record(o.record_baseline, [folder])
        code = code or recorded
    return code


def choose_folder(o, setup):
    if o.resume:
        return Path(o.resume).resolve()
    if o.output:
        folder = Path(o.output).resolve()
        if folder.exists() and any(folder.iterdir()):
            raise CampaignError(USAGE, f"--output {o.output}: not empty; --resume goes on with a campaign")
        return folder
    return campaign.new_folder(Path(o.results).resolve(), setup.plan.name)


def print_list(setup):
    listed = campaign.Campaign(setup, Path("RESULTS"))
    print(f"# plan {setup.plan.path}; {setup.launcher.describe()}; device {setup.device}: {setup.gpus.how}")
    for row in listed.steps:
        times = f", {row['repeat']} times" if row["repeat"] > 1 else ""
        print(f"{row['id']}  {sheet.layer_name(row['layer'])}  {row['name']}  (at most {row['time_limit_s']:g} s{times})\n"
              f"    {row['asked']}")


def main(argv):
    try:
        return run(argv)
    except CampaignError as error:
        print(f"campaign: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("campaign: interrupted before the first step", file=sys.stderr)
        return ENVIRONMENT

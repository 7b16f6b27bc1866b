"""Runs the steps of a plan in order, keeps the sheets up to date, and gives the exit code."""

import json
import os
import re
import shlex
import shutil
import time
from datetime import datetime, timezone
from pathlib import Path

from . import baseline as baselines
from . import inventory, judge, launch, process, sheet
from .codes import ENVIRONMENT, GATE, NOT_RUN, PASS, PENDING, USAGE, WORDS, CampaignError, worst
from .record import Record, RecordError

# With --hosts, Open MPI passes only its own variables on to other hosts; these belong to a run's settings too.
FORWARDED = re.compile(r"(NCCL|UCX|OMP)_.*|CUDA_VISIBLE_DEVICES|LD_LIBRARY_PATH|PATH")


def utc_now():
    return datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


class Campaign:
    """One run of a plan. `setup` (cli.py) holds what was asked for and found: plan, launcher, device, gpus, build, options."""

    def __init__(self, setup, folder, former=None):
        self.setup, self.plan, self.folder = setup, setup.plan, folder
        self.former = {(s["id"], s["name"]): s for s in former["steps"]} if former else {}
        self.interrupt = None
        self.plan_baseline = baselines.Baseline.load(setup.baseline) if setup.baseline else None
        self.step_baselines = {step.folder: baselines.Baseline.load(self.plan.path.parent / step.baseline)
                               for step in self.plan.steps if step.baseline}
        self.steps = [self._row(step) for step in self.plan.steps]
        self._check_injection()
        self.document = {
            "sheet_version": sheet.VERSION, "campaign": folder.name, "plan": str(setup.plan.path), "started": utc_now(),
            "ended": None, "options": setup.options, "launcher": setup.launcher.describe(), "device": setup.device,
            "gpus": setup.gpus.how, "verdict": PENDING, "exit_code": ENVIRONMENT, "reason": "not finished",
            "inventory": inventory.collect([]), "steps": self.steps,
        }

    # ---- what will be run ----

    def _row(self, step):
        ranks, per_node = self.setup.ranks_of(step)
        command = self.command_of(step, ranks, per_node, self.folder / step.folder / "record.json")
        return {"id": step.id, "name": step.name, "layer": step.layer, "folder": step.folder, "repeat": step.repeat,
                "time_limit_s": step.time_limit_s, "ranks": ranks, "asked": shlex.join(command), "verdict": PENDING,
                "code": None, "reason": "", "seconds": None, "figures": [], "rows": {"total": 0}, "slowest": "", "culprit": "",
                "injected": "", "notes": []}

    def command_of(self, step, ranks, per_node, record_path):
        name = f"tt-{step.folder}-{os.getpid()}"
        environ = {name: value for name, value in os.environ.items()
                   if self.setup.launcher.hosts and FORWARDED.fullmatch(name)} | step.env
        if step.command:
            program = [self._fill(word, ranks) for word in step.command]
            return self.setup.launcher.command(program, ranks, per_node, environ, name) if ranks else program
        program = [str(self.setup.executable(step.executable)), *step.args]
        if not _has_option(step.args, "--device"):
            device = step.device if step.device != "auto" else self.setup.device
            program += ["--device", device]
        if not _has_option(step.args, "-T", "--timeout"):
            # The tool's own watchdog should end a stuck run first: it knows who is to blame.
            program += ["-T", f"{step.time_limit_s - min(10.0, step.time_limit_s / 5):g}"]
        program += [word for fault in self.setup.faults_for(ranks) for word in ("--inject", fault)]
        program += ["--json", str(record_path)]
        return self.setup.launcher.command(program, ranks, per_node, environ, name)

    def _fill(self, word, ranks):
        hosts = ",".join(host.name for host in self.setup.launcher.hosts) or "localhost"
        for name, value in (("gpus", self.setup.gpus.count), ("nodes", self.setup.launcher.nodes), ("ranks", ranks or ""),
                            ("hosts", hosts), ("results", self.folder)):
            word = word.replace("{" + name + "}", str(value))
        return word

    def _check_injection(self):
        for text in self.setup.inject:
            if not any(text in self.setup.faults_for(row["ranks"]) for step, row in zip(self.plan.steps, self.steps)
                       if step.executable):
                raise CampaignError(USAGE, f"--inject {text}: no step has a rank of that number; a fault that cannot happen "
                                           "would let the test pass")

    # ---- running ----

    def run(self):
        process.adopt_orphans()
        self.interrupt = process.Interrupt()
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "plan.toml").write_text(self.plan.text, encoding="utf-8")
        self._save()
        blocked = None  # the layer that failed
        for step, row in zip(self.plan.steps, self.steps):
            if self.interrupt:
                row.update(verdict=NOT_RUN, reason=f"interrupted by {self.interrupt.signal}")
            elif blocked is not None and step.layer > blocked:
                row.update(verdict=NOT_RUN, reason=f"layer {blocked} failed (--keep-going goes on)")
            elif not self._kept(row):
                self._say(f"{step.id} {step.name}: running, at most {step.time_limit_s * step.repeat:g} s")
                self._run_step(step, row)
                self._say(f"{step.id} {step.name}: {row['verdict']}" + (f": {row['reason']}" if row["reason"] else ""))
            failed = row["code"] not in (PASS, 77, None)
            if failed and not self.setup.keep_going and (blocked is None or step.layer < blocked):
                blocked = step.layer
            self._save()
        self._judge_whole()
        return self.document["exit_code"]

    def _kept(self, row):
        """With --resume: a step that passed, and would be run in just the same way, is not run again."""
        former = self.former.get((row["id"], row["name"]))
        if not former or former["code"] != PASS or former["repeat"] != row["repeat"]:
            return False
        if _normal(former["asked"]) != _normal(row["asked"]):
            return False
        asked = row["asked"]
        row.update(former)
        row["asked"] = asked
        row["notes"] = [n for n in row["notes"] if n != RESUMED] + [RESUMED]
        return True

    def _run_step(self, step, row):
        folder = self.folder / step.folder
        shutil.rmtree(folder, ignore_errors=True)
        attempts = []
        for number in range(1, step.repeat + 1):
            place = folder if step.repeat == 1 else folder / f"run-{number}"
            place.mkdir(parents=True)
            attempts.append(self._attempt(step, place, row["ranks"]))
            if self.interrupt:
                break
        row.update(judge.merge(attempts))
        row["attempts"] = attempts
        if not row["injected"] and step.executable:
            row["injected"] = " ".join(_injected_in(step.args) + self.setup.faults_for(row["ranks"]))

    def _attempt(self, step, place, ranks):
        record_path = place / "record.json"
        per_node = self.setup.ranks_of(step)[1]
        command = self.command_of(step, ranks, per_node, record_path)
        name = f"tt-{step.folder}-{os.getpid()}"
        kill_remote = (lambda: launch.kill_slurm_step(name)) if self.setup.launcher.kind == "srun" and ranks else None
        started = utc_now()
        ended = process.run(command, {**os.environ, **step.env}, place / "stdout", place / "stderr", step.time_limit_s,
                            self.interrupt, kill_remote=kill_remote)
        record, problem = None, None
        if step.executable:
            try:
                record = Record.load(record_path)
            except RecordError as error:
                problem = str(error) + (" (on several hosts the results folder must be shared)"
                                        if self.setup.launcher.nodes > 1 and not record_path.exists() else "")
        output = [_read(place / name) for name in ("stdout", "stderr")]
        attempt = judge.judge(step, ended, record, problem, output, self._baselines_of(step))
        return {**attempt, "started": started, "ended": utc_now(), "command": command}

    def _baselines_of(self, step):
        found = [(self.step_baselines[step.folder], True)] if step.folder in self.step_baselines else []
        return found + ([(self.plan_baseline, False)] if self.plan_baseline else [])

    # ---- the whole ----

    def _judge_whole(self):
        if self.plan_baseline and all(row["verdict"] != NOT_RUN for row in self.steps):
            self._judge_unmeasured()
        codes = [row["code"] for row in self.steps if row["code"] is not None]
        reason = ""
        if self.interrupt:
            codes.append(ENVIRONMENT)
            reason = f"interrupted by {self.interrupt.signal}"
        code = worst(codes)
        self.document.update(ended=utc_now(), verdict=WORDS[code], exit_code=code, reason=reason)
        self._save(final=True)

    def _judge_unmeasured(self):
        """Keys of the campaign's baseline that no step measured: the step that measures the same kind of thing fails."""
        rows = [row for record in self.records() for row in record.rows]
        rows += [{"key": f["key"], "metrics": {}} for row in self.steps for f in row["figures"]]
        for entry in self.plan_baseline.unmeasured(rows):
            head = entry.key.split("/")[0]
            owners = [row for row in self.steps if entry.tool and entry.tool == row.get("tool")]
            owners = owners or [row for row in self.steps if any(f["key"].split("/")[0] == head for f in row["figures"])]
            owner = owners[-1] if owners else self.steps[-1]
            reason = f"not measured: {entry.key} ({entry.metric}), in {self.plan_baseline.path}"
            owner["code"] = worst((owner["code"], GATE))
            owner["verdict"] = WORDS[owner["code"]]
            owner["reason"] = "; ".join(filter(None, (owner["reason"], reason)))

    def records(self):
        """All valid records of the campaign so far."""
        for row in self.steps:
            for path in sorted((self.folder / row["folder"]).rglob("record.json")):
                try:
                    yield Record.load(path)
                except RecordError:
                    pass  # its step has said so

    def _save(self, final=False):
        self.document["inventory"] = inventory.collect(self.records())
        if not final:
            codes = [row["code"] for row in self.steps if row["code"] is not None]
            self.document.update(exit_code=worst([*codes, ENVIRONMENT]))
        sheet.write(self.folder, self.document)

    def _say(self, line):
        print(f"# {line}", flush=True)


RESUMED = "result of the earlier run (--resume)"


def load_former(folder):
    """The sheet of a campaign to be resumed."""
    try:
        document = json.loads((folder / "sheet.json").read_text(encoding="utf-8"))
        if document["sheet_version"] != sheet.VERSION:
            raise ValueError(f"sheet_version {document['sheet_version']}, not {sheet.VERSION}")
        for step in document["steps"]:
            step["id"], step["name"], step["code"], step["asked"], step["repeat"]  # noqa: B018 (must be there)
        return document
    except OSError as error:
        raise CampaignError(ENVIRONMENT, f"--resume {folder}: {error.strerror}: {error.filename}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CampaignError(ENVIRONMENT, f"--resume {folder}: sheet.json is no sheet of a campaign: {error}") from None


def new_folder(results, name):
    """results/<plan>-<time>, never one that is there already."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    for suffix in ("", *(f"-{n}" for n in range(2, 1000))):
        folder = Path(results) / f"{name}-{stamp}{suffix}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            continue
        except OSError as error:
            raise CampaignError(ENVIRONMENT, f"cannot make {folder}: {error.strerror}") from None
    raise CampaignError(ENVIRONMENT, f"cannot find a free name in {results}")


def _normal(asked):
    """A command line without what differs from run to run."""
    return re.sub(r"(tt-\S+?)-[0-9]+\b", r"\1", asked)


def _has_option(args, *names):
    return any(arg == name or arg.startswith(name + "=") for arg in args for name in names)


def _injected_in(args):
    found = [after for arg, after in zip(args, args[1:]) if arg == "--inject"]
    return found + [arg.partition("=")[2] for arg in args if arg.startswith("--inject=")]


def _read(path, limit=4 << 20):
    """Text of an output file; of a huge one the two ends."""
    data = path.read_bytes() if path.exists() else b""
    if len(data) > limit:
        data = data[:limit // 2] + b"\n" + data[-limit // 2:]
    return data.decode("utf-8", errors="replace")

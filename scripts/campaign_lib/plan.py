"""Reads a plan (TOML): what to run, in which order, within which limits. docs/campaign.md describes the fields."""

import math
import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

from .codes import ENVIRONMENT, CampaignError

LAYERS = {1: "node", 2: "one GPU", 3: "GPU pairs", 4: "collectives", 5: "pretraining step", 6: "LoRA step", 7: "across nodes",
          8: "data store"}
SHIPPED = Path(__file__).resolve().parent.parent / "plans"


@dataclass(frozen=True)
class Figure:
    """A number that an outside command prints."""
    name: str
    regex: str
    unit: str = ""
    better: str = "higher"  # or "lower"
    pick: str = "last"  # of several matches: first, last, min, max, median
    min: float | None = None
    max: float | None = None


@dataclass(frozen=True)
class Gate:
    """A limit written in the plan itself. `key` is a row's key, or a group with a size window."""
    key: str
    metric: str
    min: float | None = None
    max: float | None = None
    size_min: int | None = None
    size_max: int | None = None


@dataclass(frozen=True)
class Step:
    id: str
    name: str
    layer: int
    executable: str | None = None
    command: tuple | None = None
    args: tuple = ()
    ranks: int | str | None = None  # a number, "auto" (2 on the host device, one per GPU on cuda) or "nodes" (one per node)
    ranks_per_node: int | None = None
    device: str = "auto"
    time_limit_s: float = 600.0
    env: dict = field(default_factory=dict)
    baseline: str | None = None
    min_ratio: float = 0.90
    gate: tuple = ()
    repeat: int = 1
    figures: tuple = ()
    forbid: str | None = None  # an outside command's output that holds this fails

    @property
    def folder(self):
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{self.id}-{self.name}").strip("-.")


@dataclass
class Plan:
    name: str
    path: Path
    text: str
    steps: list  # of Step
    skip_unbuilt: bool = False
    baseline: str | None = None
    min_ratio: float = 0.90


class _Reader:
    """One table of the file: takes fields out of it one by one, with their types checked; what is left is unknown."""

    def __init__(self, path, place, table):
        self.path, self.place, self.table, self.taken = path, place, table, set()

    def fail(self, name, problem):
        raise CampaignError(ENVIRONMENT, f"{self.path}: {self.place}: {name}: {problem}")

    def take(self, name, kind, default=None, required=False):
        self.taken.add(name)
        if name not in self.table:
            if required:
                self.fail(name, "missing")
            return default
        value = self.table[name]
        if not _is(value, kind):
            self.fail(name, f"{kind} expected, not {value!r}")
        return value

    def choice(self, name, accepted, default):
        value = self.take(name, "text", default)
        if value not in accepted:
            self.fail(name, f"{value!r} is none of {', '.join(accepted)}")
        return value

    def number(self, name, default=None, positive=False):
        value = self.take(name, "number", default)
        if value is not None and positive and value <= 0:
            self.fail(name, f"must be above 0, not {value!r}")
        return value

    def integer(self, name, default=None, low=None):
        value = self.take(name, "integer", default)
        if value is not None and low is not None and value < low:
            self.fail(name, f"must be {low} or more, not {value}")
        return value

    def done(self):
        unknown = sorted(set(self.table) - self.taken)
        if unknown:
            self.fail(unknown[0], f"unknown field; known: {', '.join(sorted(self.taken))}")


def _is(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if kind == "text":
        return isinstance(value, str)
    if kind == "true or false":
        return isinstance(value, bool)
    if kind == "table":
        return isinstance(value, dict)
    if kind == "list of texts":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind == "list of tables":
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    if kind == "table of texts":
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    raise AssertionError(kind)


def find(name):
    """The file of a plan: a path, or the name of a plan that came with the suite ("quick")."""
    path = Path(name)
    for candidate in (path, SHIPPED / path.name, SHIPPED / f"{path.name}.toml"):
        if candidate.is_file() and (candidate == path or path.parent in (Path("."), Path("scripts/plans"))):
            return candidate
    shipped = sorted(p.stem for p in SHIPPED.glob("*.toml"))
    raise CampaignError(ENVIRONMENT, f"{name}: no such plan; those that came with the suite: {', '.join(shipped)}")


def load(path, device):
    """Reads and checks the whole plan before anything is run; `device` ("host" or "cuda") picks the variant tables.
    CampaignError naming file, step and field."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise CampaignError(ENVIRONMENT, f"{path}: {error}") from None
    top = _Reader(path, "plan", document)
    plan = Plan(top.take("name", "text", Path(path).stem), Path(path), text, [],
                top.take("skip_unbuilt", "true or false", False), top.take("baseline", "text"),
                top.number("min_ratio", 0.90, positive=True))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", plan.name):
        top.fail("name", f"{plan.name!r} must be letters, digits, '-', '_' and '.' only: it names a folder")
    top.take("description", "text")
    defaults = top.take("defaults", "table", {})
    tables = top.take("step", "list of tables", required=True)
    top.done()
    _check_defaults(path, defaults)
    if not tables:
        top.fail("step", "no steps")
    for number, table in enumerate(tables, 1):
        plan.steps.append(_step(path, number, table, defaults, device, plan.min_ratio))
    _check_unique(path, plan.steps)
    return plan


# What [defaults] and the variant tables [step.host], [step.cuda] may hold.
_VARIANT = ("args", "ranks", "ranks_per_node", "time_limit_s", "env", "baseline", "min_ratio", "gate", "repeat")
_DEFAULTS = ("ranks", "ranks_per_node", "time_limit_s", "env", "repeat")


def _check_defaults(path, defaults):
    for name in defaults:
        if name not in _DEFAULTS:
            raise CampaignError(ENVIRONMENT,
                                f"{path}: defaults: {name}: unknown field; known: {', '.join(sorted(_DEFAULTS))}")


def _step(path, number, table, defaults, device, min_ratio):
    place = f"step {number} ({table['id']})" if isinstance(table.get("id"), str) else f"step {number}"
    variants = {}
    for kind in ("host", "cuda"):
        variant = table.get(kind, {})
        if not isinstance(variant, dict):
            raise CampaignError(ENVIRONMENT, f"{path}: {place}: {kind}: table expected, not {variant!r}")
        variants[kind] = variant
        for name in variant:
            if name not in _VARIANT:
                raise CampaignError(ENVIRONMENT, f"{path}: {place}: {kind}.{name}: unknown field; known: "
                                                 f"{', '.join(sorted(_VARIANT))}")
    own = {name: value for name, value in table.items() if name not in variants}
    pinned = own.get("device") if own.get("device") in variants else device
    # Both variants are checked, so that a plan that is wrong for the other device is found on this one.
    made = {kind: _make(path, place, _merge(defaults, own, variants[kind]), min_ratio) for kind in variants}
    return made[pinned]


def _merge(defaults, own, variant):
    """Later tables win; args of a variant go behind the step's own, env is joined."""
    merged = {**defaults, **own, **variant}
    if isinstance(own.get("args", []), list) and isinstance(variant.get("args", []), list):
        args = own.get("args", []) + variant.get("args", [])
        if args:
            merged["args"] = args
    envs = [table.get("env", {}) for table in (defaults, own, variant)]
    if all(isinstance(env, dict) for env in envs) and any(envs):
        merged["env"] = {**envs[0], **envs[1], **envs[2]}
    return merged


def _make(path, place, table, plan_min_ratio):
    r = _Reader(path, place, table)
    step_id = r.take("id", "text", required=True)
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", step_id):
        r.fail("id", f"{step_id!r} must begin with a letter, then letters, digits, '-', '_' and '.' only")
    executable, command = r.take("executable", "text"), r.take("command", "list of texts")
    if (executable is None) == (command is None):
        r.fail("executable", "a step has either an executable of the suite or an outside command")
    if executable == "" or command == [] or (command and not command[0]):
        r.fail("executable" if executable == "" else "command", "empty")
    args = r.take("args", "list of texts", [])
    if command and args:
        r.fail("args", "an outside command has its arguments in command")
    figures, forbid = _figures(r), r.take("forbid", "text")
    if executable and (figures or forbid):
        r.fail("figures" if figures else "forbid", "only for outside commands; an executable's figures are in its record")
    if forbid is not None:
        _compile(r, "forbid", forbid)
    ranks = table.get("ranks")
    r.taken.add("ranks")
    if ranks is None:
        ranks = "auto" if executable else None
    elif ranks not in ("auto", "nodes") and not (_is(ranks, "integer") and ranks >= 1):
        r.fail("ranks", f"a number from 1 on, \"auto\" or \"nodes\" expected, not {ranks!r}")
    step = Step(step_id, r.take("name", "text", executable or Path(command[0]).name), _layer(r, step_id), executable,
                tuple(command) if command else None, tuple(args), ranks, r.integer("ranks_per_node", low=1),
                r.choice("device", ("auto", "host", "cuda"), "auto"), r.number("time_limit_s", 600.0, positive=True),
                r.take("env", "table of texts", {}), r.take("baseline", "text"),
                r.number("min_ratio", plan_min_ratio, positive=True), _gates(r), r.integer("repeat", 1, low=1), figures, forbid)
    r.done()
    return step


def _layer(r, step_id):
    layer = r.integer("layer", low=0)
    if layer is None:
        match = re.match(r"T([0-9]+)", step_id)
        if not match:
            r.fail("layer", f"missing, and the id {step_id!r} does not tell it (T1, T2, …)")
        layer = int(match[1])
    return layer


def _compile(r, name, regex):
    try:
        return re.compile(regex, re.MULTILINE)
    except re.error as error:
        r.fail(name, f"not a regular expression: {error}")


def _figures(r):
    figures = []
    for name, table in r.take("figures", "table", {}).items():
        if not isinstance(table, dict):
            r.fail(f"figures.{name}", f"table expected, not {table!r}")
        sub = _Reader(r.path, f"{r.place}: figures.{name}", table)
        figure = Figure(name, sub.take("regex", "text", required=True), sub.take("unit", "text", ""),
                        sub.choice("better", ("higher", "lower"), "higher"),
                        sub.choice("pick", ("first", "last", "min", "max", "median"), "last"),
                        sub.number("min"), sub.number("max"))
        if _compile(sub, "regex", figure.regex).groups != 1:
            sub.fail("regex", f"needs exactly one group (…) around the number: {figure.regex!r}")
        sub.done()
        figures.append(figure)
    return tuple(figures)


def _gates(r):
    gates = []
    for number, table in enumerate(r.take("gate", "list of tables", []), 1):
        sub = _Reader(r.path, f"{r.place}: gate {number}", table)
        gate = Gate(sub.take("key", "text", required=True), sub.take("metric", "text", required=True), sub.number("min"),
                    sub.number("max"), sub.integer("size_min", low=0), sub.integer("size_max", low=0))
        if gate.min is None and gate.max is None:
            sub.fail("min", "a gate needs min or max")
        sub.done()
        gates.append(gate)
    return tuple(gates)


def _check_unique(path, steps):
    seen = {}
    for step in steps:
        if step.folder in seen:
            raise CampaignError(ENVIRONMENT, f"{path}: step {step.id}: name: '{step.name}' is there twice with this id; "
                                             "id and name together name the step")
        seen[step.folder] = step


assert {f.name for f in fields(Step)} >= set(_VARIANT)

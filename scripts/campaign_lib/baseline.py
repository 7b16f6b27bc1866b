"""Baseline files (docs/baselines.md): reading them, and judging rows by them. The same rules as common/baseline.cpp."""

from dataclasses import dataclass, field
from pathlib import Path

from .codes import ENVIRONMENT, CampaignError
from .record import median, number, strict_json

VERSION = 1
_TOP = {"baseline_version", "sku", "comment", "entries"}
_FIELDS = {"key", "group", "metric", "value", "direction", "tolerance", "size_min", "size_max", "origin", "conditions", "tool",
           "required"}
_ORIGINS = ("measured", "published", "computed")


@dataclass(frozen=True)
class Entry:
    key: str  # a row's key, or with is_group a row's group
    is_group: bool
    metric: str
    value: float
    direction: str  # "higher" or "lower" is better
    tolerance: float | None = None
    size_min: int | None = None
    size_max: int | None = None
    tool: str = ""
    required: bool = True  # an exact key that no row has is a failed gate

    def covers(self, row):
        return self.key == row.get("group" if self.is_group else "key") and in_window(row, self.size_min, self.size_max)


def in_window(row, size_min, size_max):
    """Gates are judged only inside their window; a row without a size lies outside every window."""
    if size_min is None and size_max is None:
        return True
    size = number(row.get("size"))
    return size is not None and (size_min is None or size >= size_min) and (size_max is None or size <= size_max)


@dataclass
class Baseline:
    path: str
    sku: str = ""
    entries: list = field(default_factory=list)

    @classmethod
    def load(cls, path):
        """CampaignError naming file, entry and field, before anything is measured."""
        def fail(problem):
            raise CampaignError(ENVIRONMENT, f"baseline {path}: {problem}")

        try:
            document = strict_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            fail(error.strerror or error)
        except ValueError as error:
            fail(f"not valid JSON: {error}")
        if not isinstance(document, dict):
            fail("is not an object")
        for name in sorted(set(document) - _TOP):
            fail(f"unknown field '{name}'")
        if document.get("baseline_version") != VERSION:
            fail(f"baseline_version {document.get('baseline_version')!r} is not one that this program reads ({VERSION})")
        if not isinstance(document.get("sku"), str):
            fail("field 'sku' is missing or not a text")
        if not isinstance(document.get("entries"), list):
            fail("field 'entries' is missing or not a list")
        made = cls(str(path), document["sku"])
        for place, table in enumerate(document["entries"], 1):
            entry = _entry(table, lambda problem, place=place: fail(f"entry {place}: {problem}"))
            if any(_same(entry, other) for other in made.entries):
                fail(f"entry {place}: a second entry for '{entry.key}' and {entry.metric}")
            made.entries.append(entry)
        return made

    def judge(self, row, min_ratio):
        """[(metric, value or None, entry, ratio or None, floor, ok)] for the metrics of this row that have an entry, an
        exact key before a group."""
        if row.get("comparable") is False:  # some layers only, cache-resident: the row's notes say why
            return []
        chosen = {}
        for entry in sorted(self.entries, key=lambda e: e.is_group):
            if entry.covers(row):
                chosen.setdefault(entry.metric, entry)
        found = []
        for metric, entry in chosen.items():
            value = median(row, metric)
            floor = min_ratio if entry.tolerance is None else 1 - entry.tolerance
            ratio = None
            if value is not None and (value > 0 or entry.direction == "higher"):
                ratio = value / entry.value if entry.direction == "higher" else entry.value / value
            found.append((metric, value, entry, ratio, floor, ratio is not None and ratio >= floor))
        return found

    def unmeasured(self, rows, tool=None):
        """Required entries whose key no row has: each is a gate that was not judged, hence failed. With `tool`, those
        that name another tool are left to it."""
        keys = {row["key"] for row in rows}
        return [entry for entry in self.entries if entry.required and entry.key not in keys
                and (not entry.tool or tool is None or entry.tool == tool)]


def _same(a, b):
    """Two entries that would judge the same row's metric."""
    def end(size):
        return float("inf") if size is None else size

    return ((a.key, a.metric, a.is_group) == (b.key, b.metric, b.is_group)
            and (a.size_min or 0) <= end(b.size_max) and (b.size_min or 0) <= end(a.size_max))


def _entry(table, fail):
    if not isinstance(table, dict):
        fail("is not an object")
    table = {name: value for name, value in table.items() if value is not None}
    for name in sorted(set(table) - _FIELDS):
        fail(f"unknown field '{name}'")
    if ("key" in table) == ("group" in table):
        fail("needs either 'key' or 'group'")
    is_group = "group" in table
    for name in ("group" if is_group else "key", "metric", "origin"):
        if not isinstance(table.get(name), str) or not table[name]:
            fail(f"field '{name}' is missing or not a text")
    if table["origin"].split(":")[0] not in _ORIGINS:
        fail(f"origin '{table['origin']}' begins with none of {', '.join(_ORIGINS)}")
    value = number(table.get("value"))
    if value is None or value <= 0:
        fail(f"value {table.get('value')!r} is not positive and finite")
    if table.get("direction") not in ("higher", "lower"):
        fail(f"direction {table.get('direction')!r} is neither 'higher' nor 'lower'")
    if "tolerance" in table and (number(table["tolerance"]) is None or not 0 <= table["tolerance"] < 1):
        fail(f"tolerance {table['tolerance']!r} is not in [0, 1)")
    for name in ("size_min", "size_max"):
        size = table.get(name, 0)
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            fail(f"field '{name}' is {size!r}, not a size")
    required = table.get("required", not is_group)
    if not isinstance(required, bool):
        fail(f"field 'required' is {required!r}, neither true nor false")
    if required and is_group:
        fail("'required' needs an exact 'key'")
    return Entry(table["group" if is_group else "key"], is_group, table["metric"], value, table["direction"],
                 table.get("tolerance"), table.get("size_min"), table.get("size_max"), table.get("tool", ""), required)

"""Reads the records that the executables write (docs/record.schema.json). The one place that knows their field names."""

import json
import math

VERSION = 1  # record_version


class RecordError(ValueError):
    """There is no record, or it is none; the message says which."""


def strict_json(text):
    """JSON as the standard has it: no NaN or Infinity, no name twice in one object. ValueError otherwise."""
    def no_constant(name):
        raise ValueError(f"{name} is not JSON")

    def no_twins(pairs):
        table = dict(pairs)
        if len(table) != len(pairs):
            raise ValueError("a name occurs twice in one object")
        return table

    def finite(digits):
        if not math.isfinite(float(digits)):
            raise ValueError(f"{digits} is no finite number")
        return float(digits)

    return json.loads(text, parse_constant=no_constant, parse_float=finite, object_pairs_hook=no_twins)


def number(value):
    """The value if it is a finite number, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    return None


class Record:
    """A record whose shape was checked."""

    def __init__(self, document):
        self.document = document
        self.rows = document["rows"]

    @classmethod
    def load(cls, path):
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            raise RecordError("no record was written") from None
        except UnicodeDecodeError as error:
            raise RecordError(f"its record is not UTF-8 ({error})") from None
        try:
            document = strict_json(text)
        except ValueError as error:
            raise RecordError(f"its record is not JSON ({error})") from None
        cls._check(document)
        return cls(document)

    @staticmethod
    def _check(document):
        def need(where, table, name, kind):
            if not isinstance(table, dict) or not isinstance(table.get(name), kind) or isinstance(table.get(name), bool):
                raise RecordError(f"its record has no valid {where}{name}")

        need("", document, "record_version", int)
        if document["record_version"] != VERSION:
            raise RecordError(f"its record is of version {document['record_version']}, not {VERSION}")
        need("", document, "tool", str)
        need("", document, "verdict", str)
        need("", document, "exit_code", int)
        need("", document, "rows", list)
        for place, row in enumerate(document["rows"]):
            need(f"rows[{place}].", row, "key", str)
            need(f"rows[{place}].", row, "metrics", dict)

    # ---- the run ----

    @property
    def tool(self):
        return self.document["tool"]

    @property
    def verdict(self):
        return self.document["verdict"]

    @property
    def exit_code(self):
        return self.document["exit_code"]

    @property
    def reason(self):
        return self.document.get("reason") or ""

    @property
    def injected(self):
        return self.document.get("injection") or ""

    @property
    def ranks(self):
        ranks = self.document.get("ranks")
        return [rank for rank in ranks if isinstance(rank, dict)] if isinstance(ranks, list) else []

    @property
    def versions(self):
        versions = self.document.get("versions")
        return versions if isinstance(versions, dict) else {}

    def place_of(self, rank):
        """'rank 3 on node2 (NVIDIA H200 0000:1b:00.0)'."""
        for entry in self.ranks:
            if entry.get("rank") == rank:
                device = entry.get("device") if isinstance(entry.get("device"), dict) else {}
                # A CPU's model name says nothing about which one it is.
                what = " ".join(str(device[k]) for k in ("name", "pci") if device.get(k) and device.get("kind") != "host")
                return f"rank {rank} on {entry.get('host', '?')}" + (f" ({what})" if what else "")
        return f"rank {rank}"

    @property
    def culprit(self):
        """The rank that the run itself named as the slowest or guilty, with its place; '' for none."""
        culprit = self.document.get("culprit")
        return self.place_of(culprit["rank"]) if isinstance(culprit, dict) and isinstance(culprit.get("rank"), int) else ""

    @property
    def slowest(self):
        """The slowest rank over all rows: an outlier before the others, then the one with the largest ratio."""
        found = [row["slowest"] for row in self.rows if isinstance(row.get("slowest"), dict)]
        found = [s for s in found if isinstance(s.get("rank"), int) and number(s.get("ratio")) is not None]
        if not found:
            return ""
        worst = max(found, key=lambda s: (bool(s.get("outlier")), s["ratio"]))
        text = f"{self.place_of(worst['rank'])}, {worst['ratio']:.2f}x"
        return text + (f" {worst['reason']}" if worst.get("reason") else "") + (", OUTLIER" if worst.get("outlier") else "")


def median(row, metric):
    """The median of a row's metric; None when it was not measured."""
    summary = row["metrics"].get(metric)
    return number(summary.get("median")) if isinstance(summary, dict) else None


def main_metric(row):
    name = row.get("main_metric")
    return name if isinstance(name, str) else None


# Units as they stand at the end of a metric's name.
_UNITS = {"GBps": "GB/s", "Gbitps": "Gbit/s", "us": "us", "ms": "ms", "s": "s", "percent": "%", "W": "W", "MHz": "MHz",
          "GB": "GB", "C": "C"}


def split_unit(metric):
    """'busbw_GBps' -> ('busbw', 'GB/s'); 'tflops' -> ('tflops', 'TFLOPS')."""
    if metric == "tflops":
        return "rate", "TFLOPS"
    if metric.endswith("_per_s"):
        return metric.removesuffix("_per_s"), "1/s"
    name, _, unit = metric.rpartition("_")
    return (name, _UNITS[unit]) if name and unit in _UNITS else (metric, "")


def better_of(metric):
    """Whether more or less of a metric is good: times are better short, rates high."""
    return "lower" if split_unit(metric)[1] in ("us", "ms", "s") else "higher"

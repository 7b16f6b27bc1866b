"""--record-baseline: a baseline file from the good runs of one or more campaigns (repeats, nodes).

The value is the median over runs. A run is an outlier, dropped and named, when it lies beyond both a robust z-score of
3.5 and a margin of 5 % against the median of the others; the same rule as common/statistics.h find_outliers().
"""

import math
import re
import statistics
from dataclasses import dataclass
from pathlib import Path

from . import sheet
from .baseline import VERSION, Baseline
from .campaign import load_former
from .codes import ENVIRONMENT, PASS, CampaignError
from .record import Record, RecordError, better_of, main_metric, median

Z_LIMIT, MARGIN, MAD_FLOOR = 3.5, 0.05, 0.001
MIN_TOLERANCE, SPREADS = 0.05, 4  # a tolerance is 4 standard deviations (1.4826 MAD each), but 5 % at least


@dataclass(frozen=True)
class Sample:
    value: float
    source: str  # campaign, step and run
    hosts: tuple
    tool: str = ""


class Collection:
    """What the campaigns hold: samples by (key, metric), and what was left out and why."""

    def __init__(self):
        self.samples, self.better, self.left_out, self.devices, self.versions = {}, {}, [], set(), {}

    def add_campaign(self, folder):
        document = load_former(folder)
        for step in document["steps"]:
            place = f"{folder.name} {step['id']} {step['name']}"
            if step["code"] != PASS:
                self.left_out.append(f"{place}: {step['verdict']}")
            elif step.get("injected"):
                self.left_out.append(f"{place}: a fault was injected ({step['injected']})")
            else:
                self._add_step(folder, step, place)

    def _add_step(self, folder, step, place):
        paths = sorted((folder / step["folder"]).rglob("record.json"))
        for path in paths:
            run = f" {path.parent.name}" if path.parent.name.startswith("run-") else ""
            try:
                self._add_record(Record.load(path), place + run)
            except RecordError as error:
                self.left_out.append(f"{place}{run}: {error}")
        if not paths:
            for figure in step["figures"]:  # of an outside command
                for number, value in enumerate(figure.get("runs") or [figure["value"]], 1):
                    self._add(figure["key"], figure["metric"], figure["better"], Sample(value, f"{place} run-{number}", ()))

    def _add_record(self, record, place):
        hosts = tuple(sorted({str(rank.get("host")) for rank in record.ranks}))
        for rank in record.ranks:
            device = rank.get("device")
            self.devices.add(device.get("name") if isinstance(device, dict) else None)
        for name, version in record.versions.items():
            self.versions.setdefault(name, set()).add(str(version))
        for row in record.rows:
            metric = main_metric(row)
            if not metric or row.get("comparable") is False:
                continue
            value = median(row, metric)
            if row.get("verdict") not in ("pass", "unknown"):
                self.left_out.append(f"{place}: {row['key']}: {row.get('verdict')}")
            elif value is None or value <= 0:
                self.left_out.append(f"{place}: {row['key']}: no {metric}")
            else:
                self._add(row["key"], metric, better_of(metric), Sample(value, place, hosts, record.tool))

    def _add(self, key, metric, better, sample):
        self.samples.setdefault((key, metric), []).append(sample)
        self.better[key, metric] = better


def outliers(values):
    """Indices of the values that lie off their peers. Two values cannot tell which of them is off: both are."""
    found = []
    for index, value in enumerate(values):
        others = values[:index] + values[index + 1:]
        if not others:
            return []
        middle = statistics.median(others)
        spread = max(statistics.median(abs(v - middle) for v in others), MAD_FLOOR * middle)
        if abs(value / middle - 1) > MARGIN and (len(values) == 2 or abs(0.6745 * (value - middle) / spread) > Z_LIMIT):
            found.append(index)
    return found


def entry_of(key, metric, better, samples, notes):
    """The baseline entry of one key. Appends to `notes` what was dropped."""
    off = outliers([s.value for s in samples])
    if len(samples) == 2 and off:
        raise CampaignError(ENVIRONMENT, f"--record-baseline: {key}: two runs that differ by more than {MARGIN:.0%} "
                                         f"({samples[0].value:.4g}, {samples[1].value:.4g} {metric}) and no third to tell which is off")
    for index in off:
        notes.append(f"{key}: outlier dropped: {samples[index].value:.4g} {metric} of {samples[index].source}")
    kept = [s for i, s in enumerate(samples) if i not in off]
    value = statistics.median(s.value for s in kept)
    mad = statistics.median(abs(s.value - value) for s in kept)
    hosts = sorted({host for s in kept for host in s.hosts})
    conditions = f"median of {len(kept)} run{'' if len(kept) == 1 else 's'}"
    if len(kept) > 1:
        conditions += f", MAD {mad / value:.2%}"
    if hosts:
        conditions += f", on {len(hosts)} host{'' if len(hosts) == 1 else 's'}: {' '.join(hosts[:16])}"
    if off:
        conditions += f", {len(off)} outlier{'' if len(off) == 1 else 's'} dropped"
    entry = {"key": key, "metric": metric, "value": value, "direction": better}
    if len(kept) >= 3:
        entry["tolerance"] = min(0.5, math.ceil(100 * max(MIN_TOLERANCE, SPREADS * 1.4826 * mad / value)) / 100)
    tools = {s.tool for s in kept}
    if len(tools) == 1 and "" not in tools:
        entry["tool"] = tools.pop()
    return {**entry, "origin": "measured", "conditions": conditions}


def sku_of(devices):
    """'NVIDIA H200' -> 'nvidia-h200'. A baseline is for one kind of device."""
    names = sorted(name for name in devices if name)
    if len(names) > 1:
        raise CampaignError(ENVIRONMENT, f"--record-baseline: different devices in one baseline: {', '.join(names)}")
    return re.sub(r"[^a-z0-9]+", "-", names[0].lower()).strip("-") if names else "unknown"


def record(target, folders):
    """Writes the file; returns PASS, or ENVIRONMENT (nothing written) by CampaignError when there is nothing good."""
    found = Collection()
    for folder in folders:
        found.add_campaign(folder)
    for line in found.left_out:
        print(f"# baseline: left out: {line}")
    if not found.samples:
        raise CampaignError(ENVIRONMENT, f"--record-baseline: no good run in {', '.join(str(f) for f in folders)}")
    notes = []
    entries = [entry_of(key, metric, found.better[key, metric], samples, notes)
               for (key, metric), samples in found.samples.items()]
    for line in notes:
        print(f"# baseline: {line}")
    versions = ", ".join(f"{name} {' | '.join(sorted(values))}" for name, values in sorted(found.versions.items()))
    document = {"baseline_version": VERSION, "sku": sku_of(found.devices), "comment": "; ".join([*notes, versions]),
                "entries": entries}
    sheet.write_json(Path(target), document)
    Baseline.load(target)  # what was written can be read
    print(f"baseline: {len(entries)} entries for {document['sku']} in {target}")
    return PASS

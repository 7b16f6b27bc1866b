"""Turns what a run left behind (exit status, record, output) into a verdict. Pure: reads no file, starts nothing.

The rule behind all of it: not having measured never passes. A missing or broken record, a figure that is null, a key that
a gate wants and no row has are failures, whatever the exit code says.
"""

import re
import signal
import statistics

from .baseline import in_window
from .codes import (ENVIRONMENT, GATE, PASS, SEVERITY, SKIPPED, TIMEOUT, WORDS, from_exit_status, worst)
from .record import better_of, main_metric, median, number, split_unit


MAX_REASONS = 5


class Findings:
    """Codes with their reasons, as they come up; the worst one is the verdict."""

    def __init__(self):
        self.found = []

    def add(self, code, reason):
        self.found.append((code, reason))

    @property
    def code(self):
        return worst(code for code, _ in self.found)

    @property
    def reason(self):
        """The reasons of the worst code first; each once, and no more than can be read."""
        ordered = sorted(self.found, key=lambda f: -SEVERITY.index(f[0]))
        reasons = list(dict.fromkeys(reason for _, reason in ordered if reason))
        more = len(reasons) - MAX_REASONS
        return "; ".join(reasons[:MAX_REASONS]) + (f"; and {more} more" if more > 0 else "")


def judge(step, ended, record, record_problem, output, baselines):
    """One attempt of a step. `record` is None for an outside command or when `record_problem` says why there is none.
    `output` is (stdout, stderr). `baselines` is [(Baseline, strict)]: strict ones must have all their keys measured here."""
    findings, rows = Findings(), []
    _judge_end(findings, step, ended, record, output)
    if step.executable:
        if record is not None:
            rows = record.rows
            _judge_record(findings, record)
        elif findings.code == PASS:
            findings.add(GATE, f"not measured: {record_problem}")
    else:
        rows = _outside_rows(findings, step, output)
    figures = _figures_of(rows, step)
    for baseline, strict in baselines:
        _judge_baseline(findings, figures, step, rows, baseline, strict and (record.tool if record else step.executable or ""))
    _judge_gates(findings, step, rows)
    return {
        "code": findings.code, "verdict": WORDS[findings.code], "reason": findings.reason,
        "exit_status": ended.status, "seconds": round(ended.seconds, 3), "figures": figures, "rows": _counts(rows),
        "slowest": record.slowest if record else "", "culprit": record.culprit if record else "",
        "tool": record.tool if record else step.executable or "", "injected": record.injected if record else "", "notes": _notes(ended, record),
    }


def _judge_end(findings, step, ended, record, output):
    told = record.reason if record else ""
    if ended.status is None and ended.error:
        findings.add(ENVIRONMENT, f"could not be started: {ended.error}")
    elif ended.timed_out:
        # The record's own code counts too, through _judge_record: data found wrong before the limit stays wrong.
        findings.add(TIMEOUT, f"time limit of {step.time_limit_s:g} s reached")
    elif ended.interrupted:
        findings.add(ENVIRONMENT, "interrupted")
    else:
        code = from_exit_status(ended.status)
        if code == PASS:
            return
        said = told or last_words(output)
        if code != ended.status:  # no code of the contract
            said = describe_status(ended.status) + (f": {said}" if said else "")
        findings.add(code, said or f"ended with exit code {ended.status}")


def _judge_record(findings, record):
    code = record.exit_code if record.exit_code in SEVERITY else ENVIRONMENT
    if code != PASS:
        findings.add(code, record.reason or f"its record says exit code {record.exit_code}")
    if findings.code != PASS:
        return
    if not record.rows:
        findings.add(GATE, "not measured: its record has no rows")
    elif any(main_metric(row) for row in record.rows) and not any(
            median(row, metric) is not None for row in record.rows for metric in row["metrics"]):
        findings.add(GATE, f"not measured: no figure in any of {len(record.rows)} rows")


def _judge_baseline(findings, figures, step, rows, baseline, tool):
    """`tool`: whose required entries must be there; False: nobody's."""
    by_row = {(figure["key"], figure["metric"]): figure for figure in figures}
    for row in rows:
        for metric, value, entry, ratio, floor, ok in baseline.judge(row, step.min_ratio):
            if value is None or ratio is None:
                findings.add(GATE, f"not measured: {row['key']} has no {metric}, but {baseline.path} has a baseline for it")
                continue
            figure = by_row.get((row["key"], metric))
            if figure is None:
                figure = _figure(row, metric, value)
                figures.append(figure)
            figure["baseline"], figure["baseline_ratio"], figure["ok"] = entry.value, ratio, ok
            if not ok:
                findings.add(GATE, f"{row['key']}: {metric} {value:.4g} is {ratio:.3f} of the baseline {entry.value:.4g} "
                                   f"(gate {floor:g})")
    if tool is not False:
        for entry in baseline.unmeasured(rows, tool):
            findings.add(GATE, f"not measured: {entry.key} ({entry.metric})")


def _judge_gates(findings, step, rows):
    for gate in step.gate:
        matching = [row for row in rows if gate.key in (row["key"], row.get("group"))
                    and in_window(row, gate.size_min, gate.size_max)]
        if not matching:
            findings.add(GATE, f"not measured: {gate.key} ({gate.metric})")
        for row in matching:
            value = median(row, gate.metric)
            if value is None:
                findings.add(GATE, f"not measured: {row['key']} has no {gate.metric}")
            elif gate.min is not None and not value >= gate.min:
                findings.add(GATE, f"{row['key']}: {gate.metric} {value:.4g} is below {gate.min:g}")
            elif gate.max is not None and not value <= gate.max:
                findings.add(GATE, f"{row['key']}: {gate.metric} {value:.4g} is above {gate.max:g}")


# ---- outside commands ----

def _outside_rows(findings, step, output):
    """Rows like those of a record, one per figure of the step; what the command prints is judged by its exit code, by
    `forbid` and by whether every figure is there."""
    text = "\n".join(output)
    if step.forbid and (match := re.search(step.forbid, text, re.MULTILINE)):
        findings.add(GATE, f"its output says {match[0]!r}")
    rows = []
    for figure in step.figures:
        values = [v for v in (_to_number(m) for m in re.findall(figure.regex, text, re.MULTILINE)) if v is not None]
        value = _pick(values, figure.pick)
        rows.append({"key": f"{step.name}/{figure.name}", "metrics": {figure.name: {"median": value}}, "main_metric": figure.name,
                     "unit": figure.unit, "better": figure.better})
        if value is None:
            if findings.code in (PASS, GATE):
                findings.add(GATE, f"no figure found: {figure.name} (/{figure.regex}/)")
        elif figure.min is not None and not value >= figure.min:
            findings.add(GATE, f"{figure.name} {value:.6g} {figure.unit} is below {figure.min:g}")
        elif figure.max is not None and not value <= figure.max:
            findings.add(GATE, f"{figure.name} {value:.6g} {figure.unit} is above {figure.max:g}")
    return rows


def _to_number(text):
    try:
        return number(float(text.replace(",", "")))
    except ValueError:
        return None


def _pick(values, how):
    if not values:
        return None
    return {"first": lambda: values[0], "last": lambda: values[-1], "min": lambda: min(values), "max": lambda: max(values),
            "median": lambda: statistics.median(values)}[how]()


# ---- figures ----

def _figures_of(rows, step):
    """The main figure of every row that has one."""
    figures = []
    for row in rows:
        metric = main_metric(row)
        value = median(row, metric) if metric else None
        if metric and value is None and row.get("unit") is None and median(row, "time_us") is not None:
            metric, value = "time_us", median(row, "time_us")  # a rate without meaning (busbw of one rank): its time
        if value is None:
            continue
        figure = _figure(row, metric, value)
        if metric == main_metric(row):
            figure["limit_ratio"] = number(row.get("limit_ratio"))
            if isinstance(row.get("baseline"), dict):  # judged by the tool itself (--baseline among its args)
                figure["baseline"] = number(row["baseline"].get("value"))
                figure["baseline_ratio"] = number(row["baseline"].get("ratio"))
        figures.append(figure)
    return figures


def _figure(row, metric, value):
    name, unit = split_unit(metric)
    if row.get("unit") is not None:
        name, unit = metric, row["unit"]
    return {"key": row["key"], "group": row.get("group") or row["key"], "size": number(row.get("size")), "metric": metric,
            "name": name, "value": value, "unit": unit, "better": row.get("better") or better_of(metric), "limit_ratio": None, "baseline": None, "baseline_ratio": None,
            "ok": row.get("verdict") not in ("fail", "wrong")}


def _counts(rows):
    counts = {"total": len(rows)}
    for row in rows:
        verdict = row.get("verdict")
        if isinstance(verdict, str):
            counts[verdict] = counts.get(verdict, 0) + 1
    return counts


def headline(figures):
    """One figure per group, the one of the largest size, but a failed one before that; failed groups first."""
    groups = {}
    for figure in figures:
        kept = groups.get(figure["group"])
        if kept is None or (not figure["ok"], figure["size"] or 0) >= (not kept["ok"], kept["size"] or 0):
            groups[figure["group"]] = figure
    return sorted(groups.values(), key=lambda f: f["ok"])


def merge(attempts):
    """Several attempts of one step (repeat): the worst verdict, the median of each figure."""
    if len(attempts) == 1:
        return dict(attempts[0])
    merged = dict(max(attempts, key=lambda a: SEVERITY.index(a["code"])))
    merged["reason"] = "; ".join(dict.fromkeys(f"run {i}: {a['reason']}" for i, a in enumerate(attempts, 1) if a["reason"]))
    merged["seconds"] = round(sum(a["seconds"] for a in attempts), 3)
    collected = {}
    for attempt in attempts:
        for figure in attempt["figures"]:
            collected.setdefault((figure["key"], figure["metric"]), []).append(figure)
    merged["figures"] = []
    for same in collected.values():
        figure = dict(same[0])
        for name in ("value", "limit_ratio", "baseline_ratio"):
            values = [f[name] for f in same if f[name] is not None]
            figure[name] = statistics.median(values) if values else None
        figure["ok"] = all(f["ok"] for f in same)
        figure["runs"] = [f["value"] for f in same]
        merged["figures"].append(figure)
    merged["notes"] = list(dict.fromkeys(note for a in attempts for note in a["notes"]))
    merged["injected"] = next((a["injected"] for a in attempts if a["injected"]), "")
    return merged


# ---- words ----

def describe_status(status):
    """Exit statuses that are no codes of the contract, in words: launchers return 128 + N for a signal."""
    number_ = -status if status < 0 else status - 128
    try:
        return f"ended by {signal.Signals(number_).name}" + ("" if status < 0 else f" (exit code {status})")
    except ValueError:
        return f"ended with exit code {status}"


def last_words(output, limit=300):
    """The line that most likely says what went wrong: the last one on stderr that is no decoration, else on stdout."""
    for text in (output[1], output[0]):
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line and not set(line) <= set("-=*# ")]
        ours = [line for line in lines if re.match(r"[a-z_]+(_perf|_check|_bw): ", line)]
        if ours or lines:
            return (ours or lines)[-1][:limit]
    return ""


def _notes(ended, record):
    notes = []
    if record and record.verdict == "unknown":
        notes.append("measured, but there is nothing to judge it by (no verification, no baseline)")
    if ended.left:
        notes.append(f"left processes behind, killed: {', '.join(ended.left)}")
    if ended.stuck:
        notes.append(f"processes that SIGKILL did not end: {', '.join(map(str, ended.stuck))}")
    return notes

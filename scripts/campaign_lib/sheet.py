"""The sheet in its three forms: sheet.json (the data, also what --resume reads), sheet.md, and text for the terminal.
All three come from one document; nothing is printed that is not in it."""

import json
import os
import tempfile
from pathlib import Path


from .judge import headline
from .plan import LAYERS

VERSION = 1
TERMINAL_FIGURES = 4  # per step; all of them are in sheet.md


def write(folder, document):
    """Each file is whole at every moment: written beside and renamed."""
    write_json(folder / "sheet.json", document)
    _write_atomically(folder / "sheet.md", markdown(document))
    _write_atomically(folder / "sheet.txt", text(document))


def write_json(path, document):
    _write_atomically(path, json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _write_atomically(path, content):
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


# ---- cells ----

def layer_name(layer):
    return f"{layer} {LAYERS[layer]}" if layer in LAYERS else str(layer)


def figure_text(figure):
    """'busbw 5.21 GB/s all_reduce/float/sum/67108864/out-of-place'."""
    name = f"{figure['name']} " if figure["name"] not in figure["key"].split("/") else ""
    return f"{name}{_short(figure['value'])} {figure['unit']}".rstrip() + f"  {figure['key']}"


def _short(value):
    """Four significant digits, no exponent for everyday sizes."""
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.3e}"
    digits = 3
    while digits < 7 and value and abs(value) * 10 ** digits < 1000:
        digits += 1
    while digits > 0 and abs(value) * 10 ** digits >= 10000:
        digits -= 1
    return f"{value:.{digits}f}"


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio:.3f}"


def _figure_rows(step, limit=None):
    """[(text, of limit, of baseline)] of a step; at least one row."""
    figures = headline(step.get("figures") or [])
    rows = [(figure_text(f), ratio_text(f["limit_ratio"]), ratio_text(f["baseline_ratio"])) for f in figures]
    if limit and len(rows) > limit:
        rows = rows[:limit] + [(f"(and {len(rows) - limit} more groups in sheet.md)", "", "")]
    return rows or [(counts_text(step) or "-", "-", "-")]


def counts_text(step):
    counts = step.get("rows") or {}
    if not counts.get("total"):
        return ""
    parts = [f"{counts[word]} {'not judged' if word == 'unknown' else word}"
             for word in ("fail", "wrong", "pass", "unknown", "skipped") if counts.get(word)]
    return f"{counts['total']} row{'' if counts['total'] == 1 else 's'}" + (f": {', '.join(parts)}" if parts else "")


def _seconds(step):
    return f"{step['seconds']:.1f} s" if step.get("seconds") is not None else "-"


def _who(step):
    """Who is to blame for a failure; of a good run who was slowest, and by how much."""
    named = [step.get("culprit"), step.get("slowest")]
    return next(filter(None, reversed(named) if step["code"] == 0 else named), "-")


def summary_lines(document):
    """What was tested, where and with what."""
    lines = [f"plan {document['plan']}, started {document['started']}" + (f", ended {document['ended']}" if document["ended"] else ""),
             f"launcher {document['launcher']}", f"device {document['device']}: {document['gpus']}"]
    inventory = document["inventory"]
    for group in inventory["hosts"]:
        names = group["names"]
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        lines.append(f"{len(names)} host{'' if len(names) == 1 else 's'} with {group['devices']}: {shown}")
    versions = [f"{name} {' | '.join(values)}" for name, values in inventory["versions"].items()]
    if versions:
        lines.append("versions: " + ", ".join(versions))
    return lines


def counts_line(document):
    counts = {}
    for step in document["steps"]:
        counts[step["verdict"]] = counts.get(step["verdict"], 0) + 1
    return ", ".join(f"{number} {verdict}" for verdict, number in counts.items())


def injected_lines(document):
    return [f"{step['id']} {step['name']}: {step['injected']}" for step in document["steps"] if step.get("injected")]


# ---- terminal ----

def text(document):
    """Aligned columns; figure rows beyond the first and the reason stand below their step."""
    head = ("step", "layer", "test", "verdict", "result", "of limit", "of baseline", "time", "slowest or culprit")
    table, blank = [head], ("",) * 4
    for step in document["steps"]:
        rows = _figure_rows(step, TERMINAL_FIGURES)
        (result, limit, baseline), more = rows[0], rows[1:]
        table.append((step["id"], layer_name(step["layer"]), step["name"], step["verdict"], result, limit, baseline,
                      _seconds(step), _who(step)))
        table += [blank + row + ("", "") for row in more]
        if step["reason"]:
            table.append(f"      {step['verdict']}: {step['reason']}")
        if step.get("injected"):
            table.append(f"      INJECTED FAULT: {step['injected']}")
        table += [f"      note: {note}" for note in step.get("notes") or []]
    widths = [max(len(row[i]) for row in table if not isinstance(row, str)) for i in range(len(head))]
    right = (5, 6, 7)
    lines = [f"== {document['campaign']}"] + summary_lines(document) + [""]
    for row in table:
        if isinstance(row, str):
            lines.append(row)
            continue
        cells = [cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(cells).rstrip())
        if row is head:
            lines.append("-" * len(lines[-1]))
    lines.append("")
    faults = injected_lines(document)
    if faults:
        lines += ["*** FAULTS WERE INJECTED: this is a test of the alarm chain, not a result ***"]
    lines.append(f"{document['verdict']} (exit code {document['exit_code']}): {counts_line(document)}"
                 + (f"; {document['reason']}" if document["reason"] else ""))
    return "\n".join(lines) + "\n"


# ---- Markdown ----

def _md(text_):
    return str(text_).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def markdown(document):
    lines = [f"# {_md(document['verdict'])}: {_md(document['campaign'])}", ""]
    if injected_lines(document):
        lines += ["> **FAULTS WERE INJECTED: this is a test of the alarm chain, not a result.**", ">"]
        lines += [f"> - {_md(line)}" for line in injected_lines(document)] + [""]
    lines += [f"- {_md(line)}" for line in summary_lines(document)]
    lines += [f"- exit code {document['exit_code']}: {_md(counts_line(document))}"
              + (f"; {_md(document['reason'])}" if document["reason"] else ""), "",
              "| step | layer | test | verdict | result | of limit | of baseline | time | slowest or culprit | reason |",
              "|---|---|---|---|---|--:|--:|--:|---|---|"]
    for step in document["steps"]:
        rows = _figure_rows(step)
        cells = ["<br>".join(_md(row[i]) for row in rows) for i in range(3)]
        fault = f"**INJECTED: {_md(step['injected'])}** " if step.get("injected") else ""
        lines.append(f"| {_md(step['id'])} | {_md(layer_name(step['layer']))} | {_md(step['name'])} | **{_md(step['verdict'])}** | "
                     f"{cells[0]} | {cells[1]} | {cells[2]} | {_seconds(step)} | {_md(_who(step))} | {fault}{_md(step['reason'])} |")
    lines += ["", "## What was run", ""]
    for step in document["steps"]:
        lines.append(f"- {_md(step['id'])} {_md(step['name'])}, limit {step['time_limit_s']:g} s"
                     + (f", {step['repeat']} times" if step["repeat"] > 1 else "") + f", in `{step['folder']}/`:")
        lines += [f"  - {_md(note)}" for note in step.get("notes") or []]
        lines += ["", "  ```", f"  {step['asked']}", "  ```", ""]
    return "\n".join(lines)



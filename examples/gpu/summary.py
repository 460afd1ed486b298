"""What `measure.py` found, as one JSON file, a table in Markdown and charts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

COLOURS = ("#9aa5b1", "#2563eb")
"""Of what was predicted, and of what was measured."""


def write(work: Path, runs: tuple[str, ...], state: dict[str, Any]) -> str:
    """Writes `summary.json`, `summary.md` and the charts; the Markdown."""
    rows = {run: row(work, run, state.get(f"run:{run}", {})) for run in runs}
    first = rows[runs[0]].get("measured_s")
    for one in rows.values():
        if first and one.get("measured_s"):
            one["times_as_fast_as_" + runs[0]] = first / one["measured_s"]
    models = calibrated(work / "profile.json")
    phases = {
        name: {key: one.get(key) for key in ("status", "seconds", "why")}
        for name, one in state.items()
        if "status" in one
    }
    whole = {"runs": rows, "models": models, "phases": phases, "worker": state.get("worker", {})}
    (work / "summary.json").write_text(json.dumps(whole, indent=1) + "\n")
    text = markdown(rows, models, runs[0])
    (work / "summary.md").write_text(text)
    measured = [
        (run, one.get("predicted_s"), one.get("measured_s"))
        for run, one in rows.items()
        if "measured_s" in one
    ]
    if measured:
        (work / "makespans.svg").write_text(
            bars("Makespan, s: predicted (grey) and measured (blue)", measured)
        )
    tokens = [(run, None, one.get("tokens_per_s")) for run, one in rows.items() if one.get("tokens_per_s")]
    if tokens:
        (work / "tokens.svg").write_text(bars("Tokens written a second, over the whole run", tokens))
    return text


def row(work: Path, run: str, phase: dict[str, Any]) -> dict[str, Any]:
    """The figures of one run, as far as there are any."""
    found: dict[str, Any] = {}
    predicted, measured = log_of(work / "predicted" / run), log_of(work / "measured" / run)
    if predicted:
        found.update(predicted_s=predicted["summary"]["makespan"], predicted_loads=loads(predicted))
    if measured:
        total = measured["summary"]
        found.update(
            measured_s=total["makespan"],
            completed_requests=total["completed_requests"],
            requests=total["total_requests"],
            loads=loads(measured),
            switch_s=total["total_switch_time"],
            largest_batch=max((one["batch_size"] for one in measured["executions"]), default=0),
            check=phase.get("check"),
            **tokens(work, run, total["makespan"]),
        )
        if predicted:
            found["makespan_error_percent"] = 100 * (predicted["summary"]["makespan"] / total["makespan"] - 1)
    for name, folder in (("fidelity", run), ("replay", f"{run}-replay")):
        path = work / "fidelity" / folder / "fidelity.json"
        if path.is_file():
            found[name] = {
                kind: {
                    key: one[key]
                    for key in ("makespan", "median_latency", "requests", "nodes", "switch_time", "models")
                }
                for kind, one in json.loads(path.read_text())["predictions"].items()
            }
    return found


def log_of(folder: Path) -> dict[str, Any] | None:
    """The execution log of a run, where there is one."""
    for path in sorted(folder.glob("*_execution_log.json")):
        log: dict[str, Any] = json.loads(path.read_text())
        return log
    return None


def loads(log: dict[str, Any]) -> int:
    """How often a model was brought to the device."""
    return int(log["summary"]["model_switches"]) + int(log["summary"]["cold_loads"])


def tokens(work: Path, run: str, seconds: float) -> dict[str, float]:
    """Tokens that were read and written, as the answers count them."""
    read = written = 0
    path = work / "measured" / run / "answers.jsonl"
    for line in path.read_text().splitlines() if path.is_file() else []:
        for usage in usages(json.loads(line)):
            read += usage.get("prompt_tokens", 0)
            written += usage.get("completion_tokens", 0)
    return {
        "tokens_read": read,
        "tokens_written": written,
        "tokens_per_s": written / seconds if seconds else 0.0,
    }


def shorten(run: Path) -> None:
    """Writes the answers of a run without the numbers of embeddings, which are most of them."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: len(part) if key == "embedding" else short(part) for key, part in value.items()}
        return [short(part) for part in value] if isinstance(value, list) else value

    for path in run.glob("*_results.jsonl"):
        lines = [json.dumps(short(json.loads(line))) for line in path.read_text().splitlines()]
        (run / "answers.jsonl").write_text("\n".join(lines) + "\n")


def usages(value: Any) -> list[dict[str, int]]:
    """Every `usage` in an answer, wherever it is."""
    if isinstance(value, dict):
        own = [value["usage"]] if isinstance(value.get("usage"), dict) else []
        return own + [one for key, part in value.items() if key != "usage" for one in usages(part)]
    return [one for part in value for one in usages(part)] if isinstance(value, list) else []


def calibrated(profile: Path) -> dict[str, Any]:
    """What the calibration says of each model, in a few figures."""
    if not profile.is_file():
        return {}
    found = {}
    for name, one in json.loads(profile.read_text())["models"].items():
        curve = {cost["batch"]: cost for cost in one["execution"]}
        found[name] = {
            "first_load_s": one["load"]["first"]["median"],
            "load_s": one["load"]["again"]["median"],
            "unload_s": one["unload"]["median"],
            "seconds": one["seconds"],
            "largest_batch": max(curve, default=0),
            "alone": curve.get(1),
            "in_the_largest_batch": curve.get(max(curve, default=0)),
            "notes": one.get("notes", []),
        }
    return found


def shown(value: Any, form: str = ".2f", unit: str = "") -> str:
    """A number, or a dash where there is none."""
    return f"{value:{form}}{unit}" if isinstance(value, (int, float)) else "-"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown: names to the left, figures to the right."""
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def markdown(rows: dict[str, Any], models: dict[str, Any], first: str) -> str:
    """The tables."""
    heads = ["run", "predicted, s", "measured, s", "error", f"times as fast as `{first}`", "loads"]
    heads += ["switching, s", "tokens/s", "largest batch", "median error of requests", "checked"]
    lines = []
    for run, one in rows.items():
        requests = one.get("fidelity", {}).get("before_the_run", {}).get("requests", {})
        lines.append(
            [
                f"`{run}`",
                shown(one.get("predicted_s")),
                shown(one.get("measured_s")),
                shown(one.get("makespan_error_percent"), "+.2f", "%"),
                shown(one.get(f"times_as_fast_as_{first}"), ".1f"),
                shown(one.get("loads"), "d"),
                shown(one.get("switch_s")),
                shown(one.get("tokens_per_s"), ".0f"),
                shown(one.get("largest_batch"), "d"),
                shown(requests.get("median"), ".2f", "%"),
                "yes" if one.get("check") == "ok" else "no",
            ]
        )
    text = table(heads, lines)
    if not models:
        return text
    heads = [
        "model",
        "first load, s",
        "load, s",
        "unload, s",
        "alone: fixed, s",
        "s/token read",
        "s/token or step",
    ]
    heads += ["largest batch", "its fixed, s", "its s/token or step", "calibrated in, s"]
    lines = []
    for name, one in models.items():
        alone, most = one["alone"] or {}, one["in_the_largest_batch"] or {}
        costs = [alone.get("fixed"), alone.get("prompt"), alone.get("output")]
        lines.append(
            [
                f"`{name}`",
                *(shown(one[key], ".3f") for key in ("first_load_s", "load_s", "unload_s")),
                *(shown(cost, ".3g") for cost in costs),
                shown(one["largest_batch"], "d"),
                *(shown(most.get(key), ".3g") for key in ("fixed", "output")),
                shown(one["seconds"], ".1f"),
            ]
        )
    return text + "\n" + table(heads, lines)


def bars(title: str, rows: Sequence[tuple[str, float | None, float | None]]) -> str:
    """A chart with a bar or two for each name, as SVG."""
    width, left, high = 640, 150, 40
    most = max(value or 0.0 for _, *values in rows for value in values) or 1.0
    parts = [f'<text x="8" y="20" font-size="14">{escape(title)}</text>']
    for place, (name, *values) in enumerate(rows):
        top = 34 + place * high
        parts.append(f'<text x="8" y="{top + 20}" font-size="12">{escape(name)}</text>')
        there = [(value, colour) for value, colour in zip(values, COLOURS, strict=True) if value is not None]
        for at, (value, colour) in enumerate(there):
            y, long = top + 2 + at * 15, (width - left - 80) * value / most
            parts.append(f'<rect x="{left}" y="{y}" width="{max(long, 1):.1f}" height="13" fill="{colour}"/>')
            parts.append(f'<text x="{left + long + 6:.1f}" y="{y + 11}" font-size="11">{value:.2f}</text>')
    height = 40 + len(rows) * high
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">'
    )
    return head + '<rect width="100%" height="100%" fill="white"/>' + "".join(parts) + "</svg>\n"

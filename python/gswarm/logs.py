"""Analyses of logs and servers: explanations, differences, accuracy of predictions, and measured costs. Each
call runs the command of the same name and returns the content of its `--json`.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ._command import carry_out, flags
from ._options import ClusterOptions, CostOptions, inputs_of, keywords, refuse_unknown
from .problem import Mode, Problem
from .result import LiveResult, Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

Log: TypeAlias = "Result | bytes | str | os.PathLike[str]"
"""A run: its result, its execution log, or the file that holds it."""


@contextmanager
def _files(problem: Problem, *logs: Log | None) -> Iterator[tuple[list[str], list[Path | None]]]:
    """The problem's files as flags, and the files of logs. What is a file already stays where it is."""
    inputs_of(problem)
    with tempfile.TemporaryDirectory() as folder:
        config, requests = problem.save(Path(folder))
        paths = [_file(log, Path(folder) / f"{at}.json") for at, log in enumerate(logs)]
        yield flags({"config": config, "requests": requests}), paths


def _file(log: Log | None, otherwise: Path) -> Path | None:
    if isinstance(log, LiveResult) and (kept := next(log.folder.glob("*_execution_log.json*"), None)):
        # Its journal is beside it, and says what the run was begun with.
        return kept
    if isinstance(log, Result):
        return log.save(otherwise)
    if isinstance(log, bytes):
        otherwise.write_bytes(log)
        return otherwise
    if log is None or isinstance(log, str | os.PathLike):
        return None if log is None else Path(log)
    raise TypeError(f"log is a {type(log).__name__}; give a result, a path or bytes")


def _answer(words: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(carry_out([*words, "--json"]))
    return found


@keywords(ClusterOptions)
def explain(
    log: Log,
    problem: Problem,
    *,
    node: str | None = None,
    request: str | None = None,
    gpu: int | None = None,
    top: int = 10,
    gpus: int | None = None,
    mode: Mode | None = None,
    **cluster: Unpack[ClusterOptions],
) -> dict[str, Any]:
    """Why a run went as it did (`docs/explain.md`): why `node`, as in `"r7/paint"`, started when it did,
    where the time of `request` went, or what `gpu` did. Without any of them: why GPUs were idle, with the
    `top` longest gaps. Mode and cluster are those of the log's summary; the arguments supply what it lacks.
    """
    refuse_unknown("explain", ClusterOptions, cluster)
    asked = sum(one is not None for one in (node, request, gpu))
    if asked > 1:
        raise TypeError("explain() takes one of node, request and gpu")
    what = {"node": node, "request": request, "gpu": gpu, "idle": asked == 0}
    with _files(problem, log) as (inputs, [path]):
        given = {**what, "top": top, "mode": mode, "gpus": gpus, **cluster}
        return _answer(["explain", str(path), *inputs, *flags(given)])


def diff(first: Log, second: Log, problem: Problem, *, top: int = 5) -> dict[str, Any]:
    """How the run `second` differs from `first`: what moved, what it cost, and the `top` requests that gained
    and lost most. Requests and nodes are matched by their ids.
    """
    with _files(problem, first, second) as (inputs, [one, other]):
        return _answer(["diff", str(one), str(other), *inputs, *flags({"top": top})])


@keywords(CostOptions)
def fidelity(
    log: Log,
    problem: Problem,
    *,
    predicted: Log | None = None,
    plan: str | os.PathLike[str] | None = None,
    batching: bool = True,
    top: int = 5,
    out: str | os.PathLike[str] | None = None,
    **costs: Unpack[CostOptions],
) -> dict[str, Any]:
    """How far a live run deviated from its prediction (`docs/calibration.md`). Predictions use the measured
    costs in `calibration`, or `predicted` is an estimate made before the run. If `log` is a file, the
    policy's settings and plan are read from the journal beside it. `out` is a folder for a page, its charts
    and the figures.
    """
    refuse_unknown("fidelity", CostOptions, costs)
    given = {"plan": plan, "no_batching": not batching, "top": top, "out": out, **costs}
    with _files(problem, log, predicted) as (inputs, [run, estimate]):
        return _answer(["fidelity", *flags({"log": run, "predicted": estimate}), *inputs, *flags(given)])


@keywords(ClusterOptions)
def calibrate(
    problem: Problem,
    out: str | os.PathLike[str],
    *,
    backends: str | os.PathLike[str],
    models: Sequence[str] = (),
    budget: float | str = "60s",
    repeats: int = 5,
    batches: Sequence[int] | None = None,
    force: bool = False,
    gpus: int | None = None,
    **cluster: Unpack[ClusterOptions],
) -> dict[str, Any]:
    """Measures the servers of `backends` and writes their costs to `out`, for the `calibration` of other
    calls (`docs/calibration.md`). `models` names the models to measure (default: all that the requests use);
    `budget` is the time for each. If one cannot be measured, this raises, and `out` has the others.
    """
    refuse_unknown("calibrate", ClusterOptions, cluster)
    named = [word for name in models for word in ("--model", name)]
    limit = budget if isinstance(budget, str) else f"{budget}s"
    given = {"backends": backends, "out": out, "budget": limit, "repeats": repeats, "batches": batches}
    rest = {"force": force, "gpus": gpus, **cluster}
    with _files(problem) as (inputs, _):
        return _answer(["calibrate", *inputs, *flags({**given, **rest}), *named])

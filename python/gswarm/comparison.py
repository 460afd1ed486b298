"""Comparisons of policies, and the number of GPUs that a workload needs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

from . import _gswarm
from ._options import (
    CostOptions,
    checked,
    file_content,
    inputs_of,
    keywords,
    policy_table,
    seconds,
    specification,
)
from .errors import InfeasibleError, UsageError
from .policy import Policy, name_of
from .problem import Mode, Problem
from .progress import Progress, shown
from .runs import run

if TYPE_CHECKING:
    import pandas
    from typing_extensions import Unpack


@dataclass(frozen=True)
class PolicyInfo:
    """A policy of gswarm's own."""

    name: str
    about: str
    """What it optimises and when to use it."""
    modes: list[str]
    is_yardstick: bool
    """Whether it is there to be compared with, not to be used."""
    parameters: list[ParameterInfo]


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter of a policy: an argument of `gswarm.run`."""

    name: str
    help: str
    type: Literal["number", "integer", "seconds", "choice"]
    default: float | int | str | None
    """The value where none is given; `None` for an optional parameter."""
    choices: list[str] | None
    min: float | None
    max: float | None


def policies() -> list[PolicyInfo]:
    """The available policies, in the order of comparisons."""
    return [
        PolicyInfo(
            one["name"],
            one["about"],
            one["modes"],
            one["yardstick"],
            [_parameter(info) for info in one["parameters"]],
        )
        for one in policy_table()
    ]


def _parameter(info: dict[str, Any]) -> ParameterInfo:
    value = info["value"]
    return ParameterInfo(
        info["name"],
        info["help"],
        value["type"],
        info["default"],
        value.get("names"),
        value.get("min"),
        value.get("max"),
    )


class Comparison:
    """Runs side by side."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows
        """A mapping for each run; `infeasible` says why there is none, where there is none."""

    def to_pandas(self) -> pandas.DataFrame:
        """One row per run."""
        import pandas

        return pandas.DataFrame(self.rows)

    def best(self, figure: str = "makespan_seconds") -> dict[str, Any]:
        """The run with the lowest value of a figure."""
        known = sorted({name for row in self.rows for name in row})
        if figure not in known:
            raise UsageError(f"unknown figure `{figure}`; use one of {', '.join(known)}")
        found = [row for row in self.rows if row[figure] is not None]
        if not found:
            # One reason may hold for every run.
            raise InfeasibleError(list(dict.fromkeys(row["infeasible"] for row in self.rows)))
        if not all(isinstance(row[figure], int | float) for row in found):
            raise UsageError(f"`{figure}` is not a number")
        return min(found, key=lambda row: float(row[figure]))

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Comparison({len(self.rows)} runs)"

    def _repr_html_(self) -> str:
        head = ["mode", "gpus", "policy", "makespan_seconds", "gap_percent", "model_switches"]
        lines = ["".join(f"<th>{name}</th>" for name in head)]
        for row in self.rows:
            cells = (row[name] for name in head)
            shown_cells = (f"{cell:,.1f}" if isinstance(cell, float) else str(cell) for cell in cells)
            lines.append("".join(f"<td>{cell}</td>" for cell in shown_cells))
        return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


@keywords(CostOptions)
def compare(
    problem: Problem,
    policies: str | Policy | Iterable[str | Policy] = "all",
    *,
    gpus: int | Sequence[int],
    mode: Mode | Sequence[Mode] = "offline",
    seeds: int | Sequence[int] = (0,),
    batching: bool | Sequence[bool] = True,
    rounds: int = 2,
    progress: Progress = None,
    **options: Unpack[CostOptions],
) -> Comparison:
    """Runs policies on one or more numbers of GPUs, in one or both modes; every log is checked.

    `policies` are names, objects of policies in Python, or `"all"` for all of gswarm's own. Policies that
    cannot run in a mode are omitted there. A problem that cannot run on so few GPUs has a row that says so.
    """
    inputs = inputs_of(problem)
    wanted = _listed(policies)
    numbers = sorted(set(_several("gpus", gpus)))
    modes: list[Mode] = list(dict.fromkeys(_several("mode", mode)))
    seeds = list(dict.fromkeys(_several("seed", seeds, "seeds")))
    checked({"rounds": rounds})
    _are_runs(wanted, modes)
    spec = specification("compare", CostOptions, options)
    axes = {
        "policies": [name for name in wanted if isinstance(name, str)],
        "gpus": numbers,
        "modes": modes,
        "batching": list(dict.fromkeys([batching] if isinstance(batching, bool) else batching)),
        "seeds": seeds,
        "rounds": rounds,
    }
    with shown(progress) as callback:
        found = _gswarm.compare(inputs, spec, axes, file_content(options.get("calibration")), callback)
    rows = [json.loads(row) for row in found]
    own = [one for one in wanted if isinstance(one, Policy)]
    for policy, when, number, seed in product(own, modes, numbers, seeds):
        begun = time.perf_counter()
        try:
            result = run(problem, policy, gpus=number, mode=when, seed=seed, progress=progress, **options)
            row = json.loads(result._outcome.row(problem.name, time.perf_counter() - begun))
        except InfeasibleError as error:
            row = _infeasible(rows, problem.name, when, number, name_of(policy), seed, str(error))
        rows.append(row)
    for row in rows:
        # Of the command's files, which outlive their inputs.
        row.pop("fingerprint", None)
    _fill_in_speedups(rows)
    return Comparison(rows)


def _listed(policies: str | Policy | Iterable[str | Policy]) -> list[str | Policy]:
    """The policies that are asked for, each of them a name or an object."""
    if isinstance(policies, str) and policies == "all":
        return [info["name"] for info in policy_table()]
    if isinstance(policies, str | Policy | type) or not isinstance(policies, Iterable):
        policies = [policies]
    found = list(policies)
    for one in found:
        if not isinstance(one, str | Policy):
            what = f"the class {one.__name__}" if isinstance(one, type) else f"a {type(one).__name__}"
            raise TypeError(
                f"policies has {what}; give names of policies, or objects of classes that derive from "
                "gswarm.Policy"
            )
    if not found:
        raise UsageError("policies is empty: there is nothing to compare")
    return found


def _several(kind: str, given: Any, name: str = "") -> list[Any]:
    """One value or several; none are refused, and so is what is of another type."""
    values = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    for value in values:
        try:
            checked({kind: value}, missing=())
        except TypeError as error:
            raise TypeError(f"{name or kind}: {error}") from None
        if value is None:
            raise TypeError(f"{name or kind} is not given")
    if not values:
        raise UsageError(f"{name or kind} is empty: there is nothing to compare")
    return values


def _are_runs(wanted: list[str | Policy], modes: list[Mode]) -> None:
    """Policies that cannot run in a mode are left out of it, but not all of them."""
    known = {info["name"]: info["modes"] for info in policy_table()}
    # What is not known is refused by its name, later.
    left = [one for one in wanted if not isinstance(one, str) or set(known.get(one, modes)) & set(modes)]
    if not left and set(modes) <= {"offline", "online"}:
        raise UsageError(f"none of these policies has a mode of {', '.join(modes)}")


def _infeasible(
    rows: list[dict[str, Any]], name: str, mode: str, gpus: int, policy: str, seed: int, why: str
) -> dict[str, Any]:
    empty: dict[str, Any] = dict.fromkeys(rows[0] if rows else ())
    known = {"input": name, "mode": mode, "batching": True, "gpus": gpus}
    return {**empty, **known, "policy": policy, "seed": seed, "infeasible": why}


def _fill_in_speedups(rows: list[dict[str, Any]]) -> None:
    """How many times faster than `baseline` policies in Python are: the others know it already."""
    key = ("mode", "gpus", "seed")
    baselines = {
        tuple(row[name] for name in key): row.get("makespan_seconds")
        for row in rows
        if row["policy"] == "baseline"
    }
    for row in rows:
        baseline, own = baselines.get(tuple(row[name] for name in key)), row.get("makespan_seconds")
        row["speedup_over_baseline"] = baseline / own if baseline and own else None


@dataclass(frozen=True)
class Point:
    """The result for one number of GPUs; times are in seconds."""

    gpus: int
    makespan: float
    mean: float
    """Request latency."""
    p50: float
    """Request latency."""
    p95: float
    """Request latency."""
    p99: float
    """Request latency."""
    switches: int
    utilisation: float
    bound: float | None
    """No schedule has a shorter makespan; absent of streams, which are resampled."""
    targets: list[dict[str, Any]]
    """How each target fares: `value`, `plus_minus` (half of its 95% confidence interval), `requests` that
    it is measured over and `rests_on`, how many of these decide it."""
    met: bool
    """Whether all targets are kept."""


@dataclass(frozen=True)
class Sizing:
    """The number of GPUs that a workload needs, with the simulated points behind it."""

    gpus: int | None
    """The fewest that were found to do; `None` where none are."""
    verdict: str
    """`met`; `below_floor`: no number of GPUs can; `beyond_limit`: none up to the limit can, which bounds
    prove; `not_found`: the policy kept the targets with none that was tried.
    """
    policy: str
    mode: str
    fewest_that_hold_the_models: int
    fewest_not_ruled_out: int
    """With fewer no schedule keeps the targets, which bounds prove."""
    floor_seconds: float | None
    """What a target would have to be at the least, where it is below that."""
    points: list[Point]
    """Every number that was simulated."""

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each number of GPUs that was simulated."""
        import pandas

        return pandas.DataFrame([vars(point) for point in self.points])


@keywords(CostOptions)
def size(
    problem: Problem,
    *,
    makespan: float | str | None = None,
    mean: float | str | None = None,
    p99: float | str | None = None,
    policy: str | None = None,
    mode: Mode | None = None,
    max_gpus: int = 1024,
    rounds: int = 2,
    seed: int = 0,
    progress: Progress = None,
    **options: Unpack[CostOptions],
) -> Sizing:
    """The fewest GPUs that meet a makespan, or a mean or P99 request latency, each given in seconds or as in
    `"2h"`.

    Without `mode`, a makespan target means a batch, and a latency target a stream. Without `policy`, a batch
    runs under `planned` and a stream under `adaptive`.
    """
    inputs = inputs_of(problem)
    targets = {"makespan": makespan, "mean": mean, "p99": p99}
    limits = {name: seconds(limit, name) for name, limit in targets.items() if limit is not None}
    checked({"policy": policy, "mode": mode, "max_gpus": max_gpus, "rounds": rounds, "seed": seed}, ("mode",))
    spec = specification("size", CostOptions, options, mode=mode, seed=seed, policy=policy)
    calibration = file_content(options.get("calibration"))
    wanted = [f"{name}={limit}" for name, limit in limits.items()]
    with shown(progress) as callback:
        found = json.loads(
            _gswarm.size_of(inputs, spec, wanted, mode, max_gpus, calibration, rounds, callback)
        )
    points = [Point(**point) for point in found["points"]]
    names = ("gpus", "verdict", "policy", "mode", "fewest_that_hold_the_models", "fewest_not_ruled_out")
    return Sizing(
        **{name: found[name] for name in names}, floor_seconds=found["floor_seconds"], points=points
    )


@dataclass(frozen=True)
class Advice:
    """GPUs, policy and placement for targets, with the simulated points behind them."""

    gpus: int | None
    """The fewest GPUs that keep the targets, spare ones included; `None` where none do."""
    verdict: str
    """`met`; `below_floor`: no number of GPUs can; `not_found`: none up to the limit does."""
    interval: tuple[int | None, int | None]
    """What 5% and 95% of the traces, each taken alone, need at most."""
    policy: dict[str, Any] | None
    """The policy, with its parameters."""
    traces: int
    points: list[Point]
    """Every number of GPUs that was tried under the policy."""
    warnings: list[str]
    report: dict[str, Any]
    """Everything, as `gswarm advise --json` prints it."""

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each number of GPUs that was tried."""
        import pandas

        return pandas.DataFrame([vars(point) for point in self.points])


@keywords(CostOptions)
def advise(
    problem: Problem,
    *targets: str,
    traffic: float = 1.0,
    spare: int | Literal["server"] = 0,
    price: float | None = None,
    policy: str | None = None,
    mode: Mode | None = None,
    max_gpus: int = 1024,
    traces: int | None = None,
    seed: int = 0,
    progress: Progress = None,
    **options: Unpack[CostOptions],
) -> Advice:
    """The fewest GPUs, the policy and the placement that meet targets such as `"p99=60s"`, `"chat:p95=20s"`,
    `"deadline=99%"` or `"makespan=2h"`.

    The requests are a sample of the traffic: similar traces are resampled with the seed. `traffic` scales it,
    `spare` is what may be lost (GPUs, or `"server"`), `price` the cost of one GPU per hour. Without `policy`,
    several are tried.
    """
    inputs = inputs_of(problem)
    checked({"policy": policy, "mode": mode, "max_gpus": max_gpus, "seed": seed}, ("mode",))
    spec = specification("advise", CostOptions, options, mode=mode, seed=seed, policy=policy)
    calibration = file_content(options.get("calibration"))
    question = json.dumps(
        {
            "targets": list(targets),
            "traffic": traffic,
            "spare": str(spare),
            "price": price,
            "max_gpus": max_gpus,
            "traces": traces,
        }
    )
    with shown(progress) as callback:
        found = json.loads(_gswarm.advise_of(inputs, spec, question, mode, calibration, callback))
    return Advice(
        gpus=found["gpus"],
        verdict=found["verdict"],
        interval=(found["gpus_low"], found["gpus_high"]),
        policy=found["policy"],
        traces=found["traces"],
        points=[Point(**tried["point"]) for tried in found["points"]],
        warnings=found["warnings"],
        report=found,
    )

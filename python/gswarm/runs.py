"""Calls that run, plan, bound, check and generate problems."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from . import _gswarm
from ._options import (
    ClusterOptions,
    CostOptions,
    RunOptions,
    checked,
    file_content,
    inputs_of,
    keywords,
    parameters,
    seconds,
    specification,
)
from .errors import UsageError
from .learn import Predictor
from .plans import Plan, content_of
from .policy import Policy, name_of
from .problem import Mode, Problem, _plain, load
from .progress import Progress, shown
from .result import LiveResult, Result, Violation

if TYPE_CHECKING:
    from typing_extensions import Unpack


@keywords(RunOptions)
def run(
    problem: Problem,
    policy: str | Policy | None = None,
    *,
    gpus: int | None = None,
    mode: Mode = "offline",
    seed: int = 0,
    plan: Plan | None = None,
    predictor: Predictor | None = None,
    noise: str | None = None,
    drift: Sequence[str] = (),
    truth: Literal["estimates", "requests"] | None = None,
    learn: bool = False,
    means_only: bool = False,
    fail_rate: float = 0.0,
    max_attempts: int = 3,
    lose_gpus: Mapping[int, float] | None = None,
    batching: bool = True,
    live: Live | None = None,
    progress: Progress = None,
    **options: Unpack[RunOptions],
) -> Result:
    """Runs a problem under one policy: a name, or an object of a class of your own (`gswarm.Policy`).

    The arguments are the flags of `gswarm run`, and the same arguments give the same log. `options` are the
    parameters of the policy (`gswarm.policies()` lists them, such as `budget="5s"` of `planned`), the cluster
    and a calibration. With `plan`, an earlier plan is followed. `lose_gpus` maps GPUs to the second at which
    they are lost. The default policy is `planned` for a batch and `adaptive` for a stream. Other threads
    continue to run, and Ctrl-C ends the call.

    The run is simulated unless `live` says where to run it (`gswarm.Live`).
    """
    given = parameters(options)
    if plan is not None and policy is not None:
        raise UsageError("give either a plan or a policy")
    inputs = inputs_of(problem)
    checked({"mode": mode, **given})
    chosen = policy
    if chosen is None:
        chosen = "planned" if plan is not None else _gswarm.usual(mode)
    _refuse_unused(chosen, plan, given)
    checked({"seed": seed, "noise": noise, "truth": truth, "learn": learn, "means_only": means_only})
    checked({"fail_rate": fail_rate, "max_attempts": max_attempts})
    losses = [{"gpu": gpu, "at": at} for gpu, at in _pairs("lose_gpus", lose_gpus)]
    spec = specification(
        *("run", RunOptions, options, gpus),
        mode=mode,
        seed=seed,
        batching=batching,
        policy={"name": chosen, **given} if isinstance(chosen, str) and plan is None else None,
        times={
            "noise": noise,
            "drift": _texts("drift", drift),
            "truth": truth,
            "learn": learn,
            "means_only": means_only,
        },
        faults={"fail_rate": fail_rate, "max_attempts": max_attempts, "lose_gpus": losses},
        live=None if live is None else _live(live),
        output=None if live is None else {"folder": os.fspath(live.folder)},
    )
    contents = {
        "plan": None if plan is None else content_of(plan),
        "predictor": _source_of(predictor),
        "calibration": file_content(options.get("calibration")),
    }
    with shown(progress) as callback:
        if live is not None:
            if not isinstance(chosen, str):
                raise UsageError("a live run takes a policy of gswarm's own, by its name")
            outcome, results, failed = _gswarm.run_live(inputs, spec, contents, callback)
            return LiveResult(outcome, problem.name, Path(live.folder), Path(results), failed)
        if isinstance(chosen, str):
            outcome = _gswarm.run(inputs, spec, contents, callback)
        else:
            name = name_of(chosen) if isinstance(chosen, Policy) else ""
            outcome = _gswarm.run_python(inputs, chosen, name, spec, contents, callback)
    return Result(outcome, problem.name)


def resume(
    folder: str | os.PathLike[str],
    *,
    backends: str | os.PathLike[str] | None = None,
    address: str | None = None,
    retry_failed: bool = False,
    progress: Progress = None,
) -> LiveResult:
    """Continues an interrupted live run. Its journal has all that it needs. `backends` names other servers,
    `address` the current address of its Ray cluster. `retry_failed` also retries permanently failed nodes.
    """
    place = Path(folder)
    with shown(progress) as callback:
        outcome, results, failed = _gswarm.resume(
            place, None if backends is None else Path(backends), address, retry_failed, callback
        )
    return LiveResult(outcome, place.name, place, Path(results), failed)


def run_spec(file: str | os.PathLike[str], *, progress: Progress = None) -> Result:
    """Runs the specification in a file, as `gswarm run --spec` does: simulated, or live where it says so."""
    spec = json.loads(_gswarm.read_spec(Path(file)))
    problem = load(spec["config"], spec["requests"], mode=spec["mode"])
    contents = {
        "plan": None if spec["plan"] is None else Path(spec["plan"]).read_bytes(),
        "predictor": file_content(spec["times"]["predictor"]),
        "calibration": file_content((spec["calibration"] or {}).get("file")),
    }
    inputs, text = inputs_of(problem), json.dumps(spec)
    with shown(progress) as callback:
        if spec["live"] is None:
            return Result(_gswarm.run(inputs, text, contents, callback), problem.name)
        outcome, results, failed = _gswarm.run_live(inputs, text, contents, callback)
        return LiveResult(outcome, problem.name, Path(spec["output"]["folder"]), Path(results), failed)


@dataclass(frozen=True)
class Live:
    """Where a live run happens: on the servers that the file `backends` lists, on a folder of models that
    gswarm serves itself (`models`), or on the Ray cluster at `address`. Its journal and its logs are written
    into `folder`, which must have no journal yet.
    """

    folder: str | os.PathLike[str]
    backends: str | os.PathLike[str] | None = None
    models: str | os.PathLike[str] | None = None
    address: str | None = None


def _live(live: Live) -> dict[str, Any]:
    if not isinstance(live, Live):
        raise TypeError(f"live is a {type(live).__name__}; give a gswarm.Live")
    spec: dict[str, Any] = {}
    if live.backends is not None:
        spec["backends"] = os.path.abspath(live.backends)
    if live.models is not None:
        spec["models"] = os.path.abspath(live.models)
    if live.address is not None:
        spec["ray"] = {"address": live.address, "python": sys.executable}
    return spec


def _source_of(predictor: Predictor | None) -> tuple[str, bytes] | None:
    if predictor is None or isinstance(predictor, Predictor):
        return None if predictor is None else predictor._source()
    raise TypeError(f"predictor is a {type(predictor).__name__}; give a gswarm.Predictor")


def _texts(name: str, given: Sequence[str]) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"{name} is a {type(given).__name__}; give a list of texts")
    if wrong := [one for one in given if not isinstance(one, str)]:
        raise TypeError(f"{name} has {wrong[0]!r}; give texts")
    return list(given)


def _pairs(name: str, given: Mapping[Any, Any] | None) -> list[tuple[Any, Any]]:
    if given is not None and not isinstance(given, Mapping):
        raise TypeError(f"{name} is a {type(given).__name__}; give a dictionary")
    for key, value in (given or {}).items():
        if isinstance(value, bool) or not hasattr(value, "__float__"):
            raise TypeError(f"{name} has {value!r} for {key!r}; give numbers")
    if name == "lose_gpus" and (wrong := [key for key in given or {} if not _is_gpu(key)]):
        raise TypeError(f"{name} names {wrong[0]!r}; GPUs are numbers from 0")
    return list((given or {}).items())


def _is_gpu(key: object) -> bool:
    return isinstance(key, int) and not isinstance(key, bool) and 0 <= key < 2**32


def _refuse_unused(policy: str | Policy, plan: Plan | None, given: Mapping[str, object]) -> None:
    """Rejects parameters of another policy: they would have no effect."""
    if not given or (isinstance(policy, str) and plan is None):
        # The library knows what the policies of its own take.
        return
    what = "a run that follows a plan" if plan is not None else f"policy `{policy}`"
    raise UsageError(f"{what} does not take {', '.join(given)}")


@keywords(CostOptions)
def plan(
    problem: Problem,
    *,
    gpus: int | None = None,
    budget: float | str = "10s",
    rounds: int | None = None,
    gap: float = 0.0,
    seed: int = 0,
    objective: str = "makespan",
    predictor: Predictor | None = None,
    keep: bool = False,
    batching: bool = True,
    progress: Progress = None,
    **options: Unpack[CostOptions],
) -> Plan:
    """Searches for the shortest schedule of a batch, as `gswarm plan` does, until the time or the rounds are
    used up, the plan is as close to the bound as `gap` asks (0.005 is 0.5%), or no schedule is shorter.

    `objective` is `makespan`, `mean` or `p99` (latency), `switches`, or a sum such as `makespan=1,mean=0.2`.
    With `keep=True`, Ctrl-C ends the search and returns the best plan so far; otherwise it raises
    `KeyboardInterrupt`. The same seed and rounds give the same plan.
    """
    inputs = inputs_of(problem)
    checked({"seed": seed})
    search = checked(
        {
            "budget": seconds(budget, "budget"),
            "rounds": rounds,
            "gap": gap,
            "objective": objective,
            "keep": keep,
        }
    )
    spec = specification(
        *("plan", CostOptions, options, gpus), seed=seed, policy="planned", batching=batching
    )
    contents = {
        "plan": None,
        "predictor": _source_of(predictor),
        "calibration": file_content(options.get("calibration")),
    }
    with shown(progress) as callback:
        return Plan(_gswarm.plan_for(inputs, spec, contents, search, callback))


@dataclass(frozen=True)
class Bound:
    """A lower bound on the makespan."""

    seconds: float
    argument: str
    """Which argument it rests on."""
    because: str
    """What that comes to here."""


@keywords(ClusterOptions)
def bounds(
    problem: Problem,
    *,
    gpus: int | None = None,
    mode: Mode = "offline",
    **options: Unpack[ClusterOptions],
) -> list[Bound]:
    """All lower bounds on the makespan, the strongest first."""
    checked({"mode": mode})
    spec = specification("bounds", ClusterOptions, options, gpus, mode=mode)
    return [Bound(*found) for found in _gswarm.bounds(inputs_of(problem), spec)]


@keywords(ClusterOptions)
def bound(
    problem: Problem,
    *,
    gpus: int | None = None,
    mode: Mode = "offline",
    **options: Unpack[ClusterOptions],
) -> Bound:
    """The strongest of `bounds`."""
    return bounds(problem, gpus=gpus, mode=mode, **options)[0]


def check(
    log: Result | Plan | bytes | str | os.PathLike[str],
    problem: Problem,
    *,
    gpus: int | None = None,
    mode: Mode | None = None,
    predictor: Predictor | None = None,
) -> list[Violation]:
    """Checks an execution log against its problem, independently of the scheduler; or a plan, or a file of
    bounds. An empty list means that it is valid. The rules of the run are those of the log's summary; the
    arguments supply what it lacks.
    """
    inputs = inputs_of(problem)
    checked({"mode": mode}, missing=("mode",))
    if isinstance(log, Result):
        content = log.log()
    elif isinstance(log, Plan):
        content = log.content
    elif isinstance(log, bytes | str | os.PathLike):
        content = log if isinstance(log, bytes) else Path(log).read_bytes()
    else:
        raise TypeError(f"log is a {type(log).__name__}; give a result, a plan, a path or bytes")
    spec = specification("check", ClusterOptions, {}, gpus, mode=mode)
    return [Violation(*found) for found in _gswarm.check(inputs, content, spec, _source_of(predictor))]


def generate(
    preset: str | None = "simple",
    *,
    config: Mapping[str, Any] | None = None,
    requests: int = 500,
    duration: float | str = "20min",
    arrivals: str = "poisson",
    mix: Mapping[str, float] | None = None,
    seed: int = 0,
) -> Problem:
    """Generates a problem, as `gswarm generate` does: a preset (`simple` or `complex`) or a
    configuration of your own, and requests drawn for it. `arrivals` spreads them over `duration`; `mix`
    weighs the workflows.
    """
    options = {
        "preset": None if config is not None else preset,
        "config": None if config is None else ("<config>", json.dumps(config, default=_plain).encode()),
        "requests": requests,
        "duration": seconds(duration, "duration"),
        "arrivals": arrivals,
        "mix": _pairs("mix", mix),
        "seed": seed,
    }
    checked(options)
    made = _gswarm.generate(options)
    name = "<config>" if config is not None else str(preset)
    return Problem._of((name, made[0]), ("<requests>", made[1]), False, "offline", False)

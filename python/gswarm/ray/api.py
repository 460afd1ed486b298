"""Runs on a Ray cluster from Python: the `gswarm` command in a separate process, and its results."""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from gswarm import _gswarm
from gswarm._command import carry_out
from gswarm._options import checked, inputs_of
from gswarm.comparison import policies
from gswarm.errors import InputError, UsageError
from gswarm.plans import Plan, content_of
from gswarm.problem import Mode, Problem
from gswarm.ray.references import MARK, replaced
from gswarm.result import Result

#: Exit code of a run that came to its end with requests that failed.
FAILED_REQUESTS = 4


def _requests_failed(code: int, said: str) -> bool:
    """Whether a run finished: one that stopped earlier has the same exit code."""
    return code == FAILED_REQUESTS and bool(re.match(r"\d+ of [\d,]+ requests? failed", said))


class RayResult(Result):
    """A finished run on a Ray cluster; its times are measured."""

    def __init__(self, outcome: _gswarm.Outcome, name: str, folder: Path) -> None:
        super().__init__(outcome, name)
        self.folder = folder
        """Where its journal, its logs and what its nodes wrote are."""

    @cached_property
    def requests(self) -> list[dict[str, Any]]:
        """The outcome of each request: `request_id`, `status`, `outputs` by node and, where any, `failures`.

        Outputs of the last nodes are complete, however large. Large outputs of other nodes were removed at
        the end of the run; their references remain.
        """
        file = self.folder / f"{self.policy}_results.jsonl"
        rows = (json.loads(line) for line in file.read_text().splitlines())
        return [replaced(row, self._saved) for row in rows]

    def _saved(self, reference: dict[str, Any]) -> Any:
        place = self.folder / "objects" / reference[MARK]
        if (text := place.with_name(f"{place.name}.json")).exists():
            return json.loads(text.read_text())
        if (pickled := place.with_name(f"{place.name}.pkl")).exists():
            return pickle.loads(pickled.read_bytes())
        return reference


def run(
    problem: Problem,
    policy: str | None = None,
    *,
    plan: Plan | None = None,
    address: str = "auto",
    models: Mapping[str, Callable[..., Any]] | str | os.PathLike[str] | None = None,
    backends: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    speed: float | None = None,
    gpus: int | None = None,
    gpus_per_server: int | None = None,
    mode: Mode = "offline",
    seed: int = 0,
    max_attempts: int = 3,
    call_timeout: float | None = None,
    out: str | os.PathLike[str] | None = None,
) -> RayResult:
    """Runs a problem on the Ray cluster at `address`, under a policy or a plan.

    `models` are callables by the name of their model (see `gswarm.model`), or a file of them. `backends` is a
    file of servers, or its content, for models on servers of the nodes. With neither, models are emulated at
    `speed` times real time. Without a number of GPUs, the cluster's nodes are the servers. With more GPUs
    than there are, nodes that join are used. A call fails after `call_timeout` seconds, by default a minute
    plus ten times its estimate. Journal and logs are written to `out`, by default a new folder: `resume`
    continues an interrupted run. Failed requests are in the result; a failure of the run is raised.
    """
    inputs_of(problem)
    numbers = {
        "gpus": gpus,
        "gpus_per_server": gpus_per_server,
        "speed": speed,
        "call_timeout": call_timeout,
        "max_attempts": max_attempts,
        "seed": seed,
    }
    _are_sensible(policy, plan, mode, address, numbers)
    words = ["run", "--engine", "ray", "--address", address, "--mode", mode]
    words += ["--policy", policy] if policy is not None else []
    for name, value in numbers.items():
        words += [f"--{name.replace('_', '-')}", str(value)] if value is not None else []
    with tempfile.TemporaryDirectory() as given:
        # The journal keeps all that is given: the folder of the run gets nothing else.
        config, requests = problem.save(given)
        words += ["--config", str(config), "--requests", str(requests)]
        if plan is not None:
            words += ["--plan", _written(Path(given) / "plan.json", content_of(plan))]
        if isinstance(models, Mapping):
            words += ["--models", _written(Path(given) / "models.pkl", _pickled(models))]
        elif models is not None:
            words += ["--models", os.fspath(models)]
        if isinstance(backends, Mapping):
            words += ["--backends", _written(Path(given) / "backends.json", json.dumps(backends).encode())]
        elif backends is not None:
            words += ["--backends", os.fspath(backends)]
        folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="gswarm-ray-"))
        try:
            carry_out([*words, "--out", str(folder)], _requests_failed)
        finally:
            if out is None:
                # One that is empty is of a run that never began.
                with suppress(OSError):
                    folder.rmdir()
    return _result(folder, problem.name)


def resume(folder: str | os.PathLike[str], *, address: str | None = None) -> RayResult:
    """Continues an interrupted run, on the cluster at `address`."""
    place = Path(folder)
    words = ["resume", str(place), *(["--address", address] if address is not None else [])]
    if address is not None:
        checked({"address": address})
    carry_out(words, _requests_failed)
    return _result(place)


def forget(folder: str | os.PathLike[str], *, address: str | None = None) -> int:
    """Removes the large outputs that an interrupted run keeps in its cluster for `resume`; returns on how
    many nodes they were. A finished run has left none.
    """
    import ray

    from gswarm.ray.shelves import clear

    cluster = (json.loads(_kept(Path(folder))["spec"])["live"] or {}).get("ray")
    if cluster is None:
        raise InputError(f"the run in {folder} was not on a Ray cluster")
    ray.init(address=address or cluster["address"], log_to_driver=False)
    try:
        return clear(cluster["namespace"])
    finally:
        ray.shutdown()


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def _pickled(models: Mapping[str, Callable[..., Any]]) -> bytes:
    from ray import cloudpickle

    return bytes(cloudpickle.dumps(dict(models)))


def _are_sensible(
    policy: str | None, plan: Plan | None, mode: str, address: str, numbers: Mapping[str, Any]
) -> None:
    """Refuses what the command would refuse, in the words of `gswarm.run`."""
    checked({"policy": policy, "mode": mode, "address": address, **numbers})
    if plan is not None:
        content_of(plan)
        if policy is not None:
            raise UsageError("give either a plan or a policy")
    if mode not in ("offline", "online"):
        raise UsageError(f"mode is `{mode}`; use offline or online")
    known = {info.name: info.modes for info in policies()}
    if policy is not None and policy not in known:
        hint = "gswarm.policies() says what each is for"
        raise UsageError(f"unknown policy `{policy}`; the policies are {', '.join(known)}", hint)
    if policy is not None and mode not in known[policy]:
        raise UsageError(f"policy `{policy}` has no {mode} mode")
    if not address:
        raise UsageError("address is empty; give HOST:PORT, or `auto` for the cluster of this machine")
    for name in ("gpus", "gpus_per_server", "max_attempts"):
        if numbers[name] is not None and numbers[name] < 1:
            raise UsageError(f"{name} is {numbers[name]}; give a number of at least 1")
    for name in ("speed", "call_timeout"):
        if numbers[name] is not None and not 0 < numbers[name] < math.inf:
            raise UsageError(f"{name} is {numbers[name]}; give a number above zero")


def _kept(folder: Path) -> dict[str, bytes]:
    """What the journal of a run keeps of what it was given."""
    place = folder / "journal.db"
    if not place.exists():
        raise InputError(f"{folder} has no journal of a live run")
    with closing(sqlite3.connect(f"{place.resolve().as_uri()}?mode=ro", uri=True)) as db:
        wanted = "('spec', 'config', 'requests', 'predictor')"
        rows = db.execute(f"SELECT key, value FROM meta WHERE key IN {wanted}").fetchall()
    return {str(name): bytes(value) for name, value in rows}


def _result(folder: Path, name: str | None = None) -> RayResult:
    """The results of the run in a folder."""
    kept = _kept(folder)
    spec = json.loads(kept["spec"])
    sources = [(str(spec[name]), kept[name]) for name in ("config", "requests")]
    predictor = None if "predictor" not in kept else (spec["times"]["predictor"], kept["predictor"])
    problem = Problem._of(sources[0], sources[1], True, spec["mode"], predictor is not None)
    # A plan is followed under this name.
    policy = "planned" if spec["policy"] is None else spec["policy"]["name"]
    logs = [folder / f"{policy}_execution_log.{ending}" for ending in ("json", "jsonl")]
    # Of an earlier run there may be one in the other form.
    log = max((file for file in logs if file.exists()), key=lambda file: file.stat().st_mtime)
    outcome = _gswarm.read_log(problem._inputs, log.read_bytes(), predictor)
    return RayResult(outcome, name or problem.name, folder)

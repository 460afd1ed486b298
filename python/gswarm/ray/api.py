"""Runs on a Ray cluster from Python: the `gswarm` command in a process of its own, and what came of it."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from gswarm import _gswarm
from gswarm.errors import GswarmError, InfeasibleError, InputError, InternalError
from gswarm.plans import Plan
from gswarm.problem import Mode, Problem, load
from gswarm.ray.references import MARK, replaced
from gswarm.result import Result

#: Exit code of a run that came to its end with requests that failed.
FAILED_REQUESTS = 4
INTERRUPTED = 130


class LiveResult(Result):
    """A run on a cluster that came to its end; its times are measured."""

    def __init__(self, outcome: _gswarm.Outcome, name: str, folder: Path) -> None:
        super().__init__(outcome, name)
        self.folder = folder
        """Where its journal, its logs and what its nodes wrote are."""

    @cached_property
    def requests(self) -> list[dict[str, Any]]:
        """What came of each request: `request_id`, `status`, `outputs` by node and, where any, `failures`.

        What the last nodes wrote is there, however large. A large output of another node was let go at the
        end of the run: its reference is there in place of it.
        """
        [file] = self.folder.glob("*_results.jsonl")
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
    out: str | os.PathLike[str] | None = None,
) -> LiveResult:
    """Runs a problem on the Ray cluster at `address`, under a policy or a plan.

    `models` are callables by the name of their model (see `gswarm.model`), or a file of them. `backends` is a
    file of servers, or what it would say, for models that servers on the nodes have. With neither, models are
    emulated, `speed` times as fast as told. Where nothing is said of GPUs, the cluster's nodes are the
    servers; more GPUs than there are means that nodes which join are used. Everything is written down in
    `out`, a new folder where none is given: `resume` goes on with a run that was interrupted. Requests that
    fail are in the result; what keeps a run from its end is raised.
    """
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="gswarm-ray-"))
    config, requests = problem.save(folder)
    words = ["run", "--engine", "ray", "--address", address, "--mode", mode, "--seed", str(seed)]
    words += ["--config", str(config), "--requests", str(requests), "--out", str(folder)]
    words += ["--max-attempts", str(max_attempts)]
    for flag, value in (
        ("policy", policy),
        ("speed", speed),
        ("gpus", gpus),
        ("gpus-per-server", gpus_per_server),
    ):
        words += [f"--{flag}", str(value)] if value is not None else []
    with tempfile.TemporaryDirectory() as given:
        if plan is not None:
            words += ["--plan", _written(Path(given) / "plan.json", plan.content)]
        if isinstance(models, Mapping):
            words += ["--models", _written(Path(given) / "models.pkl", _pickled(models))]
        elif models is not None:
            words += ["--models", os.fspath(models)]
        if isinstance(backends, Mapping):
            words += ["--backends", _written(Path(given) / "backends.json", json.dumps(backends).encode())]
        elif backends is not None:
            words += ["--backends", os.fspath(backends)]
        _carry_out(words)
    return _result(problem, folder)


def resume(folder: str | os.PathLike[str], *, address: str | None = None) -> LiveResult:
    """Goes on with a run that was interrupted, on the cluster that is at `address` by now."""
    place = Path(folder)
    words = ["resume", str(place), *(["--address", address] if address is not None else [])]
    _carry_out(words)
    [config], [requests] = place.glob("config.*"), place.glob("requests.*")
    return _result(load(config, requests), place)


def forget(folder: str | os.PathLike[str], *, address: str | None = None) -> int:
    """Lets go of the large outputs that an interrupted run has left in its cluster, for `resume`; how many
    nodes they were on. A run that came to its end has left none.
    """
    import ray

    from gswarm.ray.shelves import clear

    place = Path(folder) / "journal.db"
    if not place.exists():
        raise InputError(f"there is no journal of a run in {folder}")
    with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True)) as db:
        [text] = db.execute("SELECT value FROM meta WHERE key = 'settings'").fetchone()
    settings = json.loads(text)["ray"]
    if settings is None:
        raise InputError(f"the run in {folder} was not on a Ray cluster")
    ray.init(address=address or settings["address"], log_to_driver=False)
    try:
        return clear(settings["namespace"])
    finally:
        ray.shutdown()


def _written(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def _pickled(models: Mapping[str, Callable[..., Any]]) -> bytes:
    from ray import cloudpickle

    return bytes(cloudpickle.dumps(dict(models)))


def _result(problem: Problem, folder: Path) -> LiveResult:
    [log] = [file for ending in ("json", "jsonl") for file in folder.glob(f"*_execution_log.{ending}")]
    return LiveResult(_gswarm.read_log(problem._inputs, log.read_bytes()), problem.name, folder)


def _carry_out(words: list[str]) -> None:
    """Runs the command; what it says of the run is shown as it comes, and what keeps it from its end is
    raised.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "gswarm", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env={**os.environ, "GSWARM_PYTHON": sys.executable},
    )
    said = []
    try:
        with process:
            for line in process.stderr or ():
                said.append(line)
                if not line.startswith(("error", "  hint")):
                    sys.stderr.write(line)
        code = process.returncode
    except KeyboardInterrupt:
        # The command hears it too, unless this was not a terminal's: it is told to keep what was done.
        process.terminate()
        process.wait()
        raise
    told = "".join(said[next((at for at, line in enumerate(said) if line.startswith("error")), 0) :]).strip()
    if code in (0, FAILED_REQUESTS) and "no backend has answered" not in told:
        return
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    faults = {2: InputError(told), 3: InfeasibleError([told]), 70: InternalError(told)}
    raise faults.get(code) or GswarmError(told or f"the run ended with exit code {code}")

"""Independent tasks on one machine's CPU and GPUs, as `gswarm tasks` has them (`docs/tasks.md`).

    from gswarm import tasks

    tasks.generate("workload.csv", tasks=1000, load=0.8)
    schedule = tasks.schedule("workload.csv", "learned", out="scheduled")
    tasks.check(schedule.log, "workload.csv")
    tasks.pipeline("run", {"workload": {"tasks": 2000}})

Workloads, profiles and logs are files; `gswarm.train` makes the predictors.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ._command import VIOLATIONS, carry_out, flags

File: TypeAlias = "str | os.PathLike[str]"

Policy: TypeAlias = Literal[
    "round_robin",
    "random",
    "greedy",
    "gpu_only",
    "cpu_only",
    "least_loaded",
    "earliest_finish",
    "heft",
    "work_stealing",
    "q_learning",
    "learned",
    "clairvoyant",
]


def profile(
    out: File,
    *,
    device: str = "all",
    sizes: Sequence[int] = (256, 512, 1024, 2048),
    budget: float = 0.6,
    force: bool = False,
) -> dict[str, Any]:
    """Measures what this machine can do and writes it to `out`; `device` is `cpu`, `cuda:0` and so on, or
    `all`, and `budget` the seconds for each operation at each size.
    """
    given = {"device": device, "sizes": sizes, "budget": budget, "out": out, "force": force}
    carry_out(["tasks", "profile", *flags(given)])
    found: dict[str, Any] = json.loads(Path(out).read_bytes())
    return found


def generate(
    out: File,
    *,
    tasks: int = 10_000,
    rate: float | None = None,
    load: float | None = None,
    sizes: tuple[float, float] | None = None,
    intensity: tuple[float, float] | None = None,
    memory: tuple[float, float] | None = None,
    dependent: float | None = None,
    types: Mapping[str, float] | None = None,
    noise: float | None = None,
    gpus: int = 4,
    hardware: File | None = None,
    seed: int = 0,
    force: bool = False,
) -> Path:
    """Writes a workload, CSV or Parquet by the ending of `out`. Tasks arrive at `rate` per second, or at a
    share (`load`) of the machine's capacity. `hardware` is the profile for run times.
    """
    weights = None if types is None else [f"{name}={weight}" for name, weight in types.items()]
    given = {
        **{"tasks": tasks, "rate": rate, "load": load, "sizes": sizes, "intensity": intensity},
        **{"memory": memory, "dependent": dependent, "types": weights, "noise": noise, "gpus": gpus},
        **{"hardware": hardware, "seed": seed, "out": out, "force": force},
    }
    carry_out(["tasks", "generate", *flags(given)])
    return Path(out)


@dataclass(frozen=True)
class Figures:
    """The result of one policy; times are in seconds."""

    policy: str
    makespan_seconds: float
    mean_flow_seconds: float
    p99_flow_seconds: float
    utilisation: float
    gpu_balance: float
    link_utilisation: float
    on_cpu_on_gpu_cut: list[int]
    """Tasks on the CPU, on a GPU, and cut over both."""
    energy_joules: float
    objective_seconds: float


@dataclass(frozen=True)
class Schedule:
    """Tasks that were scheduled and checked."""

    folder: Path
    bound_seconds: float
    """No schedule is shorter."""
    policies: list[Figures]

    @property
    def log(self) -> Path:
        """The execution log, of the first policy where there are several."""
        prefix = f"{self.policies[0].policy}_" if len(self.policies) > 1 else ""
        return self.folder / f"{prefix}task_execution_log.jsonl"


def schedule(
    tasks: File,
    policy: Policy | Literal["all"] = "learned",
    *,
    out: File,
    gpus: int = 4,
    predictors: Sequence[File] = (),
    hardware: File | None = None,
    energy_weight: float = 0.0,
    seed: int = 0,
) -> Schedule:
    """Schedules the tasks of a file under one policy, or under `all`, checks the logs and writes them into
    `out`. Policies use the times of `predictors`, else those of the hardware profile.
    """
    given = {"tasks": tasks, "policy": policy, "gpus": gpus, "hardware": hardware}
    words = flags({**given, "energy_weight": energy_weight, "seed": seed, "out": out})
    for one in predictors:
        words += ["--predictor", os.fspath(one)]
    found = json.loads(carry_out(["tasks", "schedule", "--json", *words]))
    return Schedule(Path(out), found["bound_seconds"], [Figures(**one) for one in found["policies"]])


def compare(
    *,
    out: File,
    gpus: int = 4,
    seeds: Sequence[int] = range(1, 11),
    loads: Sequence[float] = (0.5, 0.7, 0.8, 0.9, 0.95, 1.5),
    count: int = 10_000,
    bare: bool = False,
    hardware: File | None = None,
) -> list[dict[str, str]]:
    """Runs all policies on generated workloads; one mapping per run, as in `policy_comparison.csv` in `out`.
    With `bare`, policies have no predictors.
    """
    given = {"gpus": gpus, "seeds": seeds, "loads": loads, "count": count, "bare": bare}
    carry_out(["tasks", "schedule", "--compare", *flags({**given, "hardware": hardware, "out": out})])
    with (Path(out) / "policy_comparison.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class TaskViolation:
    """A violation in a log."""

    rule: str
    place: str
    """The task, or the device."""
    message: str


def check(log: File, tasks: File, *, hardware: File | None = None) -> list[TaskViolation]:
    """Checks a log of `schedule` against its tasks, independently of the scheduler. An empty list means that
    it is valid.
    """
    words = ["tasks", "check", os.fspath(log), "--json", *flags({"tasks": tasks, "hardware": hardware})]
    found = json.loads(carry_out(words, lambda code, said: code == VIOLATIONS))
    return [TaskViolation(**one) for one in found["violations"]]


def settings() -> str:
    """Every setting of `pipeline` with its default value and what it does, as YAML."""
    return carry_out(["tasks", "pipeline", "--init"])


def pipeline(
    out: File,
    settings: Mapping[str, Any] | File | None = None,
    *,
    results_to: File | None = None,
    force: bool = False,
) -> Path:
    """Profiles, generates, trains, schedules and evaluates into the folder `out`, and writes a report;
    returns the path of its page. `settings` is a file, or its content. Finished phases are kept.
    """
    with tempfile.TemporaryDirectory() as given:
        config = settings
        if isinstance(settings, Mapping):
            config = Path(given) / "pipeline.yaml"
            config.write_text(json.dumps(settings), encoding="utf-8")
        words = flags({"config": config, "out": out, "results_to": results_to, "force": force})
        carry_out(["tasks", "pipeline", *words])
    return Path(out) / "report.html"

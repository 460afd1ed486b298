"""The figures of a run, typed. `docs/metrics.md` defines each; times are in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Stats:
    """A sample of lengths of time."""

    count: int
    mean: float
    median: float
    p90: float
    p99: float
    min: float
    max: float


@dataclass(frozen=True)
class Utilisation:
    """The GPUs together."""

    mean: float
    max: float
    min: float
    mean_compute: float
    spread_points: float
    variance: float
    load_balance: float


@dataclass(frozen=True)
class GpuMetrics:
    """One GPU over the whole run."""

    gpu: int
    busy_seconds: float
    compute_seconds: float
    utilisation: float
    compute_utilisation: float
    executions: int
    switches: int
    cold_loads: int


@dataclass(frozen=True)
class ModelMetrics:
    """One model over the whole run."""

    model: str
    executions: int
    switches: int
    cold_loads: int


@dataclass(frozen=True)
class ServerMetrics:
    """Locality."""

    servers: int
    server_efficiency: float
    intra_server_workflows: int
    inter_server_workflows: int
    cross_server_communications: int


@dataclass(frozen=True)
class DeploymentMetrics:
    """The models that were put in place before any execution needs it."""

    replicas: int
    load_seconds: float
    ready_after_seconds: float


@dataclass(frozen=True)
class Metrics:
    """What a run came to."""

    makespan_seconds: float
    total_requests: int
    completed_requests: int
    failed_requests: int
    completed_nodes: int
    retries: int
    failed_executions: int
    lost_executions: int
    lost_gpus: int
    requests_per_second: float
    nodes_per_second: float
    requests_with_deadline: int
    deadline_misses: int
    request_latency: Stats
    waiting_time: Stats
    node_latency: Stats
    execution_time: Stats
    model_switches: int
    cold_loads: int
    total_switch_seconds: float
    switch_overhead: float
    utilisation: Utilisation
    gpus: list[GpuMetrics]
    models: list[ModelMetrics]
    servers: ServerMetrics
    deployment: DeploymentMetrics | None = None
    bound_note: str | None = None


def read(found: Mapping[str, Any]) -> Metrics:
    """From what the library gives."""
    parts = dict(found)
    for name in ("request_latency", "waiting_time", "node_latency", "execution_time"):
        parts[name] = _filled(Stats, parts[name])
    parts["utilisation"] = _filled(Utilisation, parts["utilisation"])
    parts["gpus"] = [_filled(GpuMetrics, one) for one in parts["gpus"]]
    parts["models"] = [_filled(ModelMetrics, one) for one in parts["models"]]
    parts["servers"] = _filled(ServerMetrics, parts["servers"])
    if parts.get("deployment") is not None:
        parts["deployment"] = _filled(DeploymentMetrics, parts["deployment"])
    return _filled(Metrics, parts)


def _filled(of: type[T], values: Mapping[str, Any]) -> T:
    known = {field.name for field in fields(of)}  # type: ignore[arg-type]
    return of(**{name: value for name, value in values.items() if name in known})

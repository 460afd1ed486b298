"""Arguments that several calls have, on their way to the library."""

from __future__ import annotations

from typing import Literal, TypeAlias

from . import _gswarm

Residency: TypeAlias = Literal["single", "memory"]
"""Models on a GPU: one at a time, or as many as fit into its memory."""

SwitchCost: TypeAlias = Literal["transfer", "load_time"]
"""What replacing a model costs: moving both over PCIe, or the new one's load time."""


def cluster_options(
    gpus: int | None,
    gpus_per_server: int | None,
    residency: Residency | None,
    switch_cost: SwitchCost | None,
    gpu_memory_gb: float | None,
    pcie_gb_per_s: float | None,
    switch_overhead_seconds: float | None,
) -> dict[str, object]:
    """What is said of the cluster; it wins over the configuration."""
    return {
        "gpus": gpus,
        "gpus_per_server": gpus_per_server,
        "residency": residency,
        "switch_cost": switch_cost,
        "gpu_memory_gb": gpu_memory_gb,
        "pcie_gb_per_s": pcie_gb_per_s,
        "switch_overhead_seconds": switch_overhead_seconds,
    }


def seconds(time: float | str) -> float:
    """Seconds, from seconds or from a text such as `90s`, `20min` or `2h`."""
    return _gswarm.seconds(time if isinstance(time, str) else repr(float(time)))

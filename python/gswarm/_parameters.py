"""Parameters of policies, written by `UPDATE_DOCS=1 cargo test -p gswarm-core --test schedule`."""

from __future__ import annotations

from typing import Literal, TypedDict


class PolicyParameters(TypedDict, total=False):
    """Each is taken by the policies that `gswarm.policies()` lists it under."""

    rounds: int | None
    """Rounds of search (8 by default, unless a budget is given)."""
    budget: float | str | None
    """Time to search; all of it is used unless the plan is proven optimal."""
    objective: Literal["mean", "p99", "balanced"] | None
    """The latency to keep low: mean, p99 or balanced (both, and few loads)."""
    target: str | None
    """A latency to stay below first, as in p99=60s."""
    max_collate_wait: float | str | None
    """Longest wait of a node because nodes are grouped by model."""
    alpha: float | None
    """Weight of waiting."""
    beta: float | None
    """Weight of switching models."""
    gamma: float | None
    """Weight of what a switch does to later tasks."""
    delta: float | None
    """Weight of load imbalance."""
    lookahead: int | None
    """How many later tasks are looked at."""

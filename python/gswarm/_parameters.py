"""Parameters of policies, written by `UPDATE_DOCS=1 cargo test -p gswarm-core --test schedule`."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Literal, TypedDict


class PolicyParameters(TypedDict, total=False):
    """Each is taken by the policies that `gswarm.policies()` lists it under."""

    rounds: int | None
    """Rounds of search; 8 where neither rounds nor a budget is given."""
    budget: float | str | None
    """Time to search for; all of it is used unless the plan is proven to be best."""
    objective: Literal["mean", "p99", "balanced"] | None
    """The latency to keep low: mean, p99 or balanced (both, and few loads)."""
    max_collate_wait: float | str | None
    """The longest that a node may wait because nodes are collated by model; kept where the GPUs can keep it at all."""
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

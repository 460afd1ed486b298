"""Plans: what runs where in which order, computed once and followed any number of times."""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from ._files import write_whole
from .errors import InputError

_FIELDS = ("gpus", "makespan", "lower_bound", "found_by")


class Plan:
    """A plan, as `gswarm plan` writes it to `plan.json`: names, no numbers of a run."""

    def __init__(self, content: bytes) -> None:
        if not isinstance(content, bytes):
            raise TypeError(f"content is a {type(content).__name__}; give the bytes of a plan file")
        self.content = content
        """The file."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Reads a plan file."""
        plan = cls(Path(path).read_bytes())
        plan._read(os.fspath(path))
        return plan

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a plan file."""
        return write_whole(Path(path), self.content)

    @cached_property
    def _fields(self) -> dict[str, Any]:
        return self._read("this")

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self.content)
        except ValueError as error:
            raise InputError(f"{name} is not a plan: {error}") from error
        if not isinstance(found, dict) or not isinstance(found.get("plan"), list):
            raise InputError(f"{name} is not a plan: it has no list `plan`")
        if missing := [field for field in _FIELDS if field not in found]:
            raise InputError(f"{name} is not a plan: it has no field `{missing[0]}`")
        return found

    @property
    def gpus(self) -> int:
        """GPUs of the cluster that it is for."""
        return int(self._fields["gpus"])

    @property
    def makespan(self) -> float:
        """Its makespan, in seconds."""
        return float(self._fields["makespan"])

    @property
    def bound(self) -> float:
        """Lower bound on the makespan, in seconds."""
        return float(self._fields["lower_bound"])

    @property
    def gap(self) -> float:
        """How far the makespan lies above the bound, as a share of it."""
        return self.makespan / self.bound - 1 if self.bound else 0.0

    @property
    def found_by(self) -> str:
        """The method that found it."""
        return str(self._fields["found_by"])

    @property
    def is_optimal(self) -> bool:
        """Whether it is proved that no schedule is shorter."""
        return bool(self._fields.get("optimal"))

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps, in order: a node of a request and its GPUs, or a model to load."""
        return list(self._fields["plan"])

    def __repr__(self) -> str:
        best = ", optimal" if self.is_optimal else f", gap {self.gap:.2%}"
        return f"Plan({len(self.steps):,} steps on {self.gpus} GPUs: makespan {self.makespan:,.1f} s{best})"


def content_of(plan: Plan) -> bytes:
    """The plan file that was passed to a call."""
    if not isinstance(plan, Plan):
        raise TypeError(f"plan is a {type(plan).__name__}; give a gswarm.Plan, as gswarm.plan finds it")
    return plan.content

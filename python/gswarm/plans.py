"""Plans: what runs where in which order, found once and followed as often as one likes."""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from ._files import write_whole
from .errors import InputError


class Plan:
    """A plan, as `gswarm plan` writes it to `plan.json`: names, no numbers of a run."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        """The file."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Reads a plan file."""
        plan = cls(Path(path).read_bytes())
        try:
            plan._fields  # noqa: B018
        except ValueError as error:
            raise InputError(f"{os.fspath(path)} is no plan: {error}") from error
        return plan

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a plan file."""
        return write_whole(Path(path), self.content)

    @cached_property
    def _fields(self) -> dict[str, Any]:
        found = json.loads(self.content)
        if not isinstance(found, dict) or "plan" not in found:
            raise ValueError("it has no field `plan`")
        return found

    @property
    def gpus(self) -> int:
        """GPUs of the cluster that it is for."""
        return int(self._fields["gpus"])

    @property
    def makespan(self) -> float:
        """How long it takes, in seconds."""
        return float(self._fields["makespan"])

    @property
    def bound(self) -> float:
        """No plan is shorter, in seconds."""
        return float(self._fields["lower_bound"])

    @property
    def gap(self) -> float:
        """How far the makespan lies above the bound, as a share of it."""
        return self.makespan / self.bound - 1 if self.bound else 0.0

    @property
    def found_by(self) -> str:
        """What found it."""
        return str(self._fields["found_by"])

    @property
    def is_optimal(self) -> bool:
        """Whether no schedule is shorter, which was proved."""
        return bool(self._fields["optimal"])

    @property
    def steps(self) -> list[dict[str, Any]]:
        """The steps, in order: a node of a request and its GPUs, or a model to load."""
        return list(self._fields["plan"])

    def __repr__(self) -> str:
        best = ", optimal" if self.is_optimal else f", gap {self.gap:.2%}"
        return f"Plan({len(self.steps):,} steps on {self.gpus} GPUs: makespan {self.makespan:,.1f} s{best})"

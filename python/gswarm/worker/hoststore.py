"""Host memory for weights: its budget, its owners, and evictions."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Protocol

from .hostmem import PinBudget

PATIENCE = 2.0
"""Seconds that a model waits for others that are just on their way from tier to tier."""
GROUP = Path("/sys/fs/cgroup")


class Sleeper(Protocol):
    """A model with a copy of its weights in host memory."""

    used_at: float
    on_device: bool

    @property
    def bytes(self) -> int:
        """How much that is."""

    @property
    def droppable(self) -> bool:
        """Whether it has a copy, and nobody waits for it."""

    def drop(self) -> bool | None:
        """Gives the copy up; `False` where somebody needs it, `None` where that cannot be told just now."""


def _numbers(path: Path) -> dict[str, int]:
    """The lines of a file of the system, as names and numbers."""
    found = {}
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            words = line.replace(":", " ").split()
            if len(words) > 1 and words[1].isdigit():
                found[words[0]] = int(words[1])
    return found


def _group_free() -> int | None:
    """What is left to the group of processes that this one is in, as containers bound it."""
    try:
        most = int((GROUP / "memory.max").read_text())
        now = int((GROUP / "memory.current").read_text())
    except (OSError, ValueError):
        return None  # There is no bound, or no such groups.
    files = _numbers(GROUP / "memory.stat")
    # What is kept of files goes where memory is needed.
    return most - now + files.get("inactive_file", 0) + files.get("active_file", 0)


def available() -> int:
    """Bytes of host memory that programs can have now."""
    free = _numbers(Path("/proc/meminfo")).get("MemAvailable")
    there = 8 << 30 if free is None else free * 1024
    group = _group_free()
    return there if group is None else max(0, min(there, group))


def share(part: float, used: int) -> int:
    """A part of what there is for this worker: what is available now, and what it has of it already.

    It is read anew each time: what others had when the worker started says little about later.
    """
    return int(part * (available() + used))


class HostStore(PinBudget):
    """The budget for weights, and the models that have some of it."""

    def __init__(self, limit: int | None = None) -> None:
        super().__init__(limit if limit is not None else lambda used: share(0.8, used))
        self.held: set[Sleeper] = set()

    def claim(self, size: int, urgent: bool = False) -> bool:
        """Takes so much, after others are dropped where need be, the least recently used first.

        Copies of models that are on the device go last, and only for what is `urgent`: these serve on, and
        come from disk the next time. `False` where all that would not be enough: then nobody is dropped.
        """
        end = time.monotonic() + PATIENCE
        while not self.take(size):
            others = [one for one in list(self.held) if one.droppable and (urgent or not one.on_device)]
            others.sort(key=lambda one: (one.on_device, one.used_at))
            enough = self.used - sum(one.bytes for one in others) + size <= self.limit
            outcomes: list[bool | None] = []
            for one in others if enough else []:
                outcomes.append(one.drop())
                if outcomes[-1]:
                    break
            if not any(outcomes):
                if None not in outcomes or time.monotonic() > end:
                    return False
                time.sleep(0.01)
        return True

"""Accounts for the device's memory within a budget.

Everything that is mapped goes through here, so that what does not fit is refused with the sizes before it
is tried, and so that what was given back can be held against what the device itself says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from .devmem import Devices, Region
from .fault import no_room


class Trims(Protocol):
    """Who may hold memory that it does not use."""

    def trim(self) -> int:
        """Gives back what is not in use; how much."""

    def trim_here(self) -> int:
        """The same, in its own thread."""

    def post(self, what: Callable[[], object]) -> None:
        """Has something done in its own thread, some time."""


class Ledger:
    """The memory of one device."""

    def __init__(self, devices: Devices, budget: int) -> None:
        self.devices, self.budget = devices, budget
        self.taken: dict[str, int] = {}
        self.trimmers: list[Trims] = []
        self._lock = threading.RLock()

    @property
    def used(self) -> int:
        """Bytes that are taken."""
        return sum(self.taken.values())

    def grow(self, what: str, region: Region, size: int) -> None:
        """Sees to it that the first bytes of a region are there; 507 where they do not fit."""
        with self._lock:
            more = region.would_take(size)
            if more == 0:
                return
            if self.used + more > self.budget:
                raise no_room(what, more, self.used, self.budget, "device memory")
            self.taken[what] = self.taken.get(what, 0) + more
        try:
            region.grow_to(size)
        except RuntimeError as error:
            with self._lock:
                self.taken[what] = region.mapped
            fault = no_room(what, more, self.used, self.budget, "device memory")
            fault.message += f" ({error})"
            raise fault from error

    def make_room(self, what: str, region: Region, size: int, beside: int = 0) -> None:
        """Sees to it that a region could grow so far, with room beside it, or says that it cannot (507).

        Those who have memory that they do not need give it back.
        """
        for trimmer in [None, *self.trimmers]:
            if trimmer is not None and trimmer.trim() == 0:
                continue
            more = region.would_take(size) + beside
            if self.used + more <= self.budget:
                return
        more = region.would_take(size) + beside
        raise no_room(what, more, self.used, self.budget, "device memory")

    def press(self, mine: object) -> None:
        """Asks all others to give back what they do not use, without waiting for them."""
        for other in list(self.trimmers):
            if other is not mine:
                other.post(other.trim_here)

    def release(self, what: str, region: Region) -> dict[str, int]:
        """Gives a region's memory back; how much that was, and how much more the device says is free."""
        before = self.devices.free_bytes()
        mapped = region.mapped
        region.release()
        with self._lock:
            self.taken.pop(what, None)
        after = self.devices.free_bytes()
        found = {"released_bytes": mapped}
        if before is not None and after is not None:
            found["device_free_before"], found["device_free_after"] = before, after
        return found

"""Host memory that the device can read at full speed.

PyTorch's own pinned memory is handed out in powers of two, which for a model of 13 GB would take 16. Here
memory is mapped with large pages where the system has them, touched by several threads at once, and then
registered with CUDA.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import torch

TOUCH = 256 << 20
"""Bytes that one thread touches at a time."""


class PinBudget:
    """How much host memory may be pinned, and how much is."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Takes so much, if there is so much."""
        with self._lock:
            if self.used + size > self.limit:
                return False
            self.used += size
            return True

    def give(self, size: int) -> None:
        """Gives back what was taken."""
        with self._lock:
            self.used -= size


class HostBuffer:
    """A stretch of host memory, to be pinned where there is a CUDA device and the budget allows it."""

    def __init__(self, size: int, cuda: bool, budget: PinBudget, threads: int = 8) -> None:
        self.size, self.cuda, self.threads = size, cuda, threads
        self._map = mmap.mmap(-1, max(size, mmap.PAGESIZE))
        if cuda and hasattr(mmap, "MADV_HUGEPAGE"):
            # Small pages work too, more slowly.
            with contextlib.suppress(OSError):
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self.flat = torch.frombuffer(self._map, dtype=torch.uint8, count=size) if size else torch.empty(0)
        self.pinned = False
        self._budget = budget
        self.touch_seconds = self.register_seconds = 0.0

    def pin(self, filled: bool = False) -> HostBuffer:
        """Pins it. What was `filled` before, with a file's bytes, has all its pages already."""
        if not self.cuda or not self.size or not self._budget.take(self.size):
            return self
        began = time.perf_counter()
        if not filled:
            self._touch(self.threads)
        touched = time.perf_counter()
        self.pinned = self._register()
        if not self.pinned:
            self._budget.give(self.size)
        self.touch_seconds, self.register_seconds = touched - began, time.perf_counter() - touched
        return self

    def _touch(self, threads: int) -> None:
        """Pages that are there already are registered much faster.

        Several threads bring them in faster still.
        """
        start = self.flat.data_ptr()
        parts = [(start + at, min(TOUCH, self.size - at)) for at in range(0, self.size, TOUCH)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: ctypes.memset(part[0], 0, part[1]), parts))

    def _register(self) -> bool:
        status = torch.cuda.cudart().cudaHostRegister(self.flat.data_ptr(), self.size, 0)
        return int(getattr(status, "value", status)) == 0

    def free(self) -> None:
        """Gives the memory back to the system."""
        if self.pinned:
            torch.cuda.cudart().cudaHostUnregister(self.flat.data_ptr())
            self._budget.give(self.size)
            self.pinned = False
        # The mapping goes once no tensor looks at it any more.
        self.flat = torch.empty(0, dtype=torch.uint8)
        del self._map

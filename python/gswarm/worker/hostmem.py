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
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch

TOUCH = 256 << 20
"""Bytes that one thread touches at a time."""


class PinBudget:
    """How much host memory may be pinned, and how much is.

    The limit is a number, or is found anew from what is used.
    """

    def __init__(self, limit: int | Callable[[int], int]) -> None:
        self._limit = limit
        self.used = 0
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """How much may be taken in all."""
        return self._limit if isinstance(self._limit, int) else self._limit(self.used)

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
        self._parts: list[tuple[int, int]] = []
        self.touch_seconds = self.register_seconds = 0.0

    def pin(self) -> HostBuffer:
        """Pins all of it."""
        if not self.cuda or not self.size or not self._budget.take(self.size):
            return self
        began = time.perf_counter()
        self._touch(self.threads)
        self.touch_seconds = time.perf_counter() - began
        self.pin_part(0, self.size)
        self.end_pinning()
        return self

    def pin_part(self, begin: int, end: int) -> None:
        """Pins a part. A copy from pinned memory may not go from one part into another."""
        before = time.perf_counter()
        if self._register(begin, end - begin):
            self._parts.append((begin, end))
        self.register_seconds += time.perf_counter() - before

    def end_pinning(self) -> None:
        """It is pinned if all of it is; a part alone is of no use."""
        if sum(end - begin for begin, end in self._parts) == self.size:
            self.pinned = True
        else:
            self._unregister()
            self._budget.give(self.size)

    def _touch(self, threads: int) -> None:
        """Pages that are there already are registered much faster.

        Several threads bring them in faster still.
        """
        start = self.flat.data_ptr()
        parts = [(start + at, min(TOUCH, self.size - at)) for at in range(0, self.size, TOUCH)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda part: ctypes.memset(part[0], 0, part[1]), parts))

    def _register(self, at: int, size: int) -> bool:
        status = torch.cuda.cudart().cudaHostRegister(self.flat.data_ptr() + at, size, 0)
        return int(getattr(status, "value", status)) == 0

    def _unregister(self) -> None:
        for begin, _ in self._parts:
            torch.cuda.cudart().cudaHostUnregister(self.flat.data_ptr() + begin)
        self._parts.clear()

    def free(self) -> None:
        """Gives the memory back to the system."""
        if self.pinned:
            self._unregister()
            self._budget.give(self.size)
            self.pinned = False
        # The mapping goes once no tensor looks at it any more.
        self.flat = torch.empty(0, dtype=torch.uint8)
        del self._map


class Filling:
    """Pins a buffer part by part while the parts behind are still being read from files.

    Reading brings the pages in, so that nothing has to be touched before; and pinning, which takes about as
    long as reading from a fast disk, is done beside it.
    """

    def __init__(self, buffer: HostBuffer, part: int) -> None:
        self._buffer, self._part = buffer, part
        self._wanted = buffer.cuda and buffer.size > 0 and buffer._budget.take(buffer.size)
        self._left = [min(part, buffer.size - at) for at in range(0, buffer.size, part)]
        self._lock = threading.Lock()
        # One after the other: the driver does no two of them at once.
        self._pool = ThreadPoolExecutor(1)
        self._begun: dict[int, Future[None]] = {}

    def read(self, begin: int, end: int) -> None:
        """These bytes are there. Called by any thread."""
        if not self._wanted:
            return
        with self._lock:
            for at in range(begin // self._part, -(-end // self._part)):
                low, high = at * self._part, min((at + 1) * self._part, self._buffer.size)
                self._left[at] -= min(end, high) - max(begin, low)
                if self._left[at] == 0:
                    self._pin(at)

    def _pin(self, at: int) -> None:
        if at not in self._begun:
            begin = at * self._part
            end = min(begin + self._part, self._buffer.size)
            self._begun[at] = self._pool.submit(self._buffer.pin_part, begin, end)

    def finish(self) -> None:
        """Everything is read: what is not pinned yet is pinned."""
        if self._wanted:
            for at in range(len(self._left)):
                self._pin(at)  # Bytes between parameters are never read, and were never counted.
            for one in self._begun.values():
                one.result()
            self._buffer.end_pinning()
        self._pool.shutdown()

    def give_up(self) -> None:
        """Nothing more will be read: what was pinned is not any more."""
        self._pool.shutdown()
        if self._wanted:
            self._buffer._unregister()
            self._buffer._budget.give(self._buffer.size)

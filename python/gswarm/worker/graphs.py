"""CUDA graphs of a model's passes, by their sizes: a pass of many small kernels is launched as one."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

import torch


class Graphs:
    """The graphs of one model, which belong to the thread that computes for it."""

    def __init__(self, stream: torch.cuda.Stream | None) -> None:
        self.stream = stream
        self.count = 0
        """How many were captured so far."""
        self.seconds = 0.0
        """What that took."""
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._pool: object = None

    def __contains__(self, size: Hashable) -> bool:
        return size in self._graphs

    def clear(self) -> None:
        """Forgets all of them: what they read and write is elsewhere now."""
        self._graphs.clear()
        self._pool = None

    def capture(self, size: Hashable, body: Callable[[], None]) -> None:
        """Runs a pass, and then keeps its kernels as a graph. Its tensors have to stay where they are."""
        began = time.perf_counter()
        body()
        assert self.stream is not None
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        # Other threads go on with their own streams meanwhile.
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")  # type: ignore[arg-type]
        try:
            body()
        finally:
            graph.capture_end()
        self._graphs[size] = graph
        self.seconds += time.perf_counter() - began
        self.count += 1

    def replay(self, size: Hashable) -> bool:
        """Launches the pass of this size; `False` where it was not captured."""
        graph = self._graphs.get(size)
        if graph is None:
            return False
        graph.replay()
        return True

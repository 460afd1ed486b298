"""A thread that computes for one model: it owns all work of the model on the device."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import torch

from .fault import Fault, conflict, full

LOG = logging.getLogger("gswarm.worker")
T = TypeVar("T")


class Job:
    """A call on its way. The future gets a `dict` of what came of it."""

    def __init__(self) -> None:
        self.future: Future[dict[str, Any]] = Future()
        self.cancelled = False
        self.came = time.perf_counter()
        self.started: float | None = None

    def cancel(self) -> None:
        """Nobody waits for it any longer; the engine drops it at the next step."""
        self.cancelled = True

    def finish(self, result: dict[str, Any]) -> None:
        """Hands the result over."""
        if not self.future.done():
            self.future.set_result(result)

    def fail(self, error: Exception) -> None:
        """Says why there is none."""
        if not self.future.done():
            self.future.set_exception(error)


class Engine:
    """Takes jobs, and works on them in a thread of its own until it is closed."""

    def __init__(self, name: str, device: torch.device, max_waiting: int) -> None:
        self.name, self.device, self.max_waiting = name, device, max_waiting
        self.awake = False
        self.waiting: deque[Job] = deque()
        self.busy_seconds = 0.0
        self.stream: torch.cuda.Stream | None = None
        self._orders: deque[Callable[[], None]] = deque()
        self._turn = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._main, name=f"engine {name}", daemon=True)
        self._thread.start()

    # What callers do.

    def submit(self, job: Job) -> None:
        """Puts a job into the queue."""
        with self._turn:
            if self._closed or not self.awake:
                raise conflict("not_on_device", f"`{self.name}` is not on its device")
            if len(self.waiting) >= self.max_waiting:
                raise full(f"{self.max_waiting} calls wait for `{self.name}` already")
            self.waiting.append(job)
            self._turn.notify()

    def ask(self, what: Callable[[], T]) -> T:
        """Runs a function in the engine's thread, between two steps, and waits for it."""
        answer: Future[T] = Future()

        def order() -> None:
            try:
                answer.set_result(what())
            except BaseException as error:
                answer.set_exception(error)

        with self._turn:
            if self._closed:
                raise RuntimeError("the engine is closed")
            self._orders.append(order)
            self._turn.notify()
        return answer.result()

    def post(self, what: Callable[[], object]) -> None:
        """Runs a function in the engine's thread, without waiting."""
        with self._turn:
            if not self._closed:
                self._orders.append(lambda: self._try(what))
                self._turn.notify()

    def _try(self, what: Callable[[], object]) -> None:
        try:
            what()
        except Exception:
            LOG.exception("%s: what was posted failed", self.name)

    def close(self) -> None:
        """Ends the thread, once it is done with the step at hand."""
        with self._turn:
            self._closed = True
            self._turn.notify()
        self._thread.join()

    # What kinds of engines do.

    def running(self) -> int:
        """How many jobs are being worked on."""
        raise NotImplementedError

    def tick(self) -> None:
        """Does one step of the work at hand."""
        raise NotImplementedError

    def drop_all(self, error: Exception) -> None:
        """Fails all jobs that are being worked on."""
        raise NotImplementedError

    def trim(self) -> int:
        """Gives back device memory that is not in use; how much. Called by any thread."""
        return 0

    def trim_here(self) -> int:
        """The same, in the engine's thread."""
        return 0

    # The thread.

    def _main(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
            self.stream = torch.cuda.Stream(self.device)
            torch.cuda.set_stream(self.stream)
        with torch.no_grad():
            while self._next():
                began = time.perf_counter()
                try:
                    self.tick()
                except Exception as error:
                    LOG.exception("%s: a step failed", self.name)
                    reason = Fault(
                        500, "internal_error", f"a step of `{self.name}` failed: {type(error).__name__}"
                    )
                    self.drop_all(reason)
                    for job in self._take_waiting():
                        job.fail(reason)
                self.busy_seconds += time.perf_counter() - began
        reason = conflict("instance_stopping", "the server is ending")
        self.drop_all(reason)
        for job in self._take_waiting():
            job.fail(reason)

    def _next(self) -> bool:
        """Carries orders out, and returns once there is work; `False` at the end."""
        while True:
            with self._turn:
                while not (self._closed or self._orders or self.waiting or self.running()):
                    self._turn.wait()
                if self._closed:
                    for order in self._orders:
                        order()
                    return False
                orders = list(self._orders)
                self._orders.clear()
            for order in orders:
                order()
            if self.awake and (self.waiting or self.running()):
                return True

    def _take_waiting(self) -> list[Job]:
        with self._turn:
            taken = list(self.waiting)
            self.waiting.clear()
        return taken

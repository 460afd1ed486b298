"""The policy `baseline`, in Python: first come, first served, as plain queues do.

It decides as the Rust one does, to the byte of the log, and is meant to be read: a whole policy on a page.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from .policy import Decision, Model, Policy, Start, Task, View

_Entry = tuple[tuple[int, int], int, Task]
"""A ready task behind what decides between tasks: its priority, then when it became ready."""


class Baseline(Policy):
    """Every ready task that fits now is started, in the order in which tasks became ready (higher priority
    first); one that does not fit is passed over. A GPU that holds the model is preferred, then an empty one,
    then a running batch with room, then the GPU that is idle longest. What ends at the same instant is looked
    at one after the other.
    """

    name = "baseline"

    def begin(self, view: View) -> None:
        self.queues: dict[Model, list[_Entry]] = {model: [] for model in view.models}
        # What happened at this instant and was not looked at yet: a ready task, freed GPUs, or neither.
        self.news: deque[Task | tuple[int, ...] | None] = deque()
        self.unseen: set[int] = set()
        self.arrived = 0
        self.batches = any(model.max_batch > 1 for model in view.models)
        # Counts the times that GPUs fell free; until the next, a model that did not fit will not fit.
        self.round = 1
        self.blocked_in: dict[Model, int] = dict.fromkeys(view.models, 0)

    def ready(self, task: Task, view: View) -> None:
        self.news.append(task)

    def freed(self, gpus: tuple[int, ...], view: View) -> None:
        self.news.append(gpus)
        self.unseen.update(gpus)

    def lost(self, gpu: int, view: View) -> None:
        self.news.append(None)

    def returned(self, gpu: int, view: View) -> None:
        self.news.append(None)

    def given_up(self, task: Task, view: View) -> None:
        queue = self.queues[task.model]
        kept = [entry for entry in queue if entry[2] != task]
        if len(kept) < len(queue):
            queue[:] = kept
            heapify(queue)
        else:
            self.news = deque(one for one in self.news if one != task)

    def decide(self, view: View) -> Decision | None:
        while True:
            found = self._first_that_fits(view)
            if found is not None:
                return found
            if not self._read_on():
                return None

    def _first_that_fits(self, view: View) -> Decision | None:
        idle = view.idle
        allowed = [gpu for gpu in idle if gpu not in self.unseen] if self.news else idle
        if not allowed and not self.batches:
            return None
        blocked, now = self.blocked_in, self.round
        heads = [(queue[0], model) for model, queue in self.queues.items() if queue and blocked[model] != now]
        # The second number of a rank is unlike any other: no two tasks are ever compared.
        heads.sort()
        for _, model in heads:
            gpu = _place(view, model, allowed)
            if gpu is not None:
                return Start(heappop(self.queues[model])[2], gpu)
            blocked[model] = now
        return None

    def _read_on(self) -> bool:
        """Reads on to the end of the next event: the GPUs that it freed, and the tasks that became ready by
        it.
        """
        read_any = False
        while self.news:
            if read_any and not isinstance(self.news[0], Task):
                break
            news = self.news.popleft()
            read_any = True
            if isinstance(news, Task):
                self.arrived += 1
                heappush(self.queues[news.model], ((-news.priority, self.arrived), news.id, news))
            else:
                self.unseen.difference_update(news or ())
                self.round += 1
        return read_any


def _place(view: View, model: Model, allowed: list[int]) -> int | None:
    """The first of the GPUs that a queue without a plan would take."""
    if not allowed:
        return _joined(view, model)
    if model.gpus > 1:
        windows = view.windows(model, allowed)
        return windows[0] if windows else _joined(view, model)
    holding = [gpu for gpu in view.holding(model) if gpu in allowed]
    if holding:
        return min(holding, key=view.idle_since)
    for gpu in view.empty:
        if gpu in allowed:
            return gpu
    joined = _joined(view, model)
    return joined if joined is not None else min(allowed, key=view.idle_since)


def _joined(view: View, model: Model) -> int | None:
    """A replica of the model that is at work and has room in its batch: the one with most room."""
    if model.max_batch == 1:
        return None
    return min(view.joinable(model), key=view.batch_at, default=None)

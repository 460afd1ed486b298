"""The peer: the same calls on the same cluster under Ray alone, as its users set it up.

A worker is an actor that holds some GPUs and caches models on them as a replica of Ray Serve with
``@serve.multiplexed`` does: what was used longest ago makes way. A call goes to a worker as in Serve: to one
that has its model, the less busy of two that are drawn; where all of those are busy for ``MATCHING_SECONDS``,
to any that is not, the less busy of two again. In a worker calls get GPUs in the order in which they came.

Two ways to cut the GPUs into workers are known to Ray's users, and both are here:

- ``pool``: every worker serves every model. It is a node, or as many whole nodes as the widest model needs. -
``split``: workers are as wide as models are, so many of each width as there is work for it.

Costs are those of the scheduler: a first load onto empty GPUs takes the model's load time, a switch moves
both models over PCIe.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import Any, Literal

import ray
from problem_files import Node, Problem
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

#: How long Ray Serve looks for a replica that has the model before any replica will do.
MATCHING_SECONDS = 1.0
#: The scheduler's defaults.
PCIE_GB_PER_SECOND, SWITCH_OVERHEAD_SECONDS = 16.0, 2.0

Kind = Literal["pool", "split"]


@dataclass(frozen=True)
class Outcome:
    """What came of a run, in seconds of the models' time."""

    makespan: float
    loads: int
    workers: dict[int, int]
    """How many of each width."""


@ray.remote(num_cpus=0, max_concurrency=1000)
class Gpus:
    """GPUs with a model on each at most, which take the time that loads and calls take."""

    def __init__(self, width: int, models: dict[str, dict[str, Any]], speed: float) -> None:
        self._models, self._speed = models, speed
        self._held: list[str | None] = [None] * width
        self._used = [0] * width
        self._busy = [False] * width
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self._clock = self._loads = 0

    async def call(self, model: str, seconds: float) -> list[str]:
        """Calls a model, which is loaded first where it is not there; what is cached afterwards."""
        async with self._turn:
            while (window := self._window(model)) is None:
                self._freed.clear()
                await self._freed.wait()
            for gpu in window:
                self._busy[gpu] = True
        try:
            await self._load(model, window)
            await asyncio.sleep(seconds / self._speed)
            self._clock += 1
        finally:
            for gpu in window:
                self._busy[gpu], self._used[gpu] = False, self._clock
            self._freed.set()
        return sorted({held for held in self._held if held is not None})

    def _window(self, model: str) -> range | None:
        """GPUs for a model: those that have it, else empty ones, else those that were used longest ago."""
        width = int(self._models[model]["gpus_required"])
        starts = range(0, len(self._held) - width + 1, width)
        free = [range(first, first + width) for first in starts if not any(self._busy[first : first + width])]

        def rank(window: range) -> tuple[bool, bool, int]:
            held = [self._held[gpu] for gpu in window]
            has_it, empty = held == [model] * width, held == [None] * width
            return not has_it, not empty, max(self._used[gpu] for gpu in window)

        return min(free, key=rank, default=None)

    async def _load(self, model: str, window: range) -> None:
        held = {self._held[gpu] for gpu in window}
        if held == {model}:
            return
        new = self._models[model]
        costs = [float(new["load_time_seconds"])] if held == {None} else []
        for name in held - {None, model}:
            moved = float(self._models[str(name)]["memory_gb"]) + float(new["memory_gb"])
            costs.append(moved / PCIE_GB_PER_SECOND + SWITCH_OVERHEAD_SECONDS)
        # A model that loses one of its GPUs is lost on all of them.
        for gpu, name in enumerate(self._held):
            if name in held and name is not None and not self._busy[gpu] and self._touches(name, gpu, window):
                self._held[gpu] = None
        for gpu in window:
            self._held[gpu] = model
        self._loads += 1
        await asyncio.sleep(max(costs, default=0.0) / self._speed)

    def _touches(self, name: str, gpu: int, window: range) -> bool:
        width = int(self._models[name]["gpus_required"])
        first = gpu - gpu % width
        return first < window.stop and window.start < first + width

    async def loads(self) -> int:
        """How often a model was loaded."""
        return self._loads


class Worker:
    """A worker as the router sees it."""

    def __init__(self, actor: Any, most_at_once: int) -> None:
        self.actor, self.most_at_once = actor, most_at_once
        self.cached: list[str] = []
        self.queue = 0


@dataclass(eq=False)
class Waiting:
    """A call that waits for a worker."""

    model: str
    since: float
    chosen: asyncio.Future[Worker]


class Router:
    """Sends calls to workers, as Ray Serve does."""

    def __init__(self, workers: list[Worker], speed: float) -> None:
        self._workers = workers
        self._patience = MATCHING_SECONDS / speed
        self._waiting: list[Waiting] = []

    async def call(self, node: Node) -> None:
        """Calls the model of a node somewhere."""
        loop = asyncio.get_running_loop()
        waiting = Waiting(node.model, time.monotonic(), loop.create_future())
        self._waiting.append(waiting)
        # Whoever waits for a worker that has its model is content with any after a while.
        loop.call_later(self._patience, self._send)
        self._send()
        worker = await waiting.chosen
        if node.model not in worker.cached:
            worker.cached.append(node.model)
        try:
            worker.cached = await worker.actor.call.remote(node.model, node.seconds)
        finally:
            worker.queue -= 1
            self._send()

    def _send(self) -> None:
        """Sends those calls for which there is a worker, in the order in which they came."""
        still = []
        for waiting in self._waiting:
            if (worker := self._choose(waiting)) is None:
                still.append(waiting)
            else:
                worker.queue += 1
                waiting.chosen.set_result(worker)
        self._waiting = still

    def _choose(self, waiting: Waiting) -> Worker | None:
        having = [worker for worker in self._workers if waiting.model in worker.cached]
        chosen = self._less_busy(having)
        is_patient = time.monotonic() - waiting.since < self._patience
        return self._less_busy(self._workers) if chosen is None and not (having and is_patient) else chosen

    @staticmethod
    def _less_busy(workers: list[Worker]) -> Worker | None:
        """The less busy of two workers that are drawn from those that take another call."""
        open_ones = [worker for worker in workers if worker.queue < worker.most_at_once]
        drawn = random.sample(open_ones, min(2, len(open_ones)))
        return min(drawn, key=lambda worker: worker.queue, default=None)


def widths(problem: Problem, gpus: int, gpus_per_node: int, kind: Kind) -> dict[int, int]:
    """How many workers of each width."""
    work: dict[int, float] = {}
    for nodes in problem.nodes.values():
        for node in nodes.values():
            width = int(problem.models[node.model]["gpus_required"])
            work[width] = work.get(width, 0.0) + width * node.seconds
    if kind == "pool":
        nodes_each = -(-max(work) // gpus_per_node)
        return {nodes_each * gpus_per_node: gpus // (nodes_each * gpus_per_node)}
    counts = dict.fromkeys(work, 1)
    while True:
        left = gpus - sum(width * count for width, count in counts.items())
        fitting = [width for width in counts if width <= left]
        if not fitting:
            return counts
        # The width whose workers have the most to do gets another one.
        counts[max(fitting, key=lambda width: work[width] / (width * counts[width]))] += 1


async def run(problem: Problem, gpus: int, gpus_per_node: int, speed: float, kind: Kind) -> Outcome:
    """Runs all requests at once, each node as soon as what it waits for has ended."""
    counts = widths(problem, gpus, gpus_per_node, kind)
    narrowest = min(int(model["gpus_required"]) for model in problem.models.values())
    placed, actors = [], []
    routers: dict[int, Router] = {}
    for width in sorted(counts, reverse=True):
        workers = []
        for _ in range(counts[width]):
            whole, rest = divmod(width, gpus_per_node)
            bundles = [{"GPU": float(gpus_per_node)}] * whole + ([{"GPU": float(rest)}] if rest else [])
            group = placement_group(bundles, strategy="STRICT_PACK" if len(bundles) == 1 else "PACK")
            placed.append(group)
            strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
            options = Gpus.options(num_gpus=min(width, gpus_per_node), scheduling_strategy=strategy)
            most_at_once = width // narrowest if kind == "pool" else 1
            workers.append(Worker(options.remote(width, problem.models, speed), most_at_once))
        actors += [worker.actor for worker in workers]
        routers[width] = Router(workers, speed)
    await asyncio.gather(*(_loads(actor) for actor in actors))

    begun = time.monotonic()
    await asyncio.gather(*(_request(problem, nodes, routers) for nodes in problem.nodes.values()))
    makespan = (time.monotonic() - begun) * speed
    loads = sum(await asyncio.gather(*(_loads(actor) for actor in actors)))
    for group in placed:
        remove_placement_group(group)
    return Outcome(makespan, loads, counts)


async def _loads(actor: Any) -> int:
    return int(await actor.loads.remote())


async def _request(problem: Problem, nodes: dict[str, Node], routers: dict[int, Router]) -> None:
    ends = {name: asyncio.get_running_loop().create_future() for name in nodes}

    async def carry_out(node: Node) -> None:
        await asyncio.gather(*(ends[before] for before in node.after))
        width = int(problem.models[node.model]["gpus_required"])
        await routers.get(width, routers[max(routers)]).call(node)
        ends[node.name].set_result(None)

    await asyncio.gather(*(carry_out(node) for node in nodes.values()))

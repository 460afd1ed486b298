"""The peer: the same calls on the same cluster under Ray alone, as its users set it up.

A worker is an actor that holds the GPUs of one group, and caches models as a replica of Ray Serve with
``@serve.multiplexed`` does: as many as fit, the one that was used longest ago leaves. A call goes to a worker
as in Serve: to one that has its model, two of them drawn and the one with the shorter queue taken; where all
of those are busy for ``MATCHING_SECONDS``, to any worker that is free, those with the fewest models first.
GPUs are cut into groups as wide as models are, in proportion to the work that models of each width have.
Models wider than a node get several whole nodes.

Costs are those of the scheduler: a first load takes the model's load time, a switch moves both models over
PCIe.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import ray
from problem_files import Node, Problem
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

#: How long Ray Serve looks for a replica that has the model before any replica will do.
MATCHING_SECONDS = 1.0
#: The scheduler's defaults.
PCIE_GB_PER_SECOND, SWITCH_OVERHEAD_SECONDS = 16.0, 2.0


@dataclass(frozen=True)
class Outcome:
    """What came of a run, in seconds of the models' time."""

    makespan: float
    loads: int
    groups: dict[int, int]


@ray.remote(num_cpus=0, max_concurrency=100)
class Gpus:
    """A group of GPUs with a cache of models, which takes the time that loads and calls take."""

    def __init__(self, models: dict[str, dict[str, Any]], speed: float, most_models: int) -> None:
        self._models, self._speed, self._most = models, speed, most_models
        self._cached: OrderedDict[str, None] = OrderedDict()
        self._turn = asyncio.Lock()
        self._loads = 0

    async def call(self, model: str, seconds: float) -> list[str]:
        """Calls a model, which is loaded first where it is not there; what is cached afterwards."""
        async with self._turn:
            if model not in self._cached:
                await self._load(model)
            self._cached.move_to_end(model)
            await asyncio.sleep(seconds / self._speed)
            return list(self._cached)

    async def _load(self, model: str) -> None:
        new = self._models[model]
        if len(self._cached) < self._most:
            seconds = float(new["load_time_seconds"])
        else:
            old = self._models[self._cached.popitem(last=False)[0]]
            moved = float(old["memory_gb"]) + float(new["memory_gb"])
            seconds = moved / PCIE_GB_PER_SECOND + SWITCH_OVERHEAD_SECONDS
        await asyncio.sleep(seconds / self._speed)
        self._cached[model] = None
        self._loads += 1

    async def loads(self) -> int:
        """How often a model was loaded."""
        return self._loads


class Worker:
    """A worker as the router sees it."""

    def __init__(self, actor: Any) -> None:
        self.actor, self.cached, self.queue = actor, list[str](), 0


class Router:
    """Sends calls to the workers of one width, as Ray Serve does."""

    def __init__(self, workers: list[Worker], speed: float) -> None:
        self._workers = workers
        self._patience = MATCHING_SECONDS / speed
        self._freed = asyncio.Condition()

    async def call(self, node: Node) -> None:
        """Calls the model of a node somewhere."""
        worker = await self._choose(node.model)
        if node.model not in worker.cached:
            worker.cached.append(node.model)
        try:
            worker.cached = await worker.actor.call.remote(node.model, node.seconds)
        finally:
            worker.queue -= 1
            async with self._freed:
                self._freed.notify_all()

    async def _choose(self, model: str) -> Worker:
        since = time.monotonic()
        async with self._freed:
            while True:
                left = self._patience - (time.monotonic() - since)
                having = [worker for worker in self._workers if model in worker.cached]
                chosen = self._free(having)
                if chosen is None and (left <= 0 or not having):
                    fewest = sorted(self._workers, key=lambda worker: len(worker.cached))
                    chosen = self._free(fewest)
                if chosen is not None:
                    chosen.queue += 1
                    return chosen
                try:
                    await asyncio.wait_for(self._freed.wait(), max(left, 0.001) if left > 0 else None)
                except asyncio.TimeoutError:
                    continue

    @staticmethod
    def _free(workers: list[Worker]) -> Worker | None:
        """One that is free, the better of two that are drawn; a GPU group serves one call at a time."""
        free = [worker for worker in workers if worker.queue == 0]
        drawn = random.sample(free, min(2, len(free)))
        return min(drawn, key=lambda worker: len(worker.cached), default=None)


def groups(problem: Problem, gpus: int) -> dict[int, int]:
    """How many groups of each width: as near as can be to the work that models of each width have."""
    work: dict[int, float] = {}
    for nodes in problem.nodes.values():
        for node in nodes.values():
            width = int(problem.models[node.model]["gpus_required"])
            work[width] = work.get(width, 0.0) + width * node.seconds
    counts = dict.fromkeys(work, 1)
    while True:
        left = gpus - sum(width * count for width, count in counts.items())
        fitting = [width for width in counts if width <= left]
        if not fitting:
            return counts
        # The width whose groups have the most to do gets another one.
        counts[max(fitting, key=lambda width: work[width] / (width * counts[width]))] += 1


async def run(problem: Problem, gpus: int, gpus_per_node: int, speed: float, most_models: int = 1) -> Outcome:
    """Runs all requests at once, each node as soon as what it waits for has ended."""
    counts = groups(problem, gpus)
    placed, routers, actors = [], {}, []
    for width in sorted(counts, reverse=True):
        workers = []
        for _ in range(counts[width]):
            whole, rest = divmod(width, gpus_per_node)
            bundles = [{"GPU": float(gpus_per_node)}] * whole + ([{"GPU": float(rest)}] if rest else [])
            group = placement_group(bundles, strategy="STRICT_PACK" if len(bundles) == 1 else "PACK")
            placed.append(group)
            strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
            options = Gpus.options(num_gpus=min(width, gpus_per_node), scheduling_strategy=strategy)
            workers.append(Worker(options.remote(problem.models, speed, most_models)))
        actors += [worker.actor for worker in workers]
        routers[width] = Router(workers, speed)
    await asyncio.gather(*(_counted(actor) for actor in actors))

    begun = time.monotonic()
    await asyncio.gather(*(_request(problem, nodes, routers) for nodes in problem.nodes.values()))
    makespan = (time.monotonic() - begun) * speed
    loads = sum(await asyncio.gather(*(_counted(actor) for actor in actors)))
    for group in placed:
        remove_placement_group(group)
    return Outcome(makespan, loads, counts)


async def _counted(actor: Any) -> int:
    return int(await actor.loads.remote())


async def _request(problem: Problem, nodes: dict[str, Node], routers: dict[int, Router]) -> None:
    ends = {name: asyncio.get_running_loop().create_future() for name in nodes}

    async def carry_out(node: Node) -> None:
        await asyncio.gather(*(ends[before] for before in node.after))
        await routers[int(problem.models[node.model]["gpus_required"])].call(node)
        ends[node.name].set_result(None)

    await asyncio.gather(*(carry_out(node) for node in nodes.values()))

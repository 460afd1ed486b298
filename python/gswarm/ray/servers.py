"""The servers of a run on a Ray cluster: a bundle of GPUs each, and a worker in it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from gswarm.ray.worker import Answer, Setup, Worker

#: How long, once one of them is there, the rest may take without any of them coming.
REST_SECONDS = 5.0
#: How often Ray is asked whether GPUs have been found.
POLL_SECONDS = 0.1
#: Operations that a worker may have under way at once.
MOST_AT_ONCE = 10_000


class GoneError(Exception):
    """A server does not answer; why."""


@dataclass
class Server:
    """A server, and its worker once it has one."""

    number: int
    setup: Setup
    group: PlacementGroup
    worker: Any = None
    #: Ends when the worker does.
    watch: asyncio.Task[str] | None = field(default=None, repr=False)
    #: Whether the worker may hold something.
    is_used: bool = False
    #: A worker on its way. Whoever asks for it may give up; the next one finds it further on.
    coming: asyncio.Task[None] | None = field(default=None, repr=False)


class Servers:
    """All of them."""

    def __init__(self, setups: list[Setup]) -> None:
        nodes = _spread([setup.gpus[1] for setup in setups])
        self._servers = []
        for number, (setup, node) in enumerate(zip(setups, nodes, strict=True)):
            # One bundle for all GPUs of the server: they lie on one node, and so does every model on them.
            bundle = [{"GPU": float(setup.gpus[1])}]
            group = placement_group(bundle, strategy="STRICT_PACK", _soft_target_node_id=node)
            self._servers.append(Server(number, setup, group))

    async def settle(self, limit: float) -> int:
        """Waits until all are there, or no more come, or the limit in seconds is over; how many there are."""
        since = last = time.monotonic()
        there = 0
        while there < len(self._servers):
            await asyncio.gather(*(self._try(server) for server in self._servers))
            now, before = time.monotonic(), there
            there = sum(server.worker is not None for server in self._servers)
            coming = any(server.coming and not server.coming.done() for server in self._servers)
            if there > before or coming:
                last = now
            if now - since > limit or (there and now - last > REST_SECONDS):
                break
            await asyncio.sleep(POLL_SECONDS)
        return there

    async def ask(self, number: int, operation: str, *args: Any, others: Sequence[int] = ()) -> Answer:
        """Has a worker do something, and waits for it. It fails with any of the `others`, on whose GPUs it is
        done too.
        """
        watches = []
        for part in [*others, number]:
            server = self._servers[part]
            if server.worker is None or server.watch is None or server.watch.done():
                raise GoneError(await self._why_not_there(server))
            server.is_used = True
            watches.append(server.watch)
        asked = getattr(server.worker, operation).remote(*args)
        try:
            if not others:
                return await asked  # type: ignore[no-any-return]
            # Awaited as a task, since a reference can be awaited once only.
            answer = asyncio.ensure_future(_awaited(asked))
            await asyncio.wait([answer, *watches], return_when=asyncio.FIRST_COMPLETED)
            for watch in watches:
                if watch.done():
                    answer.cancel()
                    ray.cancel(asked)
                    raise GoneError(f"another server that it needs was lost: {watch.result()}")
            return await answer
        except asyncio.CancelledError:
            ray.cancel(asked)
            raise
        except (ray.exceptions.RayActorError, ray.exceptions.NodeDiedError) as error:
            raise GoneError(f"its process in the Ray cluster is lost: {_first_line(error)}") from error

    async def reset(self, number: int) -> Answer:
        """Makes sure that a server is running and empty."""
        server = self._servers[number]
        if server.worker is not None and server.is_used and server.setup.callables:
            # What a user's models leave behind goes with their process.
            ray.kill(server.worker)
            server.worker = None
        if server.worker is None:
            await self._come(server)
            server.is_used = False
        return await self.ask(number, "reset")

    async def where(self, number: int) -> str:
        """The node of a server."""
        return str(await self.ask(number, "ping"))

    def close(self) -> None:
        """Releases all GPUs."""
        for server in self._servers:
            if server.worker is not None:
                ray.kill(server.worker)
            remove_placement_group(server.group)

    async def _try(self, server: Server) -> None:
        try:
            if server.worker is None:
                await asyncio.wait_for(self._come(server), POLL_SECONDS)
        except (GoneError, asyncio.TimeoutError):
            return

    async def _come(self, server: Server) -> None:
        """Waits for the worker of a server, which is begun where nobody has."""
        if server.coming is None or server.coming.done():
            if not await self._has_gpus(server):
                raise GoneError(await self._why_not_there(server))
            # Somebody else may have begun one while Ray was asked.
            if server.coming is None or server.coming.done():
                server.coming = asyncio.create_task(self._begin(server))
        coming = server.coming
        try:
            await asyncio.shield(coming)
        finally:
            if coming.done():
                server.coming = None

    async def _begin(self, server: Server) -> None:
        strategy = PlacementGroupSchedulingStrategy(server.group, placement_group_bundle_index=0)
        actor = ray.remote(num_cpus=0, max_restarts=0, max_concurrency=MOST_AT_ONCE)(Worker)
        options = actor.options(num_gpus=server.setup.gpus[1], scheduling_strategy=strategy)
        worker = options.remote(server.setup)
        try:
            await worker.ping.remote()
        except ray.exceptions.RayError as error:
            raise GoneError(f"its process does not start: {_first_line(error)}") from error
        server.worker = worker
        server.watch = asyncio.create_task(self._watch(server, worker))

    async def _watch(self, server: Server, worker: Any) -> str:
        """Waits for the end of a worker; why it came."""
        try:
            await worker.wait.remote()
            why = "it has ended"
        except ray.exceptions.RayError as error:
            why = _first_line(error)
        if server.worker is worker:
            server.worker = None
        return why

    async def _has_gpus(self, server: Server) -> bool:
        table = await asyncio.to_thread(placement_group_table, server.group)
        return bool(table.get("state") == "CREATED")

    async def _why_not_there(self, server: Server) -> str:
        if server.coming is not None and not server.coming.done():
            return "its process is still starting"
        if await self._has_gpus(server):
            return "its process is gone"
        return f"no node of the Ray cluster has {server.setup.gpus[1]} GPUs free for it"


async def _awaited(asked: Any) -> Answer:
    return await asked  # type: ignore[no-any-return]


def gpus_of_nodes() -> list[int]:
    """How many GPUs each node has that has any."""
    alive = (node for node in ray.nodes() if node["Alive"])
    counts = (int(node["Resources"].get("GPU", 0)) for node in alive)
    return sorted((count for count in counts if count > 0), reverse=True)


def _spread(sizes: list[int]) -> list[str | None]:
    """A node for each server, if there is one for it now: servers go to the nodes with the most GPUs left."""
    alive = (node for node in ray.nodes() if node["Alive"])
    left = Counter({node["NodeID"]: int(node["Resources"].get("GPU", 0)) for node in alive})
    chosen: list[str | None] = []
    for size in sizes:
        node = max(left, key=lambda node: left[node], default=None)
        if node is not None and left[node] >= size:
            left[node] -= size
            chosen.append(node)
        else:
            chosen.append(None)
    return chosen


def _first_line(error: Exception) -> str:
    """Ray's message of an error, without its developer details."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("The actor") or "reason" in line.lower()]
    return (told or lines or [type(error).__name__])[0]

"""Shelves: storage of large outputs until the end of the run.

A shelf is an actor on a node that outlives the driver and the workers, and owns what it is given. An output
is put on the shelf of the node on which it was made, and on one of another node: the death of the driver, of
a worker or of one node loses nothing. Shelves are made when there is something to put on them.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gswarm.ray.references import MARK, json_size, new_key

#: How long the shelf of another node may take to keep an output before yet another node is asked.
SECOND_COPY_SECONDS = 10.0
#: How long a node whose shelf did not is left alone: Ray may take a while to find out that it is dead.
SHUN_SECONDS = 60.0


class OutputLostError(Exception):
    """An output that a call needs is nowhere any more."""


class _Shelf:
    """What lies on one node."""

    def __init__(self) -> None:
        self._kept: dict[str, ray.ObjectRef[Any]] = {}

    def keep(self, key: str, value: Any) -> None:
        """Keeps a value as this actor's own."""
        self._kept[key] = ray.put(value)

    def find(self, key: str) -> list[ray.ObjectRef[Any]]:
        """Where it is; inside a list, so that it is not fetched on the way."""
        return [self._kept[key]] if key in self._kept else []

    def count(self) -> int:
        """How many values lie here."""
        return len(self._kept)


def _name(node: str) -> str:
    return f"shelf-{node}"


def _shelf_of(node: str, namespace: str) -> Any:
    """The shelf of a node; it is made where there is none."""
    actor = ray.remote(num_cpus=0, max_restarts=0)(_Shelf)
    return actor.options(
        name=_name(node),
        namespace=namespace,
        lifetime="detached",
        get_if_exists=True,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
    ).remote()


def _size(value: Any) -> int:
    for name in ("nbytes", "__len__"):
        found = getattr(value, name, None)
        if name == "nbytes" and isinstance(found, int):
            return found
        if name == "__len__" and isinstance(value, (bytes, bytearray)):
            return len(value)
    return json_size(value) or 0


class Shelves:
    """The shelves of a run, as a worker or the driver sees them."""

    def __init__(self, namespace: str, node: str) -> None:
        self._namespace = namespace
        self._node = node
        self._known: dict[str, Any] = {}
        self._shunned: dict[str, float] = {}

    async def put(self, name: str, value: Any) -> dict[str, Any]:
        """Keeps the output of a call on two nodes where there are two, and returns what stands for it."""
        key = new_key(name)
        at = []
        alive = [node["NodeID"] for node in await asyncio.to_thread(ray.nodes) if node["Alive"]]
        now = time.monotonic()
        others = [node for node in alive if node != self._node and self._shunned.get(node, 0) < now]
        random.shuffle(others)
        shared = ray.put(value)
        for node in [self._node, *others]:
            shelf = await asyncio.to_thread(self._shelf, node)
            kept = shelf.keep.remote(key, shared)
            try:
                await (kept if node == self._node else asyncio.wait_for(kept, SECOND_COPY_SECONDS))
            except (ray.exceptions.RayActorError, asyncio.TimeoutError):
                self._known.pop(node, None)
                self._shunned[node] = time.monotonic() + SHUN_SECONDS
                continue
            at.append(node)
            if len(at) == 2:
                break
        if not at:
            raise OutputLostError("no node could store it")
        form = "json" if json_size(value) is not None else "pickle"
        return {MARK: key, "bytes": _size(value), "at": at, "form": form, "type": type(value).__name__}

    async def get(self, reference: dict[str, Any]) -> Any:
        """What a reference stands for, from this node's shelf where it is there."""
        key, at = reference[MARK], [str(node) for node in reference["at"]]
        for node in sorted(at, key=lambda node: node != self._node):
            try:
                shelf = await asyncio.to_thread(self._there, node)
                for found in await shelf.find.remote(key):
                    return await found
            except (ValueError, ray.exceptions.RayActorError, ray.exceptions.ObjectLostError):
                self._known.pop(node, None)
        raise OutputLostError(
            f"the output `{key}` is lost: it was on {len(at)} node(s) of the Ray cluster, and none of them "
            "is left; run its request again in another folder"
        )

    def _shelf(self, node: str) -> Any:
        if node not in self._known:
            self._known[node] = _shelf_of(node, self._namespace)
        return self._known[node]

    def _there(self, node: str) -> Any:
        if node not in self._known:
            self._known[node] = ray.get_actor(_name(node), namespace=self._namespace)
        return self._known[node]


def clear(namespace: str) -> int:
    """Takes all shelves of a run down, with what lies on them; how many there were."""
    named = ray.util.list_named_actors(all_namespaces=True)
    shelves = [actor["name"] for actor in named if actor["namespace"] == namespace]
    for name in shelves:
        try:
            ray.kill(ray.get_actor(name, namespace=namespace))
        except ValueError:
            continue
    return len(shelves)

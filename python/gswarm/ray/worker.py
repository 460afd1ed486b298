"""The worker on a node: one process per server, which holds the models on all of its GPUs."""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from dataclasses import dataclass
from typing import Any

import ray
from ray import cloudpickle

from gswarm.ray.callables import Hosted, unpacked
from gswarm.ray.references import references_in, replaced, split
from gswarm.ray.shelves import OutputLostError, Shelves

#: An answer: ``("ok", value)``, or ``("err", kind, why)``. Nothing is raised, so that what went wrong in a
#: model is told in its own words.
Answer = tuple[Any, ...]

#: What a user's callable may raise. One that exits ends its call, and not this process.
FAULTS = (Exception, SystemExit, KeyboardInterrupt)


@dataclass(frozen=True)
class Setup:
    """What a worker needs to know about the run."""

    namespace: str
    #: The models of the configuration, by number: name, memory and how they batch.
    models: list[dict[str, Any]]
    #: The servers behind the models that have no callable, as a file of backends says it.
    backends: dict[str, Any]
    #: First GPU in the cluster, and how many.
    gpus: tuple[int, int]
    #: What `gswarm.ray.callables.packed` made, if anything.
    callables: bytes | None


class Worker:
    """Loads, unloads and calls models on request."""

    def __init__(self, setup: Setup) -> None:
        self._models = [str(model["name"]) for model in setup.models]
        self._hosted = Hosted(unpacked(setup.callables) if setup.callables else {})
        self._node = str(ray.get_runtime_context().get_node_id())
        self._shelves = Shelves(setup.namespace, self._node)
        self._adapters = Adapters(setup) if setup.backends["backends"] else None

    async def ping(self) -> str:
        """Where this is."""
        return self._node

    async def wait(self) -> None:
        """Never returns: whoever waits learns of the end of this process."""
        await asyncio.Event().wait()

    async def reset(self) -> Answer:
        """Nothing is loaded from now on. Callables are not trusted to clean up: their process is replaced
        instead.
        """
        return await self._adapters.carry_out({"op": "reset"}) if self._adapters else ("ok", None)

    async def load(self, model: int, gpus: tuple[int, int], expected: int) -> Answer:
        """Brings a model onto GPUs, which are counted from this server's first."""
        name = self._models[model]
        if not self._hosted.serves(name):
            return await self._adapted({"op": "load", "model": model, "gpus": gpus, "expected": expected})
        try:
            await self._hosted.load(name, gpus)
        except FAULTS as error:
            kind, why = _failed(error)[1:]
            # With others beside it, it may fit another time.
            lacks = isinstance(error, MemoryError) or "OutOfMemory" in type(error).__name__
            return ("err", "unfit" if lacks and not self._hosted.holds_anything() else kind, why)
        return ("ok", None)

    async def unload(self, model: int, gpus: tuple[int, int]) -> Answer:
        """Unloads it."""
        name = self._models[model]
        if not self._hosted.serves(name):
            return await self._adapted({"op": "unload", "model": model, "gpus": gpus})
        try:
            await self._hosted.unload(name, gpus)
        except FAULTS as error:
            return _failed(error)
        return ("ok", None)

    async def call(self, model: int, gpus: tuple[int, int], call: dict[str, Any]) -> Answer:
        """Calls it. Large inputs are fetched from shelves, and large outputs are put there."""
        name = self._models[model]
        try:
            inputs = await self._fetched(call["inputs"])
        except OutputLostError as error:
            return ("err", "refused", str(error))
        if self._hosted.serves(name):
            if not self._hosted.holds(name, gpus):
                return ("err", "gone", f"`{name}` is no longer loaded there")
            try:
                answer = await self._hosted.call(name, gpus, inputs, call["config"])
            except FAULTS as error:
                return _failed(error)
        else:
            said = await self._adapted(
                {"op": "call", "model": model, "gpus": gpus, "call": {**call, "inputs": inputs}}
            )
            if said[0] != "ok":
                return said
            # What came as JSON is measured quickly: a thread would take longer.
            return ("ok", await self._kept(str(call["name"]), *split(said[1])))
        small, large = await asyncio.to_thread(split, answer)
        for field, value in large.items():
            if why := await asyncio.to_thread(_why_not_pickled, value):
                return ("err", "failed", f"{field or 'its answer'}: {why}")
        return ("ok", await self._kept(str(call["name"]), small, large))

    async def _adapted(self, order: dict[str, Any]) -> Answer:
        if self._adapters is None:
            return ("err", "refused", f"nothing serves `{self._models[order['model']]}`")
        try:
            return await self._adapters.carry_out(order)
        except (TypeError, ValueError) as error:
            return ("err", "refused", f"an input that is not JSON goes to a server: {error}")

    async def _fetched(self, inputs: Any) -> Any:
        references = references_in(inputs)
        if not references:
            return inputs
        values = await asyncio.gather(*(self._shelves.get(reference) for reference in references))
        by_key = {reference["$ray"]: value for reference, value in zip(references, values, strict=True)}
        return replaced(inputs, lambda reference: by_key[reference["$ray"]])

    async def _kept(self, name: str, small: Any, large: dict[str | None, Any]) -> Any:
        kept = {field: await self._shelves.put(name, value) for field, value in large.items()}
        if None in kept:
            return kept[None]
        return {**small, **kept} if kept else small


class Adapters:
    """The servers that gswarm speaks with elsewhere, spoken with from this node."""

    def __init__(self, setup: Setup) -> None:
        from gswarm._gswarm import Server

        visible = [device for device in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if device]
        self._server = Server(
            json.dumps(setup.backends), json.dumps(setup.models), setup.gpus[0], setup.gpus[1], visible
        )

    async def carry_out(self, order: dict[str, Any]) -> Answer:
        """Carries an order out; one that nobody waits for any more is broken off."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()

        def tell(said: str) -> None:
            if not done.done():
                done.set_result(said)

        operation = self._server.begin(
            json.dumps(order, allow_nan=False), lambda said: loop.call_soon_threadsafe(tell, said)
        )
        try:
            said = json.loads(await done)
        finally:
            operation.cancel()
        error = said.get("err")
        return ("err", error["kind"], error["why"]) if error else ("ok", said.get("ok"))


def _why_not_pickled(value: Any) -> str | None:
    """Why a value cannot be put on a shelf. Ray would say it with pages of what it looked at."""
    try:
        # Large buffers are passed by, as Ray does, and not copied.
        cloudpickle.dumps(value, protocol=5, buffer_callback=lambda _buffer: None)
    except Exception as error:
        return str(error) or type(error).__name__
    return None


def _failed(error: BaseException) -> Answer:
    """What went wrong in a user's callable: its words, and where."""
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({os.path.basename(where[0].filename)}, line {where[0].lineno})" if where else ""
    return ("err", "failed", f"{type(error).__name__}: {error}{place}")

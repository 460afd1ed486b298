"""The process between gswarm's engine and a Ray cluster: orders come as lines of JSON, answers go in the same
way.

Started by gswarm as ``python -m gswarm.ray.bridge``. Many orders are under way at once, each with a number of
its own; an answer is ``{"id": N, "ok": VALUE}`` or ``{"id": N, "err": {"kind": KIND, "why": TEXT}}``. When
its input ends it ends too, and with it, in Ray, all that belongs to it; only shelves stay until the run has
come to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, BinaryIO

import ray
from ray import cloudpickle

from gswarm.ray.callables import BadModelsError, packed, unpacked
from gswarm.ray.references import MARK, references_in
from gswarm.ray.servers import GoneError, Servers, gpus_of_nodes
from gswarm.ray.shelves import OutputLostError, Shelves, clear
from gswarm.ray.worker import Answer, Setup

#: The longest line that is read: inputs of a call that are not on shelves are at most 64 KB each.
LONGEST_LINE = 1 << 30
#: How long leaving the cluster may take.
LEAVE_SECONDS = 8.0

#: How long a run waits for all of its servers before it begins with those that are there.
FIRST_SECONDS = 60.0
#: The same where the run is under way, and this process was started anew.
AGAIN_SECONDS = 15.0

Order = dict[str, Any]


class Bridge:
    """State of the cluster and of the run."""

    def __init__(self) -> None:
        self._namespace = ""
        self._servers: Servers | None = None

    async def join(self, order: Order) -> Answer:
        """Joins the cluster; says which nodes it has."""
        self._namespace = str(order["namespace"])
        try:
            await asyncio.to_thread(
                ray.init,
                address=order["address"],
                namespace=self._namespace,
                log_to_driver=False,
                logging_level="ERROR",
                configure_logging=False,
            )
        except Exception as error:
            # Whatever keeps it from joining, a wrong address, a wrong token or another version, is told in
            # Ray's words.
            return ("err", "failed", f"{type(error).__name__}: {error}")
        return ("ok", {"nodes": gpus_of_nodes(), "ray": ray.__version__})

    async def prepare(self, order: Order) -> Answer:
        """Asks for the servers of the run, and waits for them."""
        callables = None
        models = order["models"]
        if order["callables"]:
            try:
                callables = packed(order["callables"])
                found = unpacked(callables)
            except BadModelsError as error:
                return ("err", "refused", str(error))
            missing = [models[used]["name"] for used in order["used"] if models[used]["name"] not in found]
            if missing and not order["backends"]["backends"]:
                file, there = order["callables"]["name"], ", ".join(sorted(found))
                return ("err", "refused", f"{file} has no model {', '.join(missing)}; it has {there}")
        setups = [
            Setup(self._namespace, models, order["backends"], (first, count), callables)
            for first, count in order["servers"]
        ]
        self._servers = Servers(setups)
        # Who starts this process anew while a run is under way does not wait as long as a run that begins.
        limit = AGAIN_SECONDS if order.get("again") else FIRST_SECONDS
        return ("ok", {"there": await self._servers.settle(limit)})

    async def load(self, order: Order) -> Answer:
        """Loads a model onto GPUs of a server."""
        return await self._ask(order, "load", order["model"], tuple(order["gpus"]), order["expected"])

    async def unload(self, order: Order) -> Answer:
        """Unloads it."""
        return await self._ask(order, "unload", order["model"], tuple(order["gpus"]))

    async def call(self, order: Order) -> Answer:
        """Calls it."""
        return await self._ask(order, "call", order["model"], tuple(order["gpus"]), order["call"])

    async def ping(self, order: Order) -> Answer:
        """Whether a server answers."""
        if self._servers is None:
            raise GoneError("there are no servers yet")
        return ("ok", await self._servers.where(order["server"]))

    async def reset(self, order: Order) -> Answer:
        """Makes sure that a server is running and empty."""
        if self._servers is None:
            raise GoneError("there are no servers yet")
        return await self._servers.reset(order["server"])

    async def finish(self, order: Order) -> Answer:
        """The run has come to its end: what its last nodes wrote is saved where it is large, and all is let
        go.
        """
        lost = []
        shelves = Shelves(self._namespace, ray.get_runtime_context().get_node_id())
        for reference in references_in(order["outputs"]):
            try:
                await asyncio.to_thread(_save, Path(order["folder"]), reference, await shelves.get(reference))
            except (OutputLostError, OSError) as error:
                lost.append(str(error))
        if self._servers is not None:
            self._servers.close()
        await asyncio.to_thread(clear, self._namespace)
        return ("err", "failed", "; ".join(lost)) if lost else ("ok", None)

    async def _ask(self, order: Order, operation: str, *args: Any) -> Answer:
        if self._servers is None:
            raise GoneError("there are no servers yet")
        return await self._servers.ask(order["server"], operation, *args, others=order.get("with", ()))


def _save(folder: Path, reference: Order, value: Any) -> None:
    """Writes a large output into the folder of the run: JSON where it has such a form, else a pickle."""
    place = folder / "objects"
    place.mkdir(parents=True, exist_ok=True)
    if reference["form"] == "json":
        (place / f"{reference[MARK]}.json").write_text(json.dumps(value))
    else:
        (place / f"{reference[MARK]}.pkl").write_bytes(cloudpickle.dumps(value))


async def _answered(carry_out: Callable[[Order], Awaitable[Answer]], order: Order) -> dict[str, Any]:
    """The answer to an order, including failures."""
    try:
        answer = await carry_out(order)
    except GoneError as error:
        answer = ("err", "gone", str(error))
    except Exception as error:
        answer = ("err", "failed", f"{type(error).__name__}: {error}")
    if answer[0] == "ok":
        return {"id": order["id"], "ok": answer[1]}
    return {"id": order["id"], "err": {"kind": answer[1], "why": answer[2]}}


async def serve(reader: asyncio.StreamReader, out: BinaryIO) -> None:
    """Executes orders until the input ends."""
    bridge = Bridge()
    under_way: dict[int, asyncio.Task[None]] = {}

    async def carry_out(order: Order) -> None:
        said = await _answered(getattr(bridge, order["op"]), order)
        out.write(json.dumps(said).encode() + b"\n")
        out.flush()

    while line := await reader.readline():
        order = json.loads(line)
        if order["op"] == "cancel":
            task = under_way.get(order["of"])
            if task is not None:
                task.cancel()
            continue
        number = order["id"]
        task = asyncio.create_task(carry_out(order))
        under_way[number] = task
        task.add_done_callback(functools.partial(_forget, under_way, number))


def _forget(under_way: dict[int, asyncio.Task[None]], number: int, _ended: asyncio.Task[None]) -> None:
    under_way.pop(number, None)


async def _main() -> None:
    # Only answers go to the output; whatever Ray or a user's file prints goes where messages go.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    with contextlib.suppress(BrokenPipeError):
        await serve(reader, out)
    # Nobody waits for this process: one that hangs would keep GPUs.
    threading.Timer(LEAVE_SECONDS, os._exit, (0,)).start()
    if not ray.is_initialized():
        # Whoever is still joining has nothing to leave, and may go on trying for minutes.
        os._exit(0)


def main() -> None:
    """Serves, and leaves the cluster, however long that takes up to a limit."""
    code = 0
    try:
        asyncio.run(_main())
    except BaseException:
        traceback.print_exc()
        code = 1
    threading.Timer(LEAVE_SECONDS, os._exit, (code,)).start()
    ray.shutdown()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

"""A user's callables: read from a file, sent to the workers, loaded, called and unloaded there."""

from __future__ import annotations

import asyncio
import base64
import gc
import inspect
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ray import cloudpickle

from gswarm.models import registered

#: Calls that run at once in one worker, at most.
THREADS = 128


class BadModelsError(Exception):
    """The file of models cannot be used; the message says why."""


def packed(file: dict[str, Any]) -> bytes:
    """The callables of a file as bytes that workers can unpack, wherever they are.

    A file of Python is executed here, as a module that is sent by value; what it imports has to be on the
    nodes. Any other file is a dictionary of callables that was pickled already.
    """
    content = base64.b64decode(file["bytes"])
    name = str(file["name"])
    if not name.endswith(".py"):
        return content
    folder = str(file["folder"])
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = types.ModuleType("gswarm_models_of_the_run")
    module.__file__ = str(Path(folder) / name)
    sys.modules[module.__name__] = module
    try:
        exec(compile(content, module.__file__, "exec"), module.__dict__)
    except Exception as error:
        raise BadModelsError(f"{name} cannot be read: {type(error).__name__}: {error}") from error
    found = registered()
    if not found:
        hint = 'put @gswarm.model("NAME") before a class or a function'
        raise BadModelsError(f"{name} defines no model; {hint}")
    cloudpickle.register_pickle_by_value(module)
    return bytes(cloudpickle.dumps(found))


def unpacked(content: bytes) -> dict[str, Any]:
    """The callables by the name of their model."""
    found = cloudpickle.loads(content)
    if not isinstance(found, dict) or not all(callable(value) for value in found.values()):
        raise BadModelsError("the file of models holds no dictionary of callables")
    return {str(name): value for name, value in found.items()}


class Hosted:
    """The callables that are loaded in a worker."""

    def __init__(self, callables: dict[str, Any]) -> None:
        self._callables = callables
        self._loaded: dict[tuple[str, int], Any] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="model")

    def serves(self, name: str) -> bool:
        """Whether a model is one of them."""
        return name in self._callables

    async def load(self, name: str, gpus: tuple[int, int]) -> None:
        """Makes an object of a class; a function is there already."""
        found = self._callables[name]
        if inspect.isclass(found):
            devices = list(range(gpus[0], gpus[0] + gpus[1]))
            found = await self._run(found, devices) if _takes_devices(found) else await self._run(found)
        self._loaded[(name, gpus[0])] = found

    async def unload(self, name: str, gpus: tuple[int, int]) -> None:
        """Tells it to go, and lets go of it."""
        found = self._loaded.pop((name, gpus[0]), None)
        unload = getattr(found, "unload", None)
        if unload is not None:
            await self._called(unload)
        del found, unload
        await self._run(gc.collect)

    def holds(self, name: str, gpus: tuple[int, int]) -> bool:
        """Whether a model is loaded on these GPUs."""
        return (name, gpus[0]) in self._loaded

    def holds_anything(self) -> bool:
        """Whether any model is loaded."""
        return bool(self._loaded)

    async def call(self, name: str, gpus: tuple[int, int], inputs: Any, settings: Any) -> Any:
        """Calls a model that is loaded."""
        return await self._called(self._loaded[(name, gpus[0])], inputs, settings)

    async def _called(self, function: Any, *args: Any) -> Any:
        """What a function returns, or the coroutine that it makes."""
        of_class = getattr(type(function), "__call__", None)  # noqa: B004
        asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(of_class)
        return await function(*args) if asynchronous else await self._run(function, *args)

    async def _run(self, function: Any, *args: Any) -> Any:
        loop = asyncio.get_running_loop()
        went_well, found = await loop.run_in_executor(self._threads, _outcome, function, args)
        if not went_well:
            raise found
        return found


def _outcome(function: Any, args: tuple[Any, ...]) -> tuple[bool, Any]:
    """What a function returns or raises. Not everything that may be raised goes through a future."""
    try:
        return True, function(*args)
    except BaseException as error:
        return False, error


def _takes_devices(found: type) -> bool:
    """Whether a class is made with a list of devices, or with nothing."""
    try:
        return bool(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return False

"""What there is: models and the tiers that they are in, and instances that serve.

Everything here runs in the thread that answers requests; what takes long is done in other threads, one
model's at a time.
"""

from __future__ import annotations

import asyncio
import secrets
import string
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from .engine import LOG, Job
from .fault import Fault, conflict, invalid, not_found
from .lm_engine import LmEngine
from .model import Model
from .options import Options
from .place import Place
from .reading import Reader
from .shapes import shape

T = TypeVar("T")


class Instance:
    """A model that serves. Instances of one model on one device share its weights and its batches."""

    def __init__(self, id: str, model: Model) -> None:
        self.id, self.model = id, model
        self.created = time.time()
        self.came_from = model.came_from
        self.inside = 0
        self.closed = False
        self._empty = asyncio.Event()
        self._empty.set()

    def __enter__(self) -> Instance:
        if self.closed:
            raise conflict("instance_stopping", f"the instance `{self.id}` is being stopped")
        self.inside += 1
        self._empty.clear()
        return self

    def __exit__(self, *_: object) -> None:
        self.inside -= 1
        if self.inside == 0:
            self._empty.set()

    async def empty(self) -> None:
        """Returns once nobody uses it."""
        await self._empty.wait()

    async def run(self, job: Job) -> dict[str, Any]:
        """Has a job done; when nobody waits for it any more, it is let go."""
        engine = self.model.engine
        if engine is None:
            raise conflict("not_on_device", f"`{self.model.name}` is not on its device")
        if isinstance(engine, LmEngine):
            engine.check(job)  # type: ignore[arg-type]
        engine.submit(job)
        try:
            return await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            job.cancel()
            raise


class Registry:
    """All models and instances."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.place = Place(options)
        self.models: dict[str, Model] = {}
        self.instances: dict[str, Instance] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._starting = 0
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="tiers")
        self.reader = Reader()
        for name, kind in options.random.items():
            self.models[name] = Model(name, shape(kind), self.place)

    async def blocking(self, what: Callable[[], T]) -> T:
        """Has something done in another thread. It is done to the end, even when its caller goes."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._pool, what))

    def folders(self) -> dict[str, Path]:
        """Models in the folder of models, by name.

        `OWNER/NAME` lies in a folder of a folder, or in `OWNER--NAME`.
        """
        root = self.options.models
        if root is None or not root.is_dir():
            return {}
        found = {}
        for one in sorted(root.iterdir()):
            if (one / "config.json").is_file():
                found[one.name.replace("--", "/")] = one
            elif one.is_dir():
                found.update(
                    {
                        f"{one.name}/{two.name}": two
                        for two in sorted(one.iterdir())
                        if (two / "config.json").is_file()
                    }
                )
        return found

    async def model(self, name: str) -> Model:
        """The model of this name."""
        if name in self.models:
            return self.models[name]
        folder = self.folders().get(name)
        if folder is None:
            raise not_found("model_not_found", f"there is no model `{name[:100]}`", "model_name")
        model = await self.blocking(lambda: Model(name, folder, self.place))
        return self.models.setdefault(name, model)

    def lock(self, name: str) -> asyncio.Lock:
        """Only one changes a model's tier at a time."""
        return self._locks.setdefault(name, asyncio.Lock())

    def instance(self, id: str) -> Instance:
        """The instance of this id."""
        found = self.instances.get(id)
        if found is None:
            raise not_found("instance_not_found", f"there is no instance `{id[:40]}`")
        return found

    def instance_of(self, name: str) -> Instance | None:
        """The least busy instance of a model; or one instance, by its id."""
        named = self.instances.get(name)
        if named is not None and not named.closed:
            return named
        open_ones = [one for one in self.instances.values() if one.model.name == name and not one.closed]
        return min(open_ones, key=lambda one: one.inside, default=None)

    async def load(self, name: str, target: str) -> tuple[Model, bool]:
        """Brings a model to host memory or to the device, with nobody to serve yet.

        `False` where it was there.
        """
        model = await self.model(name)
        model.wanted += 1
        try:
            async with self.lock(name):
                return model, await self.blocking(model.load if target == "dram" else model.wake)
        finally:
            model.wanted -= 1

    async def preload(self) -> None:
        """Brings all models to host memory, as many as there is room for."""
        host = self.place.host
        for name in [*self.models, *self.folders()]:
            model = await self.model(name)
            if model.host is None and host.used + model.bytes > host.limit:
                LOG.warning("%s and those after it stay on disk: host memory is full", name)
                return
            await self.load(name, "dram")

    async def serve(self, name: str) -> Instance:
        """Starts an instance."""
        model = await self.model(name)
        if len(self.instances) + self._starting >= self.options.max_instances:
            raise conflict(
                "too_many_instances",
                f"there are {self.options.max_instances} instances already: stop one first",
            )
        self._starting += 1
        model.wanted += 1
        try:
            async with self.lock(name):
                await self.blocking(model.wake)
                id = new_id()
                while id in self.instances:
                    id = new_id()
                self.instances[id] = Instance(id, model)
        finally:
            self._starting -= 1
            model.wanted -= 1
        LOG.info("%s: instance %s serves on %s", name, id, self.place.name)
        return self.instances[id]

    async def stop(self, id: str) -> tuple[Instance, dict[str, Any]]:
        """Stops an instance once those who use it have their answers.

        With its last one, a model leaves the device.
        """
        instance = self.instance(id)
        if instance.closed:
            raise conflict("instance_stopping", f"the instance `{id}` is already stopping")
        instance.closed = True
        return instance, await asyncio.shield(asyncio.ensure_future(self._finish(instance)))

    async def _finish(self, instance: Instance) -> dict[str, Any]:
        await instance.empty()
        model = instance.model
        async with self.lock(model.name):
            others = [one for one in self.instances.values() if one.model is model and one is not instance]
            details = {} if others else await self.blocking(model.sleep)
            self.instances.pop(instance.id, None)
        return details

    async def offload(self, name: str, target: str) -> tuple[list[str], dict[str, Any]]:
        """Stops all instances of a model, and takes it off the device.

        With `disk`, out of host memory too.
        """
        if name not in self.models and name in self.folders():
            return [], {}  # It was never read, as where its folder is damaged: it is nowhere but on disk.
        model = await self.model(name)
        own = [one for one in self.instances.values() if one.model is model]
        closing = [one for one in own if not one.closed]
        for one in closing:
            one.closed = True

        async def rest() -> dict[str, Any]:
            for one in own:
                await one.empty()
            async with self.lock(name):
                # Whoever came in between keeps the model where it is.
                later = [one for one in self.instances.values() if one.model is model and one not in own]
                for one in own:
                    self.instances.pop(one.id, None)
                if later:
                    return {}
                return await self.blocking(model.unload if target == "disk" else model.sleep)

        details = await asyncio.shield(asyncio.ensure_future(rest()))
        return [one.id for one in closing], details

    def close(self) -> None:
        """Ends all threads."""
        for model in self.models.values():
            model.close()
        self.reader.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def new_id() -> str:
    """Six letters and digits."""
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(6))


def expect(instance: Instance, kind: str) -> None:
    """Refuses work that a model of this kind does not do."""
    if instance.model.kind != kind:
        message = (
            f"`{instance.model.name}` is a model of type {instance.model.kind}; this call needs type {kind}"
        )
        raise invalid(message, "model")


__all__ = ["Fault", "Instance", "Registry", "expect"]

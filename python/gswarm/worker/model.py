"""A model and the tiers that it is in: disk, host memory, device. Every way between is timed."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from . import checkpoint, folder, lm_engine
from .batch_engine import EmbedEngine, ImageEngine
from .devmem import CHUNK, Region
from .encoder import Bert, BertConfig
from .engine import LOG, Engine
from .fault import Fault, no_room, not_given
from .hostmem import Filling, HostBuffer
from .image import ImageConfig, Painter
from .layout import Layout, fill_random
from .llama import LlamaConfig
from .lm_engine import LmEngine
from .place import Place
from .runner import BLOCK, KV_CHUNK, Runner
from .shapes import Shape
from .tokens import Bytes, Folder, Tokenizer


@dataclass
class Timing:
    """How long a way between tiers took."""

    what: str
    seconds: float
    bytes: int
    at: float
    details: dict[str, Any]

    def shown(self) -> dict[str, Any]:
        """For the status."""
        rate = self.bytes / self.seconds / 1e9 if self.seconds > 0 else None
        return {
            "what": self.what,
            "seconds": self.seconds,
            "bytes": self.bytes,
            "gb_per_s": rate,
            "at": self.at,
            **self.details,
        }


class Model:
    """One model. Its methods block, and only one at a time does anything."""

    def __init__(
        self, name: str, source: Path | Shape, place: Place, tokenizer: Tokenizer | None = None
    ) -> None:
        self.name, self.source, self.place = name, source, place
        self.kind, self.config = _configuration(source)
        self.layout: Layout = self.config.layout(place.dtype)
        self.host: HostBuffer | None = None
        self.loaded_at: float | None = None
        self.region: Region | None = None
        self.engine: Engine | None = None
        self.tokenizer: Tokenizer = tokenizer or self._tokenizer()
        self._ends = self._find_ends()
        self.timings: list[Timing] = []
        self.on_device = False
        self.used_at = time.monotonic()
        """When it was last brought from tier to tier."""
        self.wanted = 0
        """How many wait for it to come."""
        self.came_from = "disk"
        """The tier that it was in before it was last brought."""
        self._views: dict[str, torch.Tensor] | None = None
        self._measured = False
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """Bytes of its weights."""
        return self.layout.total

    @property
    def path(self) -> str | None:
        """Its folder; one with random weights has none."""
        return str(self.source) if isinstance(self.source, Path) else None

    @property
    def tier(self) -> str:
        """Where it is: `disk`, `dram` or `gpu`."""
        return "gpu" if self.on_device else "dram" if self.host is not None else "disk"

    def _tokenizer(self) -> Tokenizer:
        vocab = getattr(self.config, "vocab", 257)
        return Folder(self.source, vocab) if isinstance(self.source, Path) else Bytes(vocab)

    @property
    def context(self) -> int:
        """Tokens of the longest text: of a language model, with the answer."""
        if isinstance(self.config, LlamaConfig):
            return min(self.config.context, self.place.max_context)
        return getattr(self.config, "context", 1)

    def _find_ends(self) -> frozenset[int]:
        """Tokens that end a text.

        Models with random weights have none: they write as much as is asked for.
        """
        found: set[int] = set()
        if isinstance(self.source, Path) and isinstance(self.config, LlamaConfig):
            for file in ("config.json", "generation_config.json"):
                path = self.source / file
                fields = folder.Fields(path, folder.read_json_if_there(path))
                found.update(fields.tokens("eos_token_id", self.config.vocab))
        return frozenset(found)

    @contextmanager
    def _timed(self, what: str) -> Iterator[dict[str, Any]]:
        details: dict[str, Any] = {}
        began = time.perf_counter()
        yield details
        seconds = time.perf_counter() - began
        size = int(details.pop("of_bytes", self.bytes))
        self.timings.append(Timing(what, seconds, size, time.time(), details))
        del self.timings[:-100]
        LOG.info("%s: %s took %.3f s (%.2f GB/s)", self.name, what, seconds, size / max(seconds, 1e-9) / 1e9)

    # From tier to tier.

    def load(self) -> bool:
        """From disk to host memory; `False` where it was there."""
        with self._lock:
            self.came_from = self.tier
            return self._load()

    def _load(self, urgent: bool = False) -> bool:
        self.used_at = time.monotonic()
        if self.host is not None:
            return False
        place = self.place
        if not place.host.claim(self.bytes, urgent):
            raise no_room(self.name, self.bytes, place.host.used, place.host.limit, "host memory")
        host: HostBuffer | None = None
        try:
            with self._timed("load") as details:
                try:
                    host = HostBuffer(self.bytes, place.cuda, place.pins, place.threads)
                except OSError as error:
                    raise not_given(self.name, self.bytes, "host memory", error) from error
                began = time.perf_counter()
                if isinstance(self.source, Path):
                    self._read(self.source, host)
                    details["fill_seconds"] = time.perf_counter() - began
                else:
                    began += host.pin().touch_seconds + host.register_seconds
                    self._randomise(host)
                    details["fill_seconds"] = time.perf_counter() - began
                details["touch_seconds"], details["pin_seconds"] = host.touch_seconds, host.register_seconds
                details["pinned"] = host.pinned
        except BaseException:
            if host is not None:
                host.free()
            place.host.give(self.bytes)
            raise
        self.host, self.loaded_at = host, time.time()
        place.host.held.add(self)
        return True

    def _read(self, source: Path, host: HostBuffer) -> None:
        filling = Filling(host, CHUNK)
        try:
            checkpoint.read_into(source, self.layout, host.flat, self.place.threads, filling.read)
        except BaseException:
            filling.give_up()
            raise
        filling.finish()

    def _randomise(self, host: HostBuffer) -> None:
        copies = self.place.copies
        if copies is None:
            fill_random(self.layout, host.flat, self.place.seed)
            return
        # A GPU draws them faster than the host could, one parameter at a time.
        device = self.place.device
        generator = torch.Generator(device=device).manual_seed(self.place.seed)
        with torch.cuda.device(device), torch.cuda.stream(copies):
            for one in self.layout.parameters:
                drawn = torch.empty(one.shape, dtype=self.layout.dtype, device=device)
                if one.scale > 0:
                    drawn.normal_(0.0, one.scale, generator=generator)
                else:
                    drawn.fill_(1.0 if one.scale == 0 else 0.0)
                self.layout.view(host.flat, one).copy_(drawn, non_blocking=True)
            copies.synchronize()
            del drawn
            torch.cuda.empty_cache()

    def wake(self) -> bool:
        """From wherever it is to the device, ready to compute; `False` where it was there."""
        with self._lock:
            self.came_from = self.tier
            if self.on_device:
                return False
            ledger, what = self.place.ledger, f"{self.name} weights"
            if self.bytes > ledger.budget:
                raise no_room(what, self.bytes, ledger.used, ledger.budget, "device memory")
            if self.region is None:
                self.region = self.place.devices.region(self.bytes, CHUNK)
            region = self.region
            if self.host is None:
                # Nobody is to leave host memory for what does not fit on the device.
                ledger.make_room(what, region, self.bytes, self._beside())
                self._load(urgent=True)
            self.used_at = time.monotonic()
            with self._timed("wake") as details:
                ledger.make_room(what, region, self.bytes, self._beside())
                try:
                    details.update(self._copy(region))
                    began = time.perf_counter()
                    self._attach(region)
                    details["attach_seconds"] = time.perf_counter() - began
                except BaseException:
                    self._give_up(region)
                    raise
            self.on_device = True
            if not self._measured:
                try:
                    self._measure()
                except BaseException:
                    self._sleep()
                    raise
                self._measured = True
            return True

    def _beside(self) -> int:
        """Bytes of the device that it needs at once beside its weights."""
        if not isinstance(self.config, LlamaConfig):
            return 0
        if isinstance(self.engine, LmEngine) and self.engine.runner is not None:
            runner = self.engine.runner
            return runner.region.would_take(runner.cache.block_bytes)
        _, block, blocks = self._cache_shape(self.config)
        first = block if self.place.devices.grows else blocks * block
        return min(blocks * block, max(first, KV_CHUNK)) if self.place.devices.memory is not None else first

    def _cache_shape(self, config: LlamaConfig) -> tuple[int, int, int]:
        """Tokens of the longest text, bytes of a block, and blocks at most."""
        place = self.place
        context = self.context
        block = config.kv_bytes(place.dtype) * BLOCK
        most = place.kv_bytes if place.kv_bytes is not None else place.ledger.budget
        if not place.devices.grows:
            most = min(most, place.ledger.budget // 4)  # All of it is taken at once.
        elif not place.cuda and place.kv_bytes is None:
            # Addresses have a bound too, in some places: one whole text, or an eighth of the memory.
            most = min(most, max(place.ledger.budget // 8, -(-context // BLOCK) * block))
        return context, block, 1 + min(place.max_batch * -(-context // BLOCK), max(1, most // block))

    def _give_up(self, region: Region) -> None:
        """Gives back what a waking that failed has taken."""
        if self.place.copies is not None:
            self.place.copies.synchronize()
        self.place.ledger.release(f"{self.name} weights", region)
        if isinstance(self.engine, LmEngine) and self.engine.runner is not None:
            self.place.ledger.release(f"{self.name} cache", self.engine.runner.region)

    def _copy(self, region: Region) -> dict[str, Any]:
        """The weights to the device.

        Memory is mapped piece by piece, and each is filled while the next is mapped.
        """
        assert self.host is not None
        place, flat, mapping = self.place, self.host.flat, 0.0
        began = time.perf_counter()
        stream = place.copies
        for at in range(0, self.bytes, CHUNK):
            end = min(at + CHUNK, self.bytes)
            before = time.perf_counter()
            place.ledger.grow(f"{self.name} weights", region, end)
            mapping += time.perf_counter() - before
            to = region.tensor()[at:end]
            if stream is None:
                to.copy_(flat[at:end])
            else:
                with torch.cuda.stream(stream):
                    to.copy_(flat[at:end], non_blocking=True)
        if stream is not None:
            done = torch.cuda.Event(blocking=True)
            done.record(stream)
            # What the model needs beside its weights is mapped while they are on their way.
            if isinstance(self.engine, LmEngine) and self.engine.runner is not None:
                runner = self.engine.runner
                place.ledger.grow(f"{self.name} cache", runner.region, runner.cache.block_bytes)
            done.synchronize()
        seconds = time.perf_counter() - began
        return {
            "copy_seconds": seconds,
            "copy_gb_per_s": self.bytes / max(seconds, 1e-9) / 1e9,
            "map_seconds": mapping,
        }

    def _attach(self, region: Region) -> None:
        """Makes an engine, the first time, and gives it the weights."""
        place = self.place
        same = region.stable
        if self._views is None or not same:
            self._views = self.layout.views(region.tensor())
        weights = self._views
        if isinstance(self.config, LlamaConfig):
            if self.engine is None:
                self.engine = LmEngine(
                    self.name, place.device, place.max_waiting, self.tokenizer, self._ends, place.ledger
                )
                place.ledger.trimmers.append(self.engine)
            engine = self.engine
            assert isinstance(engine, LmEngine)
            engine.ask(lambda: self._attach_lm(engine, weights, same))
        elif isinstance(self.config, BertConfig):
            if self.engine is None:
                self.engine = EmbedEngine(self.name, place.device, place.max_waiting, place.max_batch)
            embeds, bert = self.engine, Bert(self.config, weights)
            assert isinstance(embeds, EmbedEngine)
            embeds.ask(lambda: embeds.attach(bert, same, place.graphs))
        else:
            if self.engine is None:
                self.engine = ImageEngine(
                    self.name,
                    place.device,
                    place.max_waiting,
                    min(place.max_batch, 8),
                    self.config,
                    place.out(),
                )
            paints, painter = self.engine, Painter(self.config, weights)
            assert isinstance(paints, ImageEngine)
            paints.ask(lambda: paints.attach(painter, same, place.graphs))
        self.engine.awake = True

    def _attach_lm(self, engine: LmEngine, weights: dict[str, torch.Tensor], same: bool) -> None:
        place, config = self.place, self.config
        assert isinstance(config, LlamaConfig)
        runner = engine.runner
        what = f"{self.name} cache"
        if runner is None:
            context, block, blocks = self._cache_shape(config)
            region, blocks = self._cache_region(block, blocks, 1 + -(-context // BLOCK))
            try:
                place.ledger.grow(what, region, block)
                ops, called = place.operations(config.head_dim)
                runner = Runner(
                    config, place.dtype, ops, region, place.max_batch, context, place.graphs and place.cuda
                )
            except BaseException:
                place.ledger.release(what, region)
                region.close()
                raise
            engine.prepare(runner, blocks)
            LOG.info("%s: kernels are %s", self.name, called)
        else:
            place.ledger.grow(what, runner.region, runner.cache.block_bytes)
        runner.attach(weights, same)
        runner.warm()

    def _cache_region(self, block: int, blocks: int, least: int) -> tuple[Region, int]:
        """Room for the cache: fewer blocks where the system has no addresses for as many."""
        while True:
            try:
                return self.place.devices.region(blocks * block, KV_CHUNK), blocks
            except Fault:
                if blocks <= least:
                    raise
                blocks = max(least, blocks // 4)

    def _measure(self) -> None:
        engine = self.engine
        if isinstance(engine, LmEngine):
            with self._timed("measure") as details:
                details["of_bytes"] = 0
                engine.measure()

    def sleep(self) -> dict[str, Any]:
        """From the device to host memory. Weights never change, so nothing has to be copied back."""
        with self._lock:
            return self._sleep()

    def _sleep(self) -> dict[str, Any]:
        if not self.on_device:
            return {}
        engine, region, ledger = self.engine, self.region, self.place.ledger
        assert engine is not None
        assert region is not None
        self.used_at = time.monotonic()
        with self._timed("sleep") as details:
            engine.awake = False

            def let_go() -> None:
                if engine.stream is not None:
                    engine.stream.synchronize()
                if isinstance(engine, LmEngine) and engine.runner is not None:
                    engine.runner.detach()
                    details["cache"] = ledger.release(f"{self.name} cache", engine.runner.region)
                elif isinstance(engine, (EmbedEngine, ImageEngine)) and engine.passes is not None:
                    engine.passes.detach()

            engine.ask(let_go)
            if not region.stable:
                self._views = None  # They would keep the memory.
            details["weights"] = ledger.release(f"{self.name} weights", region)
            self.on_device = False
        return details

    def unload(self) -> dict[str, Any]:
        """From wherever it is to disk."""
        with self._lock:
            details = self._sleep()
            self._unload()
            return details

    def _unload(self) -> None:
        if self.host is not None:
            with self._timed("unload"):
                host, self.host, self.loaded_at = self.host, None, None
                self.place.host.held.discard(self)
                host.free()
                self.place.host.give(self.bytes)

    @property
    def droppable(self) -> bool:
        """Whether it is in host memory, and nobody waits for it."""
        return self.host is not None and not self.wanted

    def drop(self) -> bool | None:
        """Out of host memory, for another model; `False` where it is needed, `None` while it is moved."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if not self.droppable:
                return False
            LOG.info("%s: leaves host memory, as another model needs the room", self.name)
            self._unload()
            return True
        finally:
            self._lock.release()

    def close(self) -> None:
        """Ends its thread, and what renders its chats."""
        if self.engine is not None:
            self.engine.awake = False
            self.engine.close()
        self.tokenizer.close()

    def described(self) -> dict[str, Any]:
        """For the status."""
        engine = self.engine
        return {
            "model_name": self.name,
            "model_type": self.kind,
            "tier": self.tier,
            "bytes": self.bytes,
            "pinned": self.host.pinned if self.host is not None else False,
            "timings": [one.shown() for one in self.timings[-20:]],
            **(lm_engine.description(engine) if isinstance(engine, LmEngine) else {}),
        }


def _configuration(source: Path | Shape) -> tuple[str, LlamaConfig | BertConfig | ImageConfig]:
    if isinstance(source, Shape):
        return source.kind, source.config
    path = source / "config.json"
    config = folder.read_json(path)
    if config.get("model_type") == "bert":
        pooling = folder.read_json_if_there(source / "1_Pooling" / "config.json")
        return "embedding", BertConfig.read(config, not pooling.get("pooling_mode_cls_token"), path)
    return "llm", LlamaConfig.read(config, path)

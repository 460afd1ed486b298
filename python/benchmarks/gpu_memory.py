"""Sections of `gpu_check.py` about weights on their way: what slows a waking down, and loading from disk."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import shutil
import statistics
import struct
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from gswarm.worker.devmem import CHUNK, Region, VirtualRegion
from gswarm.worker.llama import LlamaConfig
from gswarm.worker.model import Model
from gswarm.worker.place import Place

READ = 16 << 20
"""Bytes that a thread reads at a time past the page cache."""


def waking(model: Model, place: Place, rounds: int = 4) -> dict[str, Any]:
    """The weights of a model to the device in several ways, to see what each part of a waking costs."""
    model.load()
    assert model.host is not None
    flat, size = model.host.flat, model.bytes
    region, other = place.devices.region(size, CHUNK), place.devices.region(size, CHUNK)

    def sync() -> None:
        if place.cuda:
            torch.cuda.synchronize()

    def copy(to: Region, chunk: int) -> None:
        for at in range(0, size, chunk):
            to.tensor()[at : min(at + chunk, size)].copy_(flat[at : at + chunk], non_blocking=True)

    def by_chunks(to: Region) -> None:
        for at in range(0, size, CHUNK):
            end = min(at + CHUNK, size)
            to.grow_to(end)
            to.tensor()[at:end].copy_(flat[at:end], non_blocking=True)

    def timed(what: Callable[[], None]) -> float:
        sync()
        began = time.perf_counter()
        what()
        sync()
        return time.perf_counter() - began

    def whole() -> float:
        region.grow_to(size)
        return timed(lambda: copy(region, size))

    def pieces() -> float:
        region.grow_to(size)
        return timed(lambda: copy(region, CHUNK))

    def at_once() -> float:
        region.release()
        return timed(lambda: by_chunks(region))

    def later() -> float:
        region.release()
        time.sleep(0.5)
        return timed(lambda: by_chunks(region))

    def mapped_first() -> float:
        def both() -> None:
            region.grow_to(size)
            copy(region, size)

        region.release()
        return timed(both)

    def elsewhere() -> float:
        # The other's memory is taken before this one's is given back, so that it is not the same.
        region.grow_to(size)
        other.grow_to(size)
        region.release()
        taken = timed(lambda: copy(other, CHUNK))
        other.release()
        return taken

    def same_memory() -> float:
        if not isinstance(region, VirtualRegion):
            return 0.0

        def both() -> None:
            remap(region)
            copy(region, CHUNK)

        region.grow_to(size)
        return timed(both)

    ways = {
        "copy_alone": whole,
        "copy_in_chunks": pieces,
        "right_after_sleep": at_once,
        "half_a_second_after_sleep": later,
        "mapped_first_then_copied": mapped_first,
        "into_memory_that_was_mapped_before": elsewhere,
        "into_the_same_memory_mapped_again": same_memory,
    }
    found: dict[str, Any] = {}
    for name, way in ways.items():
        seconds = statistics.median([way() for _ in range(rounds)])
        found[name] = {"seconds": seconds, "gb_per_s": size / seconds / 1e9 if seconds else None}
    region.close()
    other.close()
    return found


def remap(region: VirtualRegion) -> None:
    """Takes the memory from behind the addresses and puts it back; the device never has it in between."""
    memory = region._memory
    for address, size, handle in region._parts:
        at, length = ctypes.c_uint64(address), ctypes.c_size_t(size)
        memory.call("cuMemUnmap", at, length)
        memory.call("cuMemMap", at, length, ctypes.c_size_t(0), ctypes.c_uint64(handle), ctypes.c_uint64(0))
        memory.call("cuMemSetAccess", at, length, ctypes.byref(memory._access), ctypes.c_size_t(1))


def disk(model: Model, place: Place, folder: str | None) -> dict[str, Any]:
    """A model from files: past the page cache, cold, and out of the page cache."""
    model.load()
    assert model.host is not None
    root = folder or tempfile.gettempdir()
    free = shutil.disk_usage(root).free
    if free < model.bytes * 1.1:
        return {"left_out": f"{free / 1e9:.1f} GB are free in {root}"}
    with tempfile.TemporaryDirectory(dir=root) as name:
        path = Path(name)
        began = time.perf_counter()
        files = save(model, path)
        out: dict[str, Any] = {"bytes": model.bytes, "write_seconds": time.perf_counter() - began}
        forget(files)
        began = time.perf_counter()
        read = direct(files, place.threads)
        if read:
            out["direct_gb_per_s"] = read / (time.perf_counter() - began) / 1e9
        for kind in ("cold", "again", "cached"):
            if kind != "cached":
                forget(files)
            one = Model(f"from disk, {kind}", path, place, model.tokenizer)
            one.load()
            assert one.host is not None
            out[kind] = one.timings[-1].shown()
            step = 4099
            out[kind]["same_bytes"] = bool(torch.equal(one.host.flat[::step], model.host.flat[::step]))
            one.unload()
    return out


def save(model: Model, folder: Path, shards: int = 3) -> list[Path]:
    """Writes a model's weights as a folder of safetensors files, and sees that they are on the disk."""
    assert model.host is not None
    config, layout = model.config, model.layout
    assert isinstance(config, LlamaConfig)
    text = {
        "model_type": "llama",
        "vocab_size": config.vocab,
        "hidden_size": config.hidden,
        "intermediate_size": config.inner,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.eps,
        "rope_theta": config.theta,
        "tie_word_embeddings": config.tied,
    }
    (folder / "config.json").write_text(json.dumps(text))
    names = {torch.bfloat16: "BF16", torch.float16: "F16", torch.float32: "F32"}
    each: list[list[tuple[str, torch.Tensor]]] = [[] for _ in range(shards)]
    for at, one in enumerate(layout.parameters):
        view = layout.view(model.host.flat, one)
        for piece in one.pieces:
            rows = view[piece.first_row : piece.first_row + piece.rows]
            each[at * shards // len(layout.parameters)].append((piece.source, rows))
    paths = [folder / f"model-{at + 1:05}-of-{shards:05}.safetensors" for at in range(shards)]

    def write(path: Path, tensors: list[tuple[str, torch.Tensor]]) -> None:
        head, at = {}, 0
        for name, tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            head[name] = {
                "dtype": names[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [at, at + size],
            }
            at += size
        raw = json.dumps(head).encode()
        with path.open("wb", buffering=0) as file:
            file.write(struct.pack("<Q", len(raw)) + raw)
            for _, tensor in tensors:
                left = memoryview(tensor.flatten().view(torch.uint8).numpy().data)
                while len(left):
                    left = left[file.write(left[: 1 << 30]) :]
            os.fsync(file.fileno())

    with ThreadPoolExecutor(shards) as pool:
        list(pool.map(write, paths, each))
    return paths


def forget(files: list[Path]) -> None:
    """Has the system forget what it holds of files in memory."""
    for path in files:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def direct(files: list[Path], threads: int) -> int:
    """Reads files past the page cache by several threads; how many bytes, or none where that cannot be."""
    parts = [(path, at) for path in files for at in range(0, path.stat().st_size, READ)]

    def read(part: tuple[Path, int]) -> int:
        handle = os.open(part[0], os.O_RDONLY | os.O_DIRECT)
        try:
            with mmap.mmap(-1, READ) as room:
                return os.preadv(handle, [room], part[1])
        finally:
            os.close(handle)

    try:
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(read, parts))
    except OSError:
        return 0

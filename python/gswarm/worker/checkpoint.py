"""From safetensors files into a model's flat buffer, by several threads at once."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .fault import Fault
from .layout import Layout

PART = 64 << 20
"""Bytes that one thread reads at a time."""
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


@dataclass(frozen=True)
class Stored:
    """A tensor in a file."""

    path: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int
    size: int


def broken(message: str) -> Fault:
    """A model that cannot be used (422)."""
    return Fault(422, "bad_model", message)


def index(folder: Path) -> dict[str, Stored]:
    """All tensors of a folder's safetensors files."""
    found: dict[str, Stored] = {}
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
            length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
            if length > min(size, 100 << 20):
                raise broken(f"{path.name} is not a safetensors file")
            try:
                header: dict[str, Any] = json.loads(file.read(length))
            except (ValueError, RecursionError):
                raise broken(f"{path.name} has a head that is not JSON") from None
            if not isinstance(header, dict):
                raise broken(f"{path.name} has a head that is not JSON object")
        for name, one in header.items():
            if name == "__metadata__":
                continue
            try:
                dtype, (begin, end) = DTYPES.get(one["dtype"]), one["data_offsets"]
                if dtype is None:
                    continue  # Counters and the like; what is needed and missing is told below.
                shape = tuple(one["shape"])
                within = 0 <= begin <= end and 8 + length + end <= size
                if not within or end - begin != math.prod(shape) * dtype.itemsize:
                    raise broken(f"{path.name}: `{name}` is outside the file")
            except (TypeError, ValueError, KeyError):
                raise broken(f"{path.name}: the entry of `{name[:100]}` is invalid") from None
            found[name] = Stored(path, dtype, shape, 8 + length + begin, end - begin)
    if not found:
        raise broken("the folder has no safetensors files")
    return found


def _find(tensors: dict[str, Stored], name: str) -> Stored:
    # Encoders are stored with and without the name of what they are a part of.
    for prefix in ("", "bert.", "model."):
        if prefix + name in tensors:
            return tensors[prefix + name]
    raise broken(f"the model has no tensor `{name}`")


def read_into(
    folder: Path,
    layout: Layout,
    flat: torch.Tensor,
    threads: int = 8,
    heard: Callable[[int, int], None] | None = None,
) -> None:
    """Fills a buffer of the host with a folder's weights; `heard` is told of bytes that are there."""
    tensors = index(folder)
    reads: list[tuple[Stored, torch.Tensor]] = []
    for parameter in layout.parameters:
        view = layout.view(flat, parameter)
        for piece in parameter.pieces:
            stored = _find(tensors, piece.source)
            to = view[piece.first_row : piece.first_row + piece.rows]
            if stored.shape != tuple(to.shape):
                raise broken(
                    f"`{piece.source}` has the shape {stored.shape}, where {tuple(to.shape)} is expected"
                )
            reads.append((stored, to))

    def read(one: tuple[Stored, torch.Tensor]) -> None:
        _read(*one)
        if heard is not None:
            begin = one[1].data_ptr() - flat.data_ptr()
            heard(begin, begin + one[1].numel() * one[1].element_size())

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(read, reads))


def _read(stored: Stored, to: torch.Tensor) -> None:
    direct = stored.dtype == to.dtype
    into = to if direct else torch.empty(stored.shape, dtype=stored.dtype)
    memory = memoryview(into.flatten().view(torch.uint8).numpy().data)
    with open(stored.path, "rb", buffering=0) as file:
        for at in range(0, stored.size, PART):
            part = memory[at : at + PART]
            done = 0
            while done < len(part):
                got = os.preadv(file.fileno(), [part[done:]], stored.begin + at + done)
                if got == 0:
                    raise broken(f"{stored.path.name} ended early")
                done += got
    if not direct:
        to.copy_(into)

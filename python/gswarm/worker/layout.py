"""The position of each parameter in a model's flat buffer.

All weights of a model are one stretch of bytes, on the host and on the device alike, and parameters are
views of it: a load is then a few large copies, and a model that comes back has its parameters where they
were.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

ALIGN = 512
"""Parameters begin at multiples of this many bytes, so that kernels may read them in wide words."""


@dataclass(frozen=True)
class Piece:
    """A tensor of a checkpoint, and where its rows go within a parameter."""

    source: str
    first_row: int
    rows: int


@dataclass
class Parameter:
    """A parameter.

    Its shape, where it begins, and which tensors of a checkpoint make it up, one under the other.
    """

    name: str
    shape: tuple[int, ...]
    offset: int
    pieces: list[Piece]
    scale: float
    """Standard deviation of random values; 0 for ones, negative for zeros."""

    def bytes(self, dtype: torch.dtype) -> int:
        """How many bytes it takes."""
        return math.prod(self.shape) * dtype.itemsize


@dataclass
class Layout:
    """All parameters of a model."""

    dtype: torch.dtype
    parameters: list[Parameter] = field(default_factory=list)
    total: int = 0

    def add(
        self, name: str, shape: tuple[int, ...], sources: dict[str, int] | str, scale: float = 0.02
    ) -> None:
        """Puts a parameter at the end. `sources` are the checkpoint's tensors with their rows, in order."""
        if isinstance(sources, str):
            sources = {sources: shape[0]}
        pieces, row = [], 0
        for source, rows in sources.items():
            pieces.append(Piece(source, row, rows))
            row += rows
        if row != shape[0]:
            raise ValueError(f"{name}: {row} rows are given for {shape[0]}")
        parameter = Parameter(name, shape, self.total, pieces, scale)
        self.parameters.append(parameter)
        self.total += -(-parameter.bytes(self.dtype) // ALIGN) * ALIGN

    def views(self, flat: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parameters as views of a buffer of bytes."""
        return {one.name: self.view(flat, one) for one in self.parameters}

    def view(self, flat: torch.Tensor, one: Parameter) -> torch.Tensor:
        """One parameter as a view of a buffer of bytes."""
        return flat[one.offset : one.offset + one.bytes(self.dtype)].view(self.dtype).view(one.shape)


def fill_random(layout: Layout, flat: torch.Tensor, seed: int) -> None:
    """Fills a buffer, wherever it is, with weights that depend on the seed alone (for one kind of device)."""
    generator = torch.Generator(device=flat.device).manual_seed(seed)
    for one in layout.parameters:
        view = layout.view(flat, one)
        if one.scale > 0:
            view.normal_(0.0, one.scale, generator=generator)
        else:
            view.fill_(1.0 if one.scale == 0 else 0.0)

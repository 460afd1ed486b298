"""Keys and values of all sequences of a model, in blocks of tokens.

A sequence has a slot, and a slot a row of the table, which names its blocks. A block holds all layers, so
that the cache can grow block by block from its front. The last slot and block 0 belong to nobody: rows that
only fill a batch up use them.
"""

from __future__ import annotations

import torch


class KvCache:
    """The cache as kernels see it."""

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(
        self,
        flat: torch.Tensor,
        layers: int,
        kv_heads: int,
        head_dim: int,
        dtype: torch.dtype,
        block_size: int,
        slots: int,
        context: int,
    ) -> None:
        self.block_size = block_size
        self.nobody = slots
        self.shape = (-1, layers, 2, kv_heads, block_size, head_dim)
        self.block_bytes = 2 * layers * kv_heads * head_dim * block_size * dtype.itemsize
        self.dtype = dtype
        width = -(-context // block_size)
        self.tables = torch.zeros((slots + 1, width), dtype=torch.int32, device=flat.device)
        self.attach(flat)

    def attach(self, flat: torch.Tensor) -> None:
        """Uses these bytes."""
        whole = flat.numel() // self.block_bytes * self.block_bytes
        self.blocks = flat[:whole].view(self.dtype).view(self.shape)

    def layer(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of a layer, by block, head, token and dimension."""
        return self.blocks[:, layer, 0], self.blocks[:, layer, 1]


class BlockPool:
    """Which blocks are free. The lowest go first, so that the cache stays near its front."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = list(range(count - 1, 0, -1))  # block 0 is nobody's

    @property
    def free(self) -> int:
        """How many are free."""
        return len(self._free)

    def take(self, count: int) -> list[int] | None:
        """So many blocks, or none."""
        if count > len(self._free):
            return None
        taken = self._free[len(self._free) - count :]
        del self._free[len(self._free) - count :]
        return taken[::-1]

    def give(self, blocks: list[int]) -> None:
        """Takes blocks back."""
        self._free.extend(blocks)
        self._free.sort(reverse=True)

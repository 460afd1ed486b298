"""The operations of a transformer, in plain PyTorch; and the choice between these and the kernels of
`kernels.py`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Protocol

import torch
import torch.nn.functional as F


class Operations(Protocol):
    """What a language model is computed with."""

    def add_rmsnorm(
        self, x: torch.Tensor, r: torch.Tensor | None, w: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """Adds `r` to `x` in place, where there is an `r`, and norms the sum."""

    def silu_mul(self, gu: torch.Tensor) -> torch.Tensor:
        """silu of the left half times the right half."""

    def rope_cache(
        self, qkv: torch.Tensor, pos: torch.Tensor, slots: torch.Tensor, cache: Any, layer: int, model: Any
    ) -> None:
        """Turns queries and keys by their positions, in place, and puts keys and values into the cache."""

    def decode_attention(
        self, qkv: torch.Tensor, pos: torch.Tensor, slots: torch.Tensor, cache: Any, layer: int, model: Any
    ) -> torch.Tensor:
        """Attention of one new token of each sequence over what the cache holds of it."""


class Plain:
    """Everywhere, and slower."""

    @staticmethod
    def add_rmsnorm(x: torch.Tensor, r: torch.Tensor | None, w: torch.Tensor, eps: float) -> torch.Tensor:
        if r is not None:
            x.add_(r)
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        return (wide * w.float()).to(x.dtype)

    @staticmethod
    def silu_mul(gu: torch.Tensor) -> torch.Tensor:
        gate, up = gu.chunk(2, dim=-1)
        return F.silu(gate) * up

    @staticmethod
    def rope_cache(
        qkv: torch.Tensor, pos: torch.Tensor, slots: torch.Tensor, cache: Any, layer: int, model: Any
    ) -> None:
        heads, kv, dim = model.heads, model.kv_heads, model.head_dim
        parts = qkv.view(qkv.shape[0], heads + 2 * kv, dim)
        turn = parts[:, : heads + kv]
        cos, sin = cache.cos[pos][:, None], cache.sin[pos][:, None]
        first, second = turn[..., : dim // 2].float(), turn[..., dim // 2 :].float()
        turn.copy_(torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1))
        keys, values = cache.layer(layer)
        where = pos.long()
        blocks = cache.tables[slots, where // cache.block_size].long()
        inside = where % cache.block_size
        keys[blocks, :, inside] = parts[:, heads : heads + kv]
        values[blocks, :, inside] = parts[:, heads + kv :]

    @staticmethod
    def decode_attention(
        qkv: torch.Tensor, pos: torch.Tensor, slots: torch.Tensor, cache: Any, layer: int, model: Any
    ) -> torch.Tensor:
        heads, kv, dim = model.heads, model.kv_heads, model.head_dim
        keys, values = cache.layer(layer)
        # Off the GPU the longest context is known; in a captured graph all of the table has to be read.
        width = cache.tables.shape[1]
        if qkv.device.type == "cpu":
            width = int(pos.max()) // cache.block_size + 1
        blocks = cache.tables[slots, :width].long()
        length = width * cache.block_size

        def gathered(of: torch.Tensor) -> torch.Tensor:
            one = of[blocks].transpose(1, 2).reshape(qkv.shape[0], kv, length, dim)
            return one.repeat_interleave(heads // kv, dim=1) if heads != kv else one

        live = (torch.arange(length, device=qkv.device)[None] <= pos[:, None])[:, None, None]
        q = qkv[:, : heads * dim].view(-1, heads, 1, dim)
        # Beyond a sequence the cache holds anything at all, NaN too, which no mask makes harmless.
        dead = ~live.transpose(-1, -2)
        k, v = gathered(keys).masked_fill(dead, 0.0), gathered(values).masked_fill(dead, 0.0)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=live).reshape(-1, heads * dim)


def prefill_attention(
    qkv: torch.Tensor, cu: torch.Tensor, bounds: list[int] | None, longest: int, model: Any
) -> torch.Tensor:
    """Causal attention within each of several sequences that lie one after the other.

    `cu` has the bounds of the sequences on the device. With `bounds`, the same on the host, they are computed
    one by one;
    without, by a kernel that reads them itself, as a captured graph needs it.
    """
    heads, kv, dim = model.heads, model.kv_heads, model.head_dim
    parts = qkv.view(qkv.shape[0], heads + 2 * kv, dim)
    q, k, v = parts[:, :heads], parts[:, heads : heads + kv], parts[:, heads + kv :]
    if bounds is None:
        return _flash(q, k, v, cu, cu, longest, longest).reshape(-1, heads * dim)
    out = torch.empty((qkv.shape[0], heads, dim), dtype=qkv.dtype, device=qkv.device)
    for begin, end in itertools.pairwise(bounds):
        mine, keys, values = (part[begin:end].transpose(0, 1)[None] for part in (q, k, v))
        done = F.scaled_dot_product_attention(mine, keys, values, is_causal=True, enable_gqa=heads != kv)
        out[begin:end] = done[0].transpose(0, 1)
    return out.view(-1, heads * dim)


def _flash(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_q: torch.Tensor,
    cu_k: torch.Tensor,
    longest_q: int,
    longest_k: int,
) -> torch.Tensor:
    """Causal attention of sequences that lie one after the other; the last query sees the last key."""
    found = torch.ops.aten._flash_attention_forward(
        q, k, v, cu_q, cu_k, longest_q, longest_k, 0.0, True, False, scale=1.0 / math.sqrt(q.shape[-1])
    )
    return found[0]  # type: ignore[no-any-return]


def continued_attention(
    qkv: torch.Tensor, blocks: torch.Tensor, begin: int, cache: Any, layer: int, model: Any, flash: bool
) -> torch.Tensor:
    """Attention of a part of a prompt over itself and all that was read before it.

    The cache has both: `blocks` are those of the prompt, in order, and the part begins at `begin`. Where
    `flash` works it is taken: of other kernels some are built anew for every length, for up to a second.
    """
    heads, kv, dim, count = model.heads, model.kv_heads, model.head_dim, qkv.shape[0]
    end = begin + count
    keys, values = cache.layer(layer)
    used = blocks[: -(-end // cache.block_size)].long()
    q = qkv[:, : heads * dim].view(count, heads, dim)
    k, v = (of[used].transpose(0, 1).reshape(kv, -1, dim)[:, :end] for of in (keys, values))
    if flash:
        cu_q, cu_k = (torch.tensor([0, many], dtype=torch.int32, device=q.device) for many in (count, end))
        done = _flash(q, k.transpose(0, 1), v.transpose(0, 1), cu_q, cu_k, count, end)
        return done.reshape(count, heads * dim)
    if heads != kv:
        k, v = (one.repeat_interleave(heads // kv, dim=0) for one in (k, v))
    places = torch.arange(end, device=qkv.device)
    seen = places[None] <= places[begin:, None]
    done = F.scaled_dot_product_attention(q.transpose(0, 1)[None], k[None], v[None], attn_mask=seen)
    return done[0].transpose(0, 1).reshape(count, heads * dim)


def choose(device: torch.device, head_dim: int, wanted: str = "auto") -> tuple[Operations, str]:
    """The operations for a device, and what they are called."""
    plain: Operations = Plain()
    if wanted == "plain" or device.type != "cuda" or head_dim & (head_dim - 1) or head_dim < 16:
        return plain, "plain"
    try:
        from . import kernels
        from .selfcheck import agree

        difference = agree(kernels, plain, device)
        return kernels, f"triton (agrees within {difference:.1e})"
    except Exception as error:  # Whatever goes wrong in a compiler: there is another way.
        if wanted == "triton":
            raise
        return plain, f"plain ({type(error).__name__}: {str(error)[:200]})"

"""Whether the kernels compute what they should on the device at hand, before anything is served."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from .kvcache import KvCache
from .ops import Operations

WORST = 0.03
"""Most relative difference: operands have 8 bits of precision."""
CASES = ((4, 4, 64, 3), (8, 2, 128, 5), (8, 8, 128, 80))
"""Heads of queries, heads of keys, their width, and sequences."""


def _differ(one: torch.Tensor, other: torch.Tensor) -> float:
    norm = float(other.float().norm())
    return float((one.float() - other.float()).norm()) / max(norm, 1e-9)


def agree(
    mine: Operations,
    reference: Operations,
    device: torch.device,
    dtype: torch.dtype = torch.bfloat16,
    cases: tuple[tuple[int, int, int, int], ...] = CASES,
) -> float:
    """The largest difference between two ways to compute, over a few shapes; raises where it is too large."""
    worst = 0.0
    for heads, kv, dim, rows in cases:
        shape = SimpleNamespace(heads=heads, kv_heads=kv, head_dim=dim)
        caches = []
        for _ in range(2):
            block, per_layer = 64, 2 * kv * 64 * dim * dtype.itemsize
            flat = torch.zeros(rows * 4 * per_layer, dtype=torch.uint8, device=device)
            cache = KvCache(flat, 1, kv, dim, dtype, block, rows, 4 * block)
            cache.tables[:rows, :4] = torch.arange(rows * 4, device=device, dtype=torch.int32).view(rows, 4)
            cache.cos, cache.sin = (
                torch.rand(4 * block, dim // 2, device=device),
                torch.rand(4 * block, dim // 2, device=device),
            )
            caches.append(cache)
        caches[1].cos, caches[1].sin = caches[0].cos, caches[0].sin
        noise = torch.randn(rows * 4, 2, kv, 64, dim, device=device).to(dtype)
        for cache in caches:
            cache.blocks[: rows * 4, 0] = noise
        pos = torch.randint(0, 4 * 64, (rows,), device=device, dtype=torch.int32)
        slots = torch.randperm(rows, device=device)
        qkv = torch.randn(rows, (heads + 2 * kv) * dim, device=device).to(dtype)
        other = qkv.clone()
        mine.rope_cache(qkv, pos, slots, caches[0], 0, shape)
        reference.rope_cache(other, pos, slots, caches[1], 0, shape)
        found = [_differ(qkv, other), _differ(caches[0].blocks, caches[1].blocks)]
        one = mine.decode_attention(qkv, pos, slots, caches[0], 0, shape)
        two = reference.decode_attention(other, pos, slots, caches[1], 0, shape)
        found.append(_differ(one, two))
        x, r = torch.randn(rows, 96, device=device).to(dtype), torch.randn(rows, 96, device=device).to(dtype)
        w, y = torch.randn(96, device=device).to(dtype), x.clone()
        found.append(_differ(mine.add_rmsnorm(x, r, w, 1e-5), reference.add_rmsnorm(y, r, w, 1e-5)))
        found.append(_differ(x, y))
        found.append(_differ(mine.silu_mul(x), reference.silu_mul(y)))
        worst = max([worst, *found])
        if not worst < WORST:
            raise ArithmeticError(
                f"kernels differ from the reference by {worst:.3g}: {[f'{one:.2g}' for one in found]}"
            )
    return worst

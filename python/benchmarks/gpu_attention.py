"""A section of `gpu_check.py`: how fast the context of many sequences is read."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import torch

from gswarm.worker.kvcache import KvCache


def attention(device: torch.device, context: int) -> tuple[list[dict[str, Any]], int]:
    """Seconds of a layer's attention by batch and number of warps; and the best number, which is kept."""
    from gswarm.worker import kernels  # There is no Triton where there is no GPU.

    dtype = torch.bfloat16
    rows: list[dict[str, Any]] = []
    best: dict[int, float] = {}
    for batch, heads in ((1, 32), (8, 32), (128, 32), (128, 40)):
        model = SimpleNamespace(heads=heads, kv_heads=heads, head_dim=128)
        each = context // 64
        flat = torch.empty(
            (batch * each + 1) * 4 * 2 * heads * 64 * 128 * 2, dtype=torch.uint8, device=device
        )
        cache = KvCache(flat, 4, heads, 128, dtype, 64, batch, context + 64)
        for layer in range(4):
            for half in cache.layer(layer):
                half.normal_()
        cache.tables[:batch, :each] = torch.arange(
            1, batch * each + 1, device=device, dtype=torch.int32
        ).view(batch, each)
        pos = torch.full((batch,), context - 1, dtype=torch.int32, device=device)
        slots, qkv = (
            torch.arange(batch, device=device),
            torch.randn(batch, 3 * heads * 128, device=device).to(dtype),
        )
        for warps in (2, 4, 8):
            kernels.WARPS = warps

            once = partial(four_layers, kernels.decode_attention, qkv, pos, slots, cache, model)
            once()
            torch.cuda.synchronize()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            stream = torch.cuda.Stream(device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                once()
            graph.replay()
            begin.record()
            for _ in range(10):
                graph.replay()
            end.record()
            torch.cuda.synchronize()
            seconds = begin.elapsed_time(end) / 1e3 / 40
            size = batch * context * heads * 128 * 2 * 2
            rows.append(
                {
                    "batch": batch,
                    "heads": heads,
                    "warps": warps,
                    "layer_s": seconds,
                    "gb_per_s": size / seconds / 1e9,
                }
            )
            best[warps] = best.get(warps, 0.0) + (seconds if heads == 32 else 0.0)
        del flat, cache
    kernels.WARPS = min(best, key=lambda one: best[one])
    torch.cuda.empty_cache()
    return rows, kernels.WARPS


def four_layers(attend: Any, qkv: Any, pos: Any, slots: Any, cache: Any, model: Any) -> None:
    """Attention of four layers: more than a device keeps in its own cache."""
    for layer in range(4):
        attend(qkv, pos, slots, cache, layer, model)

"""Calls of lengths that never came before: whether they take longer than those that did."""

from __future__ import annotations

import random
import time
from types import SimpleNamespace
from typing import Any

import torch

from gswarm.worker.batch_engine import EmbedJob
from gswarm.worker.engine import Engine
from gswarm.worker.kvcache import KvCache
from gswarm.worker.ops import continued_attention


def embeddings(engine: Engine, longest: int, most: int, rounds: int) -> dict[str, Any]:
    """Texts of any lengths in any number; each mix is computed twice, and was new the first time."""
    draw = random.Random(5)
    rows = []
    for _ in range(rounds):
        texts = [[draw.randint(1, 250)] * draw.randint(2, longest) for _ in range(draw.randint(1, most))]
        times = []
        for _ in range(2):
            job = EmbedJob(texts)
            began = time.perf_counter()
            engine.submit(job)
            job.future.result()
            times.append(time.perf_counter() - began)
        rows.append((times[0], times[1], sum(map(len, texts))))
    return {
        "mixes": rounds,
        "first_s": sum(row[0] for row in rows),
        "again_s": sum(row[1] for row in rows),
        "worst_first_s": max(row[0] for row in rows),
        "worst_more_s": max(row[0] - row[1] for row in rows),
        "tokens_per_s": sum(row[2] for row in rows) / sum(row[1] for row in rows),
    }


def continued(device: torch.device) -> dict[str, Any]:
    """Attention of the last part of long prompts, by the kernel for any lengths and by the usual way."""
    block, heads, kv, dim, blocks = 64, 32, 8, 128, 128
    model = SimpleNamespace(heads=heads, kv_heads=kv, head_dim=dim)
    flat = torch.zeros(2 * kv * dim * block * 2 * blocks, dtype=torch.uint8, device=device)
    cache = KvCache(flat, 1, kv, dim, torch.bfloat16, block, 1, block * blocks)
    cache.blocks.normal_()
    table = torch.randperm(blocks, device=device).int()
    worst, times = 0.0, []
    for begin, count in ((2048, 1), (2048, 700), (4096, 301), (4096, 2048), (6144, 2048)):
        qkv = torch.randn(count, (heads + 2 * kv) * dim, device=device).bfloat16()
        found = []
        for flash in (True, False):
            torch.cuda.synchronize()
            began = time.perf_counter()
            found.append(continued_attention(qkv, table, begin, cache, 0, model, flash))
            torch.cuda.synchronize()
            times.append((flash, time.perf_counter() - began))
        worst = max(worst, float((found[0] - found[1]).float().norm() / found[1].float().norm()))
    if not worst < 0.03:
        raise ArithmeticError(f"the two ways differ by {worst:.3g}")
    return {
        "worst_difference": worst,
        "first_s": [took for flash, took in times if flash],
        "usual_first_s": [took for flash, took in times if not flash],
    }

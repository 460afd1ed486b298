"""The kernels of a decoding step, in Triton: few and fused, since a step is many small operations.

Each has an equal in `ops.py`, in plain PyTorch, which runs where there is no Triton and which these are
checked against.
"""

# mypy: ignore-errors
# Triton reads these functions itself, and has no types.

from typing import Any

import torch
import triton
import triton.language as tl

WARPS = 2
"""Warps that read the context of a sequence's head together."""


@triton.jit
def _add_rmsnorm(x_ptr, r_ptr, w_ptr, out_ptr, width, eps, HAS_R: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < width
    x = tl.load(x_ptr + row * width + at, mask=mask, other=0.0).to(tl.float32)
    if HAS_R:
        x += tl.load(r_ptr + row * width + at, mask=mask, other=0.0).to(tl.float32)
        rounded = x.to(x_ptr.dtype.element_ty)
        tl.store(x_ptr + row * width + at, rounded, mask=mask)
        x = rounded.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / width + eps)
    w = tl.load(w_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * width + at, (x * scale * w).to(out_ptr.dtype.element_ty), mask=mask)


@triton.jit
def _silu_mul(gu_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = at < width
    gate = tl.load(gu_ptr + row * 2 * width + at, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(gu_ptr + row * 2 * width + width + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(
        out_ptr + row * width + at,
        (gate / (1.0 + tl.exp(-gate)) * up).to(out_ptr.dtype.element_ty),
        mask=mask,
    )


@triton.jit
def _rope_cache(
    qkv_ptr,
    pos_ptr,
    slot_ptr,
    table_ptr,
    kc_ptr,
    vc_ptr,
    cos_ptr,
    sin_ptr,
    table_width,
    block_stride,
    H,
    KV,
    D: tl.constexpr,
    BS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    half = tl.arange(0, D // 2)
    base = qkv_ptr + token * ((H + 2 * KV) * D) + head * D
    first = tl.load(base + half).to(tl.float32)
    second = tl.load(base + D // 2 + half).to(tl.float32)
    pos = tl.load(pos_ptr + token)
    if head < H + KV:
        cos = tl.load(cos_ptr + pos * (D // 2) + half)
        sin = tl.load(sin_ptr + pos * (D // 2) + half)
        turned = first * cos - second * sin
        second = second * cos + first * sin
        first = turned
        tl.store(base + half, first.to(qkv_ptr.dtype.element_ty))
        tl.store(base + D // 2 + half, second.to(qkv_ptr.dtype.element_ty))
    if head >= H:
        slot = tl.load(slot_ptr + token)
        block = tl.load(table_ptr + slot * table_width + pos // BS).to(tl.int64)
        if head < H + KV:
            to = kc_ptr + block * block_stride + (head - H) * (BS * D) + (pos % BS) * D
            tl.store(to + half, first.to(kc_ptr.dtype.element_ty))
            tl.store(to + D // 2 + half, second.to(kc_ptr.dtype.element_ty))
        else:
            to = vc_ptr + block * block_stride + (head - H - KV) * (BS * D) + (pos % BS) * D
            tl.store(to + half, first.to(vc_ptr.dtype.element_ty))
            tl.store(to + D // 2 + half, second.to(vc_ptr.dtype.element_ty))


@triton.jit
def _decode_one(
    q_ptr,
    kc_ptr,
    vc_ptr,
    table_ptr,
    slot_ptr,
    pos_ptr,
    out_ptr,
    part_ptr,
    top_ptr,
    sum_ptr,
    table_width,
    block_stride,
    q_stride,
    scale,
    H,
    D: tl.constexpr,
    BS: tl.constexpr,
    SPLITS: tl.constexpr,
):
    # One head of one sequence, over one of the parts of its context.
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    split = tl.program_id(2)
    slot = tl.load(slot_ptr + row)
    length = tl.load(pos_ptr + row) + 1
    blocks = (length + BS - 1) // BS
    each = (blocks + SPLITS - 1) // SPLITS
    begin = split * each
    end = tl.minimum(begin + each, blocks)
    d = tl.arange(0, D)
    n = tl.arange(0, BS)
    q = tl.load(q_ptr + row * q_stride + head * D + d).to(tl.float32) * scale
    top = -1.0e30
    total = 0.0
    acc = tl.zeros([D], dtype=tl.float32)
    inside = head * (BS * D) + n[:, None] * D + d[None, :]
    for b in range(begin, end):
        block = tl.load(table_ptr + slot * table_width + b).to(tl.int64)
        k = tl.load(kc_ptr + block * block_stride + inside)
        v = tl.load(vc_ptr + block * block_stride + inside)
        scores = tl.sum(q[None, :] * k.to(tl.float32), axis=1)
        scores = tl.where(b * BS + n < length, scores, -1.0e30)
        highest = tl.maximum(top, tl.max(scores, axis=0))
        fade = tl.exp(top - highest)
        p = tl.where(b * BS + n < length, tl.exp(scores - highest), 0.0)
        # Beyond the length the cache holds anything at all, which zero weights alone do not make harmless.
        live = tl.where((b * BS + n < length)[:, None], v.to(tl.float32), 0.0)
        acc = acc * fade + tl.sum(p[:, None] * live, axis=0)
        total = total * fade + tl.sum(p, axis=0)
        top = highest
    if SPLITS == 1:
        result = acc / tl.maximum(total, 1.0e-30)
        tl.store(out_ptr + (row * H + head) * D + d, result.to(out_ptr.dtype.element_ty))
    else:
        at = (row * H + head) * SPLITS + split
        tl.store(part_ptr + at * D + d, acc)
        tl.store(top_ptr + at, top)
        tl.store(sum_ptr + at, total)


@triton.jit
def _decode_group(
    q_ptr,
    kc_ptr,
    vc_ptr,
    table_ptr,
    slot_ptr,
    pos_ptr,
    out_ptr,
    part_ptr,
    top_ptr,
    sum_ptr,
    table_width,
    block_stride,
    q_stride,
    scale,
    H,
    D: tl.constexpr,
    BS: tl.constexpr,
    SPLITS: tl.constexpr,
    GROUP: tl.constexpr,
    PAD: tl.constexpr,
):
    # All heads that share one head of keys and values: these are read once for all of them.
    row = tl.program_id(0).to(tl.int64)
    kv = tl.program_id(1)
    split = tl.program_id(2)
    slot = tl.load(slot_ptr + row)
    length = tl.load(pos_ptr + row) + 1
    blocks = (length + BS - 1) // BS
    each = (blocks + SPLITS - 1) // SPLITS
    begin = split * each
    end = tl.minimum(begin + each, blocks)
    d = tl.arange(0, D)
    n = tl.arange(0, BS)
    g = tl.arange(0, PAD)
    heads = kv * GROUP + g
    q = tl.load(
        q_ptr + row * q_stride + heads[:, None] * D + d[None, :], mask=(g < GROUP)[:, None], other=0.0
    )
    top = tl.full([PAD], -1.0e30, dtype=tl.float32)
    total = tl.zeros([PAD], dtype=tl.float32)
    acc = tl.zeros([PAD, D], dtype=tl.float32)
    inside = kv * (BS * D) + n[:, None] * D + d[None, :]
    for b in range(begin, end):
        block = tl.load(table_ptr + slot * table_width + b).to(tl.int64)
        alive = b * BS + n < length
        k = tl.load(kc_ptr + block * block_stride + inside)
        v = tl.load(vc_ptr + block * block_stride + inside)
        v = tl.where(alive[:, None], v, 0.0).to(v.dtype)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(alive[None, :], scores, -1.0e30)
        highest = tl.maximum(top, tl.max(scores, axis=1))
        fade = tl.exp(top - highest)
        p = tl.where(alive[None, :], tl.exp(scores - highest[:, None]), 0.0)
        acc = acc * fade[:, None] + tl.dot(p.to(v.dtype), v)
        total = total * fade + tl.sum(p, axis=1)
        top = highest
    at = row * H + heads
    mine = g < GROUP
    if SPLITS == 1:
        result = acc / tl.maximum(total, 1.0e-30)[:, None]
        tl.store(
            out_ptr + at[:, None] * D + d[None, :], result.to(out_ptr.dtype.element_ty), mask=mine[:, None]
        )
    else:
        at = at * SPLITS + split
        tl.store(part_ptr + at[:, None] * D + d[None, :], acc, mask=mine[:, None])
        tl.store(top_ptr + at, top, mask=mine)
        tl.store(sum_ptr + at, total, mask=mine)


@triton.jit
def _combine(part_ptr, top_ptr, sum_ptr, out_ptr, D: tl.constexpr, SPLITS: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, SPLITS)
    d = tl.arange(0, D)
    top = tl.load(top_ptr + at * SPLITS + s)
    weight = tl.exp(top - tl.max(top, axis=0))
    total = tl.sum(weight * tl.load(sum_ptr + at * SPLITS + s), axis=0)
    parts = tl.load(part_ptr + (at * SPLITS + s)[:, None] * D + d[None, :])
    result = tl.sum(parts * weight[:, None], axis=0) / tl.maximum(total, 1.0e-30)
    tl.store(out_ptr + at * D + d, result.to(out_ptr.dtype.element_ty))


def add_rmsnorm(x: torch.Tensor, r: torch.Tensor | None, w: torch.Tensor, eps: float) -> torch.Tensor:
    """See `ops.add_rmsnorm`."""
    out = torch.empty_like(x)
    width = x.shape[1]
    block = triton.next_power_of_2(width)
    _add_rmsnorm[(x.shape[0],)](
        x, x if r is None else r, w, out, width, eps, r is not None, block, num_warps=8
    )
    return out


def silu_mul(gu: torch.Tensor) -> torch.Tensor:
    """See `ops.silu_mul`."""
    rows, width = gu.shape[0], gu.shape[1] // 2
    out = torch.empty((rows, width), dtype=gu.dtype, device=gu.device)
    _silu_mul[(rows, triton.cdiv(width, 1024))](gu, out, width, 1024, num_warps=4)
    return out


def rope_cache(
    qkv: torch.Tensor, pos: torch.Tensor, slots: torch.Tensor, cache: Any, layer: int, model: Any
) -> None:
    """See `ops.rope_cache`."""
    keys, values = cache.layer(layer)
    heads, kv, dim = model.heads, model.kv_heads, model.head_dim
    _rope_cache[(qkv.shape[0], heads + 2 * kv)](
        qkv,
        pos,
        slots,
        cache.tables,
        keys,
        values,
        cache.cos,
        cache.sin,
        cache.tables.shape[1],
        keys.stride(0),
        heads,
        kv,
        dim,
        cache.block_size,
        num_warps=1,
    )


def splits_for(rows: int, kv_heads: int) -> int:
    """In how many parts contexts are read, so that few sequences keep the whole device busy too.

    Each number is a kernel to be compiled, so there are three of them.
    """
    return 1 if rows * kv_heads >= 512 else 4 if rows * kv_heads >= 128 else 16


def decode_attention(
    qkv: torch.Tensor, pos: torch.Tensor, slots: torch.Tensor, cache: Any, layer: int, model: Any
) -> torch.Tensor:
    """See `ops.decode_attention`."""
    keys, values = cache.layer(layer)
    rows, heads, kv, dim = qkv.shape[0], model.heads, model.kv_heads, model.head_dim
    splits = splits_for(rows, kv)
    out = torch.empty((rows, heads * dim), dtype=qkv.dtype, device=qkv.device)
    if splits == 1:
        part = top = total = out
    else:
        part = torch.empty((rows * heads * splits, dim), dtype=torch.float32, device=qkv.device)
        top = torch.empty(rows * heads * splits, dtype=torch.float32, device=qkv.device)
        total = torch.empty_like(top)
    given = (
        qkv,
        keys,
        values,
        cache.tables,
        slots,
        pos,
        out,
        part,
        top,
        total,
        cache.tables.shape[1],
        keys.stride(0),
        qkv.stride(0),
        dim**-0.5,
    )
    if heads == kv:
        _decode_one[(rows, heads, splits)](*given, heads, dim, cache.block_size, splits, num_warps=WARPS)
    else:
        group = heads // kv
        pad = max(16, triton.next_power_of_2(group))
        _decode_group[(rows, kv, splits)](
            *given, heads, dim, cache.block_size, splits, group, pad, num_warps=WARPS
        )
    if splits > 1:
        _combine[(rows * heads,)](part, top, total, out, dim, splits, num_warps=1)
    return out

"""The steps of a language model on its device: state that stays there, and graphs that need no word from
the host.

Each sequence has a slot with its last token, its position and its row of the cache's table. A step names
the slots that it is for, reads what it needs from them and writes back the next token: the host only looks
at what was written, later.
"""

from __future__ import annotations

from functools import partial

import torch

from .devmem import Region
from .graphs import Graphs
from .kvcache import KvCache
from .llama import Llama, LlamaConfig
from .ops import Operations
from .sampling import sample

BUCKETS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256)
PROMPT_BUCKETS = (16, 32, 64, 128, 256, 512, 1024, 2048)
PROMPTS = 16
"""Prompts that are read in one pass."""
BLOCK = 64
"""Tokens of a block of the cache."""
KV_CHUNK = 256 << 20
"""Bytes that the cache grows by."""


class Runner:
    """All steps of one model. Belongs to one thread."""

    def __init__(
        self,
        config: LlamaConfig,
        dtype: torch.dtype,
        ops: Operations,
        region: Region,
        slots: int,
        context: int,
        graphs: bool,
    ) -> None:
        device = region.device
        self.config, self.dtype, self.ops, self.device = config, dtype, ops, device
        self.region, self.slots, self.context = region, slots, context
        self.graphs_wanted = graphs
        self.stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        self.buckets = [one for one in BUCKETS if one < slots] + [slots]
        self.model: Llama | None = None
        self._cache: KvCache | None = None
        self.graphs = Graphs(self.stream)
        self._complete = False
        self._flash: bool | None = None
        """Whether one kernel does attention over any lengths; unknown before it was tried."""

        def numbers(count: int, dtype: torch.dtype = torch.int64, value: int = 0) -> torch.Tensor:
            return torch.full((count,), value, dtype=dtype, device=device)

        self.ids, self.pos = numbers(slots + 1), numbers(slots + 1, torch.int32)
        self.temperature, self.top_p = numbers(slots + 1, torch.float32), numbers(slots + 1, torch.float32)
        self.seeds = numbers(slots + 1)
        self.rows, self.next = numbers(slots, value=slots), numbers(slots)
        self.logits = torch.zeros((slots, config.vocab), dtype=dtype, device=device)
        most = self.part = PROMPT_BUCKETS[-1]
        self.p_ids, self.p_pos, self.p_slots = (
            numbers(most),
            numbers(most, torch.int32),
            numbers(most, value=slots),
        )
        self.p_cu, self.p_last = numbers(PROMPTS + 1, torch.int32), numbers(PROMPTS)
        self.p_join, self.p_len = numbers(PROMPTS, value=slots), numbers(PROMPTS, torch.int32)
        self.p_next = numbers(PROMPTS)
        self.p_logits = torch.zeros((PROMPTS, config.vocab), dtype=dtype, device=device)
        self.cos, self.sin = config.rotations(context, device)

    @property
    def cache(self) -> KvCache:
        """The cache, once there is one."""
        if self._cache is None:
            raise RuntimeError("the model has no cache yet")
        return self._cache

    def upload(self, to: torch.Tensor, values: list[int] | list[float]) -> None:
        """Puts numbers into the front of a tensor of the device, without waiting for it."""
        here = torch.tensor(values, dtype=to.dtype)
        if self.stream is not None:
            here = here.pin_memory()
        to[: len(values)].copy_(here, non_blocking=True)

    def attach(self, weights: dict[str, torch.Tensor], same_addresses: bool) -> None:
        """Uses these weights, and the cache's region as it is. Graphs stay where both are where they were."""
        self.model = Llama(self.config, weights, self.ops)
        flat = self.region.tensor()
        if self._cache is None:
            c = self.config
            self._cache = KvCache(
                flat, c.layers, c.kv_heads, c.head_dim, self.dtype, BLOCK, self.slots, self.context
            )
            self._cache.cos, self._cache.sin = self.cos, self.sin
        else:
            self._cache.attach(flat)
        if not (same_addresses and self.region.stable):
            self.graphs.clear()
            self._complete = False

    def detach(self) -> None:
        """Uses its weights no more."""
        self.model = None
        if self._cache is not None and not self.region.stable:
            self._cache.attach(torch.empty(0, dtype=torch.uint8, device=self.device))

    def warm(self) -> None:
        """Captures every graph that is missing, the largest first: the others find room in what it leaves."""
        if self._flash is None:
            self._flash = self.device.type == "cuda" and self._flash_works()
        if not self.graphs_wanted or self._complete:
            return
        self.upload(self.rows, [self.cache.nobody] * self.slots)
        missing = [("decode", one) for one in reversed(self.buckets)]
        if self._flash:
            fitting = [one for one in PROMPT_BUCKETS if one <= self.context]
            missing = [("prefill", one) for one in reversed(fitting)] + missing
        for kind, size in missing:
            if (kind, size) not in self.graphs:
                self.graphs.capture((kind, size), partial(self._body, kind, size))
        self._complete = True

    def _flash_works(self) -> bool:
        try:
            self._prefill_body(16, None)
            return True
        except (RuntimeError, NotImplementedError):
            return False

    def _body(self, kind: str, size: int) -> None:
        self._decode_body(size) if kind == "decode" else self._prefill_body(size, None)

    def bucket(self, rows: int) -> int:
        """The least size of a batch that holds so many."""
        return next(one for one in self.buckets if one >= rows)

    def set_rows(self, slots: list[int]) -> None:
        """From now on a step is for these slots."""
        size = self.bucket(len(slots)) if self.graphs_wanted else len(slots)
        self.upload(self.rows, slots + [self.cache.nobody] * (size - len(slots)))

    def set_slot(self, slot: int, blocks: list[int], temperature: float, top_p: float, seed: int) -> None:
        """What belongs to a new sequence, but for its first token."""
        self.upload(self.cache.tables[slot], blocks)
        if temperature > 0:
            self.temperature[slot], self.top_p[slot] = temperature, top_p
            self.seeds[slot] = seed & ((1 << 62) - 1)
        else:
            self.temperature[slot].zero_()

    def decode(self, rows: int, draws: bool, cuts: bool) -> torch.Tensor:
        """One more token for each of the slots that were set; they are in the result, on the device."""
        size = self.bucket(rows) if self.graphs_wanted else rows
        if not self.graphs.replay(("decode", size)):
            self._decode_body(size)
        if draws:
            slots = self.rows[:rows]
            self.next[:rows] = self._draw(self.logits[:rows], slots, self.pos[slots], cuts)
            self.ids.index_copy_(0, slots, self.next[:rows])
        return self.next[:rows]

    def _draw(
        self, logits: torch.Tensor, slots: torch.Tensor, places: torch.Tensor, cuts: bool
    ) -> torch.Tensor:
        top_p = self.top_p[slots] if cuts else None
        return sample(logits, self.temperature[slots], top_p, self.seeds[slots], places)

    def _decode_body(self, size: int) -> None:
        assert self.model is not None
        slots = self.rows[:size]
        pos = self.pos[slots]
        logits = self.model.decode(self.ids[slots], pos, slots, self.cache)
        chosen = logits.argmax(dim=-1)
        self.logits[:size].copy_(logits)
        self.next[:size].copy_(chosen)
        self.ids.index_copy_(0, slots, chosen)
        self.pos.index_copy_(0, slots, torch.where(slots == self.cache.nobody, 0, pos + 1).to(torch.int32))

    def prefill(self, prompts: list[tuple[int, list[int]]], draws: bool, cuts: bool) -> torch.Tensor:
        """Reads whole prompts into their slots; the first token of each answer."""
        bounds = [0]
        for _, ids in prompts:
            bounds.append(bounds[-1] + len(ids))
        total = bounds[-1]
        size = next(
            (one for one in PROMPT_BUCKETS if one >= total and ("prefill", one) in self.graphs), total
        )
        self._prefill_inputs(prompts, bounds, size)
        if not self.graphs.replay(("prefill", size)):
            self._prefill_body(size, bounds)
        count = len(prompts)
        if draws:
            slots = self.p_join[:count]
            self.p_next[:count] = self._draw(self.p_logits[:count], slots, self.pos[slots], cuts)
            self.ids.index_copy_(0, slots, self.p_next[:count])
        return self.p_next[:count]

    def prefill_part(self, slot: int, prompt: list[int], begin: int, draws: bool, cuts: bool) -> torch.Tensor:
        """Reads the next part of a long prompt; the token after it, at the end the answer's first."""
        assert self.model is not None
        end = min(begin + self.part, len(prompt))
        count = end - begin
        self.upload(self.p_ids, prompt[begin:end])
        self.upload(self.p_pos, list(range(begin, end)))
        self.upload(self.p_slots, [slot] * count)
        self.upload(self.p_join, [slot])
        logits = self.model.continued(
            self.p_ids[:count],
            self.p_pos[:count],
            self.p_slots[:count],
            self.cache,
            begin,
            slot,
            bool(self._flash),
        )
        self.p_next[:1] = logits.argmax(dim=-1)
        self.pos[slot] = end
        slots = self.p_join[:1]
        if draws:
            self.p_next[:1] = self._draw(logits, slots, self.pos[slots], cuts)
        self.ids.index_copy_(0, slots, self.p_next[:1])
        return self.p_next[:1]

    def _prefill_inputs(self, prompts: list[tuple[int, list[int]]], bounds: list[int], size: int) -> None:
        nobody, spare, short = self.cache.nobody, size - bounds[-1], PROMPTS - len(prompts)
        self.upload(self.p_ids, [one for _, ids in prompts for one in ids] + [0] * spare)
        self.upload(self.p_pos, [at for _, ids in prompts for at in range(len(ids))] + [0] * spare)
        self.upload(self.p_slots, [slot for slot, ids in prompts for _ in ids] + [nobody] * spare)
        self.upload(self.p_cu, bounds + [bounds[-1]] * short)
        self.upload(self.p_last, [bound - 1 for bound in bounds[1:]] + [0] * short)
        self.upload(self.p_join, [slot for slot, _ in prompts] + [nobody] * short)
        self.upload(self.p_len, [len(ids) for _, ids in prompts] + [0] * short)

    def _prefill_body(self, size: int, bounds: list[int] | None) -> None:
        assert self.model is not None
        ids, pos, slots = self.p_ids, self.p_pos, self.p_slots
        logits = self.model.prefill(
            ids[:size], pos[:size], slots[:size], self.cache, self.p_cu, bounds, size, self.p_last
        )
        chosen = logits.argmax(dim=-1)
        self.p_logits.copy_(logits)
        self.p_next.copy_(chosen)
        self.ids.index_copy_(0, self.p_join, chosen)
        self.pos.index_copy_(0, self.p_join, self.p_len)

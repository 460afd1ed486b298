"""Decoding in batches that sequences join and leave between steps.

A step is launched before the tokens of the one before it are looked at, so that the device never waits for
the host. A sequence that has its number of tokens leaves as soon as its last step is launched; one that
ends by itself, a step later.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .engine import Engine, Job
from .fault import Fault, invalid, shown
from .kvcache import BlockPool
from .ledger import Ledger
from .runner import BLOCK, PROMPTS, Runner
from .tokens import Tokenizer

PATIENCE = 2.0
"""Seconds that a text waits for memory that others do not use."""


class Generation(Job):
    """A text that is asked for."""

    def __init__(
        self,
        prompt: list[int],
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: tuple[str, ...] = (),
        ignore_eos: bool = False,
        on_tokens: Callable[[list[int]], None] | None = None,
    ) -> None:
        super().__init__()
        self.prompt, self.max_tokens, self.temperature, self.top_p = prompt, max_tokens, temperature, top_p
        self.seed, self.stop, self.ignore_eos, self.on_tokens = seed, stop, ignore_eos, on_tokens
        self.tokens: list[int] = []
        self.launched = 0
        self.read = 0
        """Tokens of the prompt that were read, where it is read in parts."""
        self.slot = -1
        self.blocks: list[int] = []
        self.first_token: float | None = None
        self.pressed: float | None = None


@dataclass
class Fetch:
    """Tokens on their way to the host."""

    jobs: list[Generation]
    ids: torch.Tensor
    event: torch.cuda.Event | None
    seconds: list[float] = field(default_factory=list)


class LmEngine(Engine):
    """The engine of a language model."""

    def __init__(
        self,
        name: str,
        device: torch.device,
        max_waiting: int,
        tokenizer: Tokenizer,
        eos: frozenset[int],
        ledger: Ledger,
    ) -> None:
        self.runner: Runner | None = None
        self.tokenizer, self.eos, self.ledger = tokenizer, eos, ledger
        self.pool: BlockPool | None = None
        self.rows: list[Generation] = []
        self.reading: Generation | None = None
        """One whose prompt is too long for one pass; others go on between its parts."""
        self.free_slots: list[int] = []
        self.fetches: deque[Fetch] = deque()
        self.changed = True
        self.steps = 0
        self.tokens_made = 0
        self.pace: dict[int, float] = {}
        """Seconds of a step, by size of batch, as measured last."""
        self.prompt_pace = 0.0
        self._last_step: tuple[float, int] | None = None
        super().__init__(name, device, max_waiting)

    def prepare(self, runner: Runner, blocks: int) -> None:
        """Initialises its model, in the engine's thread."""
        self.runner, self.pool = runner, BlockPool(blocks)
        self.free_slots = list(range(runner.slots - 1, -1, -1))

    def running(self) -> int:
        return len(self.rows) + len(self.fetches) + (self.reading is not None)

    def in_batch(self) -> int:
        """How many sequences are being written."""
        return len(self.rows) + (self.reading is not None)

    def check(self, job: Generation) -> None:
        """Refuses what could never be computed."""
        assert self.runner is not None
        assert self.pool is not None
        if not job.prompt:
            raise invalid("the prompt has no tokens", "prompt")
        if len(job.prompt) >= self.runner.context:
            raise invalid(
                f"the prompt has {len(job.prompt)} tokens; with the answer {self.runner.context} fit",
                "prompt",
            )
        job.max_tokens = min(job.max_tokens, self.runner.context - len(job.prompt))
        if -(-(len(job.prompt) + job.max_tokens) // BLOCK) > self.pool.count - 1:
            needed = -(-(len(job.prompt) + job.max_tokens) // BLOCK) * self.runner.cache.block_bytes
            raise Fault(
                507,
                "out_of_gpu_memory",
                f"the text needs {shown(needed)} of cache: ask for fewer tokens",
            )

    def tick(self) -> None:
        for job in [one for one in self.rows if one.cancelled]:
            self._leave(job)
        if self.reading is not None:
            self._read_on(self.reading)
        self._admit()
        if self.rows:
            self._step()
        # One batch of tokens stays under way, unless there is nothing else to do.
        while len(self.fetches) > (1 if self.rows else 0):
            self._receive(self.fetches.popleft())

    def _admit(self) -> None:
        assert self.runner is not None
        taken: list[Generation] = []
        total = 0
        while self.waiting and len(taken) < PROMPTS and self.free_slots:
            job = self.waiting[0]
            assert isinstance(job, Generation)
            if job.cancelled:
                self.waiting.popleft()
                continue
            long = len(job.prompt) > self.runner.part
            if (total + len(job.prompt) > self.runner.part and taken) or (long and self.reading is not None):
                break
            if not self._reserve(job, alone=not (taken or self.rows or self.fetches or self.reading)):
                break
            self.waiting.popleft()
            if job.future.done():
                continue
            job.started = time.perf_counter()
            if long:
                self.reading = job
                self.runner.set_slot(job.slot, job.blocks, job.temperature, job.top_p, job.seed)
                self._read_on(job)
                break
            taken.append(job)
            total += len(job.prompt)
        if not taken:
            return
        began = time.perf_counter()
        for job in taken:
            self.runner.set_slot(job.slot, job.blocks, job.temperature, job.top_p, job.seed)
        draws = any(job.temperature > 0 for job in taken)
        cuts = any(job.temperature > 0 and job.top_p < 1 for job in taken)
        ids = self.runner.prefill([(job.slot, job.prompt) for job in taken], draws, cuts)
        self._begin(taken, ids)
        if self.runner.stream is None:
            self.prompt_pace = (time.perf_counter() - began) / total

    def _read_on(self, job: Generation) -> None:
        """Reads one more part of a long prompt."""
        assert self.runner is not None
        if job.cancelled:
            self.reading = None
            self._give_back(job)
            return
        cuts = job.temperature > 0 and job.top_p < 1
        ids = self.runner.prefill_part(job.slot, job.prompt, job.read, job.temperature > 0, cuts)
        job.read += self.runner.part
        if job.read >= len(job.prompt):
            self.reading = None
            self._begin([job], ids)

    def _begin(self, jobs: list[Generation], ids: torch.Tensor) -> None:
        """Prompts are read, and these are the first tokens of their answers."""
        self._fetch(jobs, ids)
        for job in jobs:
            job.launched = 1
            if job.launched < job.max_tokens:
                self.rows.append(job)
                self.changed = True
            else:
                self._give_back(job)
        self._last_step = None

    def _reserve(self, job: Generation, alone: bool) -> bool:
        """Takes all the cache that a text will ever need; `False` where it has to wait for others to end."""
        assert self.runner is not None
        assert self.pool is not None
        count = -(-(len(job.prompt) + job.max_tokens) // BLOCK)
        blocks = self.pool.take(count)
        if blocks is None:
            return False
        size = (max(blocks) + 1) * self.runner.cache.block_bytes
        try:
            self.ledger.grow(f"{self.name} cache", self.runner.region, size)
        except Fault as fault:
            self.pool.give(blocks)
            if not alone:
                return False
            # Others may hold memory that they do not use: they are asked, and get a moment for it.
            now = time.perf_counter()
            if job.pressed is None:
                job.pressed = now
                self.ledger.press(self)
            if now - job.pressed < PATIENCE:
                time.sleep(0.002)
                return False
            job.fail(fault)
            return True
        job.blocks = blocks
        job.slot = self.free_slots.pop()
        return True

    def _step(self) -> None:
        assert self.runner is not None
        count = len(self.rows)
        if self.changed:
            self.runner.set_rows([job.slot for job in self.rows])
            self.changed = False
        draws = any(job.temperature > 0 for job in self.rows)
        cuts = draws and any(job.top_p < 1 for job in self.rows)
        began = time.perf_counter()
        ids = self.runner.decode(count, draws, cuts)
        self._fetch(list(self.rows), ids)
        now = time.perf_counter()
        if self._last_step is not None and self._last_step[1] == count:
            # In a steady state a loop takes as long as the device takes for a step.
            seconds = (now - began) if self.runner.stream is None else now - self._last_step[0]
            old = self.pace.get(count)
            self.pace[count] = seconds if old is None else 0.8 * old + 0.2 * seconds
        self._last_step = (now, count)
        self.steps += 1
        for job in list(self.rows):
            job.launched += 1
            if job.launched >= job.max_tokens:
                self._leave(job)

    def _fetch(self, jobs: list[Generation], ids: torch.Tensor) -> None:
        if self.runner is None or self.runner.stream is None:
            self.fetches.append(Fetch(jobs, ids.clone(), None))
            return
        here = torch.empty(ids.shape, dtype=ids.dtype, pin_memory=True)
        here.copy_(ids, non_blocking=True)
        event = torch.cuda.Event(blocking=True)
        event.record(self.runner.stream)
        self.fetches.append(Fetch(jobs, here, event))

    def _receive(self, fetch: Fetch) -> None:
        if fetch.event is not None:
            fetch.event.synchronize()
        now = time.perf_counter()
        for job, token in zip(fetch.jobs, fetch.ids.tolist(), strict=True):
            if job.future.done() or job.cancelled:
                continue
            if job.first_token is None:
                job.first_token = now
            self.tokens_made += 1
            job.tokens.append(token)
            reason = self._reason(job, token)
            if job.on_tokens is not None:
                job.on_tokens([token])
            if reason is not None:
                self._leave(job)
                self._finish(job, reason, now)

    def _reason(self, job: Generation, token: int) -> str | None:
        if token in self.eos and not job.ignore_eos:
            job.tokens.pop()
            return "stop"
        if job.stop:
            text = self.tokenizer.decode(job.tokens)
            if any(one in text for one in job.stop):
                return "stop"
        return "length" if len(job.tokens) >= job.max_tokens else None

    def _finish(self, job: Generation, reason: str, now: float) -> None:
        started, first = job.started or job.came, job.first_token or now
        job.finish(
            {
                "tokens": job.tokens,
                "reason": reason,
                "prompt_tokens": len(job.prompt),
                "new_tokens": len(job.tokens),
                "waited": started - job.came,
                "prefill": first - started,
                "decode": now - first,
            }
        )

    def _leave(self, job: Generation) -> None:
        if job in self.rows:
            self.rows.remove(job)
            self.changed = True
            self._give_back(job)

    def _give_back(self, job: Generation) -> None:
        # Whoever gets the blocks next writes to them after the steps that are under way: it is one stream.
        assert self.pool is not None
        self.pool.give(job.blocks)
        self.free_slots.append(job.slot)
        job.blocks = []

    def drop_all(self, error: Exception) -> None:
        jobs = self.rows + [job for fetch in self.fetches for job in fetch.jobs]
        if self.reading is not None:
            jobs.append(self.reading)
            self._give_back(self.reading)
            self.reading = None
        for job in list(self.rows):
            self._leave(job)
        self.fetches.clear()
        for job in jobs:
            job.fail(error)

    def trim(self) -> int:
        runner = self.runner
        if runner is None or self.running() or self.waiting or not runner.region.stable:
            return 0
        return self.ask(self.trim_here)

    def trim_here(self) -> int:
        """The same, in the engine's thread."""
        runner = self.runner
        if runner is None or not self.awake or self.waiting or not runner.region.stable:
            return 0
        if self.running() or runner.region.mapped <= max(runner.region.step, runner.cache.block_bytes):
            return 0
        if runner.stream is not None:
            runner.stream.synchronize()
        before = runner.region.mapped
        self.ledger.release(f"{self.name} cache", runner.region)
        # Block 0 is written by rows that only fill a batch up.
        self.ledger.grow(f"{self.name} cache", runner.region, runner.cache.block_bytes)
        return before - runner.region.mapped

    def forecast(self, prompt: int, new: int) -> float | None:
        """Seconds that a text would take if it came now; `None` before anything was measured."""
        if not self.pace:
            return None
        rows = self.in_batch() + len(self.waiting) + 1
        size = min(self.pace, key=lambda one: abs(one - rows))
        return prompt * self.prompt_pace + new * self.pace[size]

    def measure(self) -> None:
        """Has a short text written, so that there is something to forecast from. From any thread."""
        assert self.runner is not None
        context, vocab = self.runner.context, self.runner.config.vocab
        read = min(8, context // 2)
        for _ in range(2):
            job = Generation([min(1, vocab - 1)] * read, min(6, context - read), ignore_eos=True)
            began = time.perf_counter()
            self.submit(job)
            job.future.result()
            taken = time.perf_counter() - began
        if not self.prompt_pace:
            self.prompt_pace = max(0.0, taken - 5 * self.pace.get(1, 0.0)) / 8
        self.pace.setdefault(1, taken / 6)


def description(engine: LmEngine) -> dict[str, Any]:
    """What it has done, for the status."""
    runner = engine.runner
    return {
        "steps": engine.steps,
        "tokens": engine.tokens_made,
        "graphs": 0 if runner is None else runner.graphs.count,
        "graph_seconds": 0.0 if runner is None else runner.graphs.seconds,
        "cache_bytes": 0 if runner is None else runner.region.mapped,
    }

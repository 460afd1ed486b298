"""Engines of models that write no text: vectors in one pass, pictures in steps that others join and leave."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

import torch

from .batch_runner import EmbedPasses, ImagePasses
from .encoder import Bert
from .engine import Engine, Job
from .fault import Fault
from .image import ImageConfig, Painter, write_png


class EmbedJob(Job):
    """Vectors of texts."""

    def __init__(self, texts: list[list[int]]) -> None:
        super().__init__()
        self.texts = texts


class EmbedEngine(Engine):
    """Texts that wait are computed together."""

    def __init__(self, name: str, device: torch.device, max_waiting: int, max_batch: int) -> None:
        self.passes: EmbedPasses | None = None
        self.max_batch = max_batch
        self.now: list[EmbedJob] = []
        self.token_pace = 0.0
        super().__init__(name, device, max_waiting)

    def attach(self, model: Bert, same_addresses: bool, graphs: bool) -> None:
        """Initialises its model, in the engine's thread."""
        if self.passes is None:
            self.passes = EmbedPasses(self.device, self.stream, graphs)
        self.passes.attach(model, same_addresses)

    def running(self) -> int:
        return len(self.now)

    def tick(self) -> None:
        assert self.passes is not None
        count = 0
        while self.waiting and (not self.now or count < self.max_batch):
            job = self.waiting.popleft()
            assert isinstance(job, EmbedJob)
            if not job.cancelled:
                job.started = time.perf_counter()
                self.now.append(job)
                count += len(job.texts)
        texts = [text for job in self.now for text in job.texts]
        began = time.perf_counter()
        vectors = self.passes.embed(texts)
        now = time.perf_counter()
        if texts:
            self.token_pace = (now - began) / len(texts)
        at = 0
        for job in self.now:
            started = job.started or job.came
            tokens = sum(map(len, job.texts))
            own = [vectors[at + n] for n in range(len(job.texts))]
            at += len(job.texts)
            job.finish(
                {"vectors": own, "tokens": tokens, "waited": started - job.came, "seconds": now - started}
            )
        self.now = []

    def drop_all(self, error: Exception) -> None:
        for job in self.now:
            job.fail(error)
        self.now = []


class ImageJob(Job):
    """A picture."""

    def __init__(self, prompt: str, steps: int, seed: int) -> None:
        super().__init__()
        self.prompt, self.steps, self.seed = prompt, steps, seed
        self.left = steps


class ImageEngine(Engine):
    """Each step is for all pictures that are under way."""

    def __init__(
        self,
        name: str,
        device: torch.device,
        max_waiting: int,
        max_batch: int,
        config: ImageConfig,
        out: Path,
    ) -> None:
        self.passes: ImagePasses | None = None
        self.max_batch, self.config, self.out = max_batch, config, out
        self.now: list[ImageJob] = []
        self.latents: torch.Tensor | None = None
        self.texts: torch.Tensor | None = None
        self.pace: dict[int, float] = {}
        self.made = 0
        self.run = secrets.token_hex(4)
        """Sets its files apart from those of other workers, and of those before it."""
        super().__init__(name, device, max_waiting)

    def attach(self, model: Painter, same_addresses: bool, graphs: bool) -> None:
        """Initialises its model, in the engine's thread."""
        if self.passes is None:
            self.passes = ImagePasses(self.device, self.stream, graphs, self.max_batch)
        self.passes.attach(model, same_addresses)

    def running(self) -> int:
        return len(self.now)

    def _begin(self, job: ImageJob) -> tuple[torch.Tensor, torch.Tensor]:
        # From the seed and the prompt alone, and on the host: the same on every device.
        generator = torch.Generator().manual_seed(job.seed)
        latent = torch.randn(1, 4, self.config.side, self.config.side, generator=generator)
        words = torch.Generator().manual_seed(sum(job.prompt.encode()) + 1)
        text = torch.randn(1, 77, self.config.text, generator=words)
        assert self.passes is not None
        dtype = self.passes.model.weights["enter"].dtype
        return latent.to(self.device, dtype), text.to(self.device, dtype)

    def tick(self) -> None:
        assert self.passes is not None
        keep = [n for n, job in enumerate(self.now) if not job.cancelled]
        if len(keep) < len(self.now):
            self._keep(keep)
        while self.waiting and len(self.now) < self.max_batch:
            job = self.waiting.popleft()
            assert isinstance(job, ImageJob)
            if job.cancelled:
                continue
            job.started = time.perf_counter()
            latent, text = self._begin(job)
            self.latents = latent if self.latents is None else torch.cat((self.latents, latent))
            self.texts = text if self.texts is None else torch.cat((self.texts, text))
            self.now.append(job)
        if not self.now or self.latents is None or self.texts is None:
            return
        began = time.perf_counter()
        self.latents = self.passes.step(self.latents, self.texts)
        if self.stream is not None:
            self.stream.synchronize()
        now = time.perf_counter()
        self.pace[len(self.now)] = now - began
        for job in self.now:
            job.left -= 1
        done = [n for n, job in enumerate(self.now) if job.left == 0]
        for n in done:
            job = self.now[n]
            path = self._path()
            try:
                write_png(self.latents[n].cpu(), path)
            except OSError as error:
                reason = f"cannot write {path}: {error.strerror or error}"
                job.fail(Fault(500, "cannot_write", reason))
                continue
            started = job.started or job.came
            took = time.perf_counter() - started
            job.finish(
                {"image_path": str(path), "steps": job.steps, "waited": started - job.came, "seconds": took}
            )
        if done:
            self._keep([n for n, job in enumerate(self.now) if job.left > 0])

    def _path(self) -> Path:
        """A file for the next picture, whose name none before has had."""
        self.made += 1
        return self.out / f"{self.name.replace('/', '--')}-{self.run}-{self.made}.png"

    def _keep(self, places: list[int]) -> None:
        self.now = [self.now[n] for n in places]
        if not places:
            self.latents = self.texts = None
        else:
            assert self.latents is not None
            assert self.texts is not None
            self.latents, self.texts = self.latents[places], self.texts[places]

    def drop_all(self, error: Exception) -> None:
        for job in self.now:
            job.fail(error)
        self._keep([])

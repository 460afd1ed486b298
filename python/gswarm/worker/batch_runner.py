"""Passes of embedding and image models on their device, as graphs where launching is what takes the time.

One text, or one picture, is many small kernels: the host launches them more slowly than the device computes
them. Passes are captured once and launched as one. They come in few sizes, each of which is computed once
before anybody waits for it: the first pass of a size has its attention kernels built, which takes from 60 ms
to a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import torch

from .encoder import Bert
from .graphs import Graphs
from .image import Painter

LOG = logging.getLogger("gswarm.worker")
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)
TOKENS = (32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
MOST_TOKENS = 4096
"""Tokens of a pass of several texts, filling included: as many as keep the device busy."""
PICTURES = (1, 2)
"""Numbers of pictures whose steps are captured. A graph keeps its memory while the model sleeps."""
T = TypeVar("T", Bert, Painter)


class Passes(Generic[T]):
    """A model with its weights, and the graphs of its passes. Belongs to one thread."""

    def __init__(self, device: torch.device, stream: torch.cuda.Stream | None, graphs: bool) -> None:
        self.device = device
        self.graphs = Graphs(stream)
        self._model: T | None = None
        self._wanted = graphs and device.type == "cuda"

    @property
    def model(self) -> T:
        """The model, while it is on the device."""
        if self._model is None:
            raise RuntimeError("the model is not on its device")
        return self._model

    def attach(self, model: T, same_addresses: bool) -> None:
        """Uses this model. Graphs stay where its weights are where they were; missing ones are captured."""
        self._model = model
        if not same_addresses:
            self.graphs.clear()
        if not self._wanted:
            return
        try:
            self._capture_all()
        except RuntimeError as error:
            # Passes are then launched kernel by kernel, which is slower and nothing else.
            LOG.warning("passes of an embedding or image model cannot be captured: %s", error)
            self.graphs.clear()
            self._wanted = False

    def detach(self) -> None:
        """Uses its weights no more."""
        self._model = None

    def _capture_all(self) -> None:
        raise NotImplementedError


class EmbedPasses(Passes[Bert]):
    """Vectors of several texts in one pass."""

    def __init__(self, device: torch.device, stream: torch.cuda.Stream | None, graphs: bool) -> None:
        super().__init__(device, stream, graphs)
        self._ids = torch.zeros(MOST_TOKENS, dtype=torch.int64, device=device)
        self._mask = torch.zeros_like(self._ids)
        self._found: dict[tuple[int, int], torch.Tensor] = {}

    def sizes(self) -> list[tuple[int, int]]:
        """Texts and tokens of passes that are captured; the largest first, whose memory holds the others."""
        context = self.model.config.context
        found = [(n, long) for n in TEXTS for long in TOKENS if n * long <= MOST_TOKENS and long <= context]
        return sorted(found, key=lambda size: size[0] * size[1], reverse=True)

    def _capture_all(self) -> None:
        self._ids.zero_()
        self._mask.fill_(1)
        for size in self.sizes():
            if size not in self.graphs:
                self.graphs.capture(size, self._pass(*size))

    def _pass(self, texts: int, tokens: int) -> Callable[[], None]:
        ids, mask = (one[: texts * tokens].view(texts, tokens) for one in (self._ids, self._mask))
        hidden = self.model.config.hidden
        found = torch.zeros((texts, hidden), dtype=torch.float32, device=self.device)
        self._found[(texts, tokens)] = found

        def body() -> None:
            found.copy_(self.model.embed(ids, mask))

        return body

    def size_for(self, texts: int, tokens: int) -> tuple[int, int]:
        """The least captured pass that holds so much, or just as much where there is none."""
        fitting = [
            (n, long)
            for n in TEXTS
            for long in TOKENS
            if n >= texts and long >= tokens and (n, long) in self.graphs
        ]
        return min(fitting, key=lambda size: size[0] * size[1], default=(texts, tokens))

    def parts(self, lengths: list[int]) -> Iterator[list[int]]:
        """The places of texts that are computed in one pass: of like length, the longest first."""
        order = sorted(range(len(lengths)), key=lambda at: lengths[at], reverse=True)
        while order:
            _, long = self.size_for(1, lengths[order[0]])
            count = max((n for n in TEXTS if n * long <= MOST_TOKENS), default=1)
            yield order[:count]
            order = order[count:]

    def embed(self, texts: list[list[int]]) -> list[list[float]]:
        """The vector of each text."""
        parts = list(self.parts([len(text) for text in texts]))
        # All passes are launched before the first one's vectors are waited for.
        vectors = torch.cat([self._launch([texts[at] for at in part]) for part in parts]).tolist()
        places = [at for part in parts for at in part]
        found = dict(zip(places, vectors, strict=True))
        return [found[at] for at in range(len(texts))]

    def _launch(self, texts: list[list[int]]) -> torch.Tensor:
        rows, long = self.size_for(len(texts), max(map(len, texts)))
        ids, mask = torch.zeros((rows, long), dtype=torch.int64), torch.zeros((rows, long), dtype=torch.int64)
        # A row that only fills the pass up looks at one token, so that its average is one of something.
        mask[:, 0] = 1
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text, dtype=torch.int64)
            mask[row, : len(text)] = 1
        if (rows, long) not in self.graphs:
            return self.model.embed(ids.to(self.device), mask.to(self.device))
        for to, of in ((self._ids, ids), (self._mask, mask)):
            here = of.flatten()
            if self.device.type == "cuda":
                here = here.pin_memory()
            to[: rows * long].copy_(here, non_blocking=True)
        self.graphs.replay((rows, long))
        # The next pass of this size writes its vectors to the same place.
        return self._found[(rows, long)][: len(texts)].clone()


class ImagePasses(Passes[Painter]):
    """Steps of several pictures."""

    def __init__(
        self, device: torch.device, stream: torch.cuda.Stream | None, graphs: bool, most: int
    ) -> None:
        super().__init__(device, stream, graphs)
        self.most = most
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._warm = device.type != "cuda"

    def attach(self, model: Painter, same_addresses: bool) -> None:
        """Uses this model. The first time, every number of pictures is computed once."""
        super().attach(model, same_addresses)
        if self._warm:
            return
        self._warm = True
        try:
            for count in range(1, self.most + 1):
                self.step(*self._blank(count))
        except torch.OutOfMemoryError:
            # So many at once will be refused when they come.
            LOG.info("%d pictures at once have no room beside the models", count)

    def _capture_all(self) -> None:
        for count in sorted(PICTURES, reverse=True):
            if count not in self.graphs:
                self.graphs.capture(count, self._pass(count))

    def _pass(self, count: int) -> Callable[[], None]:
        latents, texts = self._kept[count] = self._blank(count)

        def body() -> None:
            latents.copy_(self.model.step(latents, texts))

        return body

    def _blank(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Latents and texts of so many pictures."""
        config, dtype = self.model.config, self.model.weights["enter"].dtype
        latents = torch.zeros((count, 4, config.side, config.side), dtype=dtype, device=self.device)
        return latents, torch.zeros((count, 77, config.text), dtype=dtype, device=self.device)

    def step(self, latents: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        """The pictures, one step further."""
        count = latents.shape[0]
        if count not in self.graphs:
            return self.model.step(latents, texts)
        kept_latents, kept_texts = self._kept[count]
        kept_latents.copy_(latents)
        kept_texts.copy_(texts)
        self.graphs.replay(count)
        return kept_latents.clone()

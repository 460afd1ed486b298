"""Passes of embedding and image models on their device, as graphs where launching is what takes the time.

One text, or one picture, is many small kernels: the host launches them more slowly than the device computes
them. Passes of small sizes are captured once and launched as one; larger ones keep the device busy anyhow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

import torch

from .encoder import Bert
from .graphs import Graphs
from .image import Painter

LOG = logging.getLogger("gswarm.worker")
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128)
TOKENS = (32, 64, 128, 256, 512)
MOST_TOKENS = 4096
"""Tokens of a pass, filling included, up to which it is captured."""
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
        """Texts and tokens of the passes that are captured, the largest first: others find room in its memory."""
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

    def embed(self, texts: list[list[int]]) -> list[list[float]]:
        """The vector of each text."""
        rows, long = self.size_for(len(texts), max(map(len, texts)))
        ids, mask = torch.zeros((rows, long), dtype=torch.int64), torch.zeros((rows, long), dtype=torch.int64)
        # A row that only fills the pass up looks at one token, so that its average is one of something.
        mask[:, 0] = 1
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text, dtype=torch.int64)
            mask[row, : len(text)] = 1
        if (rows, long) in self.graphs:
            for to, of in ((self._ids, ids), (self._mask, mask)):
                here = of.flatten()
                if self.device.type == "cuda":
                    here = here.pin_memory()
                to[: rows * long].copy_(here, non_blocking=True)
            self.graphs.replay((rows, long))
            vectors = self._found[(rows, long)]
        else:
            vectors = self.model.embed(ids.to(self.device), mask.to(self.device))
        found: list[list[float]] = vectors[: len(texts)].tolist()
        return found


class ImagePasses(Passes[Painter]):
    """Steps of several pictures."""

    def __init__(self, device: torch.device, stream: torch.cuda.Stream | None, graphs: bool) -> None:
        super().__init__(device, stream, graphs)
        self._kept: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def _capture_all(self) -> None:
        for count in sorted(PICTURES, reverse=True):
            if count not in self.graphs:
                self.graphs.capture(count, self._pass(count))

    def _pass(self, count: int) -> Callable[[], None]:
        config, dtype = self.model.config, self.model.weights["enter"].dtype
        latents = torch.zeros((count, 4, config.side, config.side), dtype=dtype, device=self.device)
        texts = torch.zeros((count, 77, config.text), dtype=dtype, device=self.device)
        self._kept[count] = (latents, texts)

        def body() -> None:
            latents.copy_(self.model.step(latents, texts))

        return body

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

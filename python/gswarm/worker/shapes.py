"""Shapes of models with random weights: as large and as slow as the real ones, and they need no download."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .encoder import BertConfig
from .fault import not_found
from .image import ImageConfig
from .llama import LlamaConfig


@dataclass(frozen=True)
class Shape:
    """A kind of model, and its numbers."""

    kind: str
    config: LlamaConfig | BertConfig | ImageConfig


def _llama(
    hidden: int, inner: int, layers: int, heads: int, kv: int, vocab: int, context: int, **more: Any
) -> Shape:
    return Shape(
        "llm", LlamaConfig(vocab, hidden, inner, layers, heads, kv, hidden // heads, context, **more)
    )


SHAPES: dict[str, Shape] = {
    "llama-7b": _llama(4096, 11008, 32, 32, 32, 32000, 4096),
    "llama-13b": _llama(5120, 13824, 40, 40, 40, 32000, 4096),
    "llama-8b": _llama(4096, 14336, 32, 32, 8, 128256, 8192, theta=500000.0),
    "llama-3b": _llama(3072, 8192, 28, 24, 8, 128256, 8192, theta=500000.0, tied=True),
    "llama-1b": _llama(2048, 5632, 22, 32, 4, 32000, 2048),
    "bge-large": Shape("embedding", BertConfig(30522, 1024, 4096, 24, 16, 512)),
    "bge-small": Shape("embedding", BertConfig(30522, 384, 1536, 12, 12, 512)),
    "sdxl": Shape("image", ImageConfig((320, 640, 1280), (0, 2, 10), 2, 128, 2048, 64)),
    "tiny-llm": _llama(64, 160, 2, 4, 2, 320, 512),
    "tiny-embedding": Shape("embedding", BertConfig(320, 64, 128, 2, 4, 128)),
    "tiny-image": Shape("image", ImageConfig((16, 32), (0, 1), 1, 8, 32, 16)),
}


def shape(name: str) -> Shape:
    """The shape of this name; an unknown one is told with those that there are."""
    found = SHAPES.get(name)
    if found is None:
        raise not_found("shape_not_found", f"there is no shape `{name}`: there are {', '.join(SHAPES)}")
    return found

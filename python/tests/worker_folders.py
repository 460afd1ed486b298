"""Folders of small models, as they are published and as they may be damaged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch

from gswarm.worker.encoder import BertConfig
from gswarm.worker.llama import LlamaConfig

VOCAB = 64
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 128,
}


def write_tokenizer(folder: Path) -> None:
    """One of words that are numbers; all others are unknown."""
    words = {"<unk>": 0, **{str(n): n for n in range(1, VOCAB)}}
    tokenizer: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def write_weights(folder: Path, config: LlamaConfig | BertConfig) -> None:
    """Random ones, in a safetensors file."""
    header, data, at = {}, [], 0
    generator = torch.Generator().manual_seed(1)
    for parameter in config.layout(torch.float32).parameters:
        for piece in parameter.pieces:
            shape = (piece.rows, *parameter.shape[1:])
            size = math.prod(shape) * 4
            header[piece.source] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
            data.append((torch.randn(shape, generator=generator) * 0.1).numpy().tobytes())
            at += size
    head = json.dumps(header).encode()
    file = len(head).to_bytes(8, "little") + head + b"".join(data)
    (folder / "model.safetensors").write_bytes(file)


def language_model(folder: Path, template: str | None = None) -> Path:
    """A whole one."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    write_tokenizer(folder)
    write_weights(folder, LlamaConfig.read(CONFIG))
    if template is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


def embedding_model(folder: Path) -> Path:
    """A whole one, of 16 tokens."""
    folder.mkdir(parents=True)
    config = {**CONFIG, "model_type": "bert", "max_position_embeddings": 16}
    (folder / "config.json").write_text(json.dumps(config))
    write_tokenizer(folder)
    write_weights(folder, BertConfig.read(config))
    return folder


def change(folder: Path, **fields: Any) -> None:
    """Other values in its configuration."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))

"""Embedding models of the bert kind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from .fault import unsupported
from .folder import MAX_LAYERS, MAX_POSITIONS, MAX_VOCAB, MAX_WIDTH, Fields, wrong
from .layout import Layout


@dataclass(frozen=True)
class BertConfig:
    """The shape of a model."""

    vocab: int
    hidden: int
    inner: int
    layers: int
    heads: int
    context: int
    types: int = 2
    eps: float = 1e-12
    mean: bool = True
    """Whether a text's vector is the mean of its tokens' rather than that of its first."""

    @staticmethod
    def read(config: dict[str, Any], mean: bool = True, path: Path = Path("config.json")) -> BertConfig:
        """From a `config.json`."""
        if config.get("model_type") != "bert" or config.get("hidden_act", "gelu") != "gelu":
            raise unsupported("model_name", f"models of type `{config.get('model_type')}` are not supported")
        fields = Fields(path, config)
        hidden = fields.size("hidden_size", MAX_WIDTH)
        heads = fields.size("num_attention_heads", MAX_WIDTH)
        if hidden % heads:
            raise wrong(path, f"{heads} heads cannot share a width of {hidden} evenly")
        return BertConfig(
            fields.size("vocab_size", MAX_VOCAB),
            hidden,
            fields.size("intermediate_size", MAX_WIDTH),
            fields.size("num_hidden_layers", MAX_LAYERS),
            heads,
            fields.size("max_position_embeddings", MAX_POSITIONS, 512),
            fields.size("type_vocab_size", MAX_WIDTH, 2),
            fields.positive("layer_norm_eps", 1e-12),
            mean,
        )

    def layout(self, dtype: torch.dtype) -> Layout:
        """Where its parameters lie."""
        out, h = Layout(dtype), self.hidden

        def linear(name: str, rows: int, columns: int, sources: list[str]) -> None:
            each = rows // len(sources)
            out.add(name, (rows, columns), {f"{one}.weight": each for one in sources})
            out.add(name + "_bias", (rows,), {f"{one}.bias": each for one in sources}, -1)

        def norm(name: str, source: str) -> None:
            out.add(name, (h,), source + ".weight", 0)
            out.add(name + "_bias", (h,), source + ".bias", -1)

        out.add("words", (self.vocab, h), "embeddings.word_embeddings.weight")
        out.add("places", (self.context, h), "embeddings.position_embeddings.weight")
        out.add("types", (self.types, h), "embeddings.token_type_embeddings.weight")
        norm("norm", "embeddings.LayerNorm")
        for n in range(self.layers):
            at, own = f"encoder.layer.{n}.", f"{n}."
            linear(own + "qkv", 3 * h, h, [f"{at}attention.self.{one}" for one in ("query", "key", "value")])
            linear(own + "o", h, h, [at + "attention.output.dense"])
            norm(own + "norm1", at + "attention.output.LayerNorm")
            linear(own + "up", self.inner, h, [at + "intermediate.dense"])
            linear(own + "down", h, self.inner, [at + "output.dense"])
            norm(own + "norm2", at + "output.LayerNorm")
        return out


class Bert:
    """A model with its weights on a device."""

    def __init__(self, config: BertConfig, weights: dict[str, torch.Tensor]) -> None:
        self.config, self.weights = config, weights

    def _linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.linear(x, self.weights[name], self.weights[name + "_bias"])

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.layer_norm(
            x, (self.config.hidden,), self.weights[name], self.weights[name + "_bias"], self.config.eps
        )

    def hidden(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The last layer, of texts that are as long as the longest."""
        w, c = self.weights, self.config
        x = w["words"][ids] + w["places"][: ids.shape[1]] + w["types"][0]
        x = self._norm(x, "norm")
        shape = (*ids.shape, 3, c.heads, c.hidden // c.heads)
        seen = mask[:, None, None, :].bool()
        for n in range(c.layers):
            q, k, v = self._linear(x, f"{n}.qkv").view(shape).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen).transpose(1, 2).reshape(x.shape)
            x = self._norm(x + self._linear(mixed, f"{n}.o"), f"{n}.norm1")
            x = self._norm(x + self._linear(F.gelu(self._linear(x, f"{n}.up")), f"{n}.down"), f"{n}.norm2")
        return x

    def embed(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """A vector of length 1 of each text."""
        x = self.hidden(ids, mask).float()
        if self.config.mean:
            weight = mask[..., None].float()
            x = (x * weight).sum(1) / weight.sum(1).clamp_min(1.0)
        else:
            x = x[:, 0]
        return F.normalize(x, dim=-1)

"""Language models of the llama kind: RMS norms, turned positions, grouped queries, gated feed-forward.

llama, mistral, qwen2 and qwen3 differ by biases and two more norms alone. Projections that read the same
input are one matrix: queries, keys and values; gate and up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from .fault import unsupported
from .folder import MAX_LAYERS, MAX_POSITIONS, MAX_VOCAB, MAX_WIDTH, Fields, wrong
from .layout import Layout
from .ops import Operations, continued_attention, prefill_attention


@dataclass(frozen=True)
class LlamaConfig:
    """The shape of a model."""

    vocab: int
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    context: int
    eps: float = 1e-5
    theta: float = 10000.0
    scaling: tuple[tuple[str, float], ...] = ()
    qkv_bias: bool = False
    head_norms: bool = False
    tied: bool = False

    @staticmethod
    def read(config: dict[str, Any], path: Path = Path("config.json")) -> LlamaConfig:
        """From a `config.json`; what this does not compute is refused, and so is what cannot be right."""
        kind = config.get("model_type")
        if kind not in ("llama", "mistral", "qwen2", "qwen3"):
            raise unsupported("model_name", f"models of type `{kind}` are not supported")
        fields = Fields(path, config)
        if config.get("hidden_act", "silu") != "silu" or fields.flag("mlp_bias"):
            raise unsupported("model_name", "only gated models with silu and without biases are supported")
        hidden = fields.size("hidden_size", MAX_WIDTH)
        heads = fields.size("num_attention_heads", MAX_WIDTH)
        kv_heads = fields.size("num_key_value_heads", MAX_WIDTH, heads)
        if heads % kv_heads:
            raise wrong(path, f"{heads} heads cannot share {kv_heads} keys and values evenly")
        head_dim = fields.size("head_dim", MAX_WIDTH, None if hidden % heads else hidden // heads)
        if head_dim % 2:
            raise wrong(path, f"rotary positions need heads of even width, not {head_dim}")
        context = fields.size("max_position_embeddings", MAX_POSITIONS, 4096)
        if config.get("sliding_window") and (kind == "mistral" or fields.flag("use_sliding_window")):
            context = min(context, fields.size("sliding_window", MAX_POSITIONS))
        theta = fields.positive("rope_theta", 10000.0)
        return LlamaConfig(
            vocab=fields.size("vocab_size", MAX_VOCAB),
            hidden=hidden,
            inner=fields.size("intermediate_size", MAX_WIDTH),
            layers=fields.size("num_hidden_layers", MAX_LAYERS),
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            context=context,
            eps=fields.positive("rms_norm_eps", 1e-6),
            theta=_rope(fields).positive("rope_theta", theta),
            scaling=_scaling(_rope(fields)),
            qkv_bias=kind == "qwen2" or fields.flag("attention_bias"),
            head_norms=kind == "qwen3",
            tied=fields.flag("tie_word_embeddings"),
        )

    def layout(self, dtype: torch.dtype) -> Layout:
        """Where its parameters lie."""
        out, q, kv = Layout(dtype), self.heads * self.head_dim, self.kv_heads * self.head_dim
        out.add("embed", (self.vocab, self.hidden), "model.embed_tokens.weight")
        for n in range(self.layers):
            at, own = f"model.layers.{n}.", f"{n}."
            attn, mlp = at + "self_attn.", at + "mlp."
            out.add(own + "norm1", (self.hidden,), at + "input_layernorm.weight", 0)
            three = {"q_proj": q, "k_proj": kv, "v_proj": kv}
            out.add(
                own + "qkv", (q + 2 * kv, self.hidden), {f"{attn}{k}.weight": r for k, r in three.items()}
            )
            if self.qkv_bias:
                out.add(own + "qkv_bias", (q + 2 * kv,), {f"{attn}{k}.bias": r for k, r in three.items()})
            if self.head_norms:
                out.add(own + "q_norm", (self.head_dim,), attn + "q_norm.weight", 0)
                out.add(own + "k_norm", (self.head_dim,), attn + "k_norm.weight", 0)
            out.add(own + "o", (self.hidden, q), attn + "o_proj.weight")
            out.add(own + "norm2", (self.hidden,), at + "post_attention_layernorm.weight", 0)
            two = {mlp + "gate_proj.weight": self.inner, mlp + "up_proj.weight": self.inner}
            out.add(own + "gate_up", (2 * self.inner, self.hidden), two)
            out.add(own + "down", (self.hidden, self.inner), mlp + "down_proj.weight")
        out.add("norm", (self.hidden,), "model.norm.weight", 0)
        if not self.tied:
            out.add("head", (self.vocab, self.hidden), "lm_head.weight")
        return out

    def kv_bytes(self, dtype: torch.dtype) -> int:
        """Bytes of keys and values of one token."""
        return 2 * self.layers * self.kv_heads * self.head_dim * dtype.itemsize

    def rotations(self, length: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of all positions."""
        steps = torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim
        turns = 1.0 / (self.theta**steps)
        scaling = dict(self.scaling)
        if "linear" in scaling:
            turns = turns / scaling["factor"]
        elif "llama3" in scaling:
            factor, old = scaling["factor"], scaling["original_max_position_embeddings"]
            low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
            wave = 2 * math.pi / turns
            smooth = (old / wave - low) / (high - low)
            between = (1 - smooth) * turns / factor + smooth * turns
            turns = torch.where(
                wave > old / low, turns / factor, torch.where(wave < old / high, turns, between)
            )
        angles = torch.arange(length, dtype=torch.float64)[:, None] * turns[None]
        return angles.cos().float().to(device), angles.sin().float().to(device)


def _rope(fields: Fields) -> Fields:
    """How positions are turned, by either of the names that it has."""
    both = (fields.nested("rope_scaling").values, fields.nested("rope_parameters").values)
    return Fields(fields.path, {**both[0], **both[1]})


def _scaling(rope: Fields) -> tuple[tuple[str, float], ...]:
    how = rope.values.get("rope_type", rope.values.get("type", "default"))
    if how == "default":
        return ()
    if how == "linear":
        return (("factor", rope.positive("factor", 1.0)), ("linear", 1.0))
    if how != "llama3":
        raise unsupported("model_name", f"positions of type `{how}` are not supported")
    low, high = rope.positive("low_freq_factor", 1.0), rope.positive("high_freq_factor", 4.0)
    if high <= low:
        raise wrong(rope.path, "high_freq_factor is not above low_freq_factor")
    return (
        ("factor", rope.positive("factor", 8.0)),
        ("high_freq_factor", high),
        ("llama3", 1.0),
        ("low_freq_factor", low),
        ("original_max_position_embeddings", rope.positive("original_max_position_embeddings", 8192.0)),
    )


class Llama:
    """A model with its weights on a device."""

    def __init__(self, config: LlamaConfig, weights: dict[str, torch.Tensor], ops: Operations) -> None:
        self.config, self.weights, self.ops = config, weights, ops
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim

    def decode(self, ids: torch.Tensor, pos: torch.Tensor, slots: torch.Tensor, cache: Any) -> torch.Tensor:
        """Logits after one more token of each sequence."""

        def attend(qkv: torch.Tensor, layer: int) -> torch.Tensor:
            return self.ops.decode_attention(qkv, pos, slots, cache, layer, self)

        return self._logits(self._body(ids, pos, slots, cache, attend))

    def prefill(
        self,
        ids: torch.Tensor,
        pos: torch.Tensor,
        slots: torch.Tensor,
        cache: Any,
        cu: torch.Tensor,
        bounds: list[int] | None,
        longest: int,
        last: torch.Tensor,
    ) -> torch.Tensor:
        """Logits after the last token (`last`) of each of several whole prompts."""

        def attend(qkv: torch.Tensor, layer: int) -> torch.Tensor:
            return prefill_attention(qkv, cu, bounds, longest, self)

        return self._logits(self._body(ids, pos, slots, cache, attend)[last])

    def continued(
        self,
        ids: torch.Tensor,
        pos: torch.Tensor,
        slots: torch.Tensor,
        cache: Any,
        begin: int,
        slot: int,
        flash: bool,
    ) -> torch.Tensor:
        """Logits after the last token of a part of one prompt, whose parts before it are in the cache."""

        def attend(qkv: torch.Tensor, layer: int) -> torch.Tensor:
            return continued_attention(qkv, cache.tables[slot], begin, cache, layer, self, flash)

        return self._logits(self._body(ids, pos, slots, cache, attend)[-1:])

    def _body(
        self, ids: torch.Tensor, pos: torch.Tensor, slots: torch.Tensor, cache: Any, attend: Any
    ) -> torch.Tensor:
        w, ops, eps = self.weights, self.ops, self.config.eps
        x = F.embedding(ids, w["embed"])
        h = ops.add_rmsnorm(x, None, w["0.norm1"], eps)
        for n in range(self.config.layers):
            qkv = F.linear(h, w[f"{n}.qkv"], w.get(f"{n}.qkv_bias"))
            if self.config.head_norms:
                self._head_norms(qkv, n)
            ops.rope_cache(qkv, pos, slots, cache, n, self)
            h = ops.add_rmsnorm(x, F.linear(attend(qkv, n), w[f"{n}.o"]), w[f"{n}.norm2"], eps)
            down = F.linear(ops.silu_mul(F.linear(h, w[f"{n}.gate_up"])), w[f"{n}.down"])
            following = w["norm"] if n + 1 == self.config.layers else w[f"{n + 1}.norm1"]
            h = ops.add_rmsnorm(x, down, following, eps)
        return h

    def _head_norms(self, qkv: torch.Tensor, layer: int) -> None:
        parts = qkv.view(qkv.shape[0], -1, self.head_dim)
        for name, begin, count in (("q_norm", 0, self.heads), ("k_norm", self.heads, self.kv_heads)):
            own = parts[:, begin : begin + count]
            own.copy_(F.rms_norm(own, (self.head_dim,), self.weights[f"{layer}.{name}"], self.config.eps))

    def _logits(self, h: torch.Tensor) -> torch.Tensor:
        return F.linear(h, self.weights["embed" if self.config.tied else "head"])

"""Image-like models: the work of a diffusion model's step, without its meaning.

Random weights in the shape of a U-shaped network: convolutions on each level, attention on the deeper ones,
a way down and a way up. A picture is so many steps, and pictures that are asked for at the same time are
computed together.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from .layout import Layout


@dataclass(frozen=True)
class ImageConfig:
    """Channels and attention blocks of each level, residual blocks, the latent's side, the text's width."""

    channels: tuple[int, ...]
    blocks: tuple[int, ...]
    residuals: int
    side: int
    text: int
    head_dim: int
    guided: bool = True

    def stages(self) -> list[tuple[str, int, int, int, int]]:
        """Name, channels in, channels out, attention blocks and level of each stage, in order."""
        out, before = [], self.channels[0]
        for level, width in enumerate(self.channels):
            for n in range(self.residuals):
                out.append((f"down{level}.{n}", before, width, self.blocks[level], level))
                before = width
        out.append(("middle", before, before, self.blocks[-1], len(self.channels) - 1))
        for level in reversed(range(len(self.channels))):
            for n in range(self.residuals + 1):
                out.append((f"up{level}.{n}", before, self.channels[level], self.blocks[level], level))
                before = self.channels[level]
        return out

    def layout(self, dtype: torch.dtype) -> Layout:
        """Where its parameters lie."""
        out = Layout(dtype)

        def add(name: str, *shape: int) -> None:
            fan = 1
            for one in shape[1:]:
                fan *= one
            out.add(name, shape, name, (1.0 / fan) ** 0.5 if len(shape) > 1 else 0)

        add("enter", self.channels[0], 4, 3, 3)
        for name, before, width, blocks, _ in self.stages():
            add(f"{name}.norm1", before)
            add(f"{name}.conv1", width, before, 3, 3)
            add(f"{name}.norm2", width)
            add(f"{name}.conv2", width, width, 3, 3)
            if before != width:
                add(f"{name}.skip", width, before, 1, 1)
            for n in range(blocks):
                at = f"{name}.{n}."
                for norm in ("norm1", "norm2", "norm3"):
                    add(at + norm, width)
                add(at + "qkv", 3 * width, width)
                add(at + "o1", width, width)
                add(at + "q", width, width)
                add(at + "kv", 2 * width, self.text)
                add(at + "o2", width, width)
                add(at + "up", 8 * width, width)
                add(at + "down", width, 4 * width)
        add("leave", 4, self.channels[0], 3, 3)
        return out


class Painter:
    """A model with its weights on a device."""

    def __init__(self, config: ImageConfig, weights: dict[str, torch.Tensor]) -> None:
        self.config, self.weights = config, weights

    def _attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        dim = self.config.head_dim
        q, k, v = (one.unflatten(-1, (-1, dim)).transpose(1, 2) for one in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    def _block(self, x: torch.Tensor, text: torch.Tensor, at: str) -> torch.Tensor:
        w, width = self.weights, x.shape[-1]
        h = F.layer_norm(x, (width,), w[at + "norm1"])
        x = x + F.linear(self._attend(*F.linear(h, w[at + "qkv"]).chunk(3, dim=-1)), w[at + "o1"])
        h = F.layer_norm(x, (width,), w[at + "norm2"])
        k, v = F.linear(text, w[at + "kv"]).chunk(2, dim=-1)
        x = x + F.linear(self._attend(F.linear(h, w[at + "q"]), k, v), w[at + "o2"])
        h = F.layer_norm(x, (width,), w[at + "norm3"])
        value, gate = F.linear(h, w[at + "up"]).chunk(2, dim=-1)
        return x + F.linear(value * F.gelu(gate), w[at + "down"])

    def _stage(self, x: torch.Tensor, text: torch.Tensor, name: str, blocks: int) -> torch.Tensor:
        w = self.weights
        h = F.silu(F.group_norm(x, min(32, x.shape[1]), w[f"{name}.norm1"]))
        h = F.conv2d(h, w[f"{name}.conv1"], padding=1)
        h = F.conv2d(
            F.silu(F.group_norm(h, min(32, h.shape[1]), w[f"{name}.norm2"])), w[f"{name}.conv2"], padding=1
        )
        skip = w.get(f"{name}.skip")
        x = h + (x if skip is None else F.conv2d(x, skip))
        if blocks:
            side = x.shape[-1]
            tokens = x.flatten(2).transpose(1, 2)
            for n in range(blocks):
                tokens = self._block(tokens, text, f"{name}.{n}.")
            x = tokens.transpose(1, 2).unflatten(2, (side, side)).contiguous()
        return x

    def step(self, latent: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        """One step of several pictures. With guidance each is computed twice, with its text and without."""
        if self.config.guided:
            given = torch.cat((latent, latent))
            text = torch.cat((text, torch.zeros_like(text)))
        else:
            given = latent
        x = F.conv2d(given, self.weights["enter"], padding=1)
        level, kept = 0, {}
        for name, _, _, blocks, at in self.config.stages():
            if at > level:
                kept[level] = x
                x = F.avg_pool2d(x, 2)
            elif at < level:
                x = F.interpolate(x, scale_factor=2.0)
            if name == f"up{at}.0" and at in kept and x.shape == kept[at].shape:
                x = x + kept[at]
            level = at
            x = self._stage(x, text, name, blocks)
        noise = F.conv2d(x, self.weights["leave"], padding=1)
        if self.config.guided:
            with_text, without = noise.chunk(2)
            noise = without + 5.0 * (with_text - without)
        noise = noise / noise.float().pow(2).mean((1, 2, 3), keepdim=True).sqrt().clamp_min(1e-6).to(
            noise.dtype
        )
        return 0.98 * latent - 0.1 * noise


def write_png(latent: torch.Tensor, path: Path) -> None:
    """Three of the latent's channels as a small picture, in a file that was not there.

    Where it cannot be written whole, nothing is left of it.
    """
    values = latent[:3].float()
    low, high = values.amin((1, 2), keepdim=True), values.amax((1, 2), keepdim=True)
    pixels = (
        ((values - low) / (high - low).clamp_min(1e-6) * 255).to(torch.uint8).permute(1, 2, 0).contiguous()
    )
    height, width = pixels.shape[:2]
    raw = b"".join(b"\0" + bytes(pixels[row].flatten().tolist()) for row in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    data += chunk(b"IDAT", zlib.compress(raw, 1)) + chunk(b"IEND", b"")
    with path.open("xb") as file:
        try:
            file.write(data)
            file.flush()
        except OSError:
            path.unlink(missing_ok=True)
            raise

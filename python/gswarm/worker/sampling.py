"""Drawing tokens on the device.

What is drawn depends on the request's seed, the token's place and the logits alone, not on what else is in
the batch: the noise is a hash of seed, place and token.
"""

from __future__ import annotations

import torch

_MASK = (1 << 62) - 1


def _mixed(x: torch.Tensor) -> torch.Tensor:
    # The middle of splitmix64, on numbers without a sign.
    x = ((x ^ (x >> 30)) * -4658895280553007687) & _MASK
    x = ((x ^ (x >> 27)) * -7723592293110705685) & _MASK
    return x ^ (x >> 31)


def uniform(seeds: torch.Tensor, places: torch.Tensor, vocab: int) -> torch.Tensor:
    """Numbers between 0 and 1, for each row and each token."""
    start = _mixed((seeds * -7046029254386353131 + places.long() * 1442695040888963407) & _MASK)
    each = torch.arange(vocab, device=seeds.device, dtype=torch.int64) * 6364136223846793005
    bits = _mixed((start[:, None] + each[None]) & _MASK) >> 22
    return (bits.to(torch.float64) + 0.5).mul_(2.0**-40).float()


def sample(
    logits: torch.Tensor,
    temperature: torch.Tensor,
    top_p: torch.Tensor | None,
    seeds: torch.Tensor,
    places: torch.Tensor,
) -> torch.Tensor:
    """A token of each row; the likeliest where the temperature is 0."""
    wide = logits.float()
    scaled = wide / temperature.clamp_min(1e-4)[:, None]
    if top_p is not None:
        ordered, where = scaled.sort(dim=-1, descending=True)
        shares = ordered.softmax(dim=-1)
        # What comes before a token says whether it still belongs: the likeliest always does.
        beyond = shares.cumsum(dim=-1) - shares >= top_p[:, None].clamp_min(1e-6)
        scaled = scaled.masked_fill(torch.zeros_like(beyond).scatter(1, where, beyond), float("-inf"))
    noise = -torch.log(-torch.log(uniform(seeds, places, logits.shape[1]).clamp(1e-12, 1 - 1e-7)))
    return torch.where(temperature > 0, (scaled + noise).argmax(dim=-1), wide.argmax(dim=-1))

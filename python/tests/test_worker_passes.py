"""Passes that are captured: on the CPU their graphs are played by the passes themselves."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch")

import torch

from gswarm.worker import ops
from gswarm.worker.batch_runner import MOST_TOKENS, EmbedPasses, ImagePasses
from gswarm.worker.encoder import Bert, BertConfig
from gswarm.worker.graphs import Graphs
from gswarm.worker.image import ImageConfig, Painter
from gswarm.worker.kvcache import KvCache
from gswarm.worker.layout import fill_random
from gswarm.worker.shapes import SHAPES

if TYPE_CHECKING:
    from gswarm.worker.llama import LlamaConfig

CPU = torch.device("cpu")


class Played(Graphs):
    """Graphs that are run anew each time, with the tensors that they were captured with."""

    def __init__(self, breaks: bool = False) -> None:
        super().__init__(None)
        self.bodies: dict[Hashable, Callable[[], None]] = {}
        self.played: list[Hashable] = []
        self.breaks = breaks

    def __contains__(self, size: Hashable) -> bool:
        return size in self.bodies

    def clear(self) -> None:
        self.bodies.clear()

    def capture(self, size: Hashable, body: Callable[[], None]) -> None:
        if self.breaks:
            raise RuntimeError("operation not permitted when stream is capturing")
        body()
        self.bodies[size] = body
        self.count += 1

    def replay(self, size: Hashable) -> bool:
        self.played.append(size)
        self.bodies[size]()
        return True


def weights(config: BertConfig | ImageConfig | LlamaConfig) -> dict[str, torch.Tensor]:
    layout = config.layout(torch.float32)
    flat = torch.zeros(layout.total, dtype=torch.uint8)
    fill_random(layout, flat, 5)
    return layout.views(flat)


def bert() -> Bert:
    config = SHAPES["tiny-embedding"].config
    assert isinstance(config, BertConfig)
    return Bert(config, weights(config))


def painter() -> Painter:
    config = SHAPES["tiny-image"].config
    assert isinstance(config, ImageConfig)
    return Painter(config, weights(config))


def captured(passes: EmbedPasses | ImagePasses, breaks: bool = False) -> Played:
    """Has passes capture what they would on a GPU."""
    played = Played(breaks)
    passes.graphs, passes._wanted = played, True
    return played


@pytest.mark.parametrize(
    "texts", [[[5, 6, 7]], [[1] * 40, [2] * 3, [9] * 65], [[n] * 20 for n in range(1, 7)]]
)
def test_vectors_are_the_same_in_a_pass_that_is_filled_up(texts: list[list[int]]) -> None:
    plain, graphs = EmbedPasses(CPU, None, False), EmbedPasses(CPU, None, False)
    played = captured(graphs)
    model = bert()
    plain.attach(model, True)
    graphs.attach(model, True)
    assert played.count == len(graphs.sizes())
    expected, found = torch.tensor(plain.embed(texts)), torch.tensor(graphs.embed(texts))
    assert len(played.played) == 1
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def test_the_least_pass_that_holds_the_texts_is_taken() -> None:
    passes = EmbedPasses(CPU, None, False)
    captured(passes)
    passes.attach(bert(), True)
    assert passes.size_for(1, 3) == (1, 32)
    assert passes.size_for(3, 33) == (4, 64)
    assert passes.size_for(128, 32) == (128, 32)
    assert all(texts * tokens <= MOST_TOKENS for texts, tokens in passes.sizes())
    # What is too large is computed as it is.
    assert passes.size_for(120, 100) == (120, 100)
    assert passes.size_for(1, 129) == (1, 129)


def test_many_texts_are_split_into_passes_that_are_captured() -> None:
    """A pass of a size that was never computed has its kernels built, for up to a second."""
    plain, graphs = EmbedPasses(CPU, None, False), EmbedPasses(CPU, None, False)
    played = captured(graphs)
    model = bert()
    plain.attach(model, True)
    graphs.attach(model, True)
    texts = [[1 + at % 50] * (1 + (at * 37) % 128) for at in range(150)]
    expected = torch.tensor([plain.embed([text])[0] for text in texts])
    torch.testing.assert_close(torch.tensor(graphs.embed(texts)), expected, atol=1e-5, rtol=1e-4)
    assert len(played.played) > 1
    assert set(played.played) <= set(graphs.sizes())
    seen = sorted(at for part in graphs.parts([len(text) for text in texts]) for at in part)
    assert seen == list(range(150))
    torch.testing.assert_close(torch.tensor(plain.embed(texts)), expected, atol=1e-5, rtol=1e-4)


def test_a_text_beyond_every_size_is_a_pass_of_its_own() -> None:
    passes = EmbedPasses(CPU, None, False)
    passes.attach(bert(), True)
    assert list(passes.parts([MOST_TOKENS + 1, 3, 2 * MOST_TOKENS, 4])) == [[2], [0], [3, 1]]


def test_steps_of_pictures_are_the_same_by_graphs_and_kernel_by_kernel() -> None:
    model = painter()
    plain, graphs = ImagePasses(CPU, None, False, 8), ImagePasses(CPU, None, False, 8)
    played = captured(graphs)
    plain.attach(model, True)
    graphs.attach(model, True)
    for count in (1, 2, 3):
        latents, texts = torch.randn(count, 4, 8, 8), torch.randn(count, 77, 32)
        one = plain.step(plain.step(latents, texts), texts)
        first = graphs.step(latents, texts)
        kept = first.clone()
        other = graphs.step(first, texts)
        torch.testing.assert_close(other, one, atol=1e-5, rtol=1e-4)
        # What a step gave is not written over by the next.
        torch.testing.assert_close(first, kept, atol=0, rtol=0)
    assert played.played == [1, 1, 2, 2], "three pictures are more than are captured"


def test_the_parts_of_a_long_prompt_are_attended_to_alike_by_any_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel for any length is a GPU's: here its place is taken by what it is said to compute."""

    def flash(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_q: torch.Tensor, cu_k: torch.Tensor, *_: int
    ) -> torch.Tensor:
        count, end = int(cu_q[1]), int(cu_k[1])
        assert (len(q), len(k), len(v)) == (count, end, end)
        seen = torch.arange(end)[None] <= torch.arange(end - count, end)[:, None]
        spread = q.shape[1] // k.shape[1]
        k, v = (one.repeat_interleave(spread, dim=1).transpose(0, 1) for one in (k, v))
        return torch.nn.functional.scaled_dot_product_attention(q.transpose(0, 1), k, v, seen).transpose(0, 1)

    monkeypatch.setattr(ops, "_flash", flash)
    heads, kv, dim, block, blocks = 8, 2, 16, 4, 12
    shape = SimpleNamespace(heads=heads, kv_heads=kv, head_dim=dim)
    flat = torch.zeros(2 * kv * dim * block * 4 * blocks, dtype=torch.uint8)
    cache = KvCache(flat, 1, kv, dim, torch.float32, block, 1, block * blocks)
    cache.blocks.normal_()
    table = torch.randperm(blocks).int()
    for begin, count in ((8, 3), (16, 16), (4, 1)):
        qkv = torch.randn(count, (heads + 2 * kv) * dim)
        one, other = (
            ops.continued_attention(qkv, table, begin, cache, 0, shape, flash) for flash in (True, False)
        )
        torch.testing.assert_close(one, other)


def test_every_number_of_pictures_is_computed_before_anybody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = ImagePasses(CPU, None, False, 3)
    passes._warm = False
    model = painter()
    counts: list[int] = []
    step = model.step

    def counted(latents: torch.Tensor, texts: torch.Tensor) -> torch.Tensor:
        counts.append(len(latents))
        if len(latents) == 3:
            raise torch.OutOfMemoryError("no room")
        return step(latents, texts)

    monkeypatch.setattr(model, "step", counted)
    passes.attach(model, True)
    passes.attach(model, True)
    assert counts == [1, 2, 3], "once, and room that is missing is no fault"


def test_graphs_are_captured_anew_where_the_weights_have_moved() -> None:
    passes = ImagePasses(CPU, None, False, 8)
    played = captured(passes)
    passes.attach(painter(), True)
    passes.detach()
    passes.attach(painter(), True)
    assert played.count == 2
    passes.attach(painter(), False)
    assert played.count == 4


def test_what_cannot_be_captured_is_launched_kernel_by_kernel(caplog: pytest.LogCaptureFixture) -> None:
    passes = EmbedPasses(CPU, None, False)
    captured(passes, breaks=True)
    passes.attach(bert(), True)
    assert "cannot be captured" in caplog.text
    assert len(passes.embed([[3, 4]])[0]) == 64
    passes.attach(bert(), True)
    assert caplog.text.count("cannot be captured") == 1, "it is not tried again"

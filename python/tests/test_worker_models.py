"""What the worker computes, held against transformers and against itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from worker_client import GUARD, ROOT

from gswarm.worker import checkpoint
from gswarm.worker.encoder import Bert, BertConfig
from gswarm.worker.kvcache import BlockPool, KvCache
from gswarm.worker.llama import Llama, LlamaConfig
from gswarm.worker.lm_engine import Generation, LmEngine
from gswarm.worker.model import Model
from gswarm.worker.ops import Plain
from gswarm.worker.options import Options
from gswarm.worker.place import Place
from gswarm.worker.sampling import sample, uniform
from gswarm.worker.shapes import shape

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
}


def ours(folder: Path, ids: list[int]) -> torch.Tensor:
    """Logits after each token: the first few are read as a prompt, the others one by one."""
    config = LlamaConfig.read(json.loads((folder / "config.json").read_text()))
    layout = config.layout(torch.float32)
    flat = torch.zeros(layout.total, dtype=torch.uint8)
    checkpoint.read_into(folder, layout, flat)
    model = Llama(config, layout.views(flat), Plain())
    room = torch.zeros(config.kv_bytes(torch.float32) * 8 * 10, dtype=torch.uint8)
    cache = KvCache(room, config.layers, config.kv_heads, config.head_dim, torch.float32, 8, 1, 64)
    cache.tables[0, :8] = torch.tensor([3, 1, 4, 9, 5, 2, 6, 8])
    cache.cos, cache.sin = config.rotations(64, torch.device("cpu"))
    half = len(ids) // 2
    pos, slots = torch.arange(half, dtype=torch.int32), torch.zeros(half, dtype=torch.int64)
    bounds = torch.tensor([0, half], dtype=torch.int32)
    last = torch.arange(half)
    found = [model.prefill(torch.tensor(ids[:half]), pos, slots, cache, bounds, [0, half], half, last)]
    for at in range(half, len(ids)):
        one = (torch.tensor([ids[at]]), torch.tensor([at], dtype=torch.int32), torch.tensor([0]))
        found.append(model.decode(*one, cache))
    return torch.cat(found)


@pytest.mark.parametrize("kind", ["llama", "llama-grouped", "llama3-positions", "mistral", "qwen2", "qwen3"])
def test_logits_are_those_of_transformers(kind: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    more: dict[str, Any] = {"num_key_value_heads": 4 if kind == "llama" else 2}
    if kind == "llama3-positions":
        more["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 16,
            "rope_theta": 10000.0,
        }
    if kind == "qwen2":
        more["tie_word_embeddings"] = True
    family = {"l": "Llama", "m": "Mistral"}.get(kind[0]) or kind.capitalize()
    config = getattr(transformers, f"{family}Config")(**SMALL, **more)
    torch.manual_seed(1)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval().float()
    with torch.no_grad():
        for one in model.parameters():
            one.normal_(0.0, 0.2)
    model.save_pretrained(tmp_path)
    ids = [int(one) for one in torch.randint(0, 97, (21,))]
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0]
    found = ours(tmp_path, ids)
    assert torch.allclose(found, expected, atol=2e-4, rtol=2e-4), (found - expected).abs().max()


def test_vectors_are_those_of_transformers(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(**SMALL)
    torch.manual_seed(1)
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        for one in model.parameters():
            one.normal_(0.0, 0.2)
    model.save_pretrained(tmp_path)
    ids = torch.randint(0, 97, (2, 9))
    mask = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
    with torch.no_grad():
        expected = model(ids, attention_mask=mask).last_hidden_state
    read = BertConfig.read(json.loads((tmp_path / "config.json").read_text()))
    layout = read.layout(torch.float32)
    flat = torch.zeros(layout.total, dtype=torch.uint8)
    checkpoint.read_into(tmp_path, layout, flat)
    bert = Bert(read, layout.views(flat))
    found = bert.hidden(ids, mask)
    assert torch.allclose(found[0], expected[0], atol=1e-4)
    assert torch.allclose(found[1, :5], expected[1, :5], atol=1e-4)
    # What fills a text up changes nothing.
    assert torch.allclose(bert.embed(ids, mask)[1:], bert.embed(ids[1:, :5], mask[1:, :5]), atol=1e-5)


def test_a_broken_checkpoint_is_told(tmp_path: Path) -> None:
    from gswarm.worker.fault import Fault

    layout = shape("tiny-llm").config.layout(torch.float32)
    flat = torch.zeros(layout.total, dtype=torch.uint8)
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(Fault, match="not a safetensors file"):
        checkpoint.read_into(tmp_path, layout, flat)
    head = json.dumps({"model.norm.weight": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + b"\0" * 8)
    with pytest.raises(Fault, match="is outside the file"):
        checkpoint.read_into(tmp_path, layout, flat)
    (tmp_path / "model.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + b"\0" * 16)
    with pytest.raises(Fault, match=r"has no tensor `model\.embed_tokens\.weight`"):
        checkpoint.read_into(tmp_path, layout, flat)


def test_blocks_are_handed_out_once() -> None:
    pool = BlockPool(9)
    first, second = pool.take(3), pool.take(5)
    assert first is not None
    assert second is not None
    assert sorted(first + second) == list(range(1, 9))
    assert pool.take(1) is None
    pool.give(first)
    assert pool.take(4) is None
    assert pool.take(3) == sorted(first)
    assert pool.free == 0


def test_draws_depend_on_seed_and_place_and_follow_the_logits() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]]).repeat(4000, 1)
    warm, seeds, places = torch.ones(4000), torch.arange(4000), torch.zeros(4000, dtype=torch.int32)
    drawn = sample(logits, warm, None, seeds, places)
    assert torch.equal(drawn, sample(logits, warm, None, seeds, places))
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert torch.allclose(shares, logits[0].softmax(0), atol=0.03)
    few = sample(logits, warm, torch.full((4000,), 0.6), seeds, places)
    assert set(few.tolist()) == {2}
    assert set(sample(logits, torch.zeros(4000), None, seeds, places).tolist()) == {2}
    values = uniform(torch.arange(50), torch.zeros(50, dtype=torch.int32), 200)
    assert float(values.min()) > 0
    assert float(values.max()) < 1
    assert abs(float(values.mean()) - 0.5) < 0.01


@pytest.fixture(scope="module")
def engine() -> Any:
    model = Model("m", shape("tiny-llm"), Place(Options(max_batch=6)))
    model.wake()
    yield model.engine
    model.close()


def text(engine: LmEngine, prompt: str, count: int, **more: Any) -> Generation:
    job = Generation(engine.tokenizer.encode(prompt), count, **more)
    engine.check(job)
    engine.submit(job)
    return job


def test_many_at_once_write_what_each_would_alone(engine: LmEngine) -> None:
    wants = [
        (
            f"prompt number {n} " * (n % 4 + 1),
            5 + 7 * (n % 5),
            {"temperature": (n % 3) / 2, "seed": n, "top_p": 1.0 - (n % 2) / 4},
        )
        for n in range(20)
    ]
    alone = [
        text(engine, prompt, count, **more).future.result(GUARD)["tokens"] for prompt, count, more in wants
    ]
    jobs = [text(engine, prompt, count, **more) for prompt, count, more in wants]
    together = [job.future.result(GUARD)["tokens"] for job in jobs]
    assert together == alone
    assert [len(one) for one in alone] == [count for _, count, _ in wants]


def test_what_the_cache_held_before_does_not_matter(engine: LmEngine) -> None:
    runner = engine.runner
    assert runner is not None
    clean = text(engine, "hello", 20).future.result(GUARD)["tokens"]
    # Bytes that are NaN in every type: fresh memory may hold them.
    engine.ask(lambda: runner.region.tensor().fill_(0xFF))
    jobs = [text(engine, prompt, 20) for prompt in ("hello", "a longer one, beside it")]
    assert jobs[0].future.result(GUARD)["tokens"] == clean
    assert len(set(jobs[1].future.result(GUARD)["tokens"])) > 1


def test_a_long_prompt_is_read_in_parts_while_others_go_on(engine: LmEngine) -> None:
    assert engine.runner is not None
    assert engine.pool is not None
    long = "a prompt that is longer than what is read at once " * 5
    wants: list[dict[str, Any]] = [{}, {"temperature": 0.8, "seed": 3, "top_p": 0.9}]
    whole = [text(engine, long, 9, **more).future.result(GUARD)["tokens"] for more in wants]
    short = text(engine, "short", 40).future.result(GUARD)["tokens"]
    usual, engine.runner.part = engine.runner.part, 60
    try:
        others = [text(engine, "short", 40) for _ in range(2)]
        jobs = [text(engine, long, 9, **more) for more in wants]
        assert [job.future.result(GUARD)["tokens"] for job in jobs] == whole
        assert [job.future.result(GUARD)["tokens"] for job in others] == [short, short]
        gone = text(engine, long, 9)
        gone.cancel()
        assert text(engine, long, 9).future.result(GUARD)["tokens"] == whole[0]
    finally:
        engine.runner.part = usual
    assert engine.ask(lambda: engine.running()) == 0
    assert engine.pool.free == engine.pool.count - 1


def test_one_that_is_cancelled_leaves_its_place(engine: LmEngine) -> None:
    assert engine.pool is not None
    jobs = [text(engine, "x", 400) for _ in range(6)]
    for job in jobs:
        job.cancel()
    assert text(engine, "hello", 5).future.result(GUARD)["new_tokens"] == 5
    assert engine.ask(lambda: len(engine.rows)) == 0
    assert engine.pool.free == engine.pool.count - 1
    assert len(engine.free_slots) == 6


def test_a_step_that_fails_fails_its_calls_and_not_the_next(engine: LmEngine) -> None:
    from gswarm.worker.fault import Fault

    assert engine.runner is not None
    inner, calls = engine.runner.decode, []

    def breaks(*given: Any) -> torch.Tensor:
        calls.append(given)
        raise RuntimeError("a kernel broke")

    engine.runner.decode = breaks  # type: ignore[assignment, method-assign]
    try:
        with pytest.raises(Fault, match="a step of `m` failed"):
            text(engine, "x", 10).future.result(GUARD)
    finally:
        engine.runner.decode = inner  # type: ignore[method-assign]
    assert calls
    assert text(engine, "x", 10).future.result(GUARD)["new_tokens"] == 10


def test_kernels_compute_what_they_should() -> None:
    pytest.importorskip("triton")
    program = (
        "import torch\nfrom gswarm.worker import kernels, ops, selfcheck\n"
        "torch.manual_seed(0)\ncpu = torch.device('cpu')\n"
        "for splits in (1, 4):\n"
        "    kernels.splits_for = lambda rows, heads: splits\n"
        "    cases = ((2, 2, 16, 3), (4, 2, 32, 3))\n"
        "    assert selfcheck.agree(kernels, ops.Plain(), cpu, torch.float32, cases) < 1e-5\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=GUARD
    )
    assert done.returncode == 0, done.stderr[-2000:]

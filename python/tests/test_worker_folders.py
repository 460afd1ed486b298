"""Folders that are damaged or come from anywhere, and texts that are too long: nobody else is held up."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("tokenizers")

from worker_client import GUARD, Worker, until
from worker_folders import change, embedding_model, language_model

from gswarm.worker.fault import Fault
from gswarm.worker.model import Model
from gswarm.worker.options import Options
from gswarm.worker.place import Place
from gswarm.worker.rendering import NotRendered, Renderer, TooLong

FINE = "{% for one in messages %}{{ one['content'] }} {% endfor %}"
ENDLESS = (
    "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}{% endfor %}{% endfor %}"
)
ENDLESS += "{% endfor %}"


def spoil(name: str, text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_text(text)


def set_to(**fields: Any) -> Callable[[Path], object]:
    return lambda folder: change(folder, **fields)


DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (set_to(num_hidden_layers=10**9), "num_hidden_layers is 1000000000, not a whole number from 1 to 1024"),
    (set_to(num_attention_heads=0), "num_attention_heads is 0, not a whole number from 1 to"),
    (set_to(num_attention_heads=3), "head_dim is missing"),
    (set_to(num_key_value_heads="2"), 'num_key_value_heads is "2", not a whole number'),
    (set_to(max_position_embeddings=-4), "max_position_embeddings is -4, not a whole number from 1 to"),
    (set_to(hidden_size=None), "hidden_size is missing"),
    (set_to(rms_norm_eps=-1), "rms_norm_eps is -1, not a number above zero"),
    (set_to(rope_scaling={"rope_type": "linear", "factor": 0}), "factor is 0, not a number above zero"),
    (set_to(eos_token_id=64), "eos_token_id 64 is outside the vocabulary of 64 tokens"),
    (set_to(vocab_size=10), "it has a token 63, where config.json has a vocabulary of 10"),
    (spoil("config.json", "[" * 100_000), "this is not JSON"),
    (spoil("config.json", "[]"), "this is not a JSON object"),
    (spoil("tokenizer.json", "{}"), "this is not a tokenizer"),
    (lambda folder: (folder / "tokenizer.json").unlink(), "cannot read .*tokenizer.json: No such file"),
    (spoil("generation_config.json", "{"), "generation_config.json: this is not JSON"),
    (spoil("chat_template.jinja", "{% for %}"), "its chat template is damaged"),
    (
        spoil("tokenizer_config.json", json.dumps({"chat_template": "{{ x"})),
        "tokenizer_config.json: its chat template is damaged",
    ),
]


@pytest.mark.parametrize("at", range(len(DAMAGE)))
def test_a_damaged_folder_is_told_before_anything_is_allocated(at: int, tmp_path: Path) -> None:
    folder = language_model(tmp_path / "m")
    damage, reason = DAMAGE[at]
    damage(folder)
    with pytest.raises(Fault, match=reason) as found:
        Model("m", folder, Place(Options()))
    assert (found.value.status, found.value.code) == (422, "bad_model")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (ENDLESS, "too long"),
        ("{{ 'x' * 10000000000 }}", "memory"),
        ("{{ 'x'|center(100000000000) }}", "memory"),
        ("{{ raise_exception('no such role') }}", "no such role"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
    ],
)
def test_a_template_has_bounds(template: str, reason: str) -> None:
    renderer = Renderer(template)
    try:
        with pytest.raises(NotRendered, match=reason):
            renderer.render({"messages": []}, 1000)
    finally:
        renderer.close()


def test_a_template_of_one_that_is_too_long_works_for_the_next() -> None:
    renderer = Renderer(FINE)
    try:
        with pytest.raises(TooLong):
            renderer.render({"messages": [{"content": "x" * 100_000}]}, 1000)
        assert renderer.render({"messages": [{"content": "x"}]}, 1000) == "x "
        assert renderer._process is not None
        renderer._process.kill()
        renderer._process.wait()
        assert renderer.render({"messages": [{"content": "y"}]}, 1000) == "y "
    finally:
        renderer.close()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    root = tmp_path_factory.mktemp("models")
    language_model(root / "fine", FINE)
    language_model(root / "endless", ENDLESS)
    change(language_model(root / "damaged"), num_attention_heads=0)
    embedding_model(root / "finder")
    (language_model(root / "cut") / "model.safetensors").write_bytes(b"\0" * 30)
    one = Worker("--models", str(root), "--max-batch", "4")
    yield one
    one.stop()


def test_what_is_damaged_leaves_nothing_and_can_be_offloaded(worker: Worker) -> None:
    for name in ("damaged", "cut"):
        for path in ("load", "serve"):
            status, answer = worker.post(f"/standalone/{path}", {"model_name": name})
            assert (status, answer["error"]["code"]) == (422, "bad_model"), answer
        assert worker.post("/standalone/offload", {"model_name": name})[0] == 200
    memory = worker.ask("GET", "/standalone/status")[1]["memory"]
    assert not any(one.startswith(("damaged", "cut")) for one in memory["taken"])
    assert memory["host_bytes"] == 0


def ask(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": 3}


def test_a_template_that_does_not_end_holds_up_nobody(worker: Worker) -> None:
    fine, endless = worker.serve("fine"), worker.serve("endless")
    assert worker.post("/v1/chat/completions", ask("fine", "1 2 3"))[1]["usage"]["prompt_tokens"] == 3
    answers: list[tuple[int, Any]] = []
    chat = threading.Thread(
        target=lambda: answers.append(worker.post("/v1/chat/completions", ask("endless", "1")))
    )
    chat.start()
    answered = 0
    while chat.is_alive():
        assert worker.ask("GET", "/health")[0] == 200
        answered += chat.is_alive()
    # Rendering takes 2 s of computing: a server that waited for it would answer once or twice meanwhile.
    assert answered > 10
    assert answers[0][0] == 400
    assert "template rejects these messages: it takes too long" in answers[0][1]["error"]["message"]
    for id in (fine, endless):
        assert worker.ask("DELETE", f"/standalone/instance/{id}")[0] == 200


def test_a_text_that_cannot_fit_is_refused_at_once(worker: Worker) -> None:
    id, finder = worker.serve("fine"), worker.serve("finder")
    long = "1 2 " * 1_900_000
    asked: list[tuple[str, dict[str, Any], str]] = [
        (f"/standalone/call/{id}", {"data": {"prompt": long}}, "characters"),
        (f"/standalone/call/{finder}", {"data": {"prompt": long}}, "text 0 is too long: the model takes 16"),
        ("/v1/completions", {"model": "fine", "prompt": long}, "characters"),
        ("/v1/completions", {"model": "fine", "prompt": [1] * 500}, "500 tokens"),
        ("/v1/completions", {"model": "fine", "prompt": "1 " * 2500}, "2500 tokens"),
        ("/v1/chat/completions", ask("fine", long), "too long"),
        (
            "/v1/embeddings",
            {"model": "finder", "input": ["1", "1 " * 17]},
            "text 1 has 17 tokens; .* takes 16",
        ),
        ("/v1/embeddings", {"model": "finder", "input": [1] * 17}, "text 0 has 17 tokens"),
    ]
    for path, body, reason in asked:
        status, answer = worker.post(path, body)
        assert status == 400, answer
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(answer["error"]["message"])
    assert worker.post("/v1/embeddings", {"model": "finder", "input": "1 " * 16})[0] == 200
    # An answer ends where the context does.
    status, answer = worker.post("/v1/completions", {"model": "fine", "prompt": "1 2", "max_tokens": 9999})
    assert answer["choices"][0]["finish_reason"] in ("length", "stop"), answer
    assert answer["usage"]["total_tokens"] <= 128


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc to see processes in")
def test_told_to_end_it_ends_while_a_template_does_not(tmp_path: Path) -> None:
    language_model(tmp_path / "endless", ENDLESS)
    one = Worker("--models", str(tmp_path), "--max-batch", "4", "--drain-timeout", "0.2")
    try:
        one.serve("endless")

        def gone() -> None:
            with pytest.raises((OSError, ValueError)):
                one.post("/v1/chat/completions", ask("endless", "1"))

        chat = threading.Thread(target=gone)
        chat.start()
        # The template is rendered in a child process, which starts with the first chat.
        threads = Path(f"/proc/{one.process.pid}/task")
        until(lambda: any(path.read_text() for path in threads.glob("*/children")))
    finally:
        assert one.stop() == 0
    chat.join(GUARD)

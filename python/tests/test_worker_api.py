"""The worker's endpoints, against a worker that was started."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from worker_client import GUARD, ROOT, TOKEN, Worker, until

pytest.importorskip("torch")

JSON = "Host: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="session")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One worker for all tests that leave nothing behind."""
    out = tmp_path_factory.mktemp("out")
    names = ["tiny-llm", "other=tiny-llm", "tiny-embedding", "tiny-image"]
    random = [part for name in names for part in ("--random", name)]
    one = Worker(*random, "--max-batch", "16", "--max-waiting", "64", "--out", str(out))
    yield one
    one.stop()


@pytest.fixture(scope="module")
def llm(worker: Worker) -> Iterator[str]:
    id = worker.serve("tiny-llm")
    yield id
    worker.ask("DELETE", f"/standalone/instance/{id}")


def call(worker: Worker, id: str, **data: Any) -> dict[str, Any]:
    status, answer = worker.post(f"/standalone/call/{id}", {"instance_id": id, "data": data})
    assert status == 200, answer
    assert answer["success"] is True, answer
    return dict(answer["data"])


def test_who_it_is_and_what_it_has(worker: Worker) -> None:
    assert worker.ask("GET", "/")[1]["name"] == "gswarm worker"
    assert worker.ask("GET", "/health")[1]["status"] == "healthy"
    status = worker.ask("GET", "/standalone/status")[1]
    assert {one["model_name"] for one in status["models_on_disk"]} == {
        "tiny-llm",
        "other",
        "tiny-embedding",
        "tiny-image",
    }
    assert status["used_ports"] == [worker.port]
    assert status["memory"]["budget_bytes"] > 0


def test_its_endpoints_are_described(worker: Worker) -> None:
    status, found = worker.ask("GET", "/openapi.json")
    assert status == 200
    assert found["openapi"].startswith("3.")
    assert "/standalone/call/{id}" in found["paths"]
    operations = [
        (path, method, one) for path, methods in found["paths"].items() for method, one in methods.items()
    ]
    assert all(one["summary"] for _, _, one in operations)
    bodies = 0
    for path, method, one in operations:
        place = path.replace("{id}", "nobody")
        status, answer = worker.ask(method.upper(), place, {} if method == "post" else None)
        # Whatever is described is there, and what is needed is what is asked for.
        assert status != 405, path
        assert answer.get("error", {}).get("code") != "no_such_route", path
        if "requestBody" in one and "{id}" not in path:
            bodies += 1
            needed = one["requestBody"]["content"]["application/json"]["schema"]["required"]
            assert status == 400, path
            assert not needed or answer["error"]["param"] == needed[0], path
    assert bodies == 8


def test_a_text_depends_on_its_seed(worker: Worker, llm: str) -> None:
    first = call(worker, llm, prompt="Once", max_length=12)
    assert first["new_tokens"] == 12
    assert len(first["response"]) == 12
    assert first["finish_reason"] == "length"
    assert first["execution_time"] > 0
    assert first["model_type"] == "llm"
    assert first["port"] == worker.port
    assert call(worker, llm, prompt="Once", max_length=12)["response"] == first["response"]
    warm = [
        call(worker, llm, prompt="Once", max_length=12, temperature=1.0, seed=seed)["response"]
        for seed in (1, 1, 2)
    ]
    assert warm[0] == warm[1] != warm[2]


def test_a_text_ends_at_a_string(worker: Worker, llm: str) -> None:
    whole = call(worker, llm, prompt="Once", max_length=20)["response"]
    stop = whole[5:8]
    ended = call(worker, llm, prompt="Once", max_length=20, stop=stop)
    assert ended["response"] == whole[: whole.index(stop)]
    assert ended["finish_reason"] == "stop"


def test_vectors_and_pictures(worker: Worker) -> None:
    embed, image = worker.serve("tiny-embedding"), worker.serve("tiny-image")
    vector = call(worker, embed, prompt="hello")["embedding"]
    assert len(vector) == 64
    assert abs(sum(one * one for one in vector) - 1) < 1e-3
    _, answer = worker.post(
        "/v1/embeddings",
        {"model": "tiny-embedding", "input": ["hello", "a longer one"], "encoding_format": "base64"},
    )
    raw = struct.unpack("<64f", base64.b64decode(answer["data"][0]["embedding"]))
    assert max(abs(one - two) for one, two in zip(raw, vector, strict=True)) < 1e-4
    assert answer["usage"]["total_tokens"] == 6 + 13
    with ThreadPoolExecutor(3) as pool:
        paths = list(
            pool.map(lambda n: call(worker, image, prompt="a cat", steps=3, seed=n)["image_path"], (1, 1, 2))
        )
    pictures = [Path(path).read_bytes() for path in paths]
    assert pictures[0].startswith(b"\x89PNG")
    assert pictures[0] == pictures[1] != pictures[2]
    status, answer = worker.post(f"/standalone/estimate/{image}", {"data": {"steps": 30}})
    assert status == 200
    assert answer["data"]["estimated_execution_time"] > 0
    assert answer["data"]["data_features"]["steps"] == 30
    for id in (embed, image):
        assert worker.ask("DELETE", f"/standalone/instance/{id}")[0] == 200


def test_completions_and_chats(worker: Worker, llm: str) -> None:
    body = {"model": "tiny-llm", "prompt": ["a", "b"], "n": 2, "max_tokens": 5, "seed": 7, "echo": True}
    status, answer = worker.post("/v1/completions", body)
    assert status == 200
    assert [one["index"] for one in answer["choices"]] == [0, 1, 2, 3]
    assert answer["choices"][0]["text"].startswith("a")
    assert answer["choices"][2]["text"].startswith("b")
    assert answer["usage"] == {"prompt_tokens": 4, "completion_tokens": 20, "total_tokens": 24}
    chat = {
        "model": "tiny-llm",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "max_tokens": 4,
        "temperature": 0,
    }
    status, answer = worker.post("/v1/chat/completions", chat)
    assert status == 200
    assert answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["choices"][0]["finish_reason"] == "length"
    assert [one["id"] for one in worker.ask("GET", "/v1/models")[1]["data"]] == ["tiny-llm"]
    assert worker.ask("GET", "/v1/models/tiny-llm")[0] == 200
    assert worker.ask("GET", "/v1/models/none")[0] == 404


def test_a_stream_says_what_the_whole_says(worker: Worker, llm: str) -> None:
    body = {"model": "tiny-llm", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "seed": 3}
    whole = worker.post("/v1/chat/completions", body)[1]["choices"][0]["message"]["content"]
    for stop in (None, whole[4:6]):
        more = {"stream": True, "stream_options": {"include_usage": True}, "stop": stop}
        connection = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=GUARD)
        connection.request(
            "POST", "/v1/chat/completions", json.dumps({**body, **more}), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        assert answer.getheader("Content-Type") == "text/event-stream"
        events = [one[6:] for one in answer.read().decode().split("\n\n") if one]
        connection.close()
        assert events.pop() == "[DONE]"
        pieces = [json.loads(one) for one in events]
        said = "".join(one["choices"][0]["delta"].get("content", "") for one in pieces if one["choices"])
        expected = whole if stop is None else whole[: whole.index(stop)]
        assert said == expected
        assert pieces[-1]["usage"]["completion_tokens"] > 0
        assert pieces[-2]["choices"][0]["finish_reason"] == ("length" if stop is None else "stop")


def test_those_who_go_are_not_computed_for(worker: Worker, llm: str) -> None:
    for stream in (False, True):
        # 64 texts of 500 tokens, 16 at a time.
        asked = {"model": "tiny-llm", "prompt": ["x"] * 4, "n": 16, "max_tokens": 500, "stream": stream}
        body = json.dumps(asked).encode()
        head = f"POST /v1/completions HTTP/1.1\r\n{JSON}Content-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", worker.port)) as connection:
            connection.sendall(head.encode() + body)
            until(lambda: instance(worker, llm)["running"] > 0)
        before = worker.model("tiny-llm")["tokens"]
        until(lambda: instance(worker, llm)["running"] == 0)
        assert worker.model("tiny-llm")["tokens"] - before < 16_000
    assert call(worker, llm, prompt="x", max_length=3)["new_tokens"] == 3


def instance(worker: Worker, id: str) -> dict[str, Any]:
    listed = worker.ask("GET", "/standalone/status")[1]["serving_instances"]
    return dict(next(one for one in listed if one["instance_id"] == id))


def test_many_at_once(worker: Worker, llm: str) -> None:
    alone = [call(worker, llm, prompt=f"p{n}", max_length=10 + n % 7)["response"] for n in range(24)]
    with ThreadPoolExecutor(24) as pool:
        together = list(
            pool.map(
                lambda n: call(worker, llm, prompt=f"p{n}", max_length=10 + n % 7)["response"], range(24)
            )
        )
    assert together == alone


def test_from_tier_to_tier(worker: Worker) -> None:
    assert worker.model("other")["tier"] == "disk"
    status, answer = worker.post("/standalone/load", {"model_name": "other"})
    assert status == 200
    assert answer["data"]["already_loaded"] is False
    assert worker.model("other")["tier"] == "dram"
    assert worker.post("/standalone/load", {"model_name": "other"})[1]["data"]["already_loaded"] is True
    assert worker.post("/standalone/load", {"model_name": "other", "target": "gpu"})[1]["success"]
    assert worker.model("other")["tier"] == "gpu"
    first, second = worker.serve("other"), worker.serve("other")
    said = call(worker, first, prompt="x", max_length=5)["response"]
    worker.ask("DELETE", f"/standalone/instance/{first}")
    assert worker.model("other")["tier"] == "gpu"
    answer = worker.ask("DELETE", f"/standalone/instance/{second}")[1]["data"]
    assert worker.model("other")["tier"] == "dram"
    assert answer["memory"]["weights"]["released_bytes"] == worker.model("other")["bytes"]
    taken = worker.ask("GET", "/standalone/status")[1]["memory"]["taken"]
    assert not any(name.startswith("other ") for name in taken)
    third = worker.serve("other")
    assert call(worker, third, prompt="x", max_length=5)["response"] == said
    answer = worker.post("/standalone/offload", {"model_name": "other", "target": "disk"})[1]["data"]
    assert answer["instance_ids"] == [third]
    assert worker.model("other")["tier"] == "disk"
    whats = [one["what"] for one in worker.model("other")["timings"]]
    assert whats == ["load", "wake", "measure", "sleep", "wake", "sleep", "unload"]
    assert all(one["seconds"] > 0 for one in worker.model("other")["timings"])


def test_an_instance_that_stops_answers_those_inside(worker: Worker) -> None:
    id = worker.serve("other")
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(call, worker, id, prompt="x", max_length=300)
        until(lambda: instance(worker, id)["running"] == 1)
        gone = pool.submit(worker.ask, "DELETE", f"/standalone/instance/{id}")
        until(lambda: gone.done() or instance(worker, id)["state"] == "stopping")
        if not gone.done():
            assert worker.post(f"/standalone/call/{id}", {"data": {"prompt": "y"}})[0] in (404, 409)
        assert answer.result(GUARD)["new_tokens"] == 300
        assert gone.result(GUARD)[0] == 200
    assert worker.post(f"/standalone/call/{id}", {"data": {"prompt": "y"}})[0] == 404


def test_the_most_tokens_may_be_named_as_other_servers_name_them(worker: Worker, llm: str) -> None:
    first, second, third = "max_tokens", "max_length", "max_new_tokens"
    cases: list[tuple[dict[str, int], int]] = [({name: 7}, 7) for name in (first, second, third)]
    cases += [({third: 5, second: 7, first: 3}, 3), ({third: 5, second: 7}, 7)]
    for data, written in cases:
        status, answer = worker.post(f"/standalone/call/{llm}", {"data": {"prompt": "x", **data}})
        assert (status, answer["data"]["new_tokens"]) == (200, written)


def test_estimates(worker: Worker, llm: str) -> None:
    times = []
    for count in (10, 400):
        status, answer = worker.post(
            f"/standalone/estimate/{llm}", {"data": {"prompt": "x", "max_length": count}}
        )
        assert status == 200
        assert answer["data"]["unit"] == "seconds"
        times.append(answer["data"]["estimated_execution_time"])
    assert 0 < times[0] < times[1]
    assert worker.post("/standalone/estimate", {"model_name": "tiny-llm", "data": {"prompt": "x"}})[0] == 200
    assert (
        worker.post("/standalone/estimate", {"model_name": "other", "data": {"prompt": "x"}})[1]["error"][
            "code"
        ]
        == "not_measured"
    )


WRONG: list[tuple[str, str, Any, int, str]] = [
    ("POST", "/standalone/serve", {"model_name": "none"}, 404, "model_not_found"),
    ("POST", "/standalone/serve", {"model_name": "../../etc"}, 404, "model_not_found"),
    ("POST", "/standalone/serve", {"model_name": 3}, 400, "invalid_request"),
    ("POST", "/standalone/serve", {}, 400, "invalid_request"),
    ("POST", "/standalone/serve", {"model_name": "tiny-llm", "device": "cuda:1"}, 422, "not_supported"),
    ("POST", "/standalone/serve", {"model_name": "tiny-llm", "device": "gpu"}, 400, "invalid_request"),
    ("POST", "/standalone/load", {"model_name": "tiny-llm", "target": "tape"}, 400, "invalid_request"),
    ("POST", "/standalone/offload", {"model_name": "tiny-llm", "target": "gpu"}, 400, "invalid_request"),
    ("POST", "/standalone/download", {"model_name": "org/none"}, 422, "no_hub"),
    ("POST", "/standalone/call/aaaaaa", {"data": {}}, 404, "instance_not_found"),
    ("DELETE", "/standalone/instance/aaaaaa", None, 404, "instance_not_found"),
    ("POST", "/standalone/call/ID", {}, 400, "invalid_request"),
    ("POST", "/standalone/call/ID", {"data": {}}, 400, "invalid_request"),
    (
        "POST",
        "/standalone/call/ID",
        {"data": {"prompt": "x"}, "instance_id": "bbbbbb"},
        400,
        "invalid_request",
    ),
    ("POST", "/standalone/call/ID", {"data": {"prompt": "x", "max_length": 0}}, 400, "invalid_request"),
    ("POST", "/standalone/call/ID", {"data": {"prompt": "x", "max_tokens": 0}}, 400, "invalid_request"),
    ("POST", "/standalone/call/ID", {"data": {"prompt": "x", "max_new_tokens": 0}}, 400, "invalid_request"),
    ("POST", "/standalone/call/ID", {"data": {"prompt": "x", "temperature": 9}}, 400, "invalid_request"),
    ("POST", "/standalone/call/ID", {"data": {"prompt": "x", "stop": [""]}}, 400, "invalid_request"),
    ("POST", "/standalone/call/ID", {"data": {"prompt": "x" * 2000}}, 400, "invalid_request"),
    ("POST", "/standalone/call/ID", b"{", 400, "invalid_request"),
    ("POST", "/standalone/call/ID", b'{"data": {"prompt": "x", "temperature": NaN}}', 400, "invalid_request"),
    ("POST", "/standalone/call/ID", b"[" * 100_000, 400, "invalid_request"),
    ("POST", "/v1/completions", {"model": "none", "prompt": "x"}, 404, "model_not_found"),
    ("POST", "/v1/completions", {"model": "tiny-llm"}, 400, "invalid_request"),
    ("POST", "/v1/completions", {"model": "tiny-llm", "prompt": []}, 400, "invalid_request"),
    ("POST", "/v1/completions", {"model": "tiny-llm", "prompt": [99999]}, 400, "invalid_request"),
    ("POST", "/v1/completions", {"model": "tiny-llm", "prompt": "x", "logprobs": 1}, 400, "invalid_request"),
    ("POST", "/v1/completions", {"model": "tiny-llm", "prompt": ["x"] * 100, "n": 2}, 400, "invalid_request"),
    ("POST", "/v1/chat/completions", {"model": "tiny-llm", "messages": []}, 400, "invalid_request"),
    (
        "POST",
        "/v1/chat/completions",
        {"model": "tiny-llm", "messages": [{"role": "king"}]},
        400,
        "invalid_request",
    ),
    ("POST", "/v1/embeddings", {"model": "tiny-llm", "input": "x"}, 400, "invalid_request"),
    ("GET", "/standalone/serve", None, 405, "method_not_allowed"),
    ("GET", "/standalone/nothing", None, 404, "no_such_route"),
]


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_what_is_wrong_is_told(worker: Worker, llm: str, at: int) -> None:
    method, path, body, status, code = WRONG[at]
    found, answer = worker.ask(method, path.replace("ID", llm), body)
    assert (found, answer["error"]["code"]) == (status, code), answer
    if path.startswith("/standalone"):
        assert answer["success"] is False
        assert answer["message"]
        assert answer["data"] is None


def raw(worker: Worker, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", worker.port), timeout=GUARD) as connection:
        connection.sendall(data)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def test_http_is_read_with_care(worker: Worker) -> None:
    assert b" 415 " in raw(
        worker,
        b"POST /standalone/serve HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        b"Content-Length: 2\r\n\r\n{}",
    )
    assert b" 413 " in raw(
        worker, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
    )
    assert b" 431 " in raw(worker, b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000)
    assert b" 400 " in raw(worker, b"nonsense\r\n\r\n")
    assert b" 400 " in raw(
        worker, b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    assert b" 403 " in raw(worker, b"GET / HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
    chunks = b'5\r\n{"mod\r\n10\r\nel_name": "no"} \r\n0\r\n\r\n'
    head = f"POST /standalone/load HTTP/1.1\r\n{JSON}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert b"model_not_found" in raw(worker, head.encode() + chunks)
    # Two requests in one go are answered one after the other.
    twice = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    twice += "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert raw(worker, twice.encode()).count(b"HTTP/1.1 200 OK") == 2


def test_budgets_tokens_and_the_end(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    models = "--random a=tiny-llm --random b=tiny-llm --random c=tiny-embedding"
    limits = "--max-batch 2 --memory-gb 0.00105 --host-gb 0.0012 --kv-gb 0.0003 --max-waiting 2"
    one = Worker(*models.split(), *limits.split(), "--token-file", str(token))
    try:
        mine = {"Authorization": f"Bearer {TOKEN}"}

        def post(path: str, **body: Any) -> tuple[int, Any]:
            return one.ask("POST", path, body, mine)

        assert one.ask("GET", "/health")[0] == 200
        assert one.ask("GET", "/standalone/status")[1]["error"]["code"] == "invalid_token"
        assert post("/standalone/serve", model_name="a")[0] == 200
        status, answer = post("/standalone/serve", model_name="b")
        assert status == 507, answer
        assert answer["error"]["code"] == "out_of_gpu_memory", answer
        sizes = answer["error"]["sizes"]
        assert sizes["used_bytes"] + sizes["needed_bytes"] > sizes["budget_bytes"] == 1_050_000
        # What did not fit left nothing behind, and the other one still serves.
        memory = one.ask("GET", "/standalone/status", headers=mine)[1]["memory"]
        assert set(memory["taken"]) == {"a weights", "a cache"}
        assert post("/v1/completions", model="a", prompt="x", max_tokens=3)[0] == 200
        assert "1.05 MB" in answer["message"], answer
        # `b` sleeps in host memory, and goes where another needs the room.
        assert post("/standalone/load", model_name="c")[0] == 200
        tiers = {
            one["model_name"]: one["tier"]
            for one in one.ask("GET", "/standalone/status", headers=mine)[1]["models"]
        }
        assert tiers == {"a": "gpu", "b": "disk", "c": "dram"}
        assert post("/standalone/offload", model_name="a", target="disk")[0] == 200
        assert post("/standalone/serve", model_name="b")[0] == 200
    finally:
        assert one.stop() == 0


def test_other_machines_need_a_token() -> None:
    command = [sys.executable, "-m", "gswarm.worker", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD, cwd=ROOT / "python")
    assert done.returncode == 2
    assert "there is no token" in done.stderr

"""Runs on a Ray cluster of several nodes, from end to end."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_support import GPUS, NODES, Run, chain, finished, requests, start, start_cluster

import gswarm
import gswarm.ray

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install gswarm-scheduler[ray]")

MODELS = """
import gswarm

@gswarm.model("double")
class Double:
    def __init__(self, devices):
        self.devices = devices

    def __call__(self, inputs, settings):
        return {"out0": inputs["seed"] * 2, "devices": self.devices}

    def unload(self):
        self.devices = None

@gswarm.model("fill")
def fill(inputs, settings):
    import numpy
    return {"out1": numpy.full(300_000, inputs["out0"], dtype="int64"), "note": "filled"}

@gswarm.model("total")
class Total:
    async def __call__(self, inputs, settings):
        return {"out2": int(inputs["out1"].sum()), "kept": inputs["out1"]}
"""


#: A server of one model with OpenAI's interface, which says on which GPUs it is.
SERVER = """
import http.server, json, os, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, body):
        text = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer({"status": "ok"})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        said = f"{sys.argv[2]} on {os.environ['CUDA_VISIBLE_DEVICES']}"
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        self.answer({"choices": [choice]})

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    started = start_cluster()
    yield started
    started.shutdown()


def test_models_that_are_emulated_run_on_the_nodes_that_ray_has(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(seconds=2.0, small=1, pair=2), 12)
    done = finished(run.begin(cluster.address, "--speed", "20", "--policy", "planned"))
    assert done.code == 0, done.errors
    run.is_right()
    assert json.loads(done.output)["gpu_count"] == NODES * GPUS
    log = run.log()
    assert log["summary"]["gpus_per_server"] == GPUS
    told = tmp_path / "told"
    cluster_flags = ["--gpus", str(NODES * GPUS), "--gpus-per-server", str(GPUS)]
    inputs = ["--config", str(run.config), "--requests", str(run.requests)]
    finished(start(["run", "--policy", "planned", *cluster_flags, *inputs, "--out", str(told)]))
    simulated = json.loads((told / "planned_execution_log.json").read_text())
    # Both follow the same plan, however long the calls take.
    assert _order(log) == _order(simulated)


def _order(log: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """What ran on each GPU, in its order."""
    rows = sorted(log["executions"], key=lambda row: float(row["start_time"]))
    gpus = range(NODES * GPUS)
    return [[(row["request_id"], row["node_id"]) for row in rows if gpu in row["gpu_ids"]] for gpu in gpus]


def test_callables_are_loaded_and_called_and_large_outputs_stay_in_the_cluster(
    cluster: Any, tmp_path: Path
) -> None:
    run = Run(tmp_path, chain(double=1, fill=1, total=2), 5)
    models = tmp_path / "my_models.py"
    models.write_text(MODELS)
    done = finished(run.begin(cluster.address, "--models", str(models)))
    assert done.code == 0, done.errors
    run.is_right()
    for number, row in enumerate(run.results()):
        outputs = row["outputs"]
        assert outputs["n0"]["out0"] == 2 * number
        assert outputs["n0"]["devices"] in ([0], [1])
        assert outputs["n1"]["out1"]["bytes"] == 2_400_000
        assert outputs["n1"]["note"] == "filled"
        assert len(set(outputs["n1"]["out1"]["at"])) == 2, "on two nodes"
        assert outputs["n2"]["out2"] == 300_000 * 2 * number
        kept = pickle.loads((run.out / "objects" / f"{outputs['n2']['kept']['$ray']}.pkl").read_bytes())
        assert kept.sum() == outputs["n2"]["out2"]
    assert (run.out / "journal.db").stat().st_size < 200_000, "nothing large in the journal"
    resumed = gswarm.ray.resume(run.out)
    assert resumed.metrics.completed_requests == 5, "what the command has run is a result too"
    assert resumed.requests[1]["outputs"]["n2"]["kept"].sum() == 600_000
    assert _actors_left(cluster.address) == []


def test_a_run_from_python_gives_a_result(cluster: Any, tmp_path: Path) -> None:
    problem = gswarm.Problem(chain(double=1), requests(4)["requests"])

    def double(inputs: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        return {"out0": (inputs["seed"],) * 20_000, "small": ({1: (2,)},), "odd": {1: {2, 3}}}

    out = tmp_path / "out"
    out.mkdir()
    (out / "config.json").write_text("mine")
    result = gswarm.ray.run(problem, "planned", address=cluster.address, models={"double": double}, out=out)
    assert result.check() == []
    assert (result.policy, result.gpus, result.metrics.completed_requests) == ("planned", NODES * GPUS, 4)
    for number, row in enumerate(result.requests):
        written = row["outputs"]["n0"]
        assert written["out0"] == [number] * 20_000, "what JSON makes of it, however large"
        assert written["small"] == [{"1": [2]}]
        assert written["odd"] == {1: {2, 3}}, "what JSON has no form for stays as it is"
    other = gswarm.Problem(chain(small=1), requests(2)["requests"])
    with pytest.raises(gswarm.InputError, match="has the journal of an earlier run"):
        gswarm.ray.run(other, address=cluster.address, speed=20, out=out)
    assert gswarm.ray.resume(out, address=cluster.address).makespan == result.makespan, "it is over"
    assert (out / "config.json").read_text() == "mine"
    assert not list(out.glob("requests*"))


def test_a_plan_is_followed(cluster: Any, tmp_path: Path) -> None:
    problem = gswarm.Problem(chain(seconds=2.0, small=1, pair=2), requests(6)["requests"])
    plan = gswarm.plan(problem, gpus=NODES * GPUS, gpus_per_server=GPUS, budget="1s", rounds=200)
    result = gswarm.ray.run(problem, plan=plan, address=cluster.address, speed=20, out=tmp_path / "out")
    assert result.check() == []
    assert result.metrics.completed_requests == 6


def test_servers_on_the_nodes_are_spoken_with_from_there(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(small=1, pair=2), 4)
    program = tmp_path / "serve.py"
    program.write_text(SERVER)
    entry = {"kind": "command", "command": [sys.executable, str(program), "{port}", "{model}"], "grace": 2}
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"backends": [entry]}))
    done = finished(run.begin(cluster.address, "--backends", str(servers)))
    assert done.code == 0, done.errors
    run.is_right()
    for row in run.results():
        assert row["outputs"]["n0"]["out0"]["text"] in ("small on 0", "small on 1")
        assert row["outputs"]["n1"]["out1"]["text"] == "pair on 0,1"


def test_a_model_that_is_wider_than_a_node_lies_on_several(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(wide=4, small=1), 3)
    done = finished(run.begin(cluster.address, "--speed", "20"))
    assert done.code == 0, done.errors
    run.is_right()
    windows = [row["gpu_ids"] for row in run.log()["executions"] if row["model_name"] == "wide"]
    assert all(len(window) == 4 and window[0] % GPUS == 0 for window in windows), windows


def test_what_is_wrong_with_models_is_told_before_the_run_begins(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(double=1, absent=1), 1)
    models = tmp_path / "my_models.py"
    models.write_text(MODELS)
    done = finished(run.begin(cluster.address, "--models", str(models)))
    assert done.code == 2
    assert "my_models.py has no model absent; it has double, fill, total" in done.errors
    models.write_text("import gswarm\n1 / 0\n")
    done = finished(run.begin(cluster.address, "--models", str(models)))
    assert done.code == 2
    assert "ZeroDivisionError" in done.errors
    assert not (run.out / "journal.db").exists()


#: Each request has a fault of its own.
FAULTY = """
import os, sys, threading, time
import gswarm

@gswarm.model("odd")
def odd(inputs, settings):
    seed = inputs["seed"]
    if seed == 1:
        raise ValueError("one is odd")
    if seed == 2:
        sys.exit(3)
    if seed == 3:
        next(iter([]))
    if seed == 4:
        return {"out0": (n for n in range(3))}
    if seed == 5:
        return {"out0": 1, "lock": threading.Lock()}
    if seed == 6:
        time.sleep(100)
    if seed == 12:
        os._exit(1)
    return seed
"""


def test_a_callable_that_fails_fails_its_request_with_its_own_words(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(odd=1), 8)
    models = tmp_path / "my_models.py"
    models.write_text(FAULTY)
    done = finished(
        run.begin(cluster.address, "--models", str(models), "--max-attempts", "1", "--call-timeout", "20")
    )
    assert done.code == 4, done.errors
    failed = {one["request_id"]: one["why"] for one in json.loads(done.output)["failed"]}
    assert failed.pop("r1") == "ValueError: one is odd (my_models.py, line 9)"
    assert failed.pop("r2") == "SystemExit: 3 (my_models.py, line 11)"
    assert "StopIteration" in failed.pop("r3")
    assert failed.pop("r4") == "out0: cannot pickle 'generator' object"
    assert failed.pop("r5") == "lock: cannot pickle '_thread.lock' object"
    assert failed.pop("r6") == "no answer after 20.0 s; --call-timeout sets the time limit of a call"
    assert failed == {}
    assert "serializ" not in done.errors
    assert [row["request_id"] for row in run.results() if row["status"] == "completed"] == ["r0", "r7"]


def test_a_callable_that_ends_its_process_every_time_comes_to_an_end(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(odd=1), 13)
    rows = requests(13)["requests"]
    run.requests.write_text(json.dumps({"requests": [rows[0], *rows[7:]]}))
    models = tmp_path / "my_models.py"
    models.write_text(FAULTY)
    done = finished(run.begin(cluster.address, "--models", str(models), "--max-attempts", "1"))
    assert done.code == 4, done.errors
    metrics = json.loads(done.output)
    assert [one["request_id"] for one in metrics["failed"]] == ["r12"]
    assert "its process in the Ray cluster is lost" in metrics["failed"][0]["why"]
    assert metrics["failed_executions"] == 1
    assert metrics["lost_executions"] >= 3, "the first times do not count"


def test_servers_that_no_node_has_gpus_for_are_told_at_once(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(small=1), 1)
    more = ["--speed", "20", "--gpus", "4", "--gpus-per-server", "4"]
    process = start([word for word in run.words(cluster.address, *more) if word != "--json"])
    assert process.stderr is not None
    told = next(line for line in process.stderr if "no node of the Ray cluster has 4 GPUs" in line)
    assert "--gpus-per-server 2 makes servers that fit" in told
    assert process.poll() is None, "it does not wait for them first, and give up"
    process.terminate()
    process.communicate(timeout=120)
    assert not (run.out / "journal.db").exists()


def test_a_token_is_asked_for_and_a_wrong_one_is_told(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(small=1), 1)
    words = run.words(cluster.address, "--speed", "20")
    # Ray asks that often; the default is 20 times, a second apart.
    wrong = finished(start(words, RAY_AUTH_TOKEN="0" * 64, RAY_NUM_REDIS_GET_RETRIES="2"))
    assert wrong.code == 2
    assert "cannot join the Ray cluster" in wrong.errors
    assert "RAY_AUTH_TOKEN" in wrong.errors
    right = finished(start(words))
    assert right.code == 0, right.errors


def _actors_left(address: str) -> list[dict[str, str]]:
    """Actors that outlive their driver."""
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        return list(ray.util.list_named_actors(all_namespaces=True))
    finally:
        ray.shutdown()

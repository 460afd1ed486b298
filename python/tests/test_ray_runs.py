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

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install gswarm[ray]")

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
    metrics = json.loads(done.output)
    assert metrics["gpu_count"] == NODES * GPUS
    assert run.log()["summary"]["gpus_per_server"] == GPUS
    simulated = finished(
        start(
            [
                "run",
                "--policy",
                "planned",
                "--gpus",
                str(NODES * GPUS),
                "--gpus-per-server",
                str(GPUS),
                "--json",
                *[
                    "--config",
                    str(run.config),
                    "--requests",
                    str(run.requests),
                    "--out",
                    str(tmp_path / "told"),
                ],
            ]
        )
    )
    # How near depends on how busy this machine is; that the times are of the same kind does not.
    assert metrics["makespan_seconds"] > 0.95 * json.loads(simulated.output)["makespan_seconds"]


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
    assert _actors_left(cluster.address) == []


def test_a_run_from_python_gives_a_result(cluster: Any, tmp_path: Path) -> None:
    problem = gswarm.Problem(chain(double=1), requests(4)["requests"])

    def double(inputs: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
        return {"out0": [inputs["seed"]] * 20_000}

    out = tmp_path / "out"
    result = gswarm.ray.run(problem, "planned", address=cluster.address, models={"double": double}, out=out)
    assert result.check() == []
    assert (result.policy, result.gpus, result.metrics.completed_requests) == ("planned", NODES * GPUS, 4)
    assert [len(row["outputs"]["n0"]["out0"]) for row in result.requests] == [20_000] * 4, "large ones too"
    assert gswarm.ray.resume(out, address=cluster.address).makespan == result.makespan, "it is over"
    with pytest.raises(gswarm.InputError, match="there is a journal of an earlier run"):
        gswarm.ray.run(problem, address=cluster.address, speed=20, out=out)


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


def test_a_callable_that_fails_fails_its_request_with_its_own_words(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(odd=1), 4)
    models = tmp_path / "my_models.py"
    models.write_text(
        "import gswarm\n\n"
        '@gswarm.model("odd")\n'
        "def odd(inputs, settings):\n"
        "    if inputs['seed'] == 2:\n"
        "        raise ValueError('two is even')\n"
        "    return inputs['seed']\n"
    )
    done = finished(run.begin(cluster.address, "--models", str(models), "--max-attempts", "2"))
    assert done.code == 4, done.errors
    assert "r2: n0: 2 attempts: ValueError: two is even (my_models.py, line 6)" in done.errors
    assert [row["status"] for row in run.results()] == ["completed", "completed", "failed", "completed"]


def test_a_token_is_asked_for_and_a_wrong_one_is_told(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(small=1), 1)
    words = run.words(cluster.address, "--speed", "20")
    # Ray asks that often; the default is 20 times, a second apart.
    wrong = finished(start(words, RAY_AUTH_TOKEN="0" * 64, RAY_NUM_REDIS_GET_RETRIES="2"))
    assert wrong.code == 2
    assert "cannot be joined" in wrong.errors
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

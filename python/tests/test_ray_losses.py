"""Nodes, workers, bridges and drivers that die in the middle of a run: nothing is lost, and nothing is done
twice.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_support import (
    GPUS,
    NODES,
    Run,
    add_node,
    chain,
    children,
    end_all,
    finished,
    mend,
    named,
    start,
    start_cluster,
    until,
)

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install gswarm-scheduler[ray]")

#: Calls take long enough to be interrupted, and say where and how often they were made.
MODELS = """
import os, time
import gswarm
import numpy

@gswarm.model("first")
def first(inputs, settings):
    time.sleep(0.3)
    return {"out0": numpy.full(100_000, inputs["seed"], dtype="int64")}

@gswarm.model("second")
class Second:
    def __call__(self, inputs, settings):
        time.sleep(0.3)
        return {"out1": int(inputs["out0"].sum())}
"""


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    cluster = start_cluster()
    yield cluster
    cluster.shutdown()


@pytest.fixture
def cluster(started: Any) -> Iterator[Any]:
    mend(started)
    yield started
    end_all()


def with_models(folder: Path, count: int) -> tuple[Run, list[str]]:
    models = folder / "my_models.py"
    models.write_text(MODELS)
    return Run(folder, chain(seconds=0.3, first=1, second=1), count), ["--models", str(models)]


def sums_are_right(run: Run) -> None:
    run.is_right()
    sums = [row["outputs"]["n1"]["out1"] for row in run.results()]
    assert sums == [100_000 * number for number in range(run.count)]


def test_a_node_and_then_the_driver_are_killed_and_every_request_completes_once(
    cluster: Any, tmp_path: Path
) -> None:
    run, models = with_models(tmp_path, 40)
    # What is lost with a node does not count as an attempt.
    process = run.begin(cluster.address, *models, "--policy", "planned", "--max-attempts", "1")
    until(run.is_under_way(12), "outputs are there")
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    done = run.outputs()
    until(run.is_under_way(done + 8), "the run goes on without the node")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = run.outputs()
    assert before < 80, "there is something left to do"
    resumed = finished(start(["resume", str(run.out)]))
    assert resumed.code == 0, resumed.errors
    sums_are_right(run)


def test_a_node_and_the_driver_are_killed_at_once(cluster: Any, tmp_path: Path) -> None:
    run, models = with_models(tmp_path, 24)
    process = run.begin(cluster.address, *models)
    until(run.is_under_way(10), "outputs are there")
    for bridge in children(process.pid):
        os.kill(bridge, signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
    process.communicate()
    resumed = finished(start(["resume", str(run.out)]))
    assert resumed.code == 0, resumed.errors
    sums_are_right(run)


def test_the_bridge_is_killed_and_another_one_is_started(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(seconds=4.0, small=1, pair=2), 12)
    process = run.begin(cluster.address, "--speed", "10")
    until(run.is_under_way(3), "outputs are there")
    [bridge] = children(process.pid)
    os.kill(bridge, signal.SIGKILL)
    done = finished(process)
    assert done.code == 0, done.errors
    run.is_right()


def test_a_worker_is_killed_and_another_one_takes_its_place(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(seconds=4.0, small=1, pair=2), 12)
    process = run.begin(cluster.address, "--speed", "10", "--max-attempts", "1")
    until(run.is_under_way(3), "outputs are there")
    os.kill(named("ray::Worker")[0], signal.SIGKILL)
    done = finished(process)
    assert done.code == 0, done.errors
    assert json.loads(done.output)["failed_executions"] == 0
    run.is_right()


def test_a_node_that_joins_is_used(cluster: Any, tmp_path: Path) -> None:
    run = Run(tmp_path, chain(seconds=10.0, small=1), 60)
    gpus = (NODES + 1) * GPUS
    process = run.begin(cluster.address, "--speed", "10", "--gpus", str(gpus), "--policy", "baseline")
    until(run.is_under_way(4), "the run has begun without the node")
    add_node(cluster)
    done = finished(process)
    assert done.code == 0, done.errors
    run.is_right()
    used = {gpu for row in run.log()["executions"] for gpu in row["gpu_ids"]}
    assert used == set(range(gpus)), "the new node's GPUs too"

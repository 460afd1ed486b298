"""Questions about logs, and measured servers: the commands of the same names, called from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import command

import gswarm


@pytest.fixture(scope="module")
def results(problem: gswarm.Problem) -> tuple[gswarm.Result, gswarm.Result]:
    return gswarm.run(problem, "baseline", gpus=8), gswarm.run(problem, "lru", gpus=8)


def test_a_run_is_explained_as_by_the_command(
    problem: gswarm.Problem, results: tuple[gswarm.Result, gswarm.Result], tmp_path: Path
) -> None:
    result = results[1]
    config, requests = problem.save(tmp_path)
    path = result.save(tmp_path / "log.json")
    last = result.to_dict()
    node = f"{last['request_id'][-1]}/{last['node_id'][-1]}"
    for keyword, value in (("node", node), ("request", last["request_id"][-1]), ("gpu", 3)):
        told = command(
            *("explain", path, f"--{keyword}", value, "--config", config, "--requests", requests, "--json")
        )
        asked: dict[str, Any] = {keyword: value}
        assert gswarm.explain(result, problem, **asked) == json.loads(told.stdout)
    idle = gswarm.explain(path, problem, top=2)
    assert idle == gswarm.explain(result.log(), problem, top=2)
    assert idle["gpus"] == 8
    assert len(idle["gaps"]) == 2


def test_two_runs_are_compared(problem: gswarm.Problem, results: tuple[gswarm.Result, gswarm.Result]) -> None:
    first, second = results
    found = gswarm.diff(first, second, problem)
    makespans = next(one for one in found["figures"] if one["name"] == "Makespan")
    assert (makespans["first"], makespans["second"]) == (first.makespan, second.makespan)
    assert found["nodes"]["in_both"] == len(first.to_dict()["node_id"])
    assert found["first"]["violations"] == found["second"]["violations"] == 0


def test_servers_are_measured_and_a_run_on_them_is_held_against_its_prediction(
    problem: gswarm.Problem, tmp_path: Path
) -> None:
    servers = tmp_path / "servers.yaml"
    servers.write_text("backends: [{kind: emulated, speed: 20000}]\n")
    file = tmp_path / "calibration.json"
    measured = gswarm.calibrate(
        problem, file, backends=servers, models=problem.models[:1], budget=1, repeats=2, batches=[1], gpus=8
    )
    assert list(measured["models"]) == problem.models[:1]
    assert json.loads(file.read_bytes()) == measured
    with pytest.raises(gswarm.InputError, match="--force"):
        gswarm.calibrate(problem, file, backends=servers, gpus=8)
    live = gswarm.Live(tmp_path / "live", backends=servers)
    run = gswarm.run(problem, "planned", gpus=8, rounds=2, live=live)
    found = gswarm.fidelity(run, problem, out=tmp_path / "fidelity")
    assert set(found["predictions"]) == {"from_scratch", "by_replay"}
    assert (tmp_path / "fidelity" / "fidelity.html").is_file()
    estimate = gswarm.run(problem, "planned", gpus=8, rounds=2)
    assert set(gswarm.fidelity(run, problem, predicted=estimate)["predictions"]) == {"before_the_run"}


def test_questions_that_make_no_sense_are_refused(
    problem: gswarm.Problem, results: tuple[gswarm.Result, gswarm.Result]
) -> None:
    with pytest.raises(TypeError, match="one of node, request and gpu"):
        gswarm.explain(results[0], problem, node="r/n", gpu=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'wings'"):
        gswarm.explain(results[0], problem, wings=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="give a result, a path or bytes"):
        gswarm.diff(3, results[0], problem)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"give a gswarm\.Problem"):
        gswarm.diff(*results, "problem")  # type: ignore[arg-type]
    with pytest.raises(gswarm.InputError, match="there is no request"):
        gswarm.explain(results[0], problem, request="nobody")

"""Run specifications and live runs: the same run from a file, from the command and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import command

import gswarm

SPEC = """
config: {config}
requests: {requests}
mode: online
cluster: {{gpus: 4}}
policy: {{name: online, alpha: 2.0}}
seed: 7
times: {{noise: "lognormal:0.2", learn: true}}
faults: {{fail_rate: 0.05}}
"""


def test_a_specification_gives_the_same_log_everywhere(problem: gswarm.Problem, tmp_path: Path) -> None:
    config, requests = problem.save(tmp_path)
    file = tmp_path / "run.yaml"
    file.write_text(SPEC.format(config=config.name, requests=requests.name))
    ran = command("run", "--spec", file, "--out", tmp_path / "out", "-q")
    assert ran.returncode == 0, ran.stderr
    written = (tmp_path / "out" / "online_execution_log.json").read_bytes()
    assert gswarm.run_spec(file).log() == written
    given = gswarm.run(
        *(problem, "online"),
        gpus=4,
        mode="online",
        alpha=2.0,
        seed=7,
        noise="lognormal:0.2",
        learn=True,
        fail_rate=0.05,
    )
    assert given.log() == written
    printed = command("run", "--spec", file, "--print-spec")
    again = tmp_path / "again.yaml"
    again.write_text(printed.stdout)
    assert gswarm.run_spec(again).log() == written


def test_faults_of_a_specification_are_all_told(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("config: c.json\nrequests: r.json\nmode: never\nseed: -1\n")
    with pytest.raises(gswarm.InputError) as raised:
        gswarm.run_spec(file)
    assert {(found.path, found.line) for found in raised.value.diagnostics} == {("mode", 3), ("seed", 4)}


def test_a_live_run_from_python_is_valid_and_resumed(problem: gswarm.Problem, tmp_path: Path) -> None:
    servers = tmp_path / "servers.yaml"
    servers.write_text("backends: [{kind: emulated, speed: 20000}]\n")
    live = gswarm.Live(tmp_path / "live", backends=servers)
    result = gswarm.run(problem, "planned", gpus=8, live=live)
    assert isinstance(result, gswarm.LiveResult)
    assert not result.failed
    assert result.check() == []
    assert {row["status"] for row in result.requests} == {"completed"}
    with pytest.raises(gswarm.UsageError, match="journal of an earlier run"):
        gswarm.run(problem, "planned", gpus=8, live=live)
    again = gswarm.resume(tmp_path / "live")
    assert again.metrics.completed_requests == result.metrics.completed_requests
    log = json.loads((tmp_path / "live" / "planned_execution_log.json").read_text())
    assert log["summary"]["timing"] == "measured"

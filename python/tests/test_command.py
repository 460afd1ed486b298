"""The package's command is the Rust one."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LIMIT, command

import gswarm


def test_the_command_says_its_version_and_what_there_is() -> None:
    assert command("--version").stdout.split() == ["gswarm", gswarm.__version__]
    listed = command("policies").stdout
    assert all(info.name in listed for info in gswarm.policies())


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["run"], 2),
        (["run", "--config", "a.json", "--requests", "b.json"], 2),
        (["--help"], 0),
    ],
)
def test_exit_codes_are_those_of_the_command(args: list[str], code: int) -> None:
    assert command(*args).returncode == code


@pytest.mark.parametrize("policy", ["baseline", "planned", "static", "adaptive"])
def test_a_result_is_saved_as_the_command_writes_it(
    policy: str, problem: gswarm.Problem, tmp_path: Path
) -> None:
    config, requests = problem.save(tmp_path / "inputs")
    ran = command(
        *("run", "--policy", policy, "--gpus", 8, "--seed", 5, "--out", tmp_path, "-q"),
        *("--config", config, "--requests", requests),
    )
    assert ran.returncode == 0, ran.stderr
    result = gswarm.run(problem, policy, gpus=8, seed=5)
    saved = result.save(tmp_path / "own.json")
    assert saved.read_bytes() == (tmp_path / f"{policy}_execution_log.json").read_bytes()
    assert result.events() == (tmp_path / f"{policy}_scheduler.log").read_text()
    assert not list(tmp_path.glob(".*partial"))


def test_a_result_saved_by_line_is_the_commands(problem: gswarm.Problem, tmp_path: Path) -> None:
    config, requests = problem.save(tmp_path)
    args = ["run", "--policy", "lru", "--gpus", 4, "--format", "jsonl", "--out", tmp_path, "-q"]
    assert command(*args, "--config", config, "--requests", requests).returncode == 0
    saved = gswarm.run(problem, "lru", gpus=4).save(tmp_path / "own.jsonl")
    assert saved.read_bytes() == (tmp_path / "lru_execution_log.jsonl").read_bytes()


def test_ctrl_c_ends_the_commands_search_and_keeps_the_plan(tmp_path: Path) -> None:
    config, requests = gswarm.generate("complex", requests=300).save(tmp_path)
    line = [
        sys.executable,
        "-m",
        "gswarm",
        "plan",
        "--budget",
        "1h",
        "--gpus",
        "16",
        "--out",
        str(tmp_path),
    ]
    line += ["--config", str(config), "--requests", str(requests)]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, stderr=pipe, stdout=pipe, text=True) as started:
        assert started.stderr is not None
        # The first plan is told of: the search is on.
        assert "makespan" in started.stderr.readline()
        started.send_signal(signal.SIGINT)
        _, told = started.communicate(timeout=LIMIT)
        assert started.returncode == 0, told
    assert gswarm.Plan.load(tmp_path / "plan.json").makespan > 0

"""`examples/gpu/measure.py`, tried on the CPU with tiny models; and what it makes of logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from test_worker_run import binary
from worker_client import GUARD, ROOT

EXAMPLE = ROOT / "examples" / "gpu"


def measure(work: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE / "measure.py"), "--gswarm", str(binary()), "--work", str(work)]
    command += ["--tiny", "--count", "6", "--limit", "150", *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=GUARD, env=environment)


def test_runs_are_predicted_carried_out_and_told_of(tmp_path: Path) -> None:
    work, pack = tmp_path / "work", tmp_path / "all.tar.gz"
    # A run without a prediction is refused, recorded, and does not keep the next command from its work.
    early = measure(work, "--phases", "requests,run:planned")
    assert early.returncode == 1, early.stdout
    assert json.loads((work / "state.json").read_text())["run:planned"]["status"] == "failed"
    done = measure(work, "--phases", "requests,predict,run:planned,summary", "--pack", str(pack))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "requests: done before" in done.stdout
    state = json.loads((work / "state.json").read_text())
    assert state["run:planned"]["status"] == "done"
    assert state["run:planned"]["check"] == "ok"
    assert "pid" not in state["worker"], "the worker is ended with the program"
    found = json.loads((work / "summary.json").read_text())["runs"]["planned"]
    assert found["completed_requests"] == found["requests"] == 6
    assert found["measured_s"] > 0
    asked = sum(
        config.get("max_length", 0)
        for request in json.loads((work / "requests.json").read_text())["requests"]
        for config in request["node_configs"].values()
    )
    assert found["tokens_written"] == asked, "models with random weights write what is asked of them"
    assert "| `planned` |" in (work / "summary.md").read_text()
    assert "<svg" in (work / "makespans.svg").read_text()
    with tarfile.open(pack) as archive:
        names = archive.getnames()
    assert any(name.endswith("measured/planned/planned_execution_log.json") for name in names)
    assert not any("journal.db" in name or name.endswith("_results.jsonl") for name in names)


def test_the_requests_depend_on_their_seed_alone() -> None:
    def made(seed: int) -> list[dict[str, Any]]:
        command = [sys.executable, str(EXAMPLE / "requests.py"), "30", str(seed)]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=GUARD).stdout
        requests: list[dict[str, Any]] = json.loads(text)["requests"]
        return requests

    assert made(7) == made(7)
    assert made(7) != made(1)
    assert {one["workflow_id"] for one in made(7)} == {"picture", "answer", "review"}

"""Tasks, and problems made of other programs' files: what the commands do, from Python."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
from conftest import ROOT, command

import gswarm
from gswarm import tasks


def test_a_workload_is_made_scheduled_and_checked(tmp_path: Path) -> None:
    made = tasks.generate(tmp_path / "w.csv", tasks=300, load=0.9, types={"sort": 2, "matmul": 1}, seed=4)
    other = tmp_path / "other.csv"
    flags = ("--tasks", 300, "--load", 0.9, "--types", "sort=2,matmul=1", "--seed", 4)
    assert command("tasks", "generate", *flags, "--out", other).returncode == 0
    assert made.read_bytes() == other.read_bytes()
    with pytest.raises(gswarm.InputError, match="already exists"):
        tasks.generate(made)
    with pytest.raises(gswarm.UsageError, match="--gpus"):
        tasks.generate(tmp_path / "none.csv", gpus=0)
    done = tasks.schedule(made, "earliest_finish", out=tmp_path / "one", gpus=2)
    (figures,) = done.policies
    assert figures.policy == "earliest_finish"
    assert figures.makespan_seconds >= done.bound_seconds > 0
    assert sum(figures.on_cpu_on_gpu_cut) == 300
    assert tasks.check(done.log, made) == []
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_text(done.log.read_text().replace('"finish":', '"finish":1', 1))
    assert "T07" in {found.rule for found in tasks.check(damaged, made)}
    for target in ("true_cpu_seconds", "true_gpu_seconds"):
        gswarm.train(made, target=target, trees=5).save(tmp_path / target)
    models = [tmp_path / "true_cpu_seconds", tmp_path / "true_gpu_seconds"]
    every = tasks.schedule(made, "all", out=tmp_path / "all", predictors=models)
    assert len(every.policies) == 12
    assert tasks.check(every.log, made) == []


def test_policies_are_compared_over_loads(tmp_path: Path) -> None:
    rows = tasks.compare(out=tmp_path, seeds=[1, 2], loads=[0.5], count=100, bare=True)
    assert len(rows) == 2 * 12
    assert {row["policy"] for row in rows} >= {"learned", "clairvoyant"}


def test_a_profile_is_measured_and_read(tmp_path: Path) -> None:
    found = tasks.profile(tmp_path / "hw.json", device="cpu", sizes=[32, 64], budget=0.01)
    assert found["source"] == "measured"
    assert [device["name"] for device in found["devices"]] == ["cpu"]


def test_a_pipeline_runs_and_is_kept(tmp_path: Path) -> None:
    small = {
        "profile": {"measure": False},
        "workload": {"tasks": 400},
        "schedule": {"tasks": 100},
        "evaluate": {"seeds": 1, "loads": [0.9], "tasks": 60},
    }
    page = tasks.pipeline(tmp_path / "run", small)
    assert "learned" in page.read_text()
    state = (tmp_path / "run" / "pipeline_state.json").read_bytes()
    assert tasks.pipeline(tmp_path / "run", small) == page
    assert (tmp_path / "run" / "pipeline_state.json").read_bytes() == state
    with pytest.raises(gswarm.InputError, match=r"workload\.taks"):
        tasks.pipeline(tmp_path / "run", {"workload": {"taks": 1}})
    (tmp_path / "defaults.yaml").write_text(tasks.settings())
    assert "workload:" in tasks.settings()


def test_other_files_become_problems(tmp_path: Path) -> None:
    rows = [{"timestamp": at * 1000, "input_length": 500, "output_length": 20} for at in range(30)]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = gswarm.import_files("mooncake", trace, until=20, compress=2.0)
    assert made.problem.request_count == 20
    assert any("2 times as fast" in one for one in made.assumptions)
    assert gswarm.run(made.problem, gpus=2, mode="online").check() == []
    kept = gswarm.import_files("mooncake", [trace], out=tmp_path / "kept")
    assert kept.problem.request_count == 30
    assert (tmp_path / "kept" / "import.md").exists()
    with pytest.raises(gswarm.InputError, match="cannot be imported"):
        gswarm.import_files("dify", trace)
    with pytest.raises(TypeError, match="unexpected keyword argument 'comprss'"):
        gswarm.import_files("mooncake", trace, comprss=2)  # type: ignore[call-arg]


def test_keywords_are_those_of_the_tables(problem: gswarm.Problem) -> None:
    parameters = {info.name for policy in gswarm.policies() for info in policy.parameters}
    assert parameters <= set(inspect.signature(gswarm.run).parameters)
    for call in (gswarm.run, gswarm.plan, gswarm.bound, gswarm.compare, gswarm.size):
        assert "residency" in inspect.signature(call).parameters
    with pytest.raises(TypeError, match=r"run\(\) got an unexpected keyword argument 'alhpa'"):
        gswarm.run(problem, "online", gpus=4, alhpa=1.0)  # type: ignore[call-arg]
    assert (ROOT / "python/gswarm/_parameters.py").exists()

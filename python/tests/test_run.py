"""Runs, and what comes of them."""

from __future__ import annotations

import gc
import inspect
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pytest
from conftest import command

import gswarm


@pytest.mark.parametrize("policy", [info.name for info in gswarm.policies()])
def test_every_policy_runs_and_passes_the_check(policy: str, problem: gswarm.Problem) -> None:
    result = gswarm.run(problem, policy, gpus=8, rounds=1 if policy == "planned" else None)
    assert result.policy == policy
    assert result.check() == []
    assert gswarm.check(result, problem) == []
    assert result.metrics.completed_requests == problem.request_count
    assert result.bound is not None
    assert result.gap is not None
    assert result.gap == pytest.approx(result.makespan / result.bound - 1, abs=1e-6)
    assert result.metrics.makespan_seconds == result.makespan


def test_the_usual_policy_is_planned_for_a_batch_and_adaptive_for_a_stream(problem: gswarm.Problem) -> None:
    assert gswarm.run(problem, gpus=8, rounds=None).policy == "planned"
    assert gswarm.run(problem, gpus=8, mode="online").policy == "adaptive"


def test_metrics_are_those_of_the_command(problem: gswarm.Problem, tmp_path: Path) -> None:
    config, requests = problem.save(tmp_path)
    args = ("run", "--policy", "static", "--gpus", 8, "--json", "--out", tmp_path)
    told = json.loads(command(*args, "--config", config, "--requests", requests).stdout)
    own = asdict(gswarm.run(problem, "static", gpus=8).metrics)
    shared = {name for name in own if name in told and own[name] is not None}
    # No figure of the library is left out, and none is made up.
    assert {name for name, value in own.items() if value is not None} == shared
    assert {name: told[name] for name in shared} == {name: own[name] for name in shared}


def test_executions_as_tables_are_those_of_the_log(problem: gswarm.Problem) -> None:
    result = gswarm.run(problem, "baseline", gpus=8)
    logged = json.loads(result.log())["executions"]
    frame = result.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    table = result.to_arrow()
    assert isinstance(table, pyarrow.Table)
    assert len(frame) == table.num_rows == len(logged)
    names = [name for name in frame.columns if name != "gpus"]
    assert table.column_names == list(frame.columns)
    for name in names:
        assert list(frame[name]) == [record[name] for record in logged]
        assert table[name].to_pylist() == [record[name] for record in logged]
    assert list(frame["gpus"]) == [len(record["gpu_ids"]) for record in logged]


def test_a_result_outlives_its_problem() -> None:
    problem = gswarm.generate("simple", requests=10)
    result = gswarm.run(problem, "baseline", gpus=4)
    log = result.log()
    del problem
    gc.collect()
    assert result.log() == log
    assert result.check() == []


def test_a_run_is_drawn(problem: gswarm.Problem, tmp_path: Path) -> None:
    from matplotlib import pyplot as plt

    result = gswarm.run(problem, "static", gpus=8)
    axes = result.plot()
    plt.savefig(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 5_000
    # Executions and the loads ahead of them: as many bars as GPUs were held.
    held = sum(result.to_dict()["gpus"])
    assert len(axes.patches) >= held
    plt.close("all")
    page = result.report(tmp_path / "page.html").read_text()
    assert page.startswith("<!") or "<html" in page[:200]
    assert "static" in page
    assert "<td>static</td>" in result._repr_html_()
    assert "static on 8 GPUs" in repr(result)


def test_plans_are_made_saved_and_followed(problem: gswarm.Problem, tmp_path: Path) -> None:
    plan = gswarm.plan(problem, gpus=8, rounds=2, seed=1)
    assert plan.gpus == 8
    assert plan.bound <= plan.makespan
    again = gswarm.Plan.load(plan.save(tmp_path / "plan.json"))
    assert again.content == plan.content
    followed = gswarm.run(problem, plan=again, gpus=8)
    assert followed.makespan == pytest.approx(plan.makespan)
    assert followed.plan is None
    assert gswarm.check(plan, problem) == []
    searched = gswarm.run(problem, "planned", gpus=8, rounds=2, seed=1)
    assert searched.plan is not None
    # The two were asked for in other words, which the specifications in the files repeat.
    assert {**searched.plan._fields, "spec": None} == {**plan._fields, "spec": None}
    assert len(plan.steps) == searched.metrics.completed_nodes
    with pytest.raises(gswarm.UsageError, match="does not match"):
        gswarm.run(problem, plan=plan, gpus=4)
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(gswarm.InputError, match="not a plan"):
        gswarm.Plan.load(tmp_path / "other.json")


def test_a_budget_is_kept_and_objectives_are_planned_for(problem: gswarm.Problem) -> None:
    quick = gswarm.run(problem, policy="planned", gpus=16, budget="0.2s")
    assert quick.metrics.failed_requests == 0
    latency = gswarm.plan(problem, gpus=8, rounds=1, budget=5, objective="mean")
    assert gswarm.check(latency, problem) == []
    with pytest.raises(gswarm.UsageError):
        gswarm.plan(problem, gpus=8, objective="happiness")


def test_bounds_say_why(problem: gswarm.Problem) -> None:
    best = gswarm.bound(problem, gpus=8)
    every = gswarm.bounds(problem, gpus=8)
    assert every[0] == best
    assert [one.seconds for one in every] == sorted((one.seconds for one in every), reverse=True)
    assert best.because
    assert best.seconds == gswarm.run(problem, "baseline", gpus=8).bound


def test_a_damaged_log_is_found_out(problem: gswarm.Problem, tmp_path: Path) -> None:
    log = json.loads(gswarm.run(problem, "baseline", gpus=8).log())
    log["executions"][3]["start_time"] -= 1
    (tmp_path / "log.json").write_text(json.dumps(log))
    found = gswarm.check(tmp_path / "log.json", problem)
    assert found
    assert all(one.code and one.title and one.message for one in found)
    assert any(one.record == 3 or one.request for one in found)
    assert gswarm.check(b"no log", problem)
    assert found[0].code in str(found[0])


def test_noise_learning_faults_and_lost_gpus_are_simulated(problem: gswarm.Problem) -> None:
    plain = gswarm.run(problem, "adaptive", gpus=8)
    noisy = gswarm.run(problem, "adaptive", gpus=8, noise="lognormal:0.3", learn=True, seed=4)
    assert noisy.makespan != plain.makespan
    assert noisy.check() == []
    failing = gswarm.run(problem, "adaptive", gpus=8, fail_rate=0.2, max_attempts=10)
    assert failing.metrics.retries > 0
    losing = gswarm.run(problem, "adaptive", gpus=8, lose_gpus={3: 60.0})
    assert losing.metrics.lost_gpus == 1
    drifting = gswarm.run(problem, "adaptive", gpus=8, drift=["1.5@100"])
    assert drifting.makespan > plain.makespan


def test_a_problem_too_large_for_its_gpus_says_why() -> None:
    problem = gswarm.generate("complex", requests=20)
    with pytest.raises(gswarm.InfeasibleError) as raised:
        gswarm.run(problem, "baseline", gpus=2)
    assert raised.value.exit_code == 3
    assert any("consecutive GPUs" in reason for reason in raised.value.reasons)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"policy": "baselin", "gpus": 4}, "unknown policy `baselin`"),
        ({"policy": "baseline", "gpus": 0}, "gpus: 0 is below 1"),
        ({"policy": "baseline", "gpus": -3, "pcie_gb_per_s": -1.0}, "gpus: -3 is below 1.*pcie_gb_per_s"),
        ({"policy": "baseline", "gpus": 4, "residency": "double"}, "use one of single, memory"),
        ({"policy": "baseline", "gpus": 4, "mode": "sometimes"}, "use one of offline, online"),
        ({"policy": "planned", "gpus": 4, "mode": "online"}, "has no online mode"),
        ({"policy": "baseline", "gpus": 4, "budget": "5s"}, "does not take budget"),
        ({"policy": "baseline", "gpus": 4, "alpha": 1.0}, "does not take alpha"),
        ({"policy": "planned", "gpus": 4, "budget": "soon"}, "give seconds"),
        ({"policy": "baseline", "gpus": 4, "fail_rate": 2.0, "max_attempts": 0}, "fail_rate.*max_attempts"),
        ({"policy": "baseline", "gpus": 4, "lose_gpus": {9: 1.0}}, "names GPU 9"),
        ({"policy": "baseline", "gpus": 4, "drift": ["nobody=2@0"]}, "no model `nobody`"),
        ({"policy": "baseline", "gpus": 4, "noise": "loud"}, "noise"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: dict[str, Any], said: str, problem: gswarm.Problem
) -> None:
    with pytest.raises(gswarm.UsageError, match=said):
        gswarm.run(problem, **arguments)


def test_somebody_has_to_say_how_many_gpus_there_are(problem: gswarm.Problem) -> None:
    config, requests = (json.loads(text) for _, text in problem._inputs.sources)
    with_cluster = gswarm.Problem({**config, "cluster": {"gpus": 6}}, requests)
    assert gswarm.run(with_cluster, "baseline").gpus == 6
    config.pop("cluster", None)
    with pytest.raises(gswarm.UsageError, match="number of GPUs is not given"):
        gswarm.run(gswarm.Problem(config, requests), "baseline")


def test_arguments_of_the_wrong_type_are_refused(problem: gswarm.Problem) -> None:
    arguments: list[dict[str, Any]] = [
        {"policy": "baseline", "gpus": "four"},
        {"policy": "baseline", "gpus": 4, "seed": "x"},
        {"policy": object(), "gpus": 4},
    ]
    for wrong in arguments:
        with pytest.raises(TypeError):
            gswarm.run(problem, **wrong)


def test_policies_are_compared(problem: gswarm.Problem) -> None:
    from gswarm.baseline import Baseline

    class Mine(Baseline):
        name = "mine"

    comparison = gswarm.compare(problem, ["baseline", "sticky", Mine()], gpus=[8, 4], seeds=[0])
    frame = comparison.to_pandas()
    assert list(zip(frame["gpus"], frame["policy"], strict=True)) == [
        (4, "baseline"),
        (4, "sticky"),
        (8, "baseline"),
        (8, "sticky"),
        (4, "mine"),
        (8, "mine"),
    ]
    alone = gswarm.run(problem, "sticky", gpus=4)
    assert frame["makespan_seconds"][1] == alone.makespan
    assert list(frame["speedup_over_baseline"][4:]) == [1.0, 1.0]
    assert comparison.best()["makespan_seconds"] == frame["makespan_seconds"].min()
    assert len(comparison) == 6
    assert "<td>sticky</td>" in comparison._repr_html_()
    everything = gswarm.compare(problem, gpus=8, mode=["offline", "online"], rounds=1)
    both = sum(len(info.modes) for info in gswarm.policies())
    assert len(everything) == both


def test_too_few_gpus_are_a_row_of_a_comparison() -> None:
    from gswarm.baseline import Baseline

    problem = gswarm.generate("complex", requests=10)
    rows = gswarm.compare(problem, ["baseline", Baseline()], gpus=[1]).rows
    assert ["consecutive GPUs" in row["infeasible"] for row in rows] == [True, True]


def test_gpus_are_counted_for_a_target(problem: gswarm.Problem) -> None:
    sizing = gswarm.size(problem, makespan="10min", policy="baseline")
    assert sizing.verdict == "met"
    assert sizing.gpus is not None
    frame = sizing.to_pandas()
    assert bool(frame.loc[frame["gpus"] == sizing.gpus, "met"].item())
    assert gswarm.run(problem, "baseline", gpus=sizing.gpus).makespan <= 600
    never = gswarm.size(problem, p99=0.001)
    assert (never.gpus, never.verdict) == (None, "below_floor")
    with pytest.raises(gswarm.UsageError, match="give a target"):
        gswarm.size(problem)
    with pytest.raises(gswarm.UsageError, match="give seconds"):
        gswarm.size(problem, makespan="soon")


def test_capacity_is_advised_on(problem: gswarm.Problem) -> None:
    advice = gswarm.advise(problem, "mean=20min", policy="baseline", price=2.0)
    assert advice.verdict == "met"
    assert advice.gpus is not None
    frame = advice.to_pandas()
    assert bool(frame.loc[frame["gpus"] == advice.gpus, "met"].item())
    assert advice.report["cost"]["per_hour"] == 2.0 * advice.gpus
    assert advice == gswarm.advise(problem, "mean=20min", policy="baseline", price=2.0)
    never = gswarm.advise(problem, "p50=0.001s")
    assert (never.gpus, never.verdict) == (None, "below_floor")
    with pytest.raises(gswarm.UsageError, match="no target"):
        gswarm.advise(problem)
    with pytest.raises(gswarm.UsageError, match="give one of"):
        gswarm.advise(problem, "speed=3")


def test_problems_are_made_to_order() -> None:
    one, same, other = (gswarm.generate("simple", requests=5, seed=seed) for seed in (1, 1, 2))
    assert one._inputs.sources == same._inputs.sources != other._inputs.sources
    config = json.loads(one._inputs.sources[0][1])
    only = gswarm.generate(config=config, requests=7, mix={one.workflows[0]: 1.0}, arrivals="bursty")
    assert only.request_count == 7
    with pytest.raises(gswarm.UsageError, match="simple, complex"):
        gswarm.generate("difficult")
    with pytest.raises(gswarm.UsageError):
        gswarm.generate("simple", arrivals="never")
    with pytest.raises(gswarm.UsageError, match="mix names"):
        gswarm.generate("simple", mix={"nothing": 1.0})


def test_run_takes_every_parameter_of_every_policy(problem: gswarm.Problem) -> None:
    infos = gswarm.policies()
    names = {info.name for policy in infos for info in policy.parameters}
    assert names
    assert names <= set(inspect.signature(gswarm.run).parameters)
    with pytest.raises(gswarm.UsageError, match=r"does not take alpha; online does.*lookahead"):
        gswarm.run(problem, "lru", gpus=4, alpha=1.0, lookahead=2)
    with pytest.raises(gswarm.UsageError, match=r"alpha is -1.0: give a number of zero or more.*beta"):
        gswarm.run(problem, "online", gpus=4, alpha=-1.0, beta=float("nan"))

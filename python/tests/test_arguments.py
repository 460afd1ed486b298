"""Arguments of the wrong kind: the message names them, in words that somebody who calls understands."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gswarm
import gswarm.ray
from gswarm.baseline import Baseline


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"gpus": "four"}, "gpus is 'four'; give a whole number"),
        ({"gpus": 4.5}, "gpus is 4.5; give a whole number"),
        ({"gpus": True}, "gpus is True; give a whole number"),
        ({"gpus": 4, "seed": None}, "seed is None; give a whole number"),
        ({"gpus": 4, "mode": None}, "mode is None; give a text"),
        ({"gpus": 4, "pcie_gb_per_s": "fast"}, "pcie_gb_per_s is 'fast'; give a number"),
        ({"gpus": 4, "learn": "yes"}, "learn is 'yes'; give True or False"),
        ({"gpus": 4, "drift": "1.5@100"}, "drift is a str; give a list of texts"),
        ({"gpus": 4, "lose_gpus": [3]}, "lose_gpus is a list; give a dictionary"),
        ({"gpus": 4, "lose_gpus": {"a": 1.0}}, "lose_gpus names 'a'"),
        ({"gpus": 4, "predictor": "p.json"}, "predictor is a str; give a gswarm.Predictor"),
        ({"gpus": 4, "policy": None, "plan": b"plan"}, "plan is a bytes; give a gswarm.Plan"),
        ({"gpus": 4, "policy": "planned", "budget": []}, "budget is \\[\\]; give seconds"),
    ],
)
def test_types_are_told_by_name(arguments: dict[str, Any], said: str, problem: gswarm.Problem) -> None:
    with pytest.raises(TypeError, match=said):
        gswarm.run(problem, **{"policy": "baseline", **arguments})


@pytest.mark.parametrize("call", [gswarm.run, gswarm.plan, gswarm.bound, gswarm.compare, gswarm.size])
def test_a_problem_has_to_be_one(call: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"problem is None; give a gswarm\.Problem"):
        call(None, gpus=4) if call is not gswarm.size else call(None, makespan=1)


def test_values_that_make_no_sense_are_refused(problem: gswarm.Problem) -> None:
    with pytest.raises(gswarm.UsageError, match="unknown policy ``"):
        gswarm.run(problem, "", gpus=4)
    with pytest.raises(gswarm.UsageError, match="seed is -1"):
        gswarm.run(problem, "baseline", gpus=4, seed=-1)
    with pytest.raises(gswarm.InputError, match="this is not a plan"):
        repr(gswarm.Plan(b"xx"))
    with pytest.raises(gswarm.InputError, match="this is not a plan"):
        _ = gswarm.Plan(b'{"plan": []}').makespan
    with pytest.raises(TypeError, match="give the bytes"):
        gswarm.Plan("xx")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="log is a NoneType"):
        gswarm.check(None, problem)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"policies": [Baseline]}, TypeError, "policies has the class Baseline"),
        ({"policies": Baseline}, TypeError, "policies has the class Baseline"),
        ({"policies": None}, TypeError, "policies has a NoneType"),
        ({"policies": ["baseline", None]}, TypeError, "policies has a NoneType"),
        ({"policies": []}, gswarm.UsageError, "policies is empty"),
        ({"gpus": []}, gswarm.UsageError, "gpus is empty"),
        ({"gpus": "4"}, TypeError, "gpus is '4'"),
        ({"gpus": None}, TypeError, "gpus is not given"),
        ({"seeds": []}, gswarm.UsageError, "seeds is empty"),
        ({"mode": []}, gswarm.UsageError, "mode is empty"),
        ({"mode": "x"}, gswarm.UsageError, "offline or online"),
        ({"policies": "nope"}, gswarm.UsageError, "unknown policy `nope`"),
        ({"policies": "planned", "mode": "online"}, gswarm.UsageError, "none of these policies"),
    ],
)
def test_comparisons_drop_nothing_in_silence(
    arguments: dict[str, Any], error: type[Exception], said: str, problem: gswarm.Problem
) -> None:
    with pytest.raises(error, match=said):
        gswarm.compare(problem, **{"policies": "baseline", "gpus": 4, **arguments})


def test_one_policy_in_python_is_compared_and_figures_are_known_by_name(problem: gswarm.Problem) -> None:
    compared = gswarm.compare(problem, Baseline(), gpus=4, seeds=0)
    assert len(compared) == 1
    assert "fingerprint" not in compared.rows[0]
    with pytest.raises(gswarm.UsageError, match="unknown figure `nope`; use one of"):
        compared.best("nope")
    with pytest.raises(gswarm.UsageError, match="`policy` is not a number"):
        compared.best("policy")
    few = gswarm.compare(gswarm.generate("complex", requests=5), gpus=1)
    with pytest.raises(gswarm.InfeasibleError) as raised:
        few.best()
    assert len(raised.value.reasons) == len(set(raised.value.reasons))


def test_a_result_with_requests_that_failed_says_so(problem: gswarm.Problem) -> None:
    failed = gswarm.run(problem, "baseline", gpus=8, fail_rate=1.0, max_attempts=1)
    assert failed.gap is None
    assert repr(failed).startswith("Result(baseline on 8 GPUs: 0 of 60 requests completed, makespan ")
    whole = gswarm.run(problem, "baseline", gpus=8)
    assert "requests completed" not in repr(whole)
    with pytest.raises(TypeError, match=r"a Result cannot be pickled; pickle what to_pandas\(\)"):
        pickle.dumps(whole)


def test_help_says_what_a_view_knows() -> None:
    assert gswarm.View.__doc__ is not None
    for of in (gswarm.View, gswarm.Task, gswarm.Model):
        silent = [
            name
            for name in dir(of)
            if not name.startswith("_") and not (getattr(of, name).__doc__ or "").strip().endswith(".")
        ]
        assert silent == []


class Curious(Baseline):
    """Asks for a share that is none."""

    share = float("nan")

    def ready(self, task: gswarm.Task, view: gswarm.View) -> None:
        view.quantile(task, self.share)


class Hasty(Baseline):
    """Starts what it has started already."""

    def begin(self, view: gswarm.View) -> None:
        super().begin(view)
        self.first: gswarm.Task | None = None

    def ready(self, task: gswarm.Task, view: gswarm.View) -> None:
        self.first = self.first or task

    def decide(self, view: gswarm.View) -> gswarm.Decision | None:
        return gswarm.Start(self.first, 0) if self.first else None


def test_policies_are_told_in_names_and_shares_are_from_0_to_1(problem: gswarm.Problem) -> None:
    for share in (float("nan"), 2.0, -0.1):
        Curious.share = share
        with pytest.raises(ValueError, match=r"p is .*; give a share from 0 to 1"):
            gswarm.run(problem, Curious(), gpus=4)
    with pytest.raises(gswarm.PolicyError, match=r"task .*[a-z]+.* is not ready"):
        gswarm.run(problem, Hasty(), gpus=4)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"policy": "zz"}, gswarm.UsageError, "unknown policy `zz`"),
        ({"gpus": -1}, gswarm.UsageError, "gpus is -1"),
        ({"mode": "x"}, gswarm.UsageError, "mode is `x`; use offline or online"),
        ({"policy": "planned", "plan": gswarm.Plan(b"{}")}, gswarm.UsageError, "either a plan or a policy"),
        ({"address": None}, TypeError, "address is None; give a text"),
        ({"max_attempts": 1000}, gswarm.UsageError, "1000"),
        ({"call_timeout": 0}, gswarm.UsageError, "call_timeout is 0"),
        ({"address": "127.0.0.1:1"}, gswarm.InputError, "the Ray cluster at 127.0.0.1:1: nothing answers"),
    ],
)
def test_a_run_on_ray_that_cannot_begin_leaves_nothing(
    arguments: dict[str, Any],
    error: type[Exception],
    said: str,
    problem: gswarm.Problem,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(error, match=said) as raised:
        gswarm.ray.run(problem, **{"address": "127.0.0.1:1", **arguments})
    assert "--help" not in str(raised.value)
    out = tmp_path / "out"
    out.mkdir()
    (out / "config.json").write_text("mine")
    with pytest.raises(error, match=said):
        gswarm.ray.run(problem, **{"address": "127.0.0.1:1", "out": out, **arguments})
    assert [file.name for file in out.iterdir()] == ["config.json"]
    assert (out / "config.json").read_text() == "mine"
    assert list((tmp_path / "temporary").iterdir()) == []
    assert capfd.readouterr().err == ""

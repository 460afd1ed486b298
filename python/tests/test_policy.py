"""Policies in Python: one that does what the Rust one does, and ones that misbehave."""

from __future__ import annotations

import threading
import traceback
from collections import deque
from pathlib import Path
from typing import Any

import pytest

import gswarm
from gswarm.baseline import Baseline


@pytest.mark.parametrize("gpus", [8, 16])
def test_baseline_in_python_gives_the_log_of_the_rust_one(published: tuple[Path, Path], gpus: int) -> None:
    problem = gswarm.load(*published)
    policy = Baseline()
    assert (
        gswarm.run(problem, policy, gpus=gpus, seed=7).log()
        == gswarm.run(problem, "baseline", gpus=gpus, seed=7).log()
    )
    online: Any = {"mode": "online", "gpus": gpus}
    assert gswarm.run(problem, policy, **online).log() == gswarm.run(problem, "baseline", **online).log()


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"residency": "memory"},
        {"fail_rate": 0.3, "max_attempts": 2},
        {"lose_gpus": {2: 50.0, 5: 120.0}},
        {"gpus_per_server": 4},
        {"noise": "lognormal:0.4"},
    ],
)
def test_baseline_in_python_agrees_when_things_go_wrong(how: dict[str, Any], problem: gswarm.Problem) -> None:
    assert (
        gswarm.run(problem, Baseline(), gpus=8, **how).log()
        == gswarm.run(problem, "baseline", gpus=8, **how).log()
    )


class Queue(gswarm.Policy):
    """In order, on the first GPUs that are free."""

    def begin(self, view: gswarm.View) -> None:
        self.waiting: deque[gswarm.Task] = deque()

    def ready(self, task: gswarm.Task, view: gswarm.View) -> None:
        self.waiting.append(task)

    def decide(self, view: gswarm.View) -> gswarm.Decision | None:
        if not self.waiting:
            return None
        windows = view.windows(self.waiting[0].model)
        return gswarm.Start(self.waiting.popleft(), windows[0]) if windows else None


def test_a_policy_of_ones_own_runs_and_is_named(problem: gswarm.Problem) -> None:
    result = gswarm.run(problem, Queue(), gpus=8)
    assert result.policy == "Queue"
    assert result.check() == []
    assert gswarm.check(result, problem) == []


def test_views_and_tasks_say_what_there_is(problem: gswarm.Problem) -> None:
    seen: list[bool] = []

    class Curious(Queue):
        def decide(self, view: gswarm.View) -> gswarm.Decision | None:
            model = view.models[0]
            for gpu in range(view.gpus):
                held = view.resident(gpu)
                assert held is not None or gpu in view.empty or view.is_loading(gpu)
                assert view.residents(gpu) == ([] if held is None else [held])
                assert (gpu in view.idle) == (not view.is_loading(gpu) and not view.is_running(gpu))
                assert view.free_at(gpu) >= view.now or gpu in view.idle
                assert view.idle_since(gpu) <= view.now
                assert view.busy(gpu) >= 0
                assert view.batch_at(gpu) in (0, 1)
            assert view.alive == list(range(view.gpus))
            assert set(view.holding(model)).isdisjoint(view.empty)
            assert view.joinable(model) == []
            assert view.load_cost(model, 0) is not None
            for task, gpus, began in view.under_way():
                assert view.state(task) == "running"
                assert len(gpus) == task.model.gpus
                assert began is None or began <= view.now
                seen.append(began is None)
            for task in self.waiting:
                assert view.state(task) == "ready"
                assert view.expected(task) == task.estimate == view.quantile(task, 0.9)
                assert view.failures(task) == 0
                assert task.node
                assert task.workflow in problem.workflows
                assert task.deadline is None
                assert (task.arrival, task.priority) == (0.0, 0)
                assert task.level >= 0
                assert task.request.startswith("req_")
            assert view.open_tasks > 0 or not self.waiting
            return super().decide(view)

    result = gswarm.run(problem, Curious(), gpus=8)
    assert set(seen) == {True, False}
    assert result.metrics.completed_requests == problem.request_count


def test_models_are_loaded_ahead_and_policies_are_woken(problem: gswarm.Problem) -> None:
    class Early(Queue):
        woken = False

        def decide(self, view: gswarm.View) -> gswarm.Decision | None:
            if view.now == 0.0 and view.empty == list(range(view.gpus)) and not view.is_loading(7):
                return gswarm.Load(view.models[0], [7])
            if view.now == 0.0 and not self.woken:
                self.woken = True
                return gswarm.Wake(12.5)
            return super().decide(view)

    result = gswarm.run(problem, Early(), gpus=8)
    assert result.check() == []
    assert result._outcome.loads()[0][1] == [7]


def test_decisions_show_themselves(problem: gswarm.Problem) -> None:
    shown: list[str] = []

    class Printed(Queue):
        def decide(self, view: gswarm.View) -> gswarm.Decision | None:
            decision = super().decide(view)
            match decision:
                case gswarm.Start(task, gpus):
                    assert len(gpus) == task.model.gpus
            shown.append(f"{decision} {view} {view.models[0]} {gswarm.Wake(1)}")
            return decision

    gswarm.run(problem, Printed(), gpus=8)
    assert shown[0].startswith("Start(req_")
    assert "View(now=0" in shown[0]
    assert "Wake(1" in shown[0]


def decides(answer: Any) -> gswarm.Policy:
    """A policy that gives whatever this gives."""

    class Deciding(Queue):
        def decide(self, view: gswarm.View) -> Any:
            return answer(self, view)

    return Deciding()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda policy, view: "rubbish", "decide must return Start, Load, Wake or None"),
        (lambda policy, view: 7, "decide must return Start, Load, Wake or None"),
        (lambda policy, view: gswarm.Start, "decide must return Start, Load, Wake or None"),
        (lambda policy, view: gswarm.Start(policy.waiting[0], 0), "not ready|busy|loading"),
        (lambda policy, view: gswarm.Start(policy.waiting[0], 8), "the GPUs are 0 to 7"),
        (lambda policy, view: gswarm.Start(policy.waiting[0], [0, 1, 2]), "cannot be put on GPUs"),
        (lambda policy, view: gswarm.Load(view.models[0], 4_000_000_000), "the GPUs are 0 to 7"),
        (lambda policy, view: gswarm.Wake(0.0), "cannot wake at"),
        (lambda policy, view: None, "the run stalls at"),
    ],
)
def test_what_cannot_be_done_is_refused_with_time_and_reason(
    answer: Any, said: str, problem: gswarm.Problem
) -> None:
    with pytest.raises(gswarm.PolicyError, match=said) as raised:
        gswarm.run(problem, decides(answer), gpus=8)
    assert raised.value.at == 0.0
    assert raised.value.reason in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda policy, view: gswarm.Start(policy.waiting[0], -1), (TypeError, OverflowError)),
        (lambda policy, view: gswarm.Start(view, 0), TypeError),
        (lambda policy, view: gswarm.Start(policy.waiting[0], [0, 2]), ValueError),
        (lambda policy, view: gswarm.Start(policy.waiting[0], []), ValueError),
        (lambda policy, view: gswarm.Wake(float("nan")), ValueError),
        (lambda policy, view: view.resident(8), IndexError),
        (lambda policy, view: view.load_cost(view.models[0], 99), IndexError),
        (lambda policy, view: view.holding("llm"), TypeError),
        (lambda policy, view: 1 / 0, ZeroDivisionError),
    ],
)
def test_exceptions_of_a_policy_come_out_as_they_are(
    answer: Any, error: Any, problem: gswarm.Problem
) -> None:
    with pytest.raises(error) as raised:
        gswarm.run(problem, decides(answer), gpus=8)
    told = "".join(traceback.format_exception(raised.value))
    assert "test_policy.py" in told
    assert "in decide" in told


def test_an_exception_in_ready_comes_out_too(problem: gswarm.Problem) -> None:
    class Broken(Queue):
        def ready(self, task: gswarm.Task, view: gswarm.View) -> None:
            raise KeyError(task.node)

    with pytest.raises(KeyError):
        gswarm.run(problem, Broken(), gpus=8)


def test_a_task_is_not_started_twice(problem: gswarm.Problem) -> None:
    class Twice(Queue):
        first: gswarm.Task | None = None

        def decide(self, view: gswarm.View) -> gswarm.Decision | None:
            if self.first is not None:
                return gswarm.Start(self.first, view.idle[0])
            self.first = self.waiting[0]
            return super().decide(view)

    with pytest.raises(gswarm.PolicyError, match="not ready") as raised:
        gswarm.run(problem, Twice(), gpus=8)
    assert raised.value.decision is not None
    assert raised.value.decision.startswith("Start(req_")


def test_tasks_and_models_of_another_run_are_refused(problem: gswarm.Problem) -> None:
    kept: list[tuple[gswarm.Task, gswarm.Model, gswarm.View]] = []

    class Keeping(Queue):
        def ready(self, task: gswarm.Task, view: gswarm.View) -> None:
            kept.append((task, task.model, view))
            super().ready(task, view)

    gswarm.run(problem, Keeping(), gpus=8)
    task, model, view = kept[0]
    with pytest.raises(gswarm.PolicyError, match="belongs to another run"):
        gswarm.run(problem, decides(lambda policy, view: gswarm.Start(task, 0)), gpus=8)
    with pytest.raises(gswarm.PolicyError, match="belongs to another run"):
        gswarm.run(problem, decides(lambda policy, view: gswarm.Load(model, 0)), gpus=8)
    with pytest.raises(RuntimeError, match="only during"):
        gswarm.run(problem, decides(lambda policy, now: view.now), gpus=8)
    # What was kept is of no use, and does no harm: the task still knows its names.
    with pytest.raises(RuntimeError, match="only during"):
        _ = view.now
    with pytest.raises(RuntimeError, match="only during"):
        view.holding(model)
    assert repr(view) == "View(over)"
    assert task.request in repr(task)
    assert view.gpus == 8


def test_a_view_answers_on_its_own_thread_only(problem: gswarm.Problem) -> None:
    raised: list[BaseException] = []

    class Elsewhere(Queue):
        def decide(self, view: gswarm.View) -> gswarm.Decision | None:
            def ask() -> None:
                try:
                    _ = view.now
                except RuntimeError as error:
                    raised.append(error)

            if not raised:
                thread = threading.Thread(target=ask)
                thread.start()
                thread.join()
            return super().decide(view)

    gswarm.run(problem, Elsewhere(), gpus=8)
    assert len(raised) == 1


def test_a_policy_may_run_another_problem_to_decide(problem: gswarm.Problem) -> None:
    small = gswarm.generate("simple", requests=2)
    makespans: list[float] = []

    class Thinking(Queue):
        def decide(self, view: gswarm.View) -> gswarm.Decision | None:
            if not makespans:
                makespans.append(gswarm.run(small, Queue(), gpus=4).makespan)
                makespans.append(gswarm.run(small, "baseline", gpus=4).makespan)
            assert view.gpus == 8
            assert view.now >= 0
            return super().decide(view)

    assert gswarm.run(problem, Thinking(), gpus=8).check() == []
    assert len(makespans) == 2


def test_what_is_no_policy_is_refused(problem: gswarm.Problem) -> None:
    anything: Any
    for anything in (Queue, object(), 3, ["baseline"]):
        with pytest.raises(TypeError, match=r"derives from gswarm\.Policy"):
            gswarm.run(problem, anything, gpus=8)

    class Idle(gswarm.Policy):
        pass

    with pytest.raises(NotImplementedError, match="Idle has no method `ready`"):
        gswarm.run(problem, Idle(), gpus=8)

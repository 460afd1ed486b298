"""Other threads run during long calls, Ctrl-C ends them, and progress is told."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import gswarm
from gswarm import progress


@pytest.fixture(scope="module")
def large() -> gswarm.Problem:
    """A search of it takes as long as it may."""
    return gswarm.generate("complex", requests=300)


def test_other_threads_run_during_a_search(large: gswarm.Problem) -> None:
    counted = 0
    over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.wait(0.005):
            counted += 1

    counter = threading.Thread(target=count)
    counter.start()
    before = counted
    gswarm.plan(large, gpus=16, budget=1.0)
    during = counted - before
    over.set()
    counter.join()
    # 200 turns at best; where the lock was held there would be none.
    assert during > 20


def test_runs_at_the_same_time_do_not_disturb_each_other(problem: gswarm.Problem) -> None:
    from gswarm.baseline import Baseline

    policies: list[str | gswarm.Policy] = ["baseline", "adaptive", "planned", Baseline(), Baseline()]
    alone = [gswarm.run(problem, policy, gpus=8).log() for policy in policies]
    with ThreadPoolExecutor(len(policies)) as pool:
        together = list(pool.map(lambda policy: gswarm.run(problem, policy, gpus=8).log(), policies))
    assert together == alone


INTERRUPTED = """
import sys, time, gswarm
from gswarm.baseline import Baseline
problem = gswarm.generate("complex", requests=int(sys.argv[2]))
class Slow(Baseline):
    def decide(self, view):
        time.sleep(0.02)
        return super().decide(view)
calls = {
    "plan": lambda: gswarm.plan(problem, gpus=16, budget=100),
    "kept": lambda: gswarm.plan(problem, gpus=16, budget=100, keep=True),
    "run": lambda: gswarm.run(problem, "planned", gpus=16, budget=100),
    "compare": lambda: gswarm.compare(problem, gpus=list(range(16, 1000)), rounds=50),
    "simulation": lambda: [gswarm.run(problem, "lru", gpus=64) for _ in range(1000)],
    "python": lambda: gswarm.run(problem, Slow(), gpus=16),
}
print("begun", flush=True)
try:
    found = calls[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print(found, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("call", ["plan", "kept", "run", "compare", "simulation", "python"])
def test_ctrl_c_ends_a_call_within_half_a_second(call: str) -> None:
    size = "20000" if call == "simulation" else "400"
    line = [sys.executable, "-c", INTERRUPTED, call, size]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        # Into the call itself.
        time.sleep(1.0)
        assert started.poll() is None
        begun = time.monotonic()
        started.send_signal(signal.SIGINT)
        said = started.stdout.readline()
        took = time.monotonic() - begun
        if call == "kept":
            assert said.startswith("Plan(")
        else:
            assert said == "interrupted\n"
            # Half a second, and what a machine with others on it adds.
            assert took < 1.5
        assert started.wait(timeout=30) == 0


def test_an_exception_of_the_callback_ends_the_call(large: gswarm.Problem) -> None:
    def weary(doing: str, done: int, total: int) -> None:
        raise LookupError(doing)

    begun = time.monotonic()
    with pytest.raises(LookupError):
        gswarm.plan(large, gpus=16, budget=60, progress=weary)
    assert time.monotonic() - begun < 20


def test_progress_is_told_as_it_comes(large: gswarm.Problem) -> None:
    told: list[tuple[str, int, int]] = []
    gswarm.plan(large, gpus=16, budget=1.0, progress=lambda *at: told.append(at))
    assert any(doing.startswith("planning") for doing, _, _ in told)
    counted: list[tuple[str, int, int]] = []
    gswarm.compare(large, ["baseline", "lru"], gpus=[16, 24, 32], progress=lambda *at: counted.append(at))
    assert all(doing == "comparing" and total == 6 for doing, _, total in counted)
    assert [done for _, done, _ in counted] == sorted(done for _, done, _ in counted)


def test_a_terminal_is_shown_a_line_that_goes_again(
    monkeypatch: pytest.MonkeyPatch, large: gswarm.Problem
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    gswarm.plan(large, gpus=16, budget=0.5)
    shown = terminal.getvalue()
    assert "gswarm: planning" in shown
    assert shown.endswith("\r")
    silent = Terminal()
    monkeypatch.setattr(sys, "stderr", silent)
    gswarm.plan(large, gpus=16, budget=0.2, progress=False)
    assert silent.getvalue() == ""


def test_nothing_is_shown_where_nobody_watches(tmp_path: Path) -> None:
    code = 'import gswarm; gswarm.plan(gswarm.generate("complex", requests=200), gpus=16, budget=2)'
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""

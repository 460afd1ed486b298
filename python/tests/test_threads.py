"""Other threads run during long calls, Ctrl-C ends them, and progress is told."""

from __future__ import annotations

import _thread
import io
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import LIMIT, until

import gswarm
from gswarm import progress


@pytest.fixture(scope="module")
def large() -> gswarm.Problem:
    """A search of it takes as long as it may."""
    return gswarm.generate("complex", requests=300)


def test_other_threads_run_during_a_search(large: gswarm.Problem) -> None:
    def interrupt() -> None:
        for _ in range(20):
            time.sleep(0.001)
        _thread.interrupt_main()

    other = threading.Thread(target=interrupt)

    def search() -> None:
        other.start()
        gswarm.plan(large, gpus=16, budget=100)

    # Where the search held the lock, the other thread would have no turn before it is over.
    with pytest.raises(KeyboardInterrupt):
        search()
    other.join()


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
        print("deciding", flush=True)
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
try:
    print("begun", flush=True)
    found = calls[sys.argv[1]]()
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print(found, flush=True)
"""


def computed(process: int) -> float:
    """The seconds that a process has had a processor: they tell how far it is, however busy the machine."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it needs /proc")
@pytest.mark.parametrize("call", ["plan", "kept", "run", "compare", "simulation", "python"])
def test_ctrl_c_ends_a_call(call: str) -> None:
    size = "20000" if call == "simulation" else "400"
    line = [sys.executable, "-c", INTERRUPTED, call, size]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        # Into the call itself, which would take minutes.
        if call == "python":
            assert started.stdout.readline() == "deciding\n"
        else:
            before = computed(started.pid)
            until(lambda: computed(started.pid) - before > 0.5)
        assert started.poll() is None
        started.send_signal(signal.SIGINT)
        said = next(line for line in started.stdout if line != "deciding\n")
        assert said.startswith("Plan(") if call == "kept" else said == "interrupted\n"
        assert started.wait(timeout=LIMIT) == 0


def test_an_exception_of_the_callback_ends_the_call(large: gswarm.Problem) -> None:
    told: list[str] = []

    def weary(doing: str, done: int, total: int) -> None:
        told.append(doing)
        raise LookupError(doing)

    with pytest.raises(LookupError):
        gswarm.plan(large, gpus=16, budget=100, progress=weary)
    assert len(told) == 1, "nothing is told after it"


def test_progress_is_told_as_it_comes(large: gswarm.Problem) -> None:
    def enough(doing: str, done: int, total: int) -> None:
        if doing.startswith("planning"):
            raise LookupError(doing)

    # While the search is on: it would take longer.
    with pytest.raises(LookupError):
        gswarm.plan(large, gpus=16, budget=100, progress=enough)
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
    gswarm.plan(large, gpus=16, budget=5)
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

"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar

import pytest

import gswarm

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "gswarm"

#: A guard against hanging, in seconds. Nothing is asserted about time.
LIMIT = 120

# Charts are drawn into memory.
os.environ.setdefault("MPLBACKEND", "Agg")


Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def _counted(report: Report) -> Report:
    """A skipped test is added to the list of `cargo xtask test`; under CI, which has everything, it fails."""
    if report.outcome != "skipped":
        return report
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    why = why.removeprefix("Skipped: ")
    if os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"CI is set, so this must not be skipped: {why}"
    elif path := os.environ.get("GSWARM_SKIPPED_TESTS"):
        with open(path, "a", encoding="utf-8") as skipped:
            skipped.write(f"{report.nodeid}: {why}\n")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _counted((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _counted((yield))


@pytest.fixture(scope="session")
def problem() -> gswarm.Problem:
    """60 requests of two workflows over three models."""
    return gswarm.generate("simple", requests=60, seed=3)


@pytest.fixture(params=["simple", "complex"])
def published(request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """A published pair of inputs."""
    pair = (DATA / f"{request.param}_config.json", DATA / f"{request.param}_requests.yaml")
    if not all(path.exists() for path in pair):
        pytest.skip("the published inputs are not there")
    return pair


def until(holds: Callable[[], bool], what: str = "what was waited for") -> None:
    """Waits until something holds."""
    end = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < end, f"{what} never happened"
        time.sleep(0.01)


def command(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the package's `gswarm` command."""
    line = [sys.executable, "-m", "gswarm", *map(str, args)]
    return subprocess.run(line, capture_output=True, text=True, cwd=cwd, check=False, timeout=LIMIT)

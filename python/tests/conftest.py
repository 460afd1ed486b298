"""What the tests share."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gswarm

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "gswarm"

# Charts are drawn into memory.
os.environ.setdefault("MPLBACKEND", "Agg")


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


def command(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the package's `gswarm` command."""
    line = [sys.executable, "-m", "gswarm", *map(str, args)]
    return subprocess.run(line, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)

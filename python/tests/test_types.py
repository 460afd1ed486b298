"""What the stubs say of the library is what it has."""

from __future__ import annotations

import subprocess
import sys

from conftest import ROOT

import gswarm


def test_the_stubs_agree_with_the_library() -> None:
    # With the settings of the types' own check, whose work is kept.
    config = ["--mypy-config-file", str(ROOT / "pyproject.toml")]
    line = [sys.executable, "-m", "mypy.stubtest", "gswarm._gswarm", *config]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_that_is_exported_is_documented() -> None:
    for name in gswarm.__all__:
        found = getattr(gswarm, name)
        if callable(found):
            assert found.__doc__, name

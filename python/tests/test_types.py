"""What the stubs say of the library is what it has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import gswarm


def test_the_stubs_agree_with_the_library(tmp_path: Path) -> None:
    place = Path(gswarm.__file__).parents[1]
    environment = dict(os.environ)
    # Installed packages are found by themselves; a source tree is not.
    if place.name != "site-packages":
        environment["MYPYPATH"] = str(place)
    line = [sys.executable, "-m", "mypy.stubtest", "gswarm._gswarm"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_that_is_exported_is_documented() -> None:
    for name in gswarm.__all__:
        found = getattr(gswarm, name)
        if callable(found):
            assert found.__doc__, name

"""The `gswarm` command in a separate process: builds its arguments, and raises its failures as exceptions."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import GswarmError, InfeasibleError, InputError, InternalError, UsageError

VIOLATIONS = 1
INTERRUPTED = 130


def flags(given: Mapping[str, Any]) -> list[str]:
    """Keywords as flags: `None` and `False` are omitted, `True` is a flag without a value, a list is joined
    by commas, and a mapping is one flag `NAME=VALUE` for each of its entries.
    """
    words: list[str] = []
    for name, value in given.items():
        flag = f"--{name.strip('_').replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, Mapping):
            for key, one in value.items():
                words += [flag, f"{key}={_text(one)}"]
        else:
            words += [flag, _text(value)]
    return words


def _text(value: Any) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    return ",".join(map(_text, value)) if isinstance(value, Iterable) else str(value)


def carry_out(words: Iterable[str], ends_well: Callable[[int, str], bool] = lambda code, said: False) -> str:
    """Runs the command and returns its standard output. Its standard error is shown as it comes. A failure is
    raised, unless `ends_well(code, said)` accepts the exit code.

    It ends where this process does.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "gswarm.follower", str(os.getpid()), *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "GSWARM_PYTHON": sys.executable},
        )
        told: list[str] = []
        try:
            with process:
                for line in process.stderr or ():
                    if told or line.startswith("error"):
                        # What ends it is said last, and raised.
                        told.append(line)
                    else:
                        sys.stderr.write(line)
            code = process.returncode
        except KeyboardInterrupt:
            # The command hears it too, unless this was not a terminal's: it is told to keep what was done.
            process.terminate()
            process.wait()
            raise
        said = "".join(told).strip().removeprefix("error: ")
        if code != 0 and not ends_well(code, said):
            raise _fault(code, said)
        out.seek(0)
        return out.read()


def _fault(code: int, said: str) -> BaseException:
    if code == INTERRUPTED:
        return KeyboardInterrupt()
    if code == 2 and (end := said.find("\n\nFor more information, try")) >= 0:
        return UsageError(said[:end])
    faults = {2: InputError(said), 3: InfeasibleError([said]), 70: InternalError(said)}
    return faults.get(code) or GswarmError(said or f"the command ended with exit code {code}")

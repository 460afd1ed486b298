"""Progress of long calls: a callback, or a line that appears once a call takes a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeAlias

Callback: TypeAlias = Callable[[str, int, int], object]
"""Called as `callback(doing, done, total)` when something has changed, and every half second.

`total` is 0 where nobody knows it.
"""

Progress: TypeAlias = "Callback | bool | None"
"""`None`: shown where somebody watches. `True` and `False`: shown always, or never. Or a callback."""

PATIENCE = 1.0
"""Seconds before which nothing is shown."""


class _Line(Protocol):
    def show(self, text: str) -> None: ...

    def close(self) -> None: ...


class _Terminal:
    """A line on standard error that is written over."""

    def __init__(self) -> None:
        self.width = 0

    def show(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def close(self) -> None:
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()


class _Notebook:
    """A line below a cell that is replaced, and gone in the end."""

    def __init__(self) -> None:
        from IPython.display import Pretty, display

        self.pretty = Pretty
        self.handle = display(Pretty(""), display_id=True)

    def show(self, text: str) -> None:
        self.handle.update(self.pretty(text))

    def close(self) -> None:
        self.show("")


def _in_notebook() -> bool:
    """Whether code runs in a kernel, whose output goes to a page."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


class _Display:
    """Shows progress once a call takes long."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.line: _Line | None = None

    def __call__(self, doing: str, done: int, total: int) -> None:
        elapsed = time.monotonic() - self.begun
        if elapsed < PATIENCE:
            return
        if self.line is None:
            self.line = _Notebook() if _in_notebook() else _Terminal()
        share = f" {done:,} of {total:,} ({done / total:.0%})" if total else ""
        self.line.show(f"gswarm: {doing}{share}, {elapsed:.0f} s")

    def close(self) -> None:
        if self.line is not None:
            self.line.close()


@contextmanager
def shown(progress: Progress) -> Iterator[Callback | None]:
    """The callback for a call; its output is removed when the call is over."""
    if progress is None:
        progress = _in_notebook() or sys.stderr.isatty()
    if progress is False:
        yield None
    elif progress is True:
        display = _Display()
        try:
            yield display
        finally:
            display.close()
    else:
        yield progress

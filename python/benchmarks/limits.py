"""How soon long work ends when it is told to, and how soon hostile input is refused.

    PYTHONPATH=python python3 python/benchmarks/limits.py

Prints a line for each case: the median and the longest of five rounds, in seconds.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import gswarm
from gswarm.imports import ImportKind

ROUNDS = 5


class Enough(Exception):
    """Ends a call from its progress callback, as Ctrl-C does."""


def interrupted(call: Callable[[Callable[[str, int, int], object]], object]) -> float:
    """The seconds from the wish to end to the end."""
    wished: list[float] = []
    over = threading.Event()

    def watch(doing: str, done: int, total: int) -> None:
        if over.is_set():
            wished.append(time.perf_counter())
            raise Enough

    threading.Timer(1.0, over.set).start()
    try:
        call(watch)
    except Enough:
        return time.perf_counter() - wished[0]
    raise SystemExit("the call ended by itself: make it longer")


def refused(kind: ImportKind, file: Path) -> float:
    """The seconds until a file is refused, the start of the command included."""
    began = time.perf_counter()
    try:
        gswarm.import_files(kind, file)
    except gswarm.InputError:
        return time.perf_counter() - began
    raise SystemExit(f"{file.name} was not refused")


def bombs(folder: Path) -> list[tuple[str, ImportKind, Path]]:
    """Files that would take for ever if they were written out."""
    inner = [
        {"id": f"s{at}", "nodes": [{"id": n, "type": f"s{at + 1}"} for n in (1, 2)], "links": []}
        for at in range(40)
    ]
    doubled = {"nodes": [{"id": 1, "type": "s0"}], "links": [], "definitions": {"subgraphs": inner}}
    deep = '{"nodes": ' + "[" * 100_000
    texts = {"2^40 nodes": json.dumps(doubled), "100,000 brackets": deep}
    cases: list[tuple[str, ImportKind, Path]] = []
    for at, (name, text) in enumerate(texts.items()):
        (file := folder / f"{at}.json").write_text(text)
        cases.append((name, "comfyui", file))
    return cases


def main() -> None:
    """Measures all of it."""
    problem = gswarm.generate("complex", requests=400)
    many = list(range(16, 1000))
    calls: dict[str, Callable[[], float]] = {
        "a plan is interrupted": lambda: interrupted(
            lambda watch: gswarm.plan(problem, gpus=16, budget=100, progress=watch)
        ),
        "a comparison is interrupted": lambda: interrupted(
            lambda watch: gswarm.compare(problem, gpus=many, rounds=50, progress=watch)
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, kind, file in bombs(Path(folder)):
            calls[f"a file of {name} is refused"] = lambda kind=kind, file=file: refused(kind, file)  # type: ignore[misc]
        for name, call in calls.items():
            times = [call() for _ in range(ROUNDS)]
            print(f"{name}: {statistics.median(times):.3f} s, at most {max(times):.3f} s")


if __name__ == "__main__":
    main()

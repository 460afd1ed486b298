"""Results of a run: its metrics, executions, log and chart."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _gswarm
from . import metrics as _metrics
from ._files import write_whole
from .metrics import Metrics
from .plans import Plan

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Violation:
    """A violation in a log; `docs/checks.md` explains each code."""

    code: str
    title: str
    message: str
    record: int | None
    """Index into `executions`."""
    load: int | None
    """Index into `loads`."""
    line: int | None
    request: str | None
    node: str | None
    gpu: int | None

    def __str__(self) -> str:
        named = {"record": self.record, "line": self.line, "request": self.request, "gpu": self.gpu}
        place = ", ".join(f"{name} {value}" for name, value in named.items() if value is not None)
        return f"{self.code} {place or 'log'}: {self.message}"


class Result:
    """A finished run that has passed the check. It no longer needs the problem."""

    def __init__(self, outcome: _gswarm.Outcome, name: str) -> None:
        self._outcome = outcome
        self._name = name
        summary = outcome.summary()
        self.policy: str = summary[0]
        """Who chose."""
        self.mode: str = summary[1]
        """How requests arrived."""
        self.gpus: int = summary[2]
        """GPUs of the cluster."""
        self.seed: int | None = summary[3]
        """What every random choice came from."""
        self.makespan: float = summary[4]
        """Last end minus first arrival, in seconds."""
        self.bound: float | None = summary[5]
        """No schedule is shorter, in seconds; `None` where requests failed."""
        self._gap_percent = summary[6]

    @property
    def gap(self) -> float | None:
        """How far the makespan lies above the bound, as a share of it: 0.05 is 5%. `None` if not all requests
        completed: a makespan of less work cannot be compared.
        """
        if self._gap_percent is None or not self._is_whole():
            return None
        return self._gap_percent / 100

    def _is_whole(self) -> bool:
        return self.metrics.completed_requests == self.metrics.total_requests

    @cached_property
    def metrics(self) -> Metrics:
        """All figures."""
        return _metrics.read(json.loads(self._outcome.metrics()))

    @cached_property
    def plan(self) -> Plan | None:
        """The plan, if the run searched for one itself."""
        content = self._outcome.plan()
        return None if content is None else Plan(content)

    def check(self) -> list[Violation]:
        """Runs the independent check on the log. A result has passed it already; this repeats it."""
        return [Violation(*found) for found in self._outcome.check()]

    def to_dict(self) -> dict[str, list[Any]]:
        """The executions by column, in order of their ends."""
        return self._outcome.executions()

    def to_pandas(self) -> pandas.DataFrame:
        """The executions as a frame, a row each; the columns are the log's fields."""
        import pandas

        frame = pandas.DataFrame(self.to_dict())
        for name in ("request_id", "workflow_id", "node_id", "model_name", "status"):
            frame[name] = frame[name].astype("category")
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """The executions as an Arrow table."""
        import pyarrow

        columns = {}
        for name, values in self.to_dict().items():
            array = pyarrow.array(values)
            columns[name] = array.dictionary_encode() if pyarrow.types.is_string(array.type) else array
        return pyarrow.table(columns)

    def events(self) -> str:
        """The event log, one line per event, as in `<policy>_scheduler.log`."""
        return self._outcome.events()

    def log(self) -> bytes:
        """The execution log, as `gswarm run` writes it."""
        return self._outcome.log(False)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the execution log, byte for byte as `gswarm run` does: by line where the name ends in
        `.jsonl`.
        """
        target = Path(path)
        return write_whole(target, self._outcome.log(target.suffix == ".jsonl"))

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Writes a page about the run, with an interactive Gantt chart, as `gswarm report` does."""
        return write_whole(Path(path), self._outcome.page(self._name).encode())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draws a Gantt chart by GPU, loads hatched; needs matplotlib."""
        from .plot import gantt

        return gantt(self, self._outcome.loads(), ax)

    def _figures(self) -> list[tuple[str, str]]:
        metrics = self.metrics
        bound = "" if self.bound is None else f"{self.bound:,.1f} s"
        gap = "" if self.gap is None else f"{self.gap:.2%}"
        return [
            ("policy", self.policy),
            ("GPUs", f"{self.gpus}"),
            ("makespan", f"{self.makespan:,.1f} s"),
            ("bound", bound),
            ("gap", gap),
            ("requests", f"{metrics.completed_requests:,} of {metrics.total_requests:,}"),
            ("P99 latency", f"{metrics.request_latency.p99:,.1f} s"),
            ("switches", f"{metrics.model_switches:,}"),
            ("busy", f"{metrics.utilisation.mean:.1%}"),
        ]

    def __repr__(self) -> str:
        gap = "" if self.gap is None else f", gap {self.gap:.2%}"
        done, all_of_them = self.metrics.completed_requests, self.metrics.total_requests
        came_to = "" if self._is_whole() else f"{done:,} of {all_of_them:,} requests completed, "
        place = f"{self.policy} on {self.gpus} GPUs"
        return f"{type(self).__name__}({place}: {came_to}makespan {self.makespan:,.1f} s{gap})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled; pickle what to_pandas(), to_dict() or metrics give, "
            "or save() its log"
        )

    def _repr_html_(self) -> str:
        from html import escape

        cells = "".join(
            f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in self._figures()
        )
        return f"<table>{cells}</table>"


class LiveResult(Result):
    """A finished live run; its times are measured."""

    def __init__(
        self,
        outcome: _gswarm.Outcome,
        name: str,
        folder: Path,
        results: Path,
        failed: list[tuple[str, str, int, str]],
    ) -> None:
        super().__init__(outcome, name)
        self.folder = folder
        """Where its journal and its logs are."""
        self.failed = [FailedNode(*one) for one in failed]
        """The nodes that were given up."""
        self._results = results

    @cached_property
    def requests(self) -> list[dict[str, Any]]:
        """The outcome of each request: `request_id`, `status`, `outputs` by node and, where any,
        `failures`.
        """
        return [json.loads(line) for line in self._results.read_text().splitlines()]


@dataclass(frozen=True)
class FailedNode:
    """A node of a live run that was given up."""

    request: str
    node: str
    attempts: int
    why: str
    """What the last attempt failed of."""

"""Run times learned from runs and tables, with intervals."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _gswarm
from ._files import write_whole
from ._options import checked
from .errors import InputError
from .progress import Progress, shown
from .result import Result

if TYPE_CHECKING:
    import pandas

Kind: TypeAlias = Literal["gradient_boosting", "random_forest", "linear", "last_two"]
"""How it is learned: `docs/learning.md` says what each is good at."""

Table: TypeAlias = "pandas.DataFrame | Mapping[str, Sequence[Any]]"
"""Columns of numbers and of texts, by name."""


@dataclass(frozen=True)
class Predictions:
    """Predictions, one value per row."""

    mean: list[float]
    low: list[float]
    """One in twenty takes less."""
    high: list[float]
    """One in twenty takes more."""

    def to_pandas(self) -> pandas.DataFrame:
        """As a frame."""
        import pandas

        return pandas.DataFrame({"mean": self.mean, "low": self.low, "high": self.high})


class Predictor:
    """Predicts run times; `gswarm.run(..., predictor=this)` uses it where requests give no time."""

    def __init__(self, trained: _gswarm.Trained, name: str, report: dict[str, Any] | None) -> None:
        self._trained = trained
        self.name = name
        """Its name in logs."""
        self.report = report
        """How good it is, on rows that it never saw; `None` of one that was read from a file."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Predictor:
        """Reads a model file, of this package or of `gswarm train`."""
        place = Path(path)
        return cls(_gswarm.Trained.read(place.name, place.read_bytes()), place.name, None)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes a model file."""
        return write_whole(Path(path), self._trained.content())

    @property
    def kind(self) -> str:
        """Training report."""
        return self._trained.kind

    @property
    def target(self) -> str:
        """Its target."""
        return self._trained.target

    @property
    def features(self) -> list[str]:
        """Its features."""
        return self._trained.features

    def predict(self, table: Table) -> Predictions:
        """Predictions for each row of a table with the features."""
        columns = [column for column in _columns(table) if column[0] in self.features]
        mean, (low, high) = self._trained.predict(columns, [0.05, 0.95])
        return Predictions(mean, low, high)

    def _source(self) -> tuple[str, bytes]:
        return self.name, self._trained.content()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (*self._source(), self.report)

    def __repr__(self) -> str:
        return f"Predictor({self.kind} of {self.target} from {', '.join(self.features)})"


def _restored(name: str, content: bytes, report: dict[str, Any] | None) -> Predictor:
    return Predictor(_gswarm.Trained.read(name, content), name, report)


def train(
    data: Result | Table | str | os.PathLike[str],
    target: str | None = None,
    *,
    kind: Kind = "gradient_boosting",
    features: Sequence[str] | None = None,
    leave_out: Sequence[str] = (),
    allow_leaks: bool = False,
    seed: int = 42,
    trees: int | None = None,
    depth: int | None = None,
    learning_rate: float | None = None,
    min_leaf: int | None = None,
    name: str = "predictor",
    progress: Progress = None,
) -> Predictor:
    """Learns run times from a result, a table, or a file of one (CSV or Parquet), as `gswarm train` does.

    For a result, the time of a node is predicted from its model, workflow, options, prompt length, batch and
    history, and `target` is not needed. Rows are split first; `report` evaluates a fifth that was held out
    from training.
    """
    source: Any
    if isinstance(data, Result):
        source = data._outcome
    elif isinstance(data, str | os.PathLike):
        path = Path(data)
        source = (os.fspath(path), path.read_bytes())
    else:
        source = _columns(data)
    if target is None and not isinstance(data, Result):
        raise InputError("target is not given: it names the column to predict")
    options = {
        "kind": kind,
        "target": target,
        "features": None if features is None else list(features),
        "leave_out": list(leave_out),
        "allow_leaks": allow_leaks,
        "seed": seed,
        "trees": trees,
        "depth": depth,
        "learning_rate": learning_rate,
        "min_leaf": min_leaf,
    }
    checked(options)
    with shown(progress) as callback:
        trained, report = _gswarm.train(source, options, callback)
    return Predictor(trained, name, json.loads(report))


def _columns(table: Table) -> list[tuple[str, list[Any]]]:
    """The columns as lists of numbers, or of texts; what is missing is `None`."""
    columns = []
    for name in table:
        values = table[name]
        cells = values.tolist() if hasattr(values, "tolist") else list(values)
        columns.append((str(name), [None if _is_missing(cell) else cell for cell in cells]))
    return columns


def _is_missing(cell: object) -> bool:
    return cell is None or cell != cell

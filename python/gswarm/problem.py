"""Problems: a configuration and its requests, from files or from Python objects."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _gswarm
from .errors import Diagnostic, InputError

if TYPE_CHECKING:
    import pandas

Mode: TypeAlias = Literal["offline", "online"]
"""When requests arrive: all at the start, or at their timestamps."""

Records: TypeAlias = "pandas.DataFrame | Mapping[str, Any] | Iterable[Any]"
"""Requests: a list of mappings or objects, a frame with one row each, or a mapping with the list under
`requests`.
"""


class Problem:
    """A configuration and requests that are valid, for runs, plans, bounds and comparisons.

    `config` and `requests` hold what the files would (`docs/formats.md`), as mappings, dataclasses or other
    objects with attributes; requests may also be a pandas frame. Columns of a frame whose names have a dot,
    such as `node_execution_times.paint`, are fields of a field, and missing values are omitted. All
    faults are reported at once, as an `InputError`, with the command's messages.

    With `predicted=True` nodes may lack a time: runs then need a predictor.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | object,
        requests: Records,
        *,
        mode: Mode = "offline",
        predicted: bool = False,
        name: str = "<config>",
    ) -> None:
        given = (name, config), ("<requests>", _with_requests(requests))
        self._inputs = _gswarm.Inputs.of_values(*given, _plain, mode, predicted)
        self._how: tuple[bool, Mode, bool] = (False, mode, predicted)

    @classmethod
    def _of(
        cls,
        config: tuple[str, bytes],
        requests: tuple[str, bytes],
        located: bool,
        mode: Mode,
        predicted: bool,
    ) -> Problem:
        problem = cls.__new__(cls)
        problem._inputs = _gswarm.Inputs(config, requests, located, mode, predicted)
        problem._how = (located, mode, predicted)
        return problem

    def __reduce__(self) -> tuple[Any, ...]:
        (config, requests), how = self._inputs.sources, self._how
        return Problem._of, (config, requests, *how)

    @property
    def name(self) -> str:
        """Its name in comparisons: the configuration's file."""
        return self._inputs.sources[0][0]

    @property
    def models(self) -> list[str]:
        """The models of the configuration."""
        return self._inputs.contents()[0]

    @property
    def workflows(self) -> list[str]:
        """The workflows of the configuration."""
        return self._inputs.contents()[1]

    @property
    def request_count(self) -> int:
        """How many requests there are."""
        return self._inputs.contents()[2]

    @property
    def warnings(self) -> list[Diagnostic]:
        """Warnings, such as unknown fields."""
        return [Diagnostic(*found) for found in self._inputs.warnings]

    def save(self, folder: str | os.PathLike[str]) -> tuple[Path, Path]:
        """Writes both inputs into a folder, as the command reads them, and returns their paths."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        paths = []
        for stem, (_, text) in zip(("config", "requests"), self._inputs.sources, strict=True):
            ending = "json" if text.lstrip()[:1] in (b"{", b"[") else "yaml"
            path = place / f"{stem}.{ending}"
            path.write_bytes(text)
            paths.append(path)
        return paths[0], paths[1]

    def __repr__(self) -> str:
        models, workflows, requests = self._inputs.contents()
        return f"Problem({len(models)} models, {len(workflows)} workflows, {requests:,} requests)"


def load(
    config: str | os.PathLike[str],
    requests: str | os.PathLike[str],
    *,
    mode: Mode = "offline",
    predicted: bool = False,
) -> Problem:
    """Reads a problem from two files, JSON or YAML. The `InputError` has every fault in either."""
    texts: list[tuple[str, bytes]] = []
    faults: list[Diagnostic] = []
    for path in (config, requests):
        name = os.fspath(path)
        try:
            texts.append((name, Path(path).read_bytes()))
        except OSError as error:
            why = f"cannot read {name}: {error.strerror}"
            faults.append(Diagnostic("unreadable", "error", why, name, None, None, "", None))
    if faults:
        raise InputError("\n".join(fault.message for fault in faults), faults)
    return Problem._of(texts[0], texts[1], True, mode, predicted)


def _with_requests(requests: Records) -> object:
    """The requests as their file has them: a list under `requests`."""
    if hasattr(requests, "to_dict") and hasattr(requests, "columns"):
        return {"requests": [_nested(row) for row in requests.to_dict(orient="records")]}
    if isinstance(requests, Mapping):
        return requests
    if isinstance(requests, str | bytes) or not isinstance(requests, Iterable):
        return requests
    return {"requests": list(requests)}


def _nested(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of a frame: `a.b` is field `b` of field `a`, and missing values are omitted."""
    fields: dict[str, Any] = {}
    for name, value in row.items():
        if _is_missing(value):
            continue
        *outer, last = str(name).split(".", 1)
        if outer:
            inner = fields.setdefault(outer[0], {})
            if isinstance(inner, dict):
                inner[last] = value
        else:
            fields[last] = value
    return fields


def _is_missing(value: object) -> bool:
    """`None`, NaN, and what pandas has for a missing moment or text."""
    if value is None or type(value).__name__ in ("NaTType", "NAType"):
        return True
    return isinstance(value, float) and math.isnan(value)


def _plain(value: object) -> object:
    """A plain value for dataclasses, moments, values of numpy and objects with attributes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: field for name, field in fields.items() if field is not None}
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    for method in ("item", "tolist", "model_dump", "_asdict"):
        found = getattr(value, method, None)
        if callable(found):
            try:
                return found()
            except (TypeError, ValueError):
                continue
    if isinstance(value, Iterable):
        return list(value)
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return {
            name: field
            for name, field in vars(value).items()
            if not name.startswith("_") and field is not None
        }
    raise TypeError(f"{type(value).__name__} cannot be part of a configuration or a request")

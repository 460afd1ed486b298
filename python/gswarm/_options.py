"""Arguments that several calls share, converted for the library."""

from __future__ import annotations

import inspect
import json
import math
import operator
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from . import _gswarm
from ._parameters import PolicyParameters
from .errors import UsageError

if TYPE_CHECKING:
    from .problem import Problem

Residency: TypeAlias = Literal["single", "memory"]
"""Models on a GPU: one at a time, or as many as fit into its memory."""

SwitchCost: TypeAlias = Literal["transfer", "load_time"]
"""Cost of replacing a model: moving both over PCIe, or the new one's load time."""


class ClusterOptions(TypedDict, total=False):
    """The cluster, where it differs from that of the configuration."""

    gpus_per_server: int | None
    residency: Residency | None
    switch_cost: SwitchCost | None
    gpu_memory_gb: float | None
    pcie_gb_per_s: float | None
    switch_overhead_seconds: float | None


class CalibrationOptions(TypedDict, total=False):
    """Costs that `gswarm calibrate` measured: its file, and whether the first loads are taken from it."""

    calibration: str | os.PathLike[str] | None
    first_loads: bool


class CostOptions(ClusterOptions, CalibrationOptions, total=False):
    """The cluster and what was measured on it."""


class RunOptions(PolicyParameters, CostOptions, total=False):
    """The cluster, what was measured on it, and parameters of the policy."""


_WHOLE = "a whole number"
_NUMBER = "a number"
_TEXT = "a text"
_YES_OR_NO = "True or False"


@cache
def policy_table() -> list[dict[str, Any]]:
    """The policies and their parameters, as the library describes them."""
    found: list[dict[str, Any]] = json.loads(_gswarm.policies())
    return found


def parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of policies among keywords, with lengths of time in seconds."""
    lengths = {
        info["name"]
        for policy in policy_table()
        for info in policy["parameters"]
        if info["value"]["type"] == "seconds"
    }
    found = part(PolicyParameters, given)
    return {name: seconds(one, name) if name in lengths else one for name, one in found.items()}


def _parameter_kinds() -> dict[str, str]:
    """What the parameters of policies are, by name."""
    kinds = {"number": _NUMBER, "integer": _WHOLE, "seconds": _NUMBER, "choice": _TEXT, "target": _TEXT}
    table = (info for policy in policy_table() for info in policy["parameters"])
    return {info["name"]: kinds[info["value"]["type"]] for info in table}


_KINDS = {
    **_parameter_kinds(),
    **dict.fromkeys(("gpus", "gpus_per_server", "max_gpus", "max_attempts"), _WHOLE),
    **dict.fromkeys(("seed", "rounds", "requests", "trees", "depth", "min_leaf"), _WHOLE),
    **dict.fromkeys(("gpu_memory_gb", "pcie_gb_per_s", "switch_overhead_seconds"), _NUMBER),
    **dict.fromkeys(("fail_rate", "gap"), _NUMBER),
    **dict.fromkeys(("learning_rate", "speed", "call_timeout"), _NUMBER),
    **dict.fromkeys(("residency", "switch_cost", "mode", "noise", "truth", "objective"), _TEXT),
    **dict.fromkeys(("policy", "preset", "arrivals", "kind", "target", "address"), _TEXT),
    **dict.fromkeys(("learn", "means_only", "keep", "allow_leaks"), _YES_OR_NO),
}
"""What arguments are, by name."""

_SIGNED = ("gpus", "gpus_per_server", "max_gpus")
"""Whole numbers whose range the library checks; the others are not below zero."""

_MAY_BE_MISSING = {
    *ClusterOptions.__annotations__,
    *("gpus", "rounds", "noise", "truth", "policy", "preset", "target"),
    *("trees", "depth", "learning_rate", "min_leaf", "speed", "call_timeout"),
}


def checked(options: Mapping[str, Any], missing: tuple[str, ...] = ()) -> dict[str, Any]:
    """The same options, where each is of the kind that its name asks for; a `TypeError` names the first that
    is not. Those in `missing` may be `None` beside those that always may.
    """
    for name, value in options.items():
        kind = _KINDS.get(name)
        if kind is None or (value is None and (name in _MAY_BE_MISSING or name in missing)):
            continue
        if not _is(kind, value):
            raise TypeError(f"{name} is {_shown(value)}; give {kind}")
        most = 2**64 - 1 if name in ("seed", "rounds") else 2**32 - 1
        if kind == _WHOLE and name not in _SIGNED and not 0 <= operator.index(value) <= most:
            raise UsageError(f"{name} is {value}; give a whole number from 0 to {most}")
    return dict(options)


def _is(kind: str, value: object) -> bool:
    if kind == _TEXT:
        return isinstance(value, str)
    if kind == _YES_OR_NO:
        return isinstance(value, bool)
    # Numbers of numpy are numbers too; True is none.
    fits = hasattr(value, "__index__") or (kind == _NUMBER and hasattr(value, "__float__"))
    return fits and not isinstance(value, bool)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"


def inputs_of(problem: Problem) -> _gswarm.Inputs:
    """The library's form of a problem."""
    found = getattr(problem, "_inputs", None)
    if not isinstance(found, _gswarm.Inputs):
        raise TypeError(f"problem is {_shown(problem)}; give a gswarm.Problem, as gswarm.load makes it")
    return found


F = TypeVar("F", bound=Callable[..., Any])


def keywords(kind: type[Any]) -> Callable[[F], F]:
    """Lists the keywords of `kind`, which the call takes as `**options`, in the call's signature."""

    def listed(call: F) -> F:
        own = inspect.signature(call)
        named = [one for one in own.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=type_)
            for name, type_ in kind.__annotations__.items()
        ]
        call.__signature__ = own.replace(parameters=[*named, *more])  # type: ignore[attr-defined]
        return call

    return listed


def part(kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the keywords that `kind` has and that have a value."""
    return {name: given[name] for name in kind.__annotations__ if given.get(name) is not None}


def refuse_unknown(call: str, kind: type[Any], given: Mapping[str, Any]) -> None:
    """Raises where a keyword is none of `kind`."""
    if unknown := [name for name in given if name not in kind.__annotations__]:
        raise TypeError(f"{call}() got an unexpected keyword argument {unknown[0]!r}")


def specification(
    call: str, kind: type[Any], options: Mapping[str, Any], gpus: int | None = None, **fields: Any
) -> str:
    """A run specification as JSON: the cluster and the calibration among `options`, which are keywords of
    `kind`, and the fields that differ from their defaults.
    """
    refuse_unknown(call, kind, options)
    cluster = checked({"gpus": gpus, **part(ClusterOptions, options)})
    named = {name: value for name, value in cluster.items() if value is not None}
    if options.get("calibration") is not None:
        fields["calibration"] = {"first_loads": options.get("first_loads", False)}
    given = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(_finite({"cluster": named, **given}), default=_number)


def _finite(value: Any) -> Any:
    """JSON has no number for NaN and infinity: as texts they are refused by name."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> Any:
    """Numbers of numpy, and whatever else counts as one."""
    return operator.index(value) if hasattr(value, "__index__") else float(value)


def file_content(path: str | os.PathLike[str] | None) -> tuple[str, bytes] | None:
    """A file's name and content, where one is named."""
    return None if path is None else (os.fspath(path), Path(path).read_bytes())


def seconds(time: float | str, name: str = "a time") -> float:
    """Seconds, from seconds or from a text such as `90s`, `20min` or `2h`."""
    if isinstance(time, str):
        return _gswarm.seconds(time)
    if not _is(_NUMBER, time):
        raise TypeError(f'{name} is {_shown(time)}; give seconds, or a text such as "20min"')
    return _gswarm.seconds(repr(float(time)))

"""Exceptions: each is a `GswarmError` with the exit code of the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

_Plain: TypeAlias = tuple[str, str, str, str, "int | None", "int | None", str, "str | None"]


@dataclass(frozen=True)
class Diagnostic:
    """One finding in an input; `docs/errors.md` explains each code."""

    code: str
    severity: str
    """`error`, or `warning` where the input can be used for all that."""
    message: str
    file: str
    """The file's name; `<config>` or `<requests>` of what was given as Python objects."""
    line: int | None
    """From 1; `None` where the input has no lines, or the finding no place in them."""
    column: int | None
    path: str
    """Where in the data, such as `requests[3].node_execution_times.paint`; empty for the whole file."""
    hint: str | None


class GswarmError(Exception):
    """Base class of all errors that gswarm reports."""

    exit_code = 70
    """What the `gswarm` command ends with in the same case."""


class InputError(GswarmError):
    """Invalid inputs: `diagnostics` has all faults, not only the first."""

    exit_code = 2

    def __init__(self, message: str, diagnostics: Sequence[Diagnostic | _Plain] = ()) -> None:
        super().__init__(message)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(
            found if isinstance(found, Diagnostic) else Diagnostic(*found) for found in diagnostics
        )

    def __reduce__(self) -> tuple[type[InputError], tuple[str, tuple[Diagnostic, ...]]]:
        return type(self), (str(self), self.diagnostics)


class UsageError(GswarmError, ValueError):
    """An invalid argument."""

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.hint = hint

    def __str__(self) -> str:
        message = str(self.args[0])
        return f"{message}\n  hint: {self.hint}" if self.hint else message


class InfeasibleError(GswarmError):
    """A problem that cannot be run on these GPUs; `reasons` says why."""

    exit_code = 3

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(list(reasons))
        self.reasons: tuple[str, ...] = tuple(reasons)

    def __str__(self) -> str:
        return "the problem cannot run on these GPUs: " + "; ".join(self.reasons)


class PolicyError(GswarmError):
    """A Python policy that made an impossible decision or stalled: when (`at`, in seconds), and why."""

    exit_code = 70

    def __init__(self, at: float, reason: str, decision: str | None = None) -> None:
        super().__init__(at, reason, decision)
        self.at = at
        self.reason = reason
        self.decision = decision

    def __str__(self) -> str:
        decided = f"{self.decision}: " if self.decision else ""
        return f"at {self.at} s: {decided}{self.reason}"


class InternalError(GswarmError):
    """A bug in gswarm: please report it with the call."""

    exit_code = 70

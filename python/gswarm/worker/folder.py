"""The small files of a model's folder, read with limits, and the fields of its configuration, each checked.

A folder may be damaged, or come from anywhere: nothing is allocated by what it says before it is checked.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from .fault import Fault

MAX_CONFIG_BYTES = 16 << 20
MAX_WIDTH = 1 << 20
MAX_LAYERS = 1 << 10
MAX_VOCAB = 1 << 22
MAX_POSITIONS = 1 << 24


def wrong(path: Path, reason: str) -> Fault:
    """A file that is not what it should be (422)."""
    return Fault(422, "bad_model", f"{path}: {reason}")


def read(path: Path, limit: int = MAX_CONFIG_BYTES) -> bytes:
    """The whole of a file of so many bytes at most."""
    try:
        size = path.stat().st_size
        # A pipe would block on opening: ask first.
        if not path.is_file():
            raise wrong(path, "this is not a regular file")
        if size > limit:
            raise wrong(path, f"{size} bytes exceed the limit of {limit}")
        return path.read_bytes()
    except OSError as error:
        raise Fault(422, "bad_model", f"cannot read {path}: {error.strerror or error}") from None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object."""
    try:
        value = json.loads(read(path))
    except (ValueError, RecursionError) as error:
        raise wrong(path, f"this is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise wrong(path, "this is not a JSON object")
    return value


def read_json_if_there(path: Path) -> dict[str, Any]:
    """The same; nothing where there is no such file."""
    return read_json(path) if path.exists() else {}


class Fields:
    """The fields of one object, with the file's name for complaints."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self.path, self.values = path, values

    def _wrong(self, key: str, value: Any, expected: str) -> Fault:
        shown = json.dumps(value)
        return wrong(self.path, f"{key} is {shown[:60]}, not {expected}")

    def size(self, key: str, most: int, default: int | None = None) -> int:
        """A whole number of at least one; without a default it has to be there."""
        value = self.values.get(key)
        if value is None:
            if default is None:
                raise wrong(self.path, f"{key} is missing")
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise self._wrong(key, value, f"a whole number from 1 to {most}")
        return value

    def positive(self, key: str, default: float) -> float:
        """A number above zero."""
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(key, value, "a number above zero")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not (math.isfinite(number) and number > 0):
            raise self._wrong(key, value, "a number above zero")
        return number

    def flag(self, key: str) -> bool:
        """Whether something is so; not, where nothing is said."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise self._wrong(key, value, "true or false")

    def nested(self, key: str) -> Fields:
        """The fields of an object within; none where there is no such object."""
        value = self.values.get(key)
        return Fields(self.path, value if isinstance(value, dict) else {})

    def tokens(self, key: str, vocab: int) -> set[int]:
        """One token, several, or none."""
        value = self.values.get(key)
        found = set()
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            if isinstance(one, bool) or not isinstance(one, int) or not 0 <= one < vocab:
                shown = json.dumps(one)[:60]
                raise wrong(self.path, f"{key} {shown} is outside the vocabulary of {vocab} tokens")
            found.add(one)
        return found

"""Fields of a request's body, read and checked; what is wrong is told by its path."""

from __future__ import annotations

from typing import Any

from .fault import invalid

MAX_TOKENS = 1 << 24
MAX_STEPS = 100_000
# The most tokens of an answer, by any of these names: the first that is given counts, as of all backends.
MOST_TOKENS = ("max_tokens", "max_length", "max_new_tokens")


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def text(body: dict[str, Any], name: str, path: str = "", needed: bool = False) -> str | None:
    """A string."""
    value = body.get(name)
    where = _at(path, name)
    if value is None:
        if needed:
            raise invalid(f"{where}: a string is required", where)
        return None
    if not isinstance(value, str):
        raise invalid(f"{where}: a string is expected", where)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise invalid(f"{where}: this is not a text", where) from None
    return value


def needed(body: dict[str, Any], name: str, path: str = "") -> str:
    """A string that has to be there."""
    found = text(body, name, path, needed=True)
    assert found is not None
    return found


def number(body: dict[str, Any], name: str, least: float, most: float, path: str = "") -> float | None:
    """A number within a range."""
    value = body.get(name)
    if value is None:
        return None
    where = _at(path, name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise invalid(f"{where} must be a number from {least:g} to {most:g}", where)
    return float(value)


def whole(body: dict[str, Any], name: str, least: int, most: int, path: str = "") -> int | None:
    """A whole number within a range."""
    value = body.get(name)
    if value is None:
        return None
    where = _at(path, name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise invalid(f"{where} must be a whole number from {least} to {most}", where)
    return value


def flag(body: dict[str, Any], name: str, path: str = "") -> bool:
    """Whether something is said to be so."""
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise invalid(f"{_at(path, name)}: true or false is expected", _at(path, name))


def one_of(body: dict[str, Any], name: str, choices: tuple[str, ...]) -> str:
    """One of several words; the first where nothing is said."""
    value = text(body, name)
    if value is None:
        return choices[0]
    if value not in choices:
        raise invalid(f"{name}: one of {', '.join(choices)} is expected", name)
    return value


def child(body: dict[str, Any], name: str, path: str = "", required: bool = False) -> dict[str, Any]:
    """An object within the body."""
    value = body.get(name)
    if value is None and not required:
        return {}
    if not isinstance(value, dict):
        raise invalid(f"{_at(path, name)}: an object is expected", _at(path, name))
    return value


def stops(body: dict[str, Any], path: str = "") -> tuple[str, ...]:
    """Strings that end an answer."""
    value = body.get("stop")
    where = _at(path, "stop")
    found = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise invalid(f"{where}: a string or a list of strings is expected", where)
    if len(found) > 16 or any(not one for one in found):
        raise invalid("stop takes at most 16 strings, none of them empty", where)
    return tuple(found)


def device(body: dict[str, Any], own: str) -> str:
    """A device as requests write it: it has to be the one that this worker has, or `auto`."""
    value = body.get("device")
    entries = [value] if isinstance(value, str) else value
    if value is None:
        return own
    if not isinstance(entries, list) or not entries or not all(isinstance(one, str) for one in entries):
        raise invalid('a device or a list of devices is expected, as in "cuda:0"', "device")
    if entries == ["auto"] or entries == [own]:
        return own
    for one in entries:
        numbers = one[5:].split(",") if one.startswith("cuda:") else []
        if one not in ("cpu", "auto") and not (numbers and all(n.isascii() and n.isdigit() for n in numbers)):
            raise invalid(f"`{one[:40]}` is not a device: write `cpu`, `cuda:0` or `auto`", "device")
    from .fault import unsupported

    raise unsupported("device", f"this worker serves `{own}` only: start another worker for another device")

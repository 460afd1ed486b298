"""References to large outputs in the journal and in calls: small JSON objects.

The engine sees only the references. Values are fetched from the shelves that hold them.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from typing import Any

#: An answer of at most this many bytes as JSON goes through the engine; what is larger stays on shelves.
INLINE_BYTES = 64 * 1024

#: The field that says that an object is a reference.
MARK = "$ray"


def is_reference(value: Any) -> bool:
    """Whether a value is a reference to a large output."""
    return isinstance(value, dict) and isinstance(value.get(MARK), str) and isinstance(value.get("at"), list)


def new_key(name: str) -> str:
    """A name for an output of the call `name`, as a file may have it. Every attempt has one of its own."""
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)[:80]}-{secrets.token_hex(4)}"


def references_in(value: Any) -> list[dict[str, Any]]:
    """All references inside a value that came as JSON."""
    if is_reference(value):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [reference for part in parts for reference in references_in(part)]


def replaced(value: Any, by: Callable[[dict[str, Any]], Any]) -> Any:
    """The same value with something else in place of each reference."""
    if is_reference(value):
        return by(value)
    if isinstance(value, dict):
        return {key: replaced(part, by) for key, part in value.items()}
    if isinstance(value, list):
        return [replaced(part, by) for part in value]
    return value


def json_size(value: Any) -> int | None:
    """How long a value is as JSON; ``None`` where it has no such form."""
    found = as_json(value)
    return found[0] if found else None


def as_json(value: Any) -> tuple[int, Any] | None:
    """How long a value is as JSON, and what JSON makes of it: of tuples lists, of keys texts.

    ``None`` where it has no such form.
    """
    try:
        text = json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return len(text), json.loads(text)


def split(answer: Any) -> tuple[Any, dict[str | None, Any]]:
    """What of an answer is small, and what is not, by field; the whole answer is under ``None``.

    Fields of an answer stay apart, so that nodes that read one of them do not fetch the others. What has a
    form in JSON is what JSON makes of it, however large it is; the rest stays the object that it is.
    """
    whole = as_json(answer)
    if whole is not None and whole[0] <= INLINE_BYTES:
        return whole[1], {}
    if whole is not None:
        answer = whole[1]
    if not isinstance(answer, dict) or not all(isinstance(name, str) for name in answer):
        return None, {None: answer}
    forms = {name: as_json(value) for name, value in answer.items()}
    large: dict[str | None, Any] = {name: answer[name] for name, form in forms.items() if form is None}
    rest = {name: form for name, form in forms.items() if form is not None}
    for name in sorted(rest, key=lambda name: -rest[name][0]):
        if sum(size + len(other) + 8 for other, (size, _) in rest.items()) <= INLINE_BYTES:
            break
        large[name] = rest.pop(name)[1]
    return {name: value for name, (_, value) in rest.items()}, large

"""Callables that stand for models: what a run on a Ray cluster calls in place of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_registered: dict[str, Any] = {}


def model(name: str) -> Callable[[T], T]:
    """Declares a class or a function as the model `name` of the configuration.

    A class is a model with state: it is created with the list of its devices (positions in
    ``CUDA_VISIBLE_DEVICES``), called with ``(inputs, settings)``, both dictionaries, and its ``unload``, if
    any, is called before it is dropped. A function is called in the same way and keeps nothing between calls.
    """

    def register(callable_: T) -> T:
        if not callable(callable_):
            raise TypeError(f"the model `{name}` is neither a class nor a function")
        _registered[name] = callable_
        return callable_

    return register


def registered() -> dict[str, Any]:
    """All of them, by name."""
    return dict(_registered)

"""Callables that stand for models: what a run on a Ray cluster calls in place of a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_registered: dict[str, Any] = {}


def model(name: str) -> Callable[[T], T]:
    """Says that a class or a function is the model `name` of the configuration.

    A class is a model that is loaded: it is made with the list of its devices (positions in
    ``CUDA_VISIBLE_DEVICES``), called with ``(inputs, settings)``, both dictionaries, and, where it has an
    ``unload``, told when it has to go. A function is called in the same way and holds nothing between calls.
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

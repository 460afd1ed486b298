"""What sections found, in words."""

from __future__ import annotations

from typing import Any


def brief(value: Any) -> str:
    """A line about what a section found."""
    if isinstance(value, dict) and "error" in value:
        return f"FAILED {value['error']}"
    if isinstance(value, list):
        return "\n    " + "\n    ".join(brief(one) for one in value)
    if isinstance(value, dict):
        parts = [f"{k}: ({brief(v)})" if isinstance(v, dict) else f"{k}={shown(v)}" for k, v in value.items()]
        return ", ".join(parts)[:1200]
    return shown(value)


def shown(value: Any) -> str:
    """A figure, short."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + " ".join(shown(one) for one in value[:8]) + "]"
    return str(value)

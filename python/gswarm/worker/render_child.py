"""Renders chats by a model's own template; run by `rendering.py`, in a process of its own.

A template is a program that came with a model. The system bounds the time and the memory that it may take,
which nothing could do within the worker. The first line of input is the template, as JSON; each line after
it is a chat, and is answered by one line.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

SECONDS = 2.0
"""Of computing, for one chat; real templates take some milliseconds."""
MEMORY = 1 << 30


def limit_memory() -> None:
    """Where the system can."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = MEMORY if hard == resource.RLIM_INFINITY else min(MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    except (ImportError, ValueError, OSError):
        pass


def limit_time(seconds: float) -> None:
    """From now on; 0 takes the limit away. The system ends a process that goes beyond."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def compiled(source: str) -> Any:
    """The template, as the library that models are published with has it."""
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(reason: str) -> None:
        raise TemplateError(reason)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    return environment.from_string(source)


def rendered(template: Any, values: dict[str, Any], most: int) -> dict[str, Any]:
    """The text, or why there is none."""
    pieces, length = [], 0
    for piece in template.generate(**values):
        length += len(piece)
        if length > most:
            return {"long": True}
        pieces.append(piece)
    return {"text": "".join(pieces)}


def main() -> None:
    """Answers until there is no more input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_memory()
    source = json.loads(sys.stdin.buffer.readline())
    template: Any = None
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        limit_time(SECONDS)
        try:
            template = template or compiled(source)
            answer = rendered(template, asked["values"], asked["most"])
        except MemoryError:
            answer = {"error": "it takes too much memory"}
        except Exception as error:  # A template may refuse a chat in any way.
            answer = {"error": str(error)[:200] or type(error).__name__}
        limit_time(0)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

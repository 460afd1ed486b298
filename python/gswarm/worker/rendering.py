"""Chats to text by a model's own template, outside of the worker's own process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PATIENCE = 30.0
"""Seconds after which a renderer is ended, whatever it does; by what it computes it ends long before."""
CHILD = Path(__file__).with_name("render_child.py")


class NotRendered(Exception):
    """Why a template gave no text."""


class TooLong(Exception):
    """The text is longer than it may be."""


class Renderer:
    """One template. Its process starts with the first chat, and anew where a chat was its end."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def render(self, values: dict[str, Any], most: int) -> str:
        """The text of a chat, of so many characters at most. From any thread; blocks."""
        with self._lock:
            process = self._started()
            killer = threading.Timer(PATIENCE, process.kill)
            killer.daemon = True
            killer.start()
            try:
                answer = self._asked(process, {"values": values, "most": most})
            finally:
                killer.cancel()
        if answer.get("long"):
            raise TooLong
        if "text" not in answer:
            raise NotRendered(str(answer.get("error")))
        return str(answer["text"])

    def _asked(self, process: subprocess.Popen[bytes], what: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        with contextlib.suppress(OSError):  # It may end at any time.
            process.stdin.write(json.dumps(what).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if line.endswith(b"\n"):
            found: dict[str, Any] = json.loads(line)
            return found
        self._end()
        return {"error": "it takes too long, or too much memory"}

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._end()
        # As text, not as a file: the folder that a file lies in is searched for modules first.
        command = [sys.executable, "-c", CHILD.read_text()]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(self._source).encode() + b"\n")
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def close(self) -> None:
        """Ends its process, also while it renders."""
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._end()

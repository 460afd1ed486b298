"""Files that are either complete or absent."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes) -> Path:
    """Writes a file that takes its name when it is complete; links are followed, and modes are kept.

    What is no file, a device or a pipe, is written to as it is. Errors name the path that was given.
    """
    try:
        try:
            there = path.stat()
        except FileNotFoundError:
            # The umask is only told by being set.
            mask = os.umask(0)
            os.umask(mask)
            _replace(path, 0o666 & ~mask, content)
            return path
        if stat.S_ISREG(there.st_mode) and os.access(path.resolve().parent, os.W_OK):
            # What its owner has made read-only is refused as any other program would be.
            with path.open("r+b"):
                pass
            _replace(path, stat.S_IMODE(there.st_mode), content)
        else:
            path.write_bytes(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    return path


def _replace(path: Path, mode: int, content: bytes) -> None:
    """Writes beside the place, wherever links lead, under another name."""
    target = path.resolve()
    handle, partial = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".partial", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(partial, mode)
        os.replace(partial, target)
    except BaseException:
        os.unlink(partial)
        raise

"""The `gswarm` command: the same program as the Rust one, with the same arguments and exit codes."""

import os
import sys

from . import _gswarm


def main() -> None:
    """Runs the command with this process's arguments, and ends the process with its exit code."""
    name = os.path.basename(sys.argv[0])
    # Started by `python -m gswarm`, the first argument is this file.
    program = "gswarm" if name == "__main__.py" else name
    # Runs on a Ray cluster need a Python that has this package.
    os.environ.setdefault("GSWARM_PYTHON", sys.executable)
    sys.exit(_gswarm.main([program, *sys.argv[1:]]))


if __name__ == "__main__":
    main()

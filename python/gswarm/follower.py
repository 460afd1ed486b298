"""The `gswarm` command for a Python program that waits for it: it ends with that program.

Started as ``python -m gswarm.follower PID ARGUMENTS``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from gswarm.__main__ import main

#: How often it looks whether the program is still there.
LOOK_SECONDS = 0.5


def follow(program: int) -> None:
    """Interrupts this process once it is nobody's child, or another's. What has been done is kept."""
    while os.getppid() == program:
        time.sleep(LOOK_SECONDS)
    # Nobody reads what it would say.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=follow, args=(int(sys.argv[1]),), daemon=True).start()
    sys.argv = ["gswarm", *sys.argv[2:]]
    main()

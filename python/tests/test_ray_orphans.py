"""Processes that are left alone: they end, whatever they were doing."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from ray_support import children, until

pytest.importorskip("ray", reason="Ray is not installed: pip install gswarm-scheduler[ray]")

PROGRAM = """
import sys
import gswarm
gswarm.ray.run(gswarm.generate("simple", requests=2), address=sys.argv[1], speed=10, out=sys.argv[2])
"""


def _is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_the_command_and_its_bridge_end_with_the_program_that_called(tmp_path: Path) -> None:
    # It takes connections, and says nothing. Ray goes to another address of this machine.
    with socket.create_server(("0.0.0.0", 0)) as cluster:
        address = f"127.0.0.1:{cluster.getsockname()[1]}"
        line = [sys.executable, "-c", PROGRAM, address, str(tmp_path / "out")]
        with subprocess.Popen(line, stderr=subprocess.DEVNULL) as program:
            left: list[int] = []

            def all_are_there() -> bool:
                followers = children(program.pid)
                bridges = [pid for follower in followers for pid in children(follower)]
                left[:] = [*followers, *bridges]
                return bool(bridges)

            try:
                until(all_are_there, "the bridge is started")
                cluster.settimeout(60)
                # The first is a look whether anybody is there; the second is Ray's.
                with cluster.accept()[0], cluster.accept()[0]:
                    program.kill()
                    program.wait()
                    until(lambda: not any(_is_there(pid) for pid in left), "they are gone", limit=20)
            finally:
                program.kill()
    assert not (tmp_path / "out").exists()

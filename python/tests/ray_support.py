"""What the tests of runs on Ray share: a cluster of several nodes on this machine, small problems, and runs
as processes.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# All clusters here ask for a token. It is read when Ray is imported: this module has to be imported before.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)

# Workers that only wait are not to wait for others' programs too: Ray would start them with less priority.
os.environ.setdefault("RAY_worker_niceness", "0")

STORE_BYTES = 100 * 1024 * 1024
#: Nodes of the cluster that all tests of a module share, and the GPUs of each, which exist only in name.
NODES, GPUS = 3, 2


def start_cluster() -> Any:
    """A head without GPUs, so that it can stay when nodes with GPUs are killed, and the nodes."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(NODES):
        add_node(cluster)
    return cluster


def add_node(cluster: Any) -> Any:
    """Another node with GPUs."""
    return cluster.add_node(num_cpus=1, num_gpus=GPUS, object_store_memory=STORE_BYTES)


def mend(cluster: Any) -> None:
    """Brings the cluster back to as many nodes as it began with."""
    workers = list(cluster.worker_nodes)
    for node in workers[NODES:]:
        cluster.remove_node(node)
    for _ in range(NODES - len(workers)):
        add_node(cluster)


def chain(seconds: float = 1.0, **models: int) -> dict[str, Any]:
    """A configuration with one workflow, `flow`, in which each of the models is called after the other."""
    names = list(models)
    nodes = [
        {
            "id": f"n{at}",
            "model": name,
            "outputs": [f"out{at}"],
            "inputs": [f"out{at - 1}"] if at else ["seed"],
        }
        for at, name in enumerate(names)
    ]
    described = {
        name: {
            "name": name,
            "memory_gb": 8,
            "gpus_required": gpus,
            "load_time_seconds": 1,
            "inference_time_mean": seconds,
        }
        for name, gpus in models.items()
    }
    edges = [{"from": f"n{at - 1}", "to": f"n{at}"} for at in range(1, len(names))]
    return {"models": described, "workflows": {"flow": {"nodes": nodes, "edges": edges}}}


def requests(count: int) -> dict[str, Any]:
    """Requests for `flow`, each with a number of its own."""
    rows = [
        {
            "request_id": f"r{number}",
            "timestamp": "2025-01-01T00:00:00",
            "workflow_id": "flow",
            "input_data": {"seed": number},
        }
        for number in range(count)
    ]
    return {"requests": rows}


class Run:
    """A run of the `gswarm` command, in a folder of its own."""

    def __init__(self, folder: Path, config: dict[str, Any], count: int) -> None:
        self.folder, self.out = folder, folder / "out"
        self.config, self.requests = folder / "config.json", folder / "requests.json"
        self.config.write_text(json.dumps(config))
        self.requests.write_text(json.dumps(requests(count)))
        self.count = count

    def words(self, address: str, *more: str) -> list[str]:
        """The command line."""
        files = ["--config", str(self.config), "--requests", str(self.requests), "--out", str(self.out)]
        return ["run", "--engine", "ray", "--address", address, "--json", *files, *more]

    def begin(self, address: str, *more: str) -> subprocess.Popen[str]:
        """Starts it."""
        return start(self.words(address, *more))

    def results(self) -> list[dict[str, Any]]:
        """What came of each request."""
        [file] = self.out.glob("*_results.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()]

    def log(self) -> dict[str, Any]:
        """The execution log."""
        [file] = self.out.glob("*_execution_log.json")
        told: dict[str, Any] = json.loads(file.read_text())
        return told

    def is_right(self) -> None:
        """Everything was done exactly once, and the checker has nothing against the log."""
        [file] = self.out.glob("*_execution_log.json")
        checked = finished(
            start(["check", str(file), "--config", str(self.config), "--requests", str(self.requests)])
        )
        assert checked.code == 0, checked.output
        results = self.results()
        assert [row["request_id"] for row in results] == [f"r{number}" for number in range(self.count)]
        assert all(row["status"] == "completed" for row in results), results

    def is_under_way(self, done: int) -> Callable[[], bool]:
        """Whether the journal has so many outputs."""
        return lambda: self.outputs() >= done

    def outputs(self) -> int:
        """How many outputs the journal has."""
        import sqlite3

        journal = self.out / "journal.db"
        if not journal.exists():
            return 0
        with sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=5) as db:
            try:
                return int(db.execute("SELECT COUNT(*) FROM outputs").fetchone()[0])
            except sqlite3.OperationalError:
                return 0


class Finished:
    """A process that has come to its end."""

    def __init__(self, code: int, output: str, errors: str) -> None:
        self.code, self.output, self.errors = code, output, errors


def start(words: list[str], **env: str) -> subprocess.Popen[str]:
    """Starts the command."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gswarm", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    _started.append(process)
    return process


_started: list[subprocess.Popen[str]] = []


def end_all() -> None:
    """Ends what a test that failed has left."""
    while _started:
        process = _started.pop()
        if process.poll() is None:
            process.kill()
        process.communicate()


def finished(process: subprocess.Popen[str], limit: float = 120) -> Finished:
    """Waits for its end."""
    try:
        output, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"it does not come to its end:\n{output}\n{errors}") from None
    return Finished(process.returncode, output, errors)


def until(holds: Callable[[], bool], what: str, limit: float = 60) -> None:
    """Waits for something to hold."""
    since = time.monotonic()
    while not holds():
        if time.monotonic() - since > limit:
            raise AssertionError(f"{what}: not so after {limit} s")
        time.sleep(0.05)


def named(title: str) -> list[int]:
    """The processes whose title begins in this way."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(title.encode()):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            if int(stat.rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(folder.name))
    return found

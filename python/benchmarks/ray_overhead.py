"""What an execution through gswarm on Ray costs beside a plain Ray actor call, and whether anything leaks.

    python python/benchmarks/ray_overhead.py --executions 10000 --out DIR

Emulated models that take no time to speak of, so that all that is measured is the way: engine, journal,
bridge, actor and back. The same number of plain actor calls, as many at once, is made from one process on the
same cluster. The memory of each process is read when a tenth of the executions is done and at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

# Workers that only wait are not to wait for others' programs too: Ray would start them with less priority.
os.environ.setdefault("RAY_worker_niceness", "0")

GPUS = 4
STORE_BYTES = 128 * 1024 * 1024


def main() -> None:
    """Measures both and prints them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--executions", type=int, default=10_000)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    head = {"num_cpus": 1, "num_gpus": GPUS, "object_store_memory": STORE_BYTES, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        plain = asyncio.run(_plain(args.executions))
        told = _through_gswarm(cluster.address, args.executions, args.out)
        told["store_bytes_after"] = _store_used()
        ray.shutdown()
    finally:
        cluster.shutdown()
    told["plain_ms"] = 1000 * plain
    (args.out / "overhead.json").write_text(json.dumps(told, indent=1))
    print(f"{args.executions} executions, {GPUS} at once")
    print(f"through gswarm  {told['gswarm_ms']:.2f} ms each")
    print(f"plain Ray calls {told['plain_ms']:.2f} ms each")
    for name, (early, late) in told["memory_mb"].items():
        print(f"memory of {name:12} {early:7.1f} MB at a tenth, {late:7.1f} MB at the end")
    store = (told["store_bytes_before"], told["store_bytes_after"])
    print(f"object store in use: {store[0]:,} bytes before, {store[1]:,} after")


async def _plain(count: int) -> float:
    """Seconds for each plain call of an actor that takes a dictionary and returns one."""
    actor = _Plain.remote()
    await actor.call.remote({})
    call = {"name": "r0/n0", "inputs": {"seed": 1}, "config": {}, "kind": None, "estimate": 1000}
    left = count

    async def caller() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await actor.call.remote(call)

    since = time.monotonic()
    await asyncio.gather(*(caller() for _ in range(GPUS)))
    return (time.monotonic() - since) / count


@ray.remote(num_cpus=0)
class _Plain:
    async def call(self, call: dict[str, Any]) -> dict[str, Any]:
        """As much as an emulated model says."""
        return {"emulated": True, "call": call.get("name")}


def _through_gswarm(address: str, count: int, out: Path) -> dict[str, Any]:
    requests = count // 2
    out.mkdir(parents=True, exist_ok=True)
    model = {
        "name": "m",
        "memory_gb": 1,
        "gpus_required": 1,
        "load_time_seconds": 0.001,
        "inference_time_mean": 0.001,
    }
    nodes = [{"id": "a", "model": "m"}, {"id": "b", "model": "m"}]
    flow = {"nodes": nodes, "edges": [{"from": "a", "to": "b"}]}
    (out / "config.json").write_text(json.dumps({"models": {"m": model}, "workflows": {"w": flow}}))
    rows = [
        {
            "request_id": f"r{at}",
            "timestamp": "2025-01-01T00:00:00",
            "workflow_id": "w",
            "input_data": {"seed": at},
        }
        for at in range(requests)
    ]
    (out / "requests.json").write_text(json.dumps({"requests": rows}))
    words = ["run", "--engine", "ray", "--address", address, "--policy", "baseline", "--json"]
    words += ["--config", str(out / "config.json"), "--requests", str(out / "requests.json")]
    words += ["--out", str(out / "run"), "--speed", "1"]
    before = _store_used()
    process = subprocess.Popen([sys.executable, "-m", "gswarm", *words], stdout=subprocess.PIPE, text=True)
    early = late = {}
    begun = ended = done = 0.0
    while process.poll() is None:
        done, now = _outputs(out / "run" / "journal.db"), time.monotonic()
        if done and not begun:
            begun, first = now, done
        if done >= count / 10 and not early:
            early = _memory(process.pid)
        if done and done < count:
            ended, last, late = now, done, _memory(process.pid) or late
        time.sleep(0.2)
    told = json.loads(process.communicate()[0])
    assert told["completed_requests"] == requests, told
    return {
        "gswarm_ms": 1000 * (ended - begun) / (last - first),
        "memory_mb": {name: (early[name], late[name]) for name in early},
        "store_bytes_before": before,
    }


def _outputs(journal: Path) -> int:
    if not journal.exists():
        return 0
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True, timeout=5) as db:
        try:
            return int(db.execute("SELECT COUNT(*) FROM outputs").fetchone()[0])
        except sqlite3.OperationalError:
            return 0


def _memory(pid: int) -> dict[str, float]:
    """What each process of a run has in memory, in MB."""
    found = {"gswarm": _resident(pid)}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if parent == pid and b"gswarm.ray.bridge" in words:
            found["bridge"] = _resident(int(folder.name))
        if words[0].startswith(b"ray::Worker"):
            found["worker"] = _resident(int(folder.name))
    return found if len(found) == 3 else {}


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _store_used() -> int:
    whole = ray.cluster_resources().get("object_store_memory", 0)
    return int(whole - ray.available_resources().get("object_store_memory", 0))


if __name__ == "__main__":
    main()

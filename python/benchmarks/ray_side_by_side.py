"""gswarm on Ray beside Ray alone, in one run on one emulated cluster: makespan, loads, and what was expected.

    python python/benchmarks/ray_side_by_side.py --config C --requests R --count 40 --speed 30 --out DIR

Starts a Ray cluster of nodes with GPUs that exist only in name, runs the first requests of the files under
`planned` on it, simulates the same, runs the same calls under Ray alone, and prints the rows, which also go
to DIR/side_by_side.json.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ray
import ray_alone
from problem_files import Problem, sliced
from ray.cluster_utils import Cluster

# Workers that only wait are not to wait for others' programs too: Ray would start them with less priority.
os.environ.setdefault("RAY_worker_niceness", "0")

STORE_BYTES = 128 * 1024 * 1024


def main() -> None:
    """Runs both and prints them."""
    args = _arguments()
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 1,
            "num_gpus": 0,
            "object_store_memory": STORE_BYTES,
            "include_dashboard": False,
        },
    )
    for _ in range(args.nodes):
        cluster.add_node(num_cpus=1, num_gpus=args.gpus_per_node, object_store_memory=STORE_BYTES)
    try:
        problem = sliced(args.config, args.requests, args.count, args.out)
        rows = _rows(args, problem, cluster.address)
    finally:
        cluster.shutdown()
    (args.out / "side_by_side.json").write_text(json.dumps(rows, indent=1))
    cluster_told = f"{args.nodes} nodes x {args.gpus_per_node} GPUs"
    print(f"\n{problem.executions()} executions of {args.count} requests, {cluster_told}")
    print(f"{'':28}{'makespan':>12}{'loads':>8}")
    for name, row in rows.items():
        print(f"{name:28}{row['makespan']:10.1f} s{row['loads']:8}")
    live, told = rows["gswarm on Ray"], rows["simulated"]
    print(f"live against simulated: {100 * (live['makespan'] / told['makespan'] - 1):+.2f}%")
    for name in (f"Ray alone, {kind}" for kind in args.alone):
        faster, fewer = (rows[name][what] / live[what] for what in ("makespan", "loads"))
        print(f"beside {name}: {faster:.2f} times as fast, {fewer:.1f} times fewer loads")


def _rows(args: argparse.Namespace, problem: Problem, address: str) -> dict[str, Any]:
    gpus = args.nodes * args.gpus_per_node
    shared = ["--policy", args.policy, "--gpus", str(gpus), "--gpus-per-server", str(args.gpus_per_node)]
    shared += ["--config", str(problem.config), "--requests", str(problem.requests), "--json"]
    simulated = _gswarm(["run", *shared, "--out", str(args.out / "simulated")])
    on_ray = ["--engine", "ray", "--address", address, "--speed", str(args.speed)]
    live = _gswarm(["run", *shared, *on_ray, "--out", str(args.out / "live")])
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    rows = {"simulated": _row(simulated), "gswarm on Ray": _row(live)}
    if args.one_machine:
        alone_there = ["--gpus", str(args.one_machine), "--gpus-per-server", str(args.one_machine)]
        small = _gswarm(
            ["run", *shared[:2], *alone_there, *shared[6:], "--out", str(args.out / "one_machine")]
        )
        rows = {f"one machine, {args.one_machine} GPUs, simulated": _row(small), **rows}
    try:
        for kind in args.alone:
            alone = asyncio.run(ray_alone.run(problem, gpus, args.gpus_per_node, args.speed, kind))
            rows[f"Ray alone, {kind}"] = vars(alone)
    finally:
        ray.shutdown()
    return rows


def _row(metrics: dict[str, Any]) -> dict[str, Any]:
    loads = metrics["model_switches"] + metrics["cold_loads"]
    return {
        "makespan": metrics["makespan_seconds"],
        "loads": loads,
        "completed": metrics["completed_requests"],
    }


def _gswarm(words: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "gswarm", *words], check=True, stdout=subprocess.PIPE, text=True
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--requests", type=Path, required=True)
    parser.add_argument("--count", type=int, default=40, help="requests, from the first on")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--gpus-per-node", type=int, default=4)
    parser.add_argument("--alone", nargs="*", default=["pool", "split"], choices=["pool", "split"])
    parser.add_argument("--one-machine", type=int, metavar="GPUS", help="also what one machine would take")
    parser.add_argument("--policy", default="planned")
    parser.add_argument("--speed", type=float, default=30.0, help="seconds of the models' time in a second")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()

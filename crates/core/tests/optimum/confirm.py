"""Holds the planner's schedules against a general solver, OR-Tools CP-SAT, on problems of 20 to 60 nodes.

    python3 -m venv target/ortools && target/ortools/bin/pip install ortools==9.15.6755
    target/ortools/bin/python crates/core/tests/optimum/confirm.py --gswarm target/release/gswarm \\
        [--nodes 20,40,60] [--seeds 0-4] [--seconds 60] [--rounds 200] [--any]

For each problem `gswarm plan` gives its schedule; the solver, which knows nothing of how it was found, gets its makespan as
one that is possible, and looks for the shortest. It fails (exit code 1) where the solver finds a shorter schedule than one
that gswarm calls optimal, or proves a bound above gswarm's makespan. Where the solver proves its optimum, it says whether
the planner found it; where it does not in the time given, nothing is known but its bound. Minutes on several idle cores help.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from make import as_files, draw, draw_plain, solve


def planned(gswarm, problem, rounds):
    """What `gswarm plan` says of a problem, and the start and first GPU of each task."""
    config, requests = as_files(*problem)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "requests.json").write_text(json.dumps(requests))
        files = ["--config", folder / "config.json", "--requests", folder / "requests.json", "--out", folder]
        limits = ["--budget", "1h", "--rounds", str(rounds), "--seed", "1"]
        done = subprocess.run([gswarm, "plan", "--json", *limits, *files], capture_output=True, text=True, check=True)
        log = json.loads((folder / "planned_execution_log.json").read_text())
    ran = {(one["request_id"], one["node_id"]): (one["start_time"], one["gpu_ids"][0]) for one in log["executions"]}
    names = [(f"r{at:02}", f"n{place}") for at, (_, times) in enumerate(problem[3]) for place in range(len(times))]
    return json.loads(done.stdout), [ran[name] for name in names]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gswarm", required=True)
    parser.add_argument("--nodes", default="20,30,40,50,60")
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--any", action="store_true", help="problems of all kinds: the solver closes next to none of them")
    arguments = parser.parse_args()
    low, high = map(int, arguments.seeds.split("-"))
    confirmed = shorter = contradicted = 0
    for nodes in map(int, arguments.nodes.split(",")):
        for seed in range(low, high + 1):
            problem = (draw if arguments.any else draw_plain)(seed, nodes)
            ours, starts = planned(arguments.gswarm, problem, arguments.rounds)
            makespan, proved = ours["makespan"], ours["optimal"]
            status, best, bound = solve(problem, arguments.seconds, (makespan, starts))
            # Whole tenths of a second on both sides.
            is_shorter = status in ("OPTIMAL", "FEASIBLE") and best < makespan - 0.05
            wrong = bound > makespan + 0.05 or status == "INFEASIBLE" or proved and is_shorter
            if wrong:
                said, contradicted = "CONTRADICTED", contradicted + 1
            elif is_shorter:
                said, shorter = "the solver's is shorter", shorter + 1
            elif status == "OPTIMAL":
                said, confirmed = "confirmed", confirmed + 1
            else:
                said = "not decided by the solver"
            size = sum(len(times) for _, times in problem[3])
            print(
                f"{size} nodes, seed {seed}, {problem[0]} GPUs: {makespan:.1f} s"
                f"{' (proved)' if proved else ''}; solver: {status}, bound {bound:.1f} s: {said}",
                flush=True,
            )
    print(f"{confirmed} confirmed, {shorter} found shorter by the solver, {contradicted} contradicted")
    sys.exit(1 if contradicted else 0)


if __name__ == "__main__":
    main()

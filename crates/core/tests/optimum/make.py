"""Small problems and their shortest schedules, by a general solver: OR-Tools CP-SAT.

    python3 -m venv venv && venv/bin/pip install ortools
    venv/bin/python make.py [--seconds 60] [--seeds 0-39]     writes problem_*.json beside this file

Each file holds a configuration and requests as gswarm reads them, the number of GPUs, and the shortest makespan. Only
problems that the solver closes are written, so with less time (or another version) there are fewer of them. The tests
read the files and need neither Python nor the solver.

The model knows nothing of gswarm's search: every task has a window, every GPU a circuit through its tasks, and between
two tasks of a GPU the new model is loaded straight, or after a model that needs one GPU and executes nothing (which makes
the load no cheaper than one onto an empty GPU). Problems are small (8 to 12 nodes): on larger ones the solver does not
close the gap in minutes.
"""

import argparse
import json
import math
import pathlib
import random

from ortools.sat.python import cp_model

HERE = pathlib.Path(__file__).parent
UNIT = 10  # Everything is in tenths of a second.


def draw(seed, size=None):
    """A problem: chains and diamonds over a few models of one, two or four GPUs; of `size` nodes, or a few less."""
    rng = random.Random(seed)
    gpus = rng.choice([2, 3, 4])
    models = []
    for number in range(rng.choice([2, 3, 4])):
        width = min(rng.choice([1, 1, 2, 4]), gpus) if number else 1
        if width == 3:
            width = 2
        # Multiples of 1.6 GB: at 16 GB/s every switch takes a whole number of tenths.
        # The smallest needs one GPU: then no detour by a wider model is of use, which this model of the problem leaves out.
        memory = round(1.6 * (rng.choice([1, 4, 9, 16, 25, 40]) if number else 1), 1)
        models.append({"memory_gb": memory, "gpus_required": width, "load_time_seconds": float(2 + int(memory * 0.8))})
    workflows = []
    for _ in range(2):
        if rng.random() < 0.5:
            nodes = [rng.randrange(len(models)) for _ in range(rng.randint(1, 4))]
            edges = [(at, at + 1) for at in range(len(nodes) - 1)]
        else:
            nodes = [rng.randrange(len(models)) for _ in range(4)]
            edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
        workflows.append((nodes, edges))
    size = size or 8 + seed % 5
    requests, total = [], 0
    while True:
        workflow = rng.randrange(2)
        nodes = workflows[workflow][0]
        if total + len(nodes) > size:
            break
        requests.append((workflow, [rng.randint(1, 30) / 2 for _ in nodes]))
        total += len(nodes)
    return gpus, models, workflows, requests


def draw_plain(seed, size):
    """One that a solver can close although it is larger: short chains over two models of one GPU each, and all times in
    halves of a second."""
    rng = random.Random(seed)
    gpus = rng.choice([2, 3])
    models = [
        {"memory_gb": memory, "gpus_required": 1, "load_time_seconds": float(rng.randint(2, 6))}
        for memory in (4.0, rng.choice([12.0, 28.0, 44.0]))
    ]
    workflows = [([0], []), ([1], []), ([rng.randrange(2), rng.randrange(2)], [(0, 1)])]
    requests, total = [], 0
    while total < size:
        workflow = rng.randrange(3 if size - total > 1 else 2)
        nodes = workflows[workflow][0]
        requests.append((workflow, [rng.randint(1, 30) / 2 for _ in nodes]))
        total += len(nodes)
    return gpus, models, workflows, requests


def as_files(gpus, models, workflows, requests):
    config = {
        "models": {f"m{at}": {"name": f"m{at}", **model} for at, model in enumerate(models)},
        "workflows": {
            f"w{at}": {
                "name": f"w{at}",
                "nodes": [{"id": f"n{place}", "model": f"m{model}"} for place, model in enumerate(nodes)],
                "edges": [{"from": f"n{a}", "to": f"n{b}"} for a, b in edges],
            }
            for at, (nodes, edges) in enumerate(workflows)
        },
        "cluster": {"gpus": gpus},
    }
    listed = [
        {
            "request_id": f"r{at:02}",
            "timestamp": 0,
            "workflow_id": f"w{workflow}",
            "node_execution_times": {f"n{place}": time for place, time in enumerate(times)},
        }
        for at, (workflow, times) in enumerate(requests)
    ]
    return config, {"requests": listed}


def straight(models, held, new):
    """Tenths of a second for one load; `held` is None on an empty GPU."""
    if held == new:
        return 0
    if held is None:
        return round(UNIT * models[new]["load_time_seconds"])
    return round(UNIT * ((models[held]["memory_gb"] + models[new]["memory_gb"]) / 16.0 + 2.0))


def ways(models, held, new, unit=1):
    """(before, last) for each way that is not worse in both parts than another, in `unit` tenths of a second."""
    found = [(0, straight(models, held, new))]
    for via, model in enumerate(models):
        if model["gpus_required"] == 1 and via != held:
            last = max(straight(models, via, new), straight(models, None, new))
            found.append((straight(models, held, via), last))
    kept = [way for way in set(found) if not any(a != way and a[0] <= way[0] and a[1] <= way[1] for a in found)]
    return [(before // unit, last // unit) for before, last in kept]


def follows(starts, tasks, models, gpu):
    """Which task comes after which on a GPU, in a known schedule."""
    here = [
        (begins, at)
        for at, (begins, first) in enumerate(starts)
        if first <= gpu < first + models[tasks[at][0]]["gpus_required"]
    ]
    order = [None, *(at for _, at in sorted(here))]
    return set(zip(order, order[1:]))


def solve(problem, seconds, known=None):
    """The solver's status, the best makespan it has and its bound, in seconds. A schedule that is known (makespan, and the
    start and first GPU of each task, in order) makes the search shorter."""
    gpus, models, workflows, requests = problem
    solver_model = cp_model.CpModel()
    tasks = []
    for number, (workflow, times) in enumerate(requests):
        nodes, edges = workflows[workflow]
        first = len(tasks)
        for place, (model, time) in enumerate(zip(nodes, times)):
            inputs = [first + a for a, b in edges if b == place]
            tasks.append((model, round(UNIT * time), inputs))
    # All times of a schedule are multiples of what these are multiples of.
    loads = [straight(models, held, new) for held in [None, *range(len(models))] for new in range(len(models))]
    unit = math.gcd(*loads, *(time for _, time, _ in tasks))
    tasks = [(model, time // unit, inputs) for model, time, inputs in tasks]
    horizon = sum(time + 2 * max(*loads) // unit for _, time, _ in tasks)
    if known is not None:
        horizon = round(UNIT * known[0] / unit)
    variable = lambda name: solver_model.new_int_var(0, horizon, name)
    start = [variable(f"start{at}") for at in range(len(tasks))]
    begin = [variable(f"begin{at}") for at in range(len(tasks))]
    load = [variable(f"load{at}") for at in range(len(tasks))]
    makespan = variable("makespan")
    on = {}
    for at, (model, time, inputs) in enumerate(tasks):
        width = models[model]["gpus_required"]
        windows = [solver_model.new_bool_var(f"window{at}_{first}") for first in range(gpus - width + 1)]
        solver_model.add_exactly_one(windows)
        if known is not None:
            begins, first_gpu = known[1][at]
            solver_model.add_hint(start[at], round(UNIT * begins / unit))
            for first, lit in enumerate(windows):
                solver_model.add_hint(lit, first == first_gpu)
        for gpu in range(gpus):
            here = [lit for first, lit in enumerate(windows) if first <= gpu < first + width]
            on[at, gpu] = solver_model.new_bool_var(f"on{at}_{gpu}")
            solver_model.add(sum(here) == on[at, gpu])
        solver_model.add(start[at] >= begin[at] + load[at])
        for before in inputs:
            solver_model.add(start[at] >= start[before] + tasks[before][1])
        solver_model.add(makespan >= start[at] + time)
    for gpu in range(gpus):
        arcs = [(0, 0, solver_model.new_bool_var(f"unused{gpu}"))]
        between = []
        order = follows(known[1], tasks, models, gpu) if known is not None else None
        for at, (model, _, _) in enumerate(tasks):
            arcs.append((at + 1, at + 1, on[at, gpu].negated()))
            arcs.append((at + 1, 0, solver_model.new_bool_var(f"last{at}_{gpu}")))
            for before in [None, *range(len(tasks))]:
                if before == at:
                    continue
                arc = solver_model.new_bool_var(f"arc{before}_{at}_{gpu}")
                arcs.append((0 if before is None else before + 1, at + 1, arc))
                if order is not None:
                    solver_model.add_hint(arc, (before, at) in order)
                held = None if before is None else tasks[before][0]
                free = 0 if before is None else start[before] + tasks[before][1]
                choices = []
                for ahead, last in ways(models, held, model, unit):
                    choice = solver_model.new_bool_var("")
                    solver_model.add(begin[at] >= free + ahead).only_enforce_if(choice)
                    solver_model.add(load[at] >= last).only_enforce_if(choice)
                    choices.append(choice)
                solver_model.add_bool_or(choices).only_enforce_if(arc)
                between.append(min(map(sum, ways(models, held, model, unit))) * arc)
        solver_model.add_circuit(arcs)
        # What a GPU executes and the loads between fit into the time: a sum that the solver's linear part can use.
        solver_model.add(sum(task[1] * on[at, gpu] for at, task in enumerate(tasks)) + sum(between) <= makespan)
        # The same by models: each that a GPU serves at all has to come onto it once at the least.
        entries = []
        for number in sorted({task[0] for task in tasks}):
            served = solver_model.new_bool_var(f"served{number}_{gpu}")
            for at, task in enumerate(tasks):
                if task[0] == number:
                    solver_model.add_implication(on[at, gpu], served)
            others = [None, *(other for other in range(len(models)) if other != number)]
            entries.append(min(sum(way) for held in others for way in ways(models, held, number, unit)) * served)
        solver_model.add(sum(task[1] * on[at, gpu] for at, task in enumerate(tasks)) + sum(entries) <= makespan)
    # True of every schedule, and not seen by the solver by itself: what a GPU does does not overlap, all executions together
    # fit into the cluster, and work fits into the time of the GPUs.
    end = [start[at] + time for at, (_, time, _) in enumerate(tasks)]
    for gpu in range(gpus):
        spans = []
        for at in range(len(tasks)):
            size = variable(f"span{at}_{gpu}")
            spans.append(solver_model.new_optional_interval_var(begin[at], size, end[at], on[at, gpu], ""))
        solver_model.add_no_overlap(spans)
    executions = [solver_model.new_interval_var(start[at], task[1], end[at], "") for at, task in enumerate(tasks)]
    solver_model.add_cumulative(executions, [models[task[0]]["gpus_required"] for task in tasks], gpus)
    area = sum(time * models[model]["gpus_required"] for model, time, _ in tasks)
    solver_model.add(gpus * makespan >= area)
    solver_model.minimize(makespan)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    status = solver.solve(solver_model)
    return solver.status_name(status), solver.objective_value * unit / UNIT, solver.best_objective_bound * unit / UNIT


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seeds", default="0-39")
    arguments = parser.parse_args()
    low, high = map(int, arguments.seeds.split("-"))
    for seed in range(low, high + 1):
        problem = draw(seed)
        nodes = sum(len(times) for _, times in problem[3])
        status, makespan, bound = solve(problem, arguments.seconds)
        print(f"seed {seed}: {nodes} nodes, {problem[0]} GPUs: {status} {makespan} (bound {bound})", flush=True)
        if status != "OPTIMAL":
            continue
        config, requests = as_files(*problem)
        text = {"nodes": nodes, "gpus": problem[0], "optimum": makespan, "config": config, "requests": requests}
        (HERE / f"problem_{seed:02}.json").write_text(json.dumps(text) + "\n")


if __name__ == "__main__":
    main()

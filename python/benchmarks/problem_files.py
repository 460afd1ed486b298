"""The two input files of a problem, as far as benchmarks need them: a slice of their requests, and who waits
for whom.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Node:
    """A node of a request: its model, what it waits for and how long it takes."""

    name: str
    model: str
    after: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Problem:
    """A configuration and some requests, as files and as data."""

    config: Path
    requests: Path
    models: dict[str, dict[str, Any]]
    nodes: dict[str, dict[str, Node]]

    def executions(self) -> int:
        """How many nodes are run."""
        return sum(len(nodes) for nodes in self.nodes.values())


def sliced(config: Path, requests: Path, count: int, folder: Path) -> Problem:
    """The problem with its first `count` requests, written into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    # libyaml reads these files some ten times as fast, where it is there.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    said = json.loads(config.read_text())
    rows = yaml.load(requests.read_text(), Loader=loader)["requests"][:count]
    cut = folder / "requests.json"
    cut.write_text(json.dumps({"requests": rows}))
    return Problem(config, cut, said["models"], {row["request_id"]: _nodes(said, row) for row in rows})


def _nodes(config: dict[str, Any], row: dict[str, Any]) -> dict[str, Node]:
    workflow = config["workflows"][row["workflow_id"]]
    names = [str(node["id"]) for node in workflow["nodes"]]
    nodes = {}
    for node in workflow["nodes"]:
        name, model = str(node["id"]), str(node["model"])
        edges = workflow.get("edges", [])
        # An edge from a node that is not there says nothing.
        after = tuple(edge["from"] for edge in edges if edge["to"] == name and edge["from"] in names)
        nodes[name] = Node(name, model, after, _seconds(config["models"][model], row, name))
    return nodes


def _seconds(model: dict[str, Any], row: dict[str, Any], node: str) -> float:
    given = row.get("node_execution_times", {}).get(node)
    if given is not None:
        return float(given)
    if "inference_time_mean" in model:
        return float(model["inference_time_mean"])
    return float(model["token_mean"]) / float(model["tokens_per_second"])

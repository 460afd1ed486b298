"""Problems from objects and files, and all that can be wrong with them."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pytest

import gswarm

CONFIG: dict[str, Any] = {
    "models": {
        "llm": {"memory_gb": 14, "gpus_required": 1, "load_time_seconds": 20, "inference_time_mean": 5},
        "big": {"memory_gb": 140, "gpus_required": 2, "load_time_seconds": 60, "inference_time_mean": 9},
    },
    "workflows": {
        "answer": {
            "nodes": [{"id": "draft", "model": "llm"}, {"id": "judge", "model": "big"}],
            "edges": [{"from": "draft", "to": "judge"}],
        }
    },
}


def requests(count: int = 3) -> list[dict[str, Any]]:
    return [
        {"request_id": f"r{number}", "timestamp": number, "workflow_id": "answer"} for number in range(count)
    ]


@dataclass
class Request:
    request_id: str
    timestamp: datetime
    workflow_id: str = "answer"
    priority: int | None = None
    node_execution_times: dict[str, float] = field(default_factory=dict)


def log_of(problem: gswarm.Problem) -> bytes:
    return gswarm.run(problem, "baseline", gpus=2).log()


def test_the_same_problem_comes_of_dicts_objects_and_frames(tmp_path: Path) -> None:
    by_dicts = gswarm.Problem(CONFIG, requests())
    start = datetime(2024, 1, 1)
    by_dataclasses = [Request(f"r{number}", start + timedelta(seconds=number)) for number in range(3)]
    by_attributes = [SimpleNamespace(**one) for one in requests()]
    frame = pandas.DataFrame(requests())
    log = log_of(by_dicts)
    for given in (by_dataclasses, by_attributes, frame, {"requests": requests()}, iter(requests())):
        assert log_of(gswarm.Problem(CONFIG, given)) == log
    files = by_dicts.save(tmp_path)
    assert log_of(gswarm.load(*files)) == log
    assert repr(by_dicts) == "Problem(2 models, 1 workflows, 3 requests)"
    assert (by_dicts.models, by_dicts.workflows, by_dicts.request_count) == (["llm", "big"], ["answer"], 3)


def test_frames_have_columns_inside_columns_and_missing_values() -> None:
    frame = pandas.DataFrame(requests())
    frame["node_execution_times.draft"] = [1.5, None, 2.5]
    frame["deadline_seconds"] = [float("nan"), 60.0, float("nan")]
    frame["priority"] = pandas.array([1, None, 2], dtype="Int64")
    given = requests()
    given[0].update(node_execution_times={"draft": 1.5}, priority=1)
    given[1].update(deadline_seconds=60.0)
    given[2].update(node_execution_times={"draft": 2.5}, priority=2)
    assert log_of(gswarm.Problem(CONFIG, frame)) == log_of(gswarm.Problem(CONFIG, given))


def test_every_fault_is_reported_at_once() -> None:
    config = copy.deepcopy(CONFIG)
    config["models"]["llm"]["memory_gb"] = -1
    config["workflows"]["answer"]["nodes"][1]["model"] = "bigg"
    config["workflows"]["answer"]["edges"].append({"from": "judge", "to": "draft"})
    wrong = requests()
    wrong[1]["request_id"] = "r0"
    wrong[2]["workflow_id"] = "anser"
    wrong[0]["node_execution_times"] = {"draft": float("nan")}
    with pytest.raises(gswarm.InputError) as raised:
        gswarm.Problem(config, wrong)
    found = raised.value.diagnostics
    paths = {one.path for one in found}
    assert {"models.llm.memory_gb", "workflows.answer.nodes[1].model", "requests[1].request_id"} <= paths
    assert {"requests[2].workflow_id", "requests[0].node_execution_times.draft"} <= paths
    assert any("`answer`" in (one.hint or "") for one in found)
    assert all(one.line is None and one.column is None for one in found)
    assert {one.file for one in found} == {"<config>", "<requests>"}
    assert all(one.code.startswith("E") and one.severity == "error" for one in found)
    assert all(one.code in str(raised.value) for one in found)
    assert raised.value.exit_code == 2
    again = pickle.loads(pickle.dumps(raised.value))
    assert again.diagnostics == found


def test_faults_of_files_have_lines_and_columns(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("models:\n  a: {memory_gb: x}\nworkflows: {}\n")
    (tmp_path / "requests.yaml").write_text("requests:\n  - {request_id: 1}\n")
    with pytest.raises(gswarm.InputError) as raised:
        gswarm.load(tmp_path / "config.yaml", tmp_path / "requests.yaml")
    places = {(Path(one.file).name, one.line, one.column) for one in raised.value.diagnostics}
    assert ("config.yaml", 2, 18) in places
    assert any(name == "requests.yaml" for name, _, _ in places)


def test_files_that_are_not_there_are_named_both(tmp_path: Path) -> None:
    with pytest.raises(gswarm.InputError) as raised:
        gswarm.load(tmp_path / "a.json", tmp_path / "b.json")
    assert [Path(one.file).name for one in raised.value.diagnostics] == ["a.json", "b.json"]


@pytest.mark.parametrize("rubbish", ["text", 7, None, b"bytes", [1], [None], {"requests": 3}])
def test_rubbish_for_requests_is_refused(rubbish: Any) -> None:
    with pytest.raises((gswarm.InputError, TypeError)):
        gswarm.Problem(CONFIG, rubbish)


@pytest.mark.parametrize("rubbish", ["text", 7, None, {}, object()])
def test_rubbish_for_a_configuration_is_refused(rubbish: Any) -> None:
    with pytest.raises((gswarm.InputError, TypeError)):
        gswarm.Problem(rubbish, requests())


def test_warnings_are_kept() -> None:
    config = {**CONFIG, "modells": {}}
    warned = gswarm.Problem(config, requests()).warnings
    assert [one.severity for one in warned] == ["warning"]
    assert "modells" in warned[0].message + warned[0].path


def test_problems_are_pickled_and_copied(problem: gswarm.Problem) -> None:
    for again in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        logs = [gswarm.run(one, "baseline", gpus=8).log() for one in (again, problem)]
        assert logs[0] == logs[1]
        assert again.name == problem.name


def test_a_stream_needs_timestamps() -> None:
    given = requests()
    del given[1]["timestamp"]
    problem = gswarm.Problem(CONFIG, given)
    with pytest.raises(gswarm.InputError) as raised:
        gswarm.run(problem, "adaptive", gpus=2, mode="online")
    assert raised.value.diagnostics[0].path == "requests[1].timestamp"


def test_nodes_without_a_time_need_a_predictor() -> None:
    config = copy.deepcopy(CONFIG)
    del config["models"]["llm"]["inference_time_mean"]
    with pytest.raises(gswarm.InputError, match="no execution time"):
        gswarm.Problem(config, requests())
    problem = gswarm.Problem(config, requests(), predicted=True)
    with pytest.raises(gswarm.InputError, match="no execution time"):
        gswarm.run(problem, "baseline", gpus=2)

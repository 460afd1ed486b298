"""Run times learned from runs and tables."""

from __future__ import annotations

import pickle
import random
from pathlib import Path
from typing import Any

import pandas
import pytest
from conftest import command

import gswarm


@pytest.fixture(scope="module")
def table() -> pandas.DataFrame:
    """Times that follow from a size and a device, nearly."""
    draw = random.Random(1)
    rows = []
    for _ in range(400):
        size, device = draw.uniform(1, 100), draw.choice(["cpu", "gpu"])
        rows.append((size, device, size * (3 if device == "cpu" else 1) * draw.uniform(0.95, 1.05)))
    return pandas.DataFrame(rows, columns=["size", "device", "run_seconds"])


def test_a_table_is_learned_from(table: pandas.DataFrame, tmp_path: Path) -> None:
    predictor = gswarm.train(table, "run_seconds", trees=50)
    assert predictor.report is not None
    assert predictor.report["test"]["r2"] > 0.95
    assert (predictor.kind, predictor.target) == ("gradient_boosting", "run_seconds")
    assert set(predictor.features) == {"size", "device"}
    found = predictor.predict({"size": [50.0, 50.0], "device": ["cpu", "gpu"]})
    assert found.mean[0] == pytest.approx(150, rel=0.15)
    assert found.mean[1] == pytest.approx(50, rel=0.15)
    assert all(low < mean < high for low, mean, high in zip(found.low, found.mean, found.high, strict=True))
    assert list(found.to_pandas().columns) == ["mean", "low", "high"]
    again = gswarm.Predictor.load(predictor.save(tmp_path / "a.model"))
    asked = {"size": [7.0], "device": ["cpu"]}
    assert (
        again.predict(asked) == predictor.predict(asked) == pickle.loads(pickle.dumps(again)).predict(asked)
    )
    assert again.report is None
    assert "gradient_boosting of run_seconds" in repr(again)
    table.to_csv(tmp_path / "table.csv", index=False)
    of_file = gswarm.train(tmp_path / "table.csv", "run_seconds", trees=50)
    assert of_file.predict(asked).mean == pytest.approx(predictor.predict(asked).mean)
    dicts = gswarm.train(table.to_dict(orient="list"), "run_seconds", trees=50)
    assert dicts.predict(asked) == predictor.predict(asked)


def test_a_runs_log_is_learned_from_and_believed(problem: gswarm.Problem, tmp_path: Path) -> None:
    past = gswarm.generate("simple", requests=300, seed=1)
    predictor = gswarm.train(gswarm.run(past, "adaptive", gpus=8), name="past.model")
    predictor.save(tmp_path / "past.model")
    result = gswarm.run(problem, "adaptive", gpus=8, predictor=predictor, truth="requests", learn=True)
    assert result.check() == []
    assert gswarm.check(result, problem, predictor=predictor) == []
    config, requests = problem.save(tmp_path)
    ran = command(
        *("run", "--policy", "adaptive", "--gpus", 8, "--predictor", tmp_path / "past.model"),
        *("--truth", "requests", "--learn", "-q", "--out", tmp_path),
        *("--config", config, "--requests", requests),
    )
    assert ran.returncode == 0, ran.stderr
    assert result.log() == (tmp_path / "adaptive_execution_log.json").read_bytes()


def test_what_cannot_be_learned_from_is_refused(table: pandas.DataFrame) -> None:
    with pytest.raises(gswarm.InputError) as raised:
        gswarm.train(table.head(10), "nothing")
    assert raised.value.diagnostics
    with pytest.raises(gswarm.InputError):
        gswarm.train(table, "device")
    with pytest.raises(gswarm.InputError, match="target"):
        gswarm.train(table)
    anything: Any = "oracle"
    with pytest.raises(gswarm.UsageError, match="there are random_forest"):
        gswarm.train(table, "run_seconds", kind=anything)
    with pytest.raises(gswarm.UsageError, match="differs in length"):
        gswarm.train({"a": [1.0], "b": [1.0, 2.0]}, "a")
    predictor = gswarm.train(table, "run_seconds", kind="linear")
    with pytest.raises(gswarm.InputError):
        predictor.predict({"size": [1.0]})

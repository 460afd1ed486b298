"""Flags that make no sense are told, with the exit code of a mistake in the call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from worker_client import GUARD, ROOT

pytest.importorskip("torch")

from gswarm.worker.__main__ import refusal
from gswarm.worker.batch_engine import ImageEngine, ImageJob
from gswarm.worker.fault import Fault
from gswarm.worker.model import Model
from gswarm.worker.options import Options, read
from gswarm.worker.place import Place
from gswarm.worker.shapes import shape

WRONG = [
    (["--max-batch", "0"], "argument --max-batch: `0` is not a whole number from 1 to 4096"),
    (["--max-context", "0"], "argument --max-context: `0` is not a whole number from 2"),
    (["--memory-gb", "-1"], "argument --memory-gb: `-1` is not a number above 0"),
    (["--memory-gb", "nan"], "argument --memory-gb: `nan` is not a number above 0"),
    (["--host-gb", "inf"], "argument --host-gb"),
    (["--port", "99999"], "argument --port: `99999` is not a whole number from 0 to 65535"),
    (["--port", "x"], "argument --port: `x` is not a whole number"),
    (["--threads", "0"], "argument --threads"),
    (["--device", "tape"], "`tape` is not a device: write cpu"),
    (["--token-file", "/nowhere/at/all"], "argument --token-file: .*No such file"),
    (["--random", "tiny-llm", "--random", "tiny-llm"], "`tiny-llm` is given twice"),
    (["--random", "=x"], "cannot be the name of a model"),
    (["--random", "../../x=tiny-llm"], "cannot be the name of a model"),
    (["--random", "x="], "names no shape"),
]


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_senseless_flags_are_told(at: int, capsys: pytest.CaptureFixture[str]) -> None:
    flags, reason = WRONG[at]
    with pytest.raises(SystemExit) as found:
        read(flags)
    assert found.value.code == 2
    said = capsys.readouterr().err
    with pytest.raises(AssertionError, match=rf"error: .*{reason}.*\nhint: "):
        raise AssertionError(said)


def test_there_has_to_be_something_to_serve(tmp_path: Path) -> None:
    assert "there is no model to serve" in (refusal(read([])) or "")
    assert "no such folder" in (refusal(read(["--models", str(tmp_path / "none")])) or "")
    assert refusal(read(["--models", str(tmp_path)])) is None, "models may come later"
    (tmp_path / "config.json").write_text("{}")
    assert "this is a model; pass its parent folder" in (refusal(read(["--models", str(tmp_path)])) or "")
    assert refusal(read(["--random", "org/a.b=tiny-llm", "--random", "tiny-llm"])) is None


def test_the_program_says_so_too() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    command = [sys.executable, "-m", "gswarm.worker", "--max-batch", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD, env=environment)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: argument --max-batch"), done.stderr


def painter(place: Place) -> tuple[Model, ImageEngine]:
    model = Model("org/painter", shape("tiny-image"), place)
    model.wake()
    assert isinstance(model.engine, ImageEngine)
    return model, model.engine


def paint(engine: ImageEngine) -> Path:
    job = ImageJob("a cat", 1, 0)
    engine.submit(job)
    return Path(job.future.result(GUARD)["image_path"])


def test_pictures_of_two_workers_do_not_meet(tmp_path: Path) -> None:
    for out in (None, tmp_path):
        both = [painter(Place(Options(out=out))) for _ in range(2)]
        try:
            paths = [paint(engine) for _, engine in both for _ in range(2)]
            assert len(set(paths)) == 4
            assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
        finally:
            for model, _ in both:
                model.close()
        for path in paths:
            path.unlink()
            if out is None and not list(path.parent.iterdir()):
                path.parent.rmdir()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_told_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, engine = painter(Place(Options(out=tmp_path)))
    usual = Path.open

    def full(path: Path, mode: str = "r") -> object:
        if path.suffix != ".png":
            return usual(path, mode)
        usual(path, mode).close()
        return usual(Path("/dev/full"), "wb")

    try:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", full)
            with pytest.raises(Fault, match=r"cannot write .*\.png: No space left on device"):
                paint(engine)
        assert list(tmp_path.iterdir()) == []
        assert paint(engine).exists()
    finally:
        model.close()


def test_the_example_says_how_it_is_used() -> None:
    command = [sys.executable, str(ROOT / "examples" / "gpu" / "requests.py"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")

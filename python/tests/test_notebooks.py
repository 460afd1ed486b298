"""The notebooks run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import nbclient
import nbformat
import pytest
from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "python" / "notebooks").glob("*.ipynb"))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "outputs are not kept"
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert any(cell.get("outputs") for cell in notebook.cells)


@pytest.mark.filterwarnings("default")
def test_progress_shows_below_a_cell_and_goes_again(tmp_path: Path) -> None:
    code = """
import gswarm
from gswarm import progress
shown = []
class Seen(progress._Notebook):
    def show(self, text):
        shown.append(text)
        super().show(text)
progress._Notebook = Seen
plan = gswarm.plan(gswarm.generate("complex", requests=300), gpus=16, budget=2)
print(any("gswarm: planning" in text for text in shown), repr(shown[-1]))
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    texts = [output["text"] for output in notebook.cells[0].outputs if output.output_type == "stream"]
    assert texts == ["True ''\n"]
    assert any(output.output_type == "display_data" for output in notebook.cells[0].outputs)


def test_there_are_notebooks() -> None:
    names = ["capacity_planning", "first_steps", "learning_run_times", "write_your_own_policy"]
    assert [path.stem for path in NOTEBOOKS] == names

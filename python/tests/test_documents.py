"""The Python code of the documents runs as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT

import gswarm


def blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    return [rest.split("```")[0] for rest in text.split("```python\n")[1:]]


@pytest.mark.parametrize(("page", "least"), [("README.md", 1), ("docs/python.md", 2)])
def test_the_code_of_a_page_runs(
    page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    made = gswarm.generate("simple", requests=40)
    # The names that the pages give the files; JSON is YAML too.
    for config, requests in [("config.json", "requests.yaml"), ("work/config.yaml", "work/requests.yaml")]:
        Path(config).parent.mkdir(exist_ok=True)
        for name, (_, text) in zip((config, requests), made._inputs.sources, strict=True):
            Path(name).write_bytes(text)
    found = blocks(page)
    assert len(found) >= least
    space: dict[str, object] = {}
    for block in found:
        exec(compile(block, page, "exec"), space)
    plt.close("all")
    assert Path("log.json").exists()

"""The extra `worker` lists the packages that the worker imports, and no others."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from worker_client import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

DISTRIBUTIONS = {
    "h11": "h11",
    "jinja2": "jinja2",
    "tokenizers": "tokenizers",
    "torch": "torch",
    "triton": "torch",  # PyTorch for CUDA brings its own version.
    "uvicorn": "uvicorn",
}


def imported(path: Path) -> set[str]:
    """Top-level modules that a file imports from outside its package, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


def test_the_extra_lists_what_is_imported() -> None:
    files = list((ROOT / "python" / "gswarm" / "worker").rglob("*.py"))
    names = {name for path in files for name in imported(path)} - set(sys.stdlib_module_names)
    assert names == set(DISTRIBUTIONS)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = [re.split(r"[^\w.-]", one)[0] for one in extras["worker"]]
    assert sorted(listed) == sorted(set(DISTRIBUTIONS.values()))

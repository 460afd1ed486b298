"""Workflows, traces and logs of other programs as problems, as `gswarm import` reads them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from ._command import carry_out, flags
from ._options import keywords, refuse_unknown
from .problem import Problem, load

if TYPE_CHECKING:
    from typing_extensions import Unpack

ImportKind: TypeAlias = Literal[
    "comfyui",
    "dify",
    "wfcommons",
    "azure",
    "mooncake",
    "burstgpt",
    "gentd26",
    "openai-log",
    "openai-batch",
    "sharegpt",
    "otlp",
    "langfuse",
    "litellm",
    "gswarm-log",
]


class ImportOptions(TypedDict, total=False):
    """What the files do not say; nodes are named by id, title or class."""

    requests: int
    """Requests of each workflow."""
    every: float | str
    """Time between them."""
    time: Mapping[str, float | str]
    """Times of nodes."""
    sizes: str | os.PathLike[str]
    """A table of the sizes of model files."""
    choose: Mapping[str, str]
    """The cases that branches take."""
    branch: Mapping[str, Sequence[float]]
    """The probabilities of the cases of branches."""
    count: Mapping[str, int]
    """How often iterations run."""
    call: Mapping[str, str]
    """The models that tools call."""
    workflow: str
    """What each row of a trace runs, as in `config.yaml#chat`."""
    compress: float
    """Compress time: requests arrive this many times as fast as recorded."""
    rate: float
    """Requests a second, for datasets without times."""
    prefix_cache: int
    """Blocks of prompts that a cache of prefixes has room for."""
    from_: float | str
    """Rows of a trace before this are left out."""
    until: float | str
    """Rows of a trace from here on are left out."""
    sample: float
    """The share of the rows that is kept, from 0 to 1."""
    seed: int
    tokens_per_second: float
    prompt_tokens_per_second: float


@dataclass(frozen=True)
class Imported:
    """A problem imported from other files."""

    problem: Problem
    assumptions: list[str]
    """What the files do not say and was assumed, and what was left out."""


@keywords(ImportOptions)
def import_files(
    kind: ImportKind,
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str] | None = None,
    **options: Unpack[ImportOptions],
) -> Imported:
    """Reads files of this kind (`docs/import.md`). Configuration, requests and a page of the assumptions are
    written to the folder `out`, if given.
    """
    refuse_unknown("import_files", ImportOptions, options)
    paths = [files] if isinstance(files, str | os.PathLike) else list(files)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place if out is None else out)
        words = [kind, *(os.fspath(path) for path in paths), *flags({"out": folder, **options})]
        carry_out(["import", *words])
        problem = load(folder / "config.yaml", folder / "requests.yaml", mode="online")
        page = (folder / "import.md").read_text(encoding="utf-8")
    assumed = page.split("## What was assumed", 1)[1]
    return Imported(
        problem, [line[2:].removesuffix(".") for line in assumed.splitlines() if line.startswith("- ")]
    )

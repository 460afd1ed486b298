"""The figure of docs/ray.md, from what ray_side_by_side.py has measured:

python python/benchmarks/ray_figure.py docs/images/ray.svg simple=DIR complex=DIR
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

COLOURS = {"one machine": "#9aa5b1", "gswarm on Ray": "#1f6feb", "simulated": "#a9c7f7"}
OTHERS = ("#d98c3f", "#e8b98a")


def main() -> None:
    """Draws makespans and loads beside each other, a row for each problem."""
    target, problems = sys.argv[1], [word.split("=", 1) for word in sys.argv[2:]]
    # The same figure from the same numbers, byte for byte.
    matplotlib.rcParams.update({"svg.hashsalt": "gswarm", "font.size": 9})
    figure, axes = pyplot.subplots(len(problems), 2, figsize=(9, 1.9 * len(problems)), squeeze=False)
    for (name, folder), (times, loads) in zip(problems, axes, strict=True):
        rows = json.loads((Path(folder) / "side_by_side.json").read_text())
        others = iter(OTHERS)
        for at, (label, row) in enumerate(rows.items()):
            colour = next((COLOURS[key] for key in COLOURS if label.startswith(key)), None) or next(others)
            for axis, value, form in ((times, row["makespan"], "{:,.0f} s"), (loads, row["loads"], "{:,}")):
                axis.barh(at, value, color=colour)
                axis.text(value, at, " " + form.format(value), va="center", fontsize=8)
        for axis, what in ((times, "makespan"), (loads, "model loads")):
            axis.set_yticks(range(len(rows)), list(rows) if axis is times else [""] * len(rows))
            axis.invert_yaxis()
            axis.margins(x=0.18)
            axis.set_title(f"{name}: {what}", loc="left", fontsize=9)
            axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main()

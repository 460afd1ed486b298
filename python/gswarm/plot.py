"""A Gantt chart of a run, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .result import Result


def gantt(result: Result, loads: list[tuple[str, list[int], float, float, str]], ax: Axes | None) -> Axes:
    """A row for each GPU: executions in the colour of their model, loads hatched, the bound as a line."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    if ax is None:
        _, ax = plt.subplots(figsize=(10, 1.5 + 0.25 * min(result.gpus, 40)))
    rows = result.to_dict()
    models = sorted({*rows["model_name"], *(load[0] for load in loads)})
    palette = plt.get_cmap("tab20")
    colours = {model: palette(number % 20) for number, model in enumerate(models)}
    spans: dict[str, list[tuple[list[int], float, float, bool]]] = {model: [] for model in models}
    names = ("model_name", "gpu_id", "gpus", "switch_time", "start_time", "end_time")
    for model, first, count, switch, start, end in zip(*(rows[name] for name in names), strict=True):
        gpus = list(range(first, first + count))
        spans[model].append((gpus, start, end, False))
        if switch > 0:
            spans[model].append((gpus, start - switch, start, True))
    for model, gpus, start, end, _ in loads:
        spans[model].append((gpus, start, end, True))
    for model, bars in spans.items():
        for loading in (False, True):
            drawn = [
                (gpu, start, end) for gpus, start, end, is_load in bars if is_load is loading for gpu in gpus
            ]
            if drawn:
                ax.barh(
                    [gpu for gpu, _, _ in drawn],
                    [end - start for _, start, end in drawn],
                    left=[start for _, start, _ in drawn],
                    height=0.9,
                    color="none" if loading else colours[model],
                    edgecolor=colours[model],
                    hatch="////" if loading else None,
                    linewidth=0.3,
                )
    if result.bound is not None:
        ax.axvline(result.bound, color="black", linestyle=":", linewidth=1)
    ax.set_xlabel("seconds")
    ax.set_ylabel("GPU")
    ax.set_ylim(-0.6, result.gpus - 0.4)
    ax.invert_yaxis()
    ax.set_title(f"{result.policy}: {result.makespan:,.1f} s")
    keys = [Patch(facecolor=colours[model], label=model) for model in models]
    keys.append(Patch(facecolor="none", edgecolor="grey", hatch="////", label="loading"))
    ax.legend(handles=keys, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", frameon=False)
    return ax

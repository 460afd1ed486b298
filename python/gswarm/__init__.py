"""gswarm: a scheduler for compound AI workflows on fewer GPUs than models.

    import gswarm

    problem = gswarm.load("config.json", "requests.yaml")
    result = gswarm.run(problem, policy="planned", gpus=16, budget="5s")
    result.metrics, result.gap, result.to_pandas(), result.plot(), result.save("log.json")

The Rust code is the same as in the `gswarm` command; `docs/python.md` says more.
"""

from typing import TYPE_CHECKING

try:
    from ._gswarm import __version__
    from .comparison import (
        Advice,
        Comparison,
        ParameterInfo,
        Point,
        PolicyInfo,
        Sizing,
        advise,
        compare,
        policies,
        size,
    )
    from .errors import (
        Diagnostic,
        GswarmError,
        InfeasibleError,
        InputError,
        InternalError,
        PolicyError,
        UsageError,
    )
    from .imports import Imported, import_files
    from .learn import Predictions, Predictor, train
    from .logs import calibrate, diff, explain, fidelity
    from .metrics import Metrics
    from .models import model
    from .plans import Plan
    from .policy import Decision, Load, Model, Policy, Start, Task, View, Wake
    from .problem import Problem, load
    from .result import FailedNode, LiveResult, Result, Violation
    from .runs import Bound, Live, bound, bounds, check, generate, plan, resume, run, run_spec
except ModuleNotFoundError as missing:
    # In a source tree the library may not be built: `gswarm.worker` needs none of it.
    if missing.name != f"{__name__}._gswarm":
        raise


# Type checkers would take every name for one that is there.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Imports `gswarm.ray` and `gswarm.tasks` lazily."""
        if name in ("ray", "tasks"):
            import importlib

            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Advice",
    "Bound",
    "Comparison",
    "Decision",
    "Diagnostic",
    "FailedNode",
    "GswarmError",
    "Imported",
    "InfeasibleError",
    "InputError",
    "InternalError",
    "Live",
    "LiveResult",
    "Load",
    "Metrics",
    "Model",
    "ParameterInfo",
    "Plan",
    "Point",
    "Policy",
    "PolicyError",
    "PolicyInfo",
    "Predictions",
    "Predictor",
    "Problem",
    "Result",
    "Sizing",
    "Start",
    "Task",
    "UsageError",
    "View",
    "Violation",
    "Wake",
    "__version__",
    "advise",
    "bound",
    "bounds",
    "calibrate",
    "check",
    "compare",
    "diff",
    "explain",
    "fidelity",
    "generate",
    "import_files",
    "load",
    "model",
    "plan",
    "policies",
    "resume",
    "run",
    "run_spec",
    "size",
    "train",
]

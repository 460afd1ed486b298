"""gswarm: a scheduler for compound AI workflows on fewer GPUs than models.

    import gswarm

    problem = gswarm.load("config.json", "requests.yaml")
    result = gswarm.run(problem, policy="planned", gpus=16, budget="5s")
    result.metrics, result.gap, result.to_pandas(), result.plot(), result.save("log.json")

The work is done by Rust code, the same as in the `gswarm` command; `docs/python.md` says more.
"""

from ._gswarm import __version__
from .comparison import Comparison, Point, PolicyInfo, Sizing, compare, policies, size
from .errors import (
    Diagnostic,
    GswarmError,
    InfeasibleError,
    InputError,
    InternalError,
    PolicyError,
    UsageError,
)
from .learn import Predictions, Predictor, train
from .metrics import Metrics
from .plans import Plan
from .policy import Decision, Load, Model, Policy, Start, Task, View, Wake
from .problem import Problem, load
from .result import Result, Violation
from .runs import Bound, bound, bounds, check, generate, plan, run

__all__ = [
    "Bound",
    "Comparison",
    "Decision",
    "Diagnostic",
    "GswarmError",
    "InfeasibleError",
    "InputError",
    "InternalError",
    "Load",
    "Metrics",
    "Model",
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
    "bound",
    "bounds",
    "check",
    "compare",
    "generate",
    "load",
    "plan",
    "policies",
    "run",
    "size",
    "train",
]

"""Measures the cost of a Python policy's decisions: `python -m gswarm.measure [config requests]`.

The same problem runs under `baseline` in Rust and in Python, alternately. The difference divided by the
number of decisions is the cost of Python.
"""

from __future__ import annotations

import sys
import time

from . import generate, load, run
from .baseline import Baseline
from .policy import Decision, View


class Counted(Baseline):
    """Counts how often it is asked."""

    asked = 0

    def decide(self, view: View) -> Decision | None:
        self.asked += 1
        return super().decide(view)


def main() -> None:
    """Prints microseconds of processor time for each call of `decide`, all other calls included."""
    files = sys.argv[1:3]
    problem = load(*files) if len(files) == 2 else generate("simple", requests=2000)
    gpus, counted = 16, Counted()
    result = run(problem, counted, gpus=gpus)
    took: dict[str, list[float]] = {"rust": [], "python": []}
    for _ in range(5):
        for name, policy in (("rust", "baseline"), ("python", Baseline())):
            begun = time.process_time()
            run(problem, policy, gpus=gpus)
            took[name].append(time.process_time() - begun)
    best = {name: min(times) for name, times in took.items()}
    starts = len(result.to_dict()["request_id"])
    each = (best["python"] - best["rust"]) / counted.asked * 1e6
    print(f"{starts:,} executions, {counted.asked:,} questions on {gpus} GPUs")
    print(f"in Rust {best['rust']:.3f} s, in Python {best['python']:.3f} s: {each:.1f} us per call of decide")
    print(f"{each * counted.asked / starts:.1f} us per started execution, all calls included")


if __name__ == "__main__":
    main()

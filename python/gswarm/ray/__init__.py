"""Runs on a Ray cluster: gswarm decides, Ray places the servers and moves outputs.

`gswarm.ray.run(problem, policy="planned", address="auto")`; `docs/ray.md` says more.
"""

from gswarm.ray.api import RayResult, forget, resume, run

__all__ = ["RayResult", "forget", "resume", "run"]

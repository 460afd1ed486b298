"""Runs on a Ray cluster: gswarm decides, Ray places the servers and moves what nodes write.

`gswarm.ray.run(problem, policy="planned", address="auto")`; `docs/ray.md` says more.
"""

from gswarm.ray.api import LiveResult, forget, resume, run

__all__ = ["LiveResult", "forget", "resume", "run"]

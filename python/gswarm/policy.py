"""Policies in Python: classes that the Rust engine calls for its decisions."""

from __future__ import annotations

from ._gswarm import Load, Model, Start, Task, View, Wake

__all__ = ["Decision", "Load", "Model", "Policy", "Start", "Task", "View", "Wake"]

Decision = Start | Load | Wake
"""What a policy may decide."""


class Policy:
    """Base class of policies: derive from it, and pass an object of your class to `gswarm.run`.

    Within an instant the engine first handles everything that happened, then tells the policy what is new, in
    the order in which it happened, and then asks `decide` until it answers `None`. An impossible decision
    raises `PolicyError`, and so does a stall: work is left, but nothing runs that could change that.

    The view shows the present and is valid only inside these calls. There is one per run: you may keep it,
    but using it between calls raises `RuntimeError`.
    """

    name: str = ""
    """What logs and comparisons call it; the class's name where this is empty."""

    def begin(self, view: View) -> None:
        """A run begins: only `models` and `gpus` of the view are available yet. An object may be used for
        several runs, one after the other; reset its state here.
        """

    def ready(self, task: Task, view: View) -> None:
        """`task` has all its inputs, or failed and may be retried. It stays pending until this policy
        starts it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `ready`")

    def decide(self, view: View) -> Decision | None:
        """The next decision at this instant. Each is carried out before the next question; `None` ends the
        instant.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `decide`")

    def freed(self, gpus: tuple[int, ...], view: View) -> None:
        """An execution or a load ended on these GPUs."""

    def lost(self, gpu: int, view: View) -> None:
        """A GPU was lost; the tasks that ran on it are ready again."""

    def returned(self, gpu: int, view: View) -> None:
        """A lost GPU has returned, empty."""

    def given_up(self, task: Task, view: View) -> None:
        """A task will never run: it, or a task that it depends on, failed too often."""


def name_of(policy: Policy) -> str:
    """Its name in logs."""
    return policy.name or type(policy).__name__

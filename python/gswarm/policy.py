"""Policies in Python: classes that the Rust engine asks what to run where."""

from __future__ import annotations

from ._gswarm import Load, Model, Start, Task, View, Wake

__all__ = ["Decision", "Load", "Model", "Policy", "Start", "Task", "View", "Wake"]

Decision = Start | Load | Wake
"""What a policy may decide."""


class Policy:
    """Something that chooses what runs where: derive from it, and give an object of your class to
    `gswarm.run`.

    Within an instant the engine first handles everything that happened, then tells the policy what is new, in
    the order in which it happened, and then asks `decide` until it answers `None`. What cannot be done is
    refused with a `PolicyError`. A policy that leaves work undone, with nothing running that could change
    that, has stalled, which is one too.

    The view shows the present, and answers only inside these calls. There is one for a run: keeping it does
    no harm, asking it between calls raises `RuntimeError`.
    """

    name: str = ""
    """What logs and comparisons call it; the class's name where this is empty."""

    def begin(self, view: View) -> None:
        """A run begins: of the view, only `models` and `gpus` can be asked yet. One object may be used for
        several runs, one after the other; this is where it forgets the last.
        """

    def ready(self, task: Task, view: View) -> None:
        """`task` has all its inputs, or failed and may be tried again. It stays pending until this policy
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
        """A GPU is gone; what ran on it is ready again."""

    def returned(self, gpu: int, view: View) -> None:
        """A GPU that was gone is there again, empty."""

    def given_up(self, task: Task, view: View) -> None:
        """A task will never run: it, or something it needs, failed too often."""


def name_of(policy: Policy) -> str:
    """What logs call it."""
    return policy.name or type(policy).__name__

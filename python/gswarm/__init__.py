"""gswarm: a scheduler for compound AI workflows on fewer GPUs than models.

The work is done by the Rust library `gswarm._gswarm`; this package gives it Python's names.
"""

from ._gswarm import __version__
from .models import model

__all__ = ["__version__", "model"]

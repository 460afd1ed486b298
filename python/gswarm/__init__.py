"""gswarm: a scheduler for compound AI workflows on fewer GPUs than models.

The work is done by the Rust library `gswarm._gswarm`; this package gives it Python's names.
"""

try:
    from ._gswarm import __version__
except ModuleNotFoundError as missing:
    # In a source tree the library may not be built: `gswarm.worker` needs none of it.
    if missing.name != f"{__name__}._gswarm":
        raise

__all__ = ["__version__"]

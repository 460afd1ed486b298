from collections.abc import Sequence

__version__: str

def main(args: Sequence[str]) -> int: ...

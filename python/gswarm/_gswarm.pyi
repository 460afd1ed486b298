from collections.abc import Callable, Sequence
from typing import final

__version__: str

def main(args: Sequence[str]) -> int: ...

@final
class Operation:
    def cancel(self) -> None: ...

@final
class Server:
    def __new__(cls, backends: str, models: str, first: int, count: int, visible: list[str]) -> Server: ...
    def begin(self, order: str, done: Callable[[str], object]) -> Operation: ...

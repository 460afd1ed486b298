"""The Rust library; the modules of the package document it."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

_Finding: TypeAlias = tuple[str, str, str, str, int | None, int | None, str, str | None]
_Violation: TypeAlias = tuple[
    str, str, str, int | None, int | None, int | None, str | None, str | None, int | None
]
_Callback: TypeAlias = Callable[[str, int, int], object] | None
_State: TypeAlias = Literal["waiting", "ready", "held", "running", "done", "given_up"]

__all__ = [
    "Inputs",
    "Load",
    "Model",
    "Operation",
    "Outcome",
    "Server",
    "Start",
    "Task",
    "Trained",
    "View",
    "Wake",
    "__version__",
    "advise_of",
    "bounds",
    "check",
    "compare",
    "generate",
    "main",
    "plan_for",
    "policies",
    "read_log",
    "read_spec",
    "resume",
    "run",
    "run_live",
    "run_python",
    "seconds",
    "size_of",
    "train",
    "usual",
]

__version__: str

def main(args: Sequence[str]) -> int: ...

@final
class Inputs:
    def __new__(
        cls,
        config: tuple[str, bytes],
        requests: tuple[str, bytes],
        located: bool,
        mode: str,
        predicted: bool,
    ) -> Inputs: ...
    @staticmethod
    def of_values(
        config: tuple[str, object],
        requests: tuple[str, object],
        plain: Callable[[object], object],
        mode: str,
        predicted: bool,
    ) -> Inputs: ...
    @property
    def warnings(self) -> list[_Finding]: ...
    @property
    def sources(self) -> list[tuple[str, bytes]]: ...
    def contents(self) -> tuple[list[str], list[str], int]: ...

@final
class Outcome:
    def metrics(self) -> str: ...
    def summary(self) -> tuple[str, str, int, int | None, float, float | None, float | None]: ...
    def log(self, lines: bool) -> bytes: ...
    def events(self) -> str: ...
    def plan(self) -> bytes | None: ...
    def check(self) -> list[_Violation]: ...
    def executions(self) -> dict[str, list[Any]]: ...
    def loads(self) -> list[tuple[str, list[int], float, float, str]]: ...
    def page(self, name: str) -> str: ...
    def row(self, input: str, seconds: float) -> str: ...

@final
class Trained:
    @staticmethod
    def read(name: str, bytes: bytes) -> Trained: ...
    def content(self) -> bytes: ...
    @property
    def kind(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def features(self) -> list[str]: ...
    def predict(
        self, columns: Sequence[tuple[str, Sequence[Any]]], quantiles: Sequence[float]
    ) -> tuple[list[float], list[list[float]]]: ...

@final
class Model:
    """A model of the configuration: one object for a run, so that it can be a key."""

    @property
    def name(self) -> str: ...
    @property
    def gpus(self) -> int:
        """Consecutive GPUs that it needs."""
    @property
    def memory_gb(self) -> float: ...
    @property
    def load_seconds(self) -> float:
        """Seconds for a load onto empty GPUs."""
    @property
    def max_batch(self) -> int:
        """Executions at once on one replica."""

@final
class Task:
    """A node of a request."""

    @property
    def id(self) -> int:
        """Its number: in the order of the requests and of their workflows' nodes."""
    @property
    def model(self) -> Model: ...
    @property
    def request(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def workflow(self) -> str: ...
    @property
    def level(self) -> int:
        """The longest path from a node that waits for none, in edges."""
    @property
    def priority(self) -> int:
        """The priority of its request; higher is more urgent."""
    @property
    def arrival(self) -> float:
        """Arrival of its request."""
    @property
    def deadline(self) -> float | None:
        """Deadline of its request."""
    @property
    def estimate(self) -> float:
        """Its estimated time before the run."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class View:
    """The present of a run; times are in seconds, GPUs are numbers from 0. It is valid only during a call of
    the policy.
    """

    @property
    def now(self) -> float: ...
    @property
    def gpus(self) -> int:
        """How many there are."""
    @property
    def models(self) -> list[Model]: ...
    @property
    def idle(self) -> list[int]:
        """GPUs on which nothing executes or loads, in order."""
    @property
    def alive(self) -> list[int]:
        """GPUs that were not lost."""
    @property
    def empty(self) -> list[int]:
        """GPUs that hold no model."""
    @property
    def open_tasks(self) -> int:
        """Tasks that are neither finished nor given up."""
    def holding(self, model: Model) -> list[int]:
        """GPUs that hold the model."""
    def joinable(self, model: Model) -> list[int]:
        """First GPUs of the model's busy replicas with room in their batch."""
    def windows(self, model: Model, within: Sequence[int] | None = None) -> list[int]:
        """Windows of idle GPUs (or of those in `within`) that the model may be put on, by their first GPU."""
    def batch_at(self, gpu: int) -> int:
        """Executions on the replica that starts at this GPU."""
    def resident(self, gpu: int) -> Model | None:
        """The model that was loaded last onto a GPU that holds any."""
    def residents(self, gpu: int) -> list[Model]:
        """The models on a GPU, those that were used last at the end."""
    def idle_since(self, gpu: int) -> float: ...
    def free_at(self, gpu: int) -> float:
        """When the execution or load on a GPU is expected to end; now, if it is idle."""
    def busy(self, gpu: int) -> float:
        """Busy time of a GPU in finished executions and their loads."""
    def is_loading(self, gpu: int) -> bool: ...
    def is_running(self, gpu: int) -> bool: ...
    def load_cost(self, model: Model, gpu: int) -> float | None:
        """Time to load the model onto the window that starts at this GPU now; `None` if there is no room."""
    def expected(self, task: Task) -> float:
        """The expected time of a task, from the estimates and from what was learned since."""
    def quantile(self, task: Task, p: float) -> float:
        """The quantile `p`, from 0 to 1, of the task's time."""
    def failures(self, task: Task) -> int: ...
    def state(self, task: Task) -> _State: ...
    def under_way(self) -> list[tuple[Task, list[int], float | None]]:
        """Tasks on GPUs: where, and since when they execute; `None` while their model is being loaded."""

@final
class Start:
    """Run a ready task on GPUs: load its model if needed, or join the running batch.

    `gpus` are the first of as many consecutive GPUs as its model needs, or all of them.
    """

    __match_args__ = ("task", "gpus")
    def __new__(cls, task: Task, gpus: int | Sequence[int]) -> Start: ...
    @property
    def task(self) -> Task: ...
    @property
    def gpus(self) -> list[int]: ...

@final
class Load:
    """Prefetch a model onto GPUs; `ahead_of` is the task that will start there next, if any."""

    __match_args__ = ("model", "gpus")
    def __new__(cls, model: Model, gpus: int | Sequence[int], ahead_of: Task | None = None) -> Load: ...
    @property
    def model(self) -> Model: ...
    @property
    def gpus(self) -> list[int]: ...
    @property
    def ahead_of(self) -> Task | None: ...

@final
class Wake:
    """Ask again at this time, even if nothing happens before it."""

    __match_args__ = ("at",)
    def __new__(cls, at: float) -> Wake: ...
    @property
    def at(self) -> float: ...

def run(inputs: Inputs, spec: str, contents: Mapping[str, object], progress: _Callback) -> Outcome: ...
def run_python(
    inputs: Inputs,
    policy: object,
    name: str,
    spec: str,
    contents: Mapping[str, object],
    progress: _Callback,
) -> Outcome: ...
def run_live(
    inputs: Inputs, spec: str, contents: Mapping[str, object], progress: _Callback
) -> tuple[Outcome, Path, list[tuple[str, str, int, str]]]: ...
def resume(
    folder: Path, backends: Path | None, address: str | None, retry_failed: bool, progress: _Callback
) -> tuple[Outcome, Path, list[tuple[str, str, int, str]]]: ...
def read_spec(file: Path) -> str: ...
def plan_for(
    inputs: Inputs,
    spec: str,
    contents: Mapping[str, object],
    search: Mapping[str, object],
    progress: _Callback,
) -> bytes: ...
def bounds(inputs: Inputs, spec: str) -> list[tuple[float, str, str]]: ...
def check(inputs: Inputs, log: bytes, spec: str, predictor: tuple[str, bytes] | None) -> list[_Violation]: ...
def compare(
    inputs: Inputs,
    spec: str,
    options: Mapping[str, object],
    calibration: tuple[str, bytes] | None,
    progress: _Callback,
) -> list[str]: ...
def advise_of(
    inputs: Inputs,
    spec: str,
    question: str,
    mode: str | None,
    calibration: tuple[str, bytes] | None,
    progress: _Callback,
) -> str: ...
def size_of(
    inputs: Inputs,
    spec: str,
    targets: list[str],
    mode: str | None,
    max_gpus: int,
    calibration: tuple[str, bytes] | None,
    rounds: int,
    progress: _Callback,
) -> str: ...
def generate(options: Mapping[str, object]) -> tuple[bytes, bytes]: ...
def policies() -> str: ...
def usual(mode: str) -> str: ...
def seconds(text: str) -> float: ...
def train(
    data: Outcome | tuple[str, bytes] | Sequence[tuple[str, Sequence[Any]]],
    options: Mapping[str, object],
    progress: _Callback,
) -> tuple[Trained, str]: ...
def read_log(inputs: Inputs, log: bytes, predictor: tuple[str, bytes] | None) -> Outcome: ...

@final
class Operation:
    def cancel(self) -> None: ...

@final
class Server:
    def __new__(cls, backends: str, models: str, first: int, count: int, visible: list[str]) -> Server: ...
    def begin(self, order: str, done: Callable[[str], object]) -> Operation: ...

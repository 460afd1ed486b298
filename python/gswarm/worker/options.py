"""What the worker is told when it is started."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,95}")
"""What a model's name, or its owner's, is made of."""


@dataclass
class Options:
    """All of it, with what is usual."""

    device: str = "cpu"
    host: str = "127.0.0.1"
    port: int = 8000
    models: Path | None = None
    random: dict[str, str] = field(default_factory=dict)
    """Name of each model with random weights, and its shape."""
    seed: int = 0
    dtype: str | None = None
    memory_gb: float | None = None
    pin_gb: float | None = None
    host_gb: float | None = None
    kv_gb: float | None = None
    max_batch: int = 128
    max_context: int = 4096
    max_waiting: int = 1024
    max_instances: int = 64
    max_body_mb: int = 8
    max_requests: int = 2048
    request_timeout: float = 600.0
    drain_timeout: float = 30.0
    token: str | None = None
    out: Path | None = None
    graphs: bool = True
    kernels: str = "auto"
    virtual: bool = True
    preload: bool = False
    threads: int = 8


def random_models(names: list[str]) -> dict[str, str]:
    """From `shape` and `name=shape`."""
    found: dict[str, str] = {}
    for one in names:
        name, equals, shape = one.partition("=")
        parts = name.split("/")
        if len(parts) > 2 or not all(PART.fullmatch(part) for part in parts):
            raise ValueError(
                f"`{name[:100]}` cannot be the name of a model: letters, digits, `.`, `_`, `-` and one `/`"
            )
        if equals and not shape:
            raise ValueError(f"`{one}` names no shape: write NAME=SHAPE")
        if name in found:
            raise ValueError(f"`{name}` is given twice: name the second, as in other={found[name]}")
        found[name] = shape or name
    return found


class Parser(argparse.ArgumentParser):
    """Says what is wrong in the form of the other commands."""

    def error(self, message: str) -> NoReturn:
        """Ends the program."""
        print(f"error: {message}\nhint: `{self.prog} --help` lists what there is", file=sys.stderr)
        sys.exit(2)


def whole(least: int, most: int = (1 << 63) - 1) -> Callable[[str], int]:
    """Whole numbers of a range."""

    def read_one(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            upper = f" to {most}" if most < 1 << 62 else ""
            raise argparse.ArgumentTypeError(f"`{text}` is not a whole number from {least}{upper}")
        return value

    return read_one


def amount(least_too: bool = False) -> Callable[[str], float]:
    """Numbers above zero, or from zero."""

    def read_one(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value < 0 or (value == 0 and not least_too):
            bound = "from 0" if least_too else "above 0"
            raise argparse.ArgumentTypeError(f"`{text}` is not a number {bound}")
        return value

    return read_one


def device(text: str) -> str:
    """The name of a device."""
    if not re.fullmatch(r"cpu|cuda(:[0-9]{1,3})?", text):
        raise argparse.ArgumentTypeError(f"`{text}` is not a device: write cpu, cuda:0, cuda:1, ...")
    return text


def read(arguments: list[str] | None = None) -> Options:
    """From the command line."""
    usual = Options()
    parser = Parser(prog="python -m gswarm.worker", description="Serves models on one device.")
    add = parser.add_argument
    add("--device", type=device, default=usual.device, help="cpu, cuda:0, cuda:1, ...")
    add("--host", default=usual.host, help="where to listen; other machines need a token")
    add("--port", type=whole(0, 65535), default=usual.port, help="0 lets the system choose")
    add("--models", type=Path, help="a folder of Hugging Face models, one a folder")
    add(
        "--random",
        action="append",
        default=[],
        metavar="[NAME=]SHAPE",
        help="a model with random weights; repeatable",
    )
    add("--seed", type=whole(0), default=0, help="of random weights")
    add("--dtype", choices=["bfloat16", "float16", "float32"], help="bfloat16 on GPUs, float32 on the CPU")
    add(
        "--memory-gb",
        type=amount(),
        help="the device's memory that may be used; 90%% of what is free on a GPU, 4 GiB on the CPU",
    )
    add(
        "--pin-budget",
        type=amount(least_too=True),
        dest="pin_gb",
        help="GB of host memory that may be pinned; 70%% of what there is",
    )
    add("--host-gb", type=amount(), help="GB of host memory for weights; 80%% of what there is")
    add("--kv-gb", type=amount(), help="most GB of each model's cache")
    add("--max-batch", type=whole(1, 4096), default=usual.max_batch, help="calls of a model at once")
    add("--max-context", type=whole(2, 1 << 24), default=usual.max_context, help="tokens with the answer")
    add("--max-waiting", type=whole(1), default=usual.max_waiting, help="calls that wait for a model")
    add("--max-instances", type=whole(1), default=usual.max_instances)
    add("--max-body-mb", type=whole(1, 1 << 20), default=usual.max_body_mb)
    add("--max-requests", type=whole(1), default=usual.max_requests, help="requests at the same time")
    add("--request-timeout", type=amount(), default=usual.request_timeout, help="seconds to an answer")
    add(
        "--drain-timeout",
        type=amount(least_too=True),
        default=usual.drain_timeout,
        help="seconds that calls have to end after TERM",
    )
    add("--token-file", type=Path, help="what callers have to send as `Authorization: Bearer`")
    add("--out", type=Path, help="where pictures go; a folder for temporary files where none is given")
    add("--no-graphs", action="store_false", dest="graphs", help="launch every kernel by itself")
    add("--kernels", choices=["auto", "triton", "plain"], default=usual.kernels)
    add(
        "--no-virtual",
        action="store_false",
        dest="virtual",
        help="device memory from PyTorch, at changing addresses",
    )
    add("--preload", action="store_true", help="bring all models into host memory before listening")
    add("--threads", type=whole(1, 1024), default=usual.threads, help="that read files and touch memory")
    given = vars(parser.parse_args(arguments))
    token_file = given.pop("token_file")
    try:
        given["random"] = random_models(given["random"])
    except ValueError as error:
        parser.error(f"argument --random: {error}")
    options = Options(**given)
    if token_file is not None:
        try:
            options.token = token_file.read_text().strip()
        except (OSError, ValueError) as error:
            parser.error(f"argument --token-file: {error}")
    return options

"""What the worker is told when it is started."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path


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
    found = {}
    for one in names:
        name, _, shape = one.partition("=")
        found[name] = shape or name
    return found


def read(arguments: list[str] | None = None) -> Options:
    """From the command line."""
    usual = Options()
    parser = argparse.ArgumentParser(
        prog="python -m gswarm.worker", description="Serves models on one device."
    )
    add = parser.add_argument
    add("--device", default=usual.device, help="cpu, cuda:0, cuda:1, ...")
    add("--host", default=usual.host, help="where to listen; other machines need a token")
    add("--port", type=int, default=usual.port, help="0 lets the system choose")
    add("--models", type=Path, help="a folder of Hugging Face models, one a folder")
    add(
        "--random",
        action="append",
        default=[],
        metavar="[NAME=]SHAPE",
        help="a model with random weights; repeatable",
    )
    add("--seed", type=int, default=0, help="of random weights")
    add("--dtype", choices=["bfloat16", "float16", "float32"], help="bfloat16 on GPUs, float32 on the CPU")
    add("--memory-gb", type=float, help="the device's memory that may be used; 90%% of what is free on a GPU")
    add(
        "--pin-budget",
        type=float,
        dest="pin_gb",
        help="GB of host memory that may be pinned; 70%% of what there is",
    )
    add("--host-gb", type=float, help="GB of host memory for weights; 80%% of what there is")
    add("--kv-gb", type=float, help="most GB of each model's cache")
    add("--max-batch", type=int, default=usual.max_batch, help="calls of a model that run together")
    add("--max-context", type=int, default=usual.max_context, help="tokens of prompt and answer")
    add("--max-waiting", type=int, default=usual.max_waiting, help="calls that wait for a model")
    add("--max-instances", type=int, default=usual.max_instances)
    add("--max-body-mb", type=int, default=usual.max_body_mb)
    add("--max-requests", type=int, default=usual.max_requests, help="requests at the same time")
    add("--request-timeout", type=float, default=usual.request_timeout, help="seconds to an answer")
    add(
        "--drain-timeout",
        type=float,
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
    add("--threads", type=int, default=usual.threads, help="threads that read files and touch memory")
    given = vars(parser.parse_args(arguments))
    token_file = given.pop("token_file")
    given["random"] = random_models(given["random"])
    options = Options(**given)
    if token_file is not None:
        options.token = token_file.read_text().strip()
    return options

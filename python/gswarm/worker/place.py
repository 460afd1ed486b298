"""The device that models are served on, and what they share there."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from .devmem import Devices
from .fault import shown
from .hostmem import PinBudget
from .hoststore import HostStore, share
from .ledger import Ledger
from .ops import Operations, choose
from .options import Options

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


CPU_BUDGET = 4 << 30
"""Bytes that models may take on the CPU as their device, where nothing is said."""


class Place:
    """One device, its memory and the host memory beside it."""

    def __init__(self, options: Options) -> None:
        self.device = torch.device(options.device)
        self.cuda = self.device.type == "cuda"
        if self.cuda and self.device.index is None:
            self.device = torch.device("cuda:0")
        if self.cuda and not self.device.index < torch.cuda.device_count():
            count = torch.cuda.device_count()
            raise RuntimeError(f"there is no {self.device} here, of {count} CUDA devices: --device cpu works")
        if self.cuda:
            torch.cuda.set_device(self.device)
        self.dtype = DTYPES[options.dtype or ("bfloat16" if self.cuda else "float32")]
        self.devices = Devices(self.device, options.virtual)
        free = self.devices.free_bytes()
        usual = int(free * 0.9) if free is not None else CPU_BUDGET
        budget = usual if options.memory_gb is None else int(options.memory_gb * 1e9)
        self.ledger = Ledger(self.devices, budget)
        self.host = HostStore(None if options.host_gb is None else int(options.host_gb * 1e9))
        self.pins = PinBudget(
            int(options.pin_gb * 1e9) if options.pin_gb is not None else lambda used: share(0.7, used)
        )
        self.kv_bytes = None if options.kv_gb is None else int(options.kv_gb * 1e9)
        self.max_batch, self.max_context, self.max_waiting = (
            options.max_batch,
            options.max_context,
            options.max_waiting,
        )
        self.graphs, self.seed, self.threads = options.graphs, options.seed, options.threads
        self._out = options.out
        if self._out is not None:
            self._out.mkdir(parents=True, exist_ok=True)
        self.copies = torch.cuda.Stream(self.device) if self.cuda else None
        self._kernels = options.kernels
        self._chosen: dict[int, tuple[Operations, str]] = {}

    def out(self) -> Path:
        """Where pictures go: where nothing is said, a folder that no other worker has."""
        if self._out is None:
            self._out = Path(tempfile.mkdtemp(prefix="gswarm-worker-"))
        return self._out

    def operations(self, head_dim: int) -> tuple[Operations, str]:
        """What language models are computed with here."""
        if head_dim not in self._chosen:
            self._chosen[head_dim] = choose(self.device, head_dim, self._kernels)
        return self._chosen[head_dim]

    def budgets(self) -> str:
        """How much memory there is for models, for the log."""
        device, host = shown(self.ledger.budget), shown(self.host.limit)
        pinned = f", {shown(self.pins.limit)} of it pinned" if self.cuda else ""
        return (
            f"models may take {device} of {self.name} (--memory-gb) and {host} of host memory "
            f"(--host-gb){pinned}"
        )

    @property
    def name(self) -> str:
        """As requests write it."""
        return f"cuda:{self.device.index}" if self.cuda else "cpu"

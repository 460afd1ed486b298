"""Device memory at addresses that stay the same while the memory behind them comes and goes.

A captured CUDA graph holds addresses. With CUDA's virtual memory a model keeps its addresses for as long as
the worker lives; memory is put behind them when it wakes and given back to the device when it sleeps, so
that its graphs stay true. On the CPU the system's own virtual memory does the same. Where neither can be had
(a driver without it) plain tensors take its place, and graphs are captured anew.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from typing import Any

import torch

from .fault import not_given

CHUNK = 1 << 30
"""Bytes that are mapped at a time: the first are filled while the next are mapped."""


class _Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Flags(ctypes.Structure):
    _fields_ = [
        ("compressionType", ctypes.c_ubyte),
        ("gpuDirectRDMACapable", ctypes.c_ubyte),
        ("usage", ctypes.c_ushort),
        ("reserved", ctypes.c_ubyte * 4),
    ]


class _Properties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("requestedHandleTypes", ctypes.c_int),
        ("location", _Location),
        ("win32HandleMetaData", ctypes.c_void_p),
        ("allocFlags", _Flags),
    ]


class _Access(ctypes.Structure):
    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class VirtualMemory:
    """CUDA's calls for virtual memory, of the driver's own library."""

    def __init__(self, device: int) -> None:
        self.device = device
        self._lib: Any = ctypes.CDLL("libcuda.so.1")
        self.properties = _Properties(type=1, location=_Location(1, device))  # pinned, on the device
        self._access = _Access(_Location(1, device), 3)  # read and write
        self._context = ctypes.c_void_p()
        self._lib.cuCtxGetCurrent(ctypes.byref(self._context))
        least = ctypes.c_size_t()
        self.call("cuMemGetAllocationGranularity", ctypes.byref(least), ctypes.byref(self.properties), 0)
        self.granularity = max(int(least.value), 2 << 20)

    def call(self, name: str, *args: Any) -> None:
        """Calls a function of the driver, and raises where it fails."""
        # Any thread may call, and each needs the context of the device.
        self._lib.cuCtxSetCurrent(self._context)
        status = getattr(self._lib, name)(*args)
        if status != 0:
            text = ctypes.c_char_p()
            self._lib.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def reserve(self, size: int) -> int:
        """A stretch of addresses with nothing behind them."""
        address = ctypes.c_uint64()
        self.call(
            "cuMemAddressReserve",
            ctypes.byref(address),
            ctypes.c_size_t(size),
            ctypes.c_size_t(0),
            ctypes.c_uint64(0),
            ctypes.c_uint64(0),
        )
        return int(address.value)

    def map(self, address: int, size: int) -> int:
        """Puts memory behind addresses; what it is called by."""
        handle = ctypes.c_uint64()
        length = ctypes.c_size_t(size)
        self.call(
            "cuMemCreate", ctypes.byref(handle), length, ctypes.byref(self.properties), ctypes.c_uint64(0)
        )
        try:
            zero = ctypes.c_size_t(0)
            self.call("cuMemMap", ctypes.c_uint64(address), length, zero, handle, ctypes.c_uint64(0))
            self.call(
                "cuMemSetAccess",
                ctypes.c_uint64(address),
                length,
                ctypes.byref(self._access),
                ctypes.c_size_t(1),
            )
        except RuntimeError:
            self._lib.cuMemRelease(handle)
            raise
        return int(handle.value)

    def unmap(self, address: int, size: int, handle: int) -> None:
        """Gives the memory behind addresses back to the device."""
        self.call("cuMemUnmap", ctypes.c_uint64(address), ctypes.c_size_t(size))
        self.call("cuMemRelease", ctypes.c_uint64(handle))

    def free(self, address: int, size: int) -> None:
        """Gives the addresses back."""
        self.call("cuMemAddressFree", ctypes.c_uint64(address), ctypes.c_size_t(size))


class _Interface:
    """Says to PyTorch that there are bytes at an address."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "version": 3,
            "strides": None,
        }


class Region:
    """Bytes on a device that come and go. Grows from the front; `mapped` says how many are there."""

    stable = False
    """Whether what comes back is where it was."""

    def __init__(self, size: int, device: torch.device) -> None:
        self.size = size
        self.step = size
        """Bytes that it grows by."""
        self.device = device
        self.mapped = 0
        self._tensor: torch.Tensor | None = None

    def grow_to(self, size: int) -> None:
        """Sees to it that at least the first `size` bytes are there."""
        if size > self.mapped:
            self._tensor = torch.empty(self.size, dtype=torch.uint8, device=self.device)
            self.mapped = self.size

    def would_take(self, size: int) -> int:
        """How many more bytes of the device `grow_to` would take."""
        return self.size - self.mapped if size > self.mapped else 0

    def tensor(self) -> torch.Tensor:
        """All bytes; only those that are mapped may be touched."""
        if self._tensor is None:
            raise RuntimeError("nothing is mapped")
        return self._tensor

    def release(self) -> None:
        """Gives the memory back to the device. Nothing may be computing on it."""
        self._tensor = None
        self.mapped = 0
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Gives all back, the addresses too."""
        self.release()


class VirtualRegion(Region):
    """A region at addresses of its own."""

    stable = True

    def __init__(self, size: int, device: torch.device, memory: VirtualMemory, chunk: int = CHUNK) -> None:
        unit = memory.granularity
        super().__init__(-(-size // unit) * unit, device)
        self._memory = memory
        self.step = self._chunk = -(-chunk // unit) * unit
        self._address = memory.reserve(self.size)
        self._parts: list[tuple[int, int, int]] = []
        self._lock = threading.Lock()

    def would_take(self, size: int) -> int:
        wanted = min(self.size, -(-size // self._chunk) * self._chunk)
        return max(0, wanted - self.mapped)

    def grow_to(self, size: int) -> None:
        with self._lock:
            while self.mapped < min(size, self.size):
                part = min(self._chunk, self.size - self.mapped)
                at = self._address + self.mapped
                self._parts.append((at, part, self._memory.map(at, part)))
                self.mapped += part
            if self._tensor is None:
                with torch.cuda.device(self.device):
                    self._tensor = torch.as_tensor(_Interface(self._address, self.size), device=self.device)

    def release(self) -> None:
        with self._lock:
            for address, size, handle in reversed(self._parts):
                self._memory.unmap(address, size, handle)
            self._parts.clear()
            self.mapped = 0

    def close(self) -> None:
        self.release()
        self._tensor = None
        self._memory.free(self._address, self.size)


class HostRegion(Region):
    """A region of the CPU's memory.

    All of its addresses are there from the beginning; the system puts memory behind those that are written,
    and takes it back when it is told to.
    """

    stable = True

    def __init__(self, size: int, device: torch.device) -> None:
        super().__init__(max(size, 1), device)
        self.step = mmap.PAGESIZE
        # Private: of shared memory nothing would be given back. What is never written counts for nothing.
        lazy = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE, which older Pythons do not name
        self._map = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | lazy)
        self._tensor = torch.frombuffer(self._map, dtype=torch.uint8)

    def would_take(self, size: int) -> int:
        wanted = min(self.size, -(-size // self.step) * self.step)
        return max(0, wanted - self.mapped)

    def grow_to(self, size: int) -> None:
        self.mapped += self.would_take(size)

    def release(self) -> None:
        self._map.madvise(mmap.MADV_DONTNEED)
        self.mapped = 0

    def close(self) -> None:
        self._tensor = None
        self.mapped = 0
        del self._map  # The addresses go once no tensor looks at them any more.


class Devices:
    """Makes regions on one device, of the best kind that it has."""

    def __init__(self, device: torch.device, virtual: bool = True) -> None:
        self.device = device
        self.memory: VirtualMemory | None = None
        self.why_not: str | None = None
        if device.type == "cuda" and virtual:
            torch.cuda.init()
            torch.zeros(1, device=device)  # The calls below need the device's context.
            try:
                self.memory = VirtualMemory(device.index or 0)
                trial = VirtualRegion(4 << 20, device, self.memory)
                trial.grow_to(4 << 20)
                trial.tensor().fill_(7)
                if int(trial.tensor()[-1]) != 7:
                    raise RuntimeError("mapped memory does not hold what was written")
                torch.cuda.synchronize(device)
                trial.close()
            except (OSError, RuntimeError, AttributeError) as error:
                self.memory, self.why_not = None, str(error)

    def region(self, size: int, chunk: int = CHUNK) -> Region:
        """A region of so many bytes, with nothing behind it yet."""
        if self.memory is not None:
            return VirtualRegion(size, self.device, self.memory, chunk)
        if self.grows:
            try:
                return HostRegion(size, self.device)
            except OSError as error:
                raise not_given("a model", size, "device memory", error) from error
        return Region(size, self.device)

    @property
    def grows(self) -> bool:
        """Whether regions take memory as they need it, rather than all of it at once."""
        return self.memory is not None or (self.device.type == "cpu" and hasattr(mmap, "MADV_DONTNEED"))

    def free_bytes(self) -> int | None:
        """What the device itself says is free."""
        if self.device.type != "cuda":
            return None
        return int(torch.cuda.mem_get_info(self.device)[0])

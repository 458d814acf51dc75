"""Libraries like CUDA's driver and cuBLAS, whose device is the memory of this process: they do what the real ones do,
as far as programs of launches ask for it, and write down what they are asked for."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from hlotool.codegen.launches import LaunchProgram
from hlotool.codegen.machine import host
from hlotool.driver import compile_module
from hlotool.ir import Module
from hlotool.runtime.cuda.blas import Blas
from hlotool.runtime.cuda.driver import CudaDevice, Driver
from hlotool.runtime.cuda.emulator import Emulator
from hlotool.runtime.cuda.execution import executor

__all__ = ["Fake", "FakeBlas", "on_fake"]


class Fake:
    """A library like that of CUDA's driver, whose device is the memory of this process; it runs emulated grids."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self.memory: dict[int, Any] = {}
        self.names: list[str] = []
        self.failing = ""
        self.does: dict[str, Callable[..., None]] = {
            "cuDeviceGetAttribute": self.attribute, "cuGetErrorString": self.describe, "cuLaunchKernel": self.launch,
            "cuMemAllocAsync": self.allocate, "cuMemFreeAsync": lambda address, stream: self.memory.pop(address),
            "cuMemcpyDtoDAsync_v2": self.copy, "cuMemcpyDtoHAsync_v2": self.copy, "cuMemcpyHtoDAsync_v2": self.copy,
            "cuModuleGetFunction": self.function, "cuStreamBeginCapture_v2": self.begin, "cuStreamEndCapture": self.end,
            "cuGraphInstantiateWithFlags": self.instantiate, "cuGraphLaunch": self.replay,
            "cuGraphExecDestroy": lambda graph: self.graphs.pop(graph.value),
        }  # fmt: skip
        self.calls: list[str] = []
        self.capturing: list[Callable[[], None]] | None = None
        self.graphs: dict[int, list[Callable[[], None]]] = {}

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def called(*arguments: Any) -> int:
            self.calls.append(name)
            if name == self.failing:
                self.capturing = None if name == "cuStreamEndCapture" else self.capturing
                return 700
            does = self.does.get(name, lambda *ignored: None)
            if self.capturing is not None and name in ("cuLaunchKernel", "cuMemcpyDtoDAsync_v2"):
                held = self.held(name, arguments)
                self.capturing.append(lambda: does(*held))
            else:
                assert self.capturing is None or name in ("cuStreamEndCapture", "cuGetErrorString"), name
                does(*arguments)
            return 0

        self.__dict__[name] = called  # the driver says its types
        return called

    def held(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Arguments as they are now: the driver takes the values of a kernel's when it is told to launch it."""
        if name != "cuLaunchKernel":
            return arguments
        *others, pointers, extra = arguments
        values = [ctypes.c_uint64.from_buffer_copy(ctypes.c_uint64.from_address(p)) for p in pointers if p]
        copies = (ctypes.c_void_p * len(pointers))(*(ctypes.addressof(value) for value in values))
        copies.values = values  # type: ignore[attr-defined]  # they live as long
        return (*others, copies, extra)

    def begin(self, stream: object, mode: int) -> None:
        assert mode == 1
        self.capturing = []

    def end(self, stream: object, place: Any) -> None:
        assert self.capturing is not None
        place._obj.value = len(self.graphs) + 1
        self.graphs[len(self.graphs) + 1] = self.capturing
        self.capturing = None

    def instantiate(self, place: Any, graph: Any, flags: int) -> None:
        assert flags == 0
        place._obj.value = graph.value

    def replay(self, graph: Any, stream: object) -> None:
        for node in self.graphs[graph.value]:
            node()

    def attribute(self, place: Any, number: int, device: object) -> None:
        place._obj.value = {75: 9, 76: 0}[number]

    def describe(self, code: int, place: Any) -> None:
        place._obj.value = b"an illegal memory access"

    def allocate(self, place: Any, size: int, stream: object) -> None:
        block = ctypes.create_string_buffer(size + 64)
        address = -(-ctypes.addressof(block) // 64) * 64
        self.memory[address] = block
        place._obj.value = address

    def copy(self, target: int, source: int, size: int, stream: object) -> None:
        ctypes.memmove(target, source, size)

    def function(self, place: Any, module: object, name: bytes) -> None:
        self.names.append(name.decode())
        place._obj.value = len(self.names)

    def launch(self, function: Any, *given: Any) -> None:
        *sizes, _, pointers, _ = given
        assert sizes[1:3] + sizes[4:] == [1, 1, 1, 1, 0]
        values = [ctypes.c_uint64.from_address(pointer).value for pointer in pointers if pointer]
        self.emulator.run(self.names[function.value - 1], sizes[0], values)


class FakeBlas:
    """A library like cuBLAS, of which it has what programs call; its matrices lie in columns."""

    def __init__(self, driver: Fake) -> None:
        self.driver = driver
        self.sums: list[int] = []
        self.handles: list[int] = []
        does = {
            "cublasCreate_v2": self.create, "cublasSetStream_v2": self.set_stream,
            "cublasGemmStridedBatchedEx": self.multiply,
        }  # fmt: skip
        for name, function in does.items():
            setattr(self, name, _typed(function))

    def create(self, place: Any) -> int:
        assert self.driver.capturing is None, "memory is taken, which is not to be recorded"
        self.handles.append(len(self.handles) + 1)
        place._obj.value = self.handles[-1]
        return 0

    def set_stream(self, handle: Any, stream: Any) -> int:
        assert handle.value in self.handles
        return 0

    def multiply(self, handle: Any, *given: Any) -> int:
        (left_turned, right_turned, m, n, k, one, left, kind, left_pitch, left_apart, right, same, right_pitch,
         right_apart, zero, result, total, pitch, apart, batch, sums, algorithm) = given  # fmt: skip
        assert (kind, one._obj.value, zero._obj.value, algorithm) == (same, 1, 0, -1)
        self.sums.append(sums)

        def product() -> None:
            for item in range(batch):
                a = _columns(left, kind, left_pitch, left_apart * item, *((k, m) if left_turned else (m, k)))
                b = _columns(right, kind, right_pitch, right_apart * item, *((n, k) if right_turned else (k, n)))
                a, b = (a.T if left_turned else a), (b.T if right_turned else b)
                _columns(result, total, pitch, apart * item, m, n)[...] = (
                    a.astype(np.float64) @ b.astype(np.float64)
                ).astype(_TYPES[total])

        if self.driver.capturing is None:
            product()
        else:
            self.driver.capturing.append(product)
        return 0


def _typed(function: Callable[..., int]) -> Callable[..., int]:
    """A function that can be told its types, as those of C libraries are."""

    def called(*arguments: Any) -> int:
        return function(*arguments)

    return called


_TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
"""``cudaDataType_t``."""


def _columns(address: int, kind: int, pitch: int, start: int, rows: int, count: int) -> Any:
    """The matrix in memory whose columns are `pitch` elements apart."""
    dtype = np.dtype(_TYPES[kind])
    assert pitch >= rows
    size = (pitch * (count - 1) + rows) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(address + start * dtype.itemsize)
    return np.ndarray((rows, count), dtype, memory, strides=(dtype.itemsize, pitch * dtype.itemsize))


def on_fake(
    module: Module, blas: bool = False
) -> tuple[LaunchProgram, Fake, Callable[..., tuple[Any, ...]], FakeBlas | None]:
    """The program of `module`, the library, and what runs the one through the other; and its `blas`, if asked for."""
    program = compile_module(module, "nvptx:emulate", to_run=False).launches
    assert program is not None
    fake = Fake(Emulator(program, host()))
    library = FakeBlas(fake) if blas else None
    device = CudaDevice(program, "", Driver(fake), None if library is None else Blas(library))
    return program, fake, executor(program, device), library

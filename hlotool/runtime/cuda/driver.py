"""A device of CUDA by its driver: ``libcuda.so.1``, which comes with the kernel module, and nothing of the toolkit.

The library is loaded when a program is; importing this file asks for nothing.  All that a session asks for goes to one
stream, in order.  See the CUDA driver API (https://docs.nvidia.com/cuda/cuda-driver-api) for what the functions do.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache
from typing import Any
from weakref import finalize

import numpy.typing as npt

from hlotool.codegen.launches import LaunchProgram, Multiply, launches
from hlotool.ir import ExecutionError, UnsupportedError
from hlotool.runtime.cuda.blas import Blas

__all__ = ["CudaDevice", "Driver", "driver"]

Array = npt.NDArray[Any]

_LIBRARY = "libcuda.so.1"

_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuCtxSetCurrent": (c_void_p,),
    "cuDeviceGet": (c_void_p, c_int),
    "cuDeviceGetAttribute": (c_void_p, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (c_void_p, c_int),
    "cuGetErrorString": (c_int, c_void_p),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphInstantiateWithFlags": (c_void_p, c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuInit": (c_uint,),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, c_void_p, c_void_p),
    "cuMemAllocAsync": (c_void_p, c_size_t, c_void_p),
    "cuMemFreeAsync": (c_uint64, c_void_p),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuModuleGetFunction": (c_void_p, c_void_p, c_char_p),
    "cuModuleLoadData": (c_void_p, c_void_p),
    "cuModuleUnload": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamCreate": (c_void_p, c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamEndCapture": (c_void_p, c_void_p),
    "cuStreamSynchronize": (c_void_p,),
}
"""What is called, with the types of the arguments; all give an error code, 0 for none."""

_MAJOR, _MINOR = 75, 76
"""The attributes of a device that say which architecture it has."""

_NON_BLOCKING = 1

_OF_THIS_THREAD = 1
"""What other threads do with the driver while this one records is their own affair."""


class Driver:
    """The functions of `library`, and the first device's context; ExecutionError where a call fails."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name, types in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = types, c_int
        self.call("cuInit", 0)
        device, context = c_int(), c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._context = context
        self.architecture = 10 * self._attribute(device, _MAJOR) + self._attribute(device, _MINOR)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver."""
        code = getattr(self._library, name)(*arguments)
        if code:
            text = c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise ExecutionError(f"{name}: {(text.value or b'unknown error').decode()} ({code})")

    def enter(self) -> None:
        """Let this thread use the device."""
        self.call("cuCtxSetCurrent", self._context)

    def _attribute(self, device: c_int, number: int) -> int:
        value = c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), number, device)
        return value.value


@cache
def driver() -> Driver:
    """The driver of this machine; UnsupportedError says what is missing."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise UnsupportedError(
            f"running on a device of CUDA takes its driver: {_LIBRARY} is not here ({error}); nvptx:emulate runs the "
            "same kernels on this processor"
        ) from None
    try:
        return Driver(library)
    except ExecutionError as error:
        raise UnsupportedError(f"there is no device of CUDA that works: {error.message}") from None


class CudaDevice:
    """The code of `program` on the device of `driver`: `ptx` is its text; `blas` multiplies, if it is given."""

    def __init__(self, program: LaunchProgram, ptx: str, driver: Driver, blas: Blas | None = None) -> None:
        self.driver = driver
        self.blas = blas
        driver.enter()
        self._module = c_void_p()
        driver.call("cuModuleLoadData", ctypes.byref(self._module), ptx.encode() + b"\0")
        finalize(self, _unload, driver, self._module)
        self._functions: dict[str, c_void_p] = {}
        for operations in program.routines.values():
            for launch in launches(operations):
                if launch.function not in self._functions:
                    found = self._functions[launch.function] = c_void_p()
                    name = launch.function.encode()
                    driver.call("cuModuleGetFunction", ctypes.byref(found), self._module, name)

    @contextmanager
    def session(self) -> Iterator[_Session]:
        """Begin an execution, on a stream of its own."""
        session = self._open()
        try:
            yield session
        except BaseException:
            with suppress(ExecutionError):  # what went wrong first is what to tell
                session.close()
            raise
        session.close()

    def record(
        self, sizes: Sequence[int], constants: Array, body: Callable[[_Session, Sequence[int]], None]
    ) -> _Recording:
        """Take memory, and make one graph of what `body` does there."""
        session = self._open()
        try:
            frame = [session.take(size) for size in (*sizes, constants.nbytes)]
            session.write(frame[-1], constants)
            graph = session.captured(lambda: body(session, frame))
        except BaseException:
            with suppress(ExecutionError):
                session.close()
            raise
        return _Recording(self.driver, session, frame, graph)

    def _open(self) -> _Session:
        self.driver.enter()
        stream = c_void_p()
        self.driver.call("cuStreamCreate", ctypes.byref(stream), _NON_BLOCKING)
        try:
            return _Session(self, stream)
        except BaseException:
            with suppress(ExecutionError):
                self.driver.call("cuStreamDestroy_v2", stream)
            raise

    def launch(self, stream: c_void_p, function: str, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        """Put a grid into a stream."""
        values = (c_uint64 * max(1, len(arguments)))(*arguments)
        start = ctypes.addressof(values)
        pointers = (c_void_p * max(1, len(arguments)))(*(start + 8 * n for n in range(len(arguments))))
        sizes = (blocks, 1, 1, threads, 1, 1, 0)
        self.driver.call("cuLaunchKernel", self._functions[function], *sizes, stream, pointers, None)


def _unload(driver: Driver, module: c_void_p) -> None:
    driver.enter()
    driver.call("cuModuleUnload", module)


class _Session:
    """The memory of an execution, and its stream."""

    def __init__(self, device: CudaDevice, stream: c_void_p) -> None:
        self._device, self._driver, self._stream = device, device.driver, stream
        self._taken: list[int] = []
        self._handle = device.blas.take(stream) if device.blas is not None else None  # before anything is recorded

    def take(self, size: int) -> int:
        address = c_uint64()
        self._driver.call("cuMemAllocAsync", ctypes.byref(address), max(1, size), self._stream)
        self._taken.append(address.value)
        return address.value

    def write(self, address: int, array: Array) -> None:
        if array.nbytes:
            self._driver.call("cuMemcpyHtoDAsync_v2", address, array.ctypes.data, array.nbytes, self._stream)

    def read(self, address: int, array: Array) -> None:
        if array.nbytes:
            self._driver.call("cuMemcpyDtoHAsync_v2", array.ctypes.data, address, array.nbytes, self._stream)
        self._driver.call("cuStreamSynchronize", self._stream)

    def move(self, target: int, source: int, size: int) -> None:
        self._driver.call("cuMemcpyDtoDAsync_v2", target, source, size, self._stream)

    def launch(self, function: str, blocks: int, threads: int, arguments: Sequence[int]) -> None:
        self._device.launch(self._stream, function, blocks, threads, arguments)

    def multiply(self, product: Multiply, left: int, right: int, result: int) -> bool:
        if self._device.blas is None or self._handle is None:
            return False
        self._device.blas.multiply(self._handle, product, left, right, result)
        return True

    def captured(self, body: Callable[[], None]) -> c_void_p:
        """What `body` asks of the stream, not done, but as a graph to be launched."""
        call = self._driver.call
        graph, executable = c_void_p(), c_void_p()
        call("cuStreamBeginCapture_v2", self._stream, _OF_THIS_THREAD)
        try:
            body()
        except BaseException:
            with suppress(ExecutionError):
                call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
            if graph:
                call("cuGraphDestroy", graph)
            raise
        call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
        try:
            call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, 0)
        finally:
            call("cuGraphDestroy", graph)
        return executable

    def launch_graph(self, graph: c_void_p) -> None:
        self._driver.call("cuGraphLaunch", graph, self._stream)

    def close(self) -> None:
        """Give everything back, once all is done."""
        for address in self._taken:
            self._driver.call("cuMemFreeAsync", address, self._stream)
        self._driver.call("cuStreamSynchronize", self._stream)
        if self._device.blas is not None and self._handle is not None:
            self._device.blas.give_back(self._handle)
            self._handle = None
        self._driver.call("cuStreamDestroy_v2", self._stream)


class _Recording:
    """A graph, and the memory that it is about: a `frame` of arguments, results, temporary values and constants."""

    def __init__(self, driver: Driver, session: _Session, frame: Sequence[int], graph: c_void_p) -> None:
        self._driver, self._session, self._frame, self._graph = driver, session, frame, graph
        finalize(self, _forget, driver, session, graph)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        self._driver.enter()
        session = self._session
        for address, array in zip(self._frame, inputs, strict=False):
            session.write(address, array)
        session.launch_graph(self._graph)
        for address, array in zip(self._frame[len(inputs) :], outputs, strict=False):
            session.read(address, array)


def _forget(driver: Driver, session: _Session, graph: c_void_p) -> None:
    driver.enter()
    driver.call("cuGraphExecDestroy", graph)
    session.close()

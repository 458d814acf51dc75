"""What is rare about buffers: arrays of the host that are strided, views of other people's memory, copies."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.ir import dtype_of
from hlotool.jax.pjrt.client import device_at
from hlotool.jax.pjrt.interface import Structure
from hlotool.jax.pjrt.native import Buffer, element_type, new_buffer, pointer, ready_event
from hlotool.jax.pjrt.table import Function, PjrtError
from hlotool.runtime.memory import ALIGNMENT

__all__ = ["GONE", "VIEWS", "alive", "buffer_functions", "copied", "from_array", "token"]

GONE = "Buffer has been deleted or donated."
_ON_DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def alive(address: int) -> Buffer:
    """The buffer there; PjrtError where it was deleted or donated."""
    buffer = Buffer(address)
    if buffer.deleted:
        raise PjrtError("invalid argument", GONE)
    return buffer


def copied(buffer: Buffer, memory: int) -> Buffer:
    """A copy of a buffer, in `memory`."""
    return from_array(buffer.array(), buffer.kind, memory, buffer.order)


def from_array(array: npt.NDArray[Any], kind: str, memory: int, order: Sequence[int] | None = None) -> Buffer:
    """A buffer with the contents of an array, row by row or in another `order`."""
    made = new_buffer(kind, array.shape, memory, order=order)
    made.array()[...] = array
    return made


def token(memory: int) -> Buffer:
    """A buffer that only says that something has happened."""
    return new_buffer("token", (), memory)


def _from_host(arguments: Structure) -> None:
    kind = _array_type(arguments.type)
    dimensions = arguments.words("dims", arguments.num_dims)
    strides = arguments.words("byte_strides", arguments.num_byte_strides) or None
    _order(arguments.device_layout, len(dimensions))
    memory = arguments.memory or device_at(arguments.device).memory
    array = _strided(arguments.data, kind, dimensions, strides)
    arguments.buffer = from_array(array, kind, memory).address
    arguments.done_with_host_buffer = ready_event()


def _array_type(number: int) -> str:
    kind = element_type(number)
    if not kind or kind == "token":
        raise PjrtError("unimplemented", f"hlotool has no arrays of element type {kind or number}")
    return kind


def _strided(data: int, kind: str, dimensions: Sequence[int], strides: Sequence[int] | None) -> npt.NDArray[Any]:
    """The array at `data`, whose strides are in bytes and may be negative."""
    dtype = dtype_of(kind)
    if 0 in dimensions:
        return np.empty(dimensions, dtype)
    if strides is None:
        strides = [dtype.itemsize * math.prod(dimensions[n + 1 :]) for n in range(len(dimensions))]
    reach = [stride * (size - 1) for stride, size in zip(strides, dimensions, strict=True)]
    first = sum(step for step in reach if step < 0)
    size = sum(map(abs, reach)) + dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(data + first)
    return np.ndarray(dimensions, dtype, memory, -first, strides)


def _order(layout: int, rank: int) -> list[int]:
    """The dimensions of a layout, major ones first; PjrtError for tiles."""
    order = list(range(rank))
    if not layout:
        return order
    tiled = Structure("struct TiledLayout", layout)
    if tiled.type != 0:
        strides = Structure("struct StridedLayout", layout).words("byte_strides", rank)
        return sorted(order, key=lambda number: -strides[number])
    if tiled.num_tiles:
        raise PjrtError("unimplemented", "hlotool has no tiled layouts")
    return tiled.words("minor_to_major", tiled.minor_to_major_size)[::-1]


def _to_host(arguments: Structure) -> None:
    buffer = alive(arguments.src)
    nbytes = buffer.word(4)
    if not arguments.dst:
        arguments.dst_size = nbytes
        return
    if arguments.dst_size < nbytes:
        raise PjrtError("invalid argument", f"{nbytes} bytes do not fit in {arguments.dst_size}")
    order = _order(arguments.host_layout, len(buffer.dimensions))
    ordered = np.ascontiguousarray(buffer.array().transpose(order))
    ctypes.memmove(arguments.dst, ordered.ctypes.data, nbytes)
    arguments.event = ready_event()


def _to_device(arguments: Structure) -> None:
    arguments.dst_buffer = copied(alive(arguments.buffer), device_at(arguments.dst_device).memory).address


def _to_memory(arguments: Structure) -> None:
    arguments.dst_buffer = copied(alive(arguments.buffer), arguments.dst_memory).address


class _Views:
    """What the caller of dlpack said of copies, which jaxlib does not hand on to plug-ins.

    A copy it would ask of them in a way that they cannot have; where none is wanted it asks for a view as always.
    """

    def __init__(self) -> None:
        self._local = threading.local()

    def noted(self, take: Callable[..., Any], mark: str) -> Callable[..., Any]:
        """jaxlib's function that takes a tensor, where it is for a client whose version has `mark` in it."""

        @wraps(take)
        def taking(tensor: Any, device: Any, stream: Any = None, copy: bool | None = None, *rest: Any) -> Any:
            if mark not in device.client.platform_version:
                return take(tensor, device, stream, copy, *rest)
            if copy:
                return take(tensor, device, stream, None, *rest).copy()
            self._local.only = copy is not None
            try:
                return take(tensor, device, stream, copy, *rest)
            finally:
                self._local.only = False

        return taking

    @property
    def only(self) -> bool:
        """Whether the view that is asked for in this thread may not be a copy."""
        return getattr(self._local, "only", False)


VIEWS = _Views()


def _view(arguments: Structure) -> None:
    """A buffer in memory of somebody else, which is told when it is not needed any more."""
    kind = _array_type(arguments.element_type)
    dimensions = arguments.words("dims", arguments.num_dims)
    memory = arguments.memory or device_at(arguments.device).memory
    data = arguments.device_buffer_ptr
    order = _order(arguments.layout, len(dimensions))
    told, argument = arguments.on_delete_callback, arguments.on_delete_callback_arg
    long = [number for number in order if dimensions[number] != 1]  # where the others stand makes no difference
    by_rows = long == sorted(long)
    if data % ALIGNMENT == 0 and data and (by_rows or VIEWS.only):  # else a copy by rows, which programs run on faster
        ending = told or pointer("Event_Error")  # any function that does nothing
        other = None if by_rows else order[::-1]
        arguments.buffer = new_buffer(kind, dimensions, memory, data, ending, argument, other).address
        return
    if VIEWS.only and 0 not in dimensions:  # JAX looks for these words
        raise PjrtError("invalid argument", f"the memory is not aligned to {ALIGNMENT} bytes.")
    ordered = _strided(data, kind, [dimensions[number] for number in order], None)
    arguments.buffer = from_array(ordered.transpose(np.argsort(order)), kind, memory).address
    if told:
        _ON_DELETE(told)(data, argument)


def _uninitialized(arguments: Structure) -> None:
    memory = arguments.memory or device_at(arguments.device).memory
    dimensions = arguments.words("shape_dims", arguments.shape_num_dims)
    arguments.buffer = new_buffer(_array_type(arguments.shape_element_type), dimensions, memory).address


def _raw_to_host(arguments: Structure) -> None:
    buffer = alive(arguments.buffer)
    if arguments.offset + arguments.transfer_size > buffer.word(4):
        raise PjrtError("invalid argument", "the buffer has not so many bytes")
    ctypes.memmove(arguments.dst, buffer.word(3) + arguments.offset, arguments.transfer_size)
    arguments.event = ready_event()


def _memory_layout(arguments: Structure) -> None:
    raise PjrtError("unimplemented", "the layout of buffers is told by the extension for layouts")


def buffer_functions() -> dict[str, Function]:
    """The functions of the table about buffers that are not native code, and what native code leaves to others."""
    return {
        "slow_from_host": _from_host,
        "slow_to_host": _to_host,
        "Buffer_CopyToDevice": _to_device,
        "Buffer_CopyToMemory": _to_memory,
        "Buffer_CopyRawToHost": _raw_to_host,
        "Client_CreateViewOfDeviceBuffer": _view,
        "Client_CreateUninitializedBuffer": _uninitialized,
    }



"""The functions of the plug-in that JAX calls all the time, as native code, and the objects that they work on.

``native/objects.ll`` says how objects lie in memory, ``native/execute.ll`` how a program is run; here are the functions
that only read a field, and what Python code needs of all that.  All of it is plumbing, which LLVM is quick with: JAX
takes far longer around it than it takes, and it is compiled before the first program of a new installation runs.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np
import numpy.typing as npt

from hlotool.codegen.kernel import PLUMBING
from hlotool.codegen.llvm.status import COMPLETE
from hlotool.codegen.machine import host
from hlotool.ir import dtype_of
from hlotool.jax.pjrt.interface import HEAD, layout
from hlotool.runtime.cache import default_cache
from hlotool.runtime.fastcall import Method, builtin_of, method
from hlotool.runtime.load import Library, load
from hlotool.runtime.memory import allocator
from hlotool.runtime.object_code import compiled, with_attributes
from hlotool.runtime.once import once
from hlotool.runtime.parts import part, python_function

__all__ = [
    "CODES", "DEVICE", "MEMORY", "NATIVE", "TYPES", "Buffer", "allocate", "element_type", "ended_executables",
    "error", "native_objects", "new_buffer", "number_of_type", "pointer", "provide", "python_pointer", "ready_event",
]  # fmt: skip

TYPES = (
    "", "pred", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f16", "f32", "f64", "bf16", "c64", "c128",
    "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "s4", "u4", "token", "s2", "u2", "f8e4m3",
    "f8e3m4", "f8e8m0fnu", "f4e2m1fn", "s1", "u1",
)  # fmt: skip
"""Element types by their numbers."""

CODES = {
    "interrupted": 0, "cancelled": 1, "unknown": 2, "invalid argument": 3, "deadline exceeded": 4, "not found": 5,
    "already exists": 6, "permission denied": 7, "resource exhausted": 8, "failed precondition": 9, "aborted": 10,
    "out of range": 11, "unimplemented": 12, "internal": 13, "unavailable": 14, "data loss": 15, "unauthenticated": 16,
}  # fmt: skip
"""PJRT's codes of errors, by their names; with ``interrupted`` there are results, and it never leaves native code."""

_GETTERS: dict[str, dict[str, int]] = {  # function -> field of its arguments -> word of its first argument
    "Buffer_ElementType": {"type": 0},
    "Buffer_Dimensions": {"num_dims": 1, "dims": 2},
    "Buffer_UnpaddedDimensions": {"num_dims": 1, "unpadded_dims": 2},
    "Buffer_OnDeviceSizeInBytes": {"on_device_size_in_bytes": 4},
    "Buffer_Device": {"device": 5},
    "Buffer_Memory": {"memory": 6},
    "Buffer_IsDeleted": {"is_deleted": 8},
    "Buffer_UnsafePointer": {"buffer_pointer": 3},
    "Buffer_OpaqueDeviceMemoryDataPointer": {"device_memory_ptr": 3},
    "Executable_NumReplicas": {"num_replicas": 13},
    "Executable_NumPartitions": {"num_partitions": 14},
    "Executable_NumOutputs": {"num_outputs": 1},
    "Memory_Kind": {"kind": 2, "kind_size": 3},
}
NATIVE = (
    *_GETTERS, "Buffer_Delete", "Buffer_Destroy", "Buffer_IncreaseExternalReferenceCount",
    "Buffer_DecreaseExternalReferenceCount", "Buffer_ReadyEvent", "Buffer_IsOnCpu", "Buffer_DynamicDimensionIndices",
    "Error_Destroy", "Error_Message", "Error_GetCode", "Event_Destroy", "Event_Error", "Event_IsReady", "Event_Await",
    "Event_OnReady", "Client_BufferFromHostBuffer", "Buffer_ToHostBuffer", "LoadedExecutable_Execute",
    "ExecuteContext_Create", "ExecuteContext_Destroy", "Executable_Destroy", "LoadedExecutable_Destroy",
    "LoadedExecutable_GetExecutable",
)  # fmt: skip
"""Functions of the table that are native code."""

DEVICE, MEMORY = 5, 6
_ORDER, _HEAD_OF_BUFFER = 9, 12

_provided: dict[str, int] = {}
_kept: list[object] = []
_CALLED = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_size_t)


def provide(name: str, function: object, address: int) -> None:
    """Give the native code the address of what it calls `name`; before its first use."""
    _provided[name] = address
    _kept.append(function)


def pointer(name: str) -> int:
    """The address of a native function."""
    return _library().address(name)


def python_pointer(function: Callable[[int], int]) -> int:
    """The address of a C function that calls one of Python's, and gives back what that does.

    ctypes makes C functions quickly, but loses what is raised in one of them, and Ctrl-C can come at any time.  So what
    it calls is a builtin, around which it runs no code of Python's: ``execute.ll`` says how that sees to Ctrl-C.
    """
    called = _CALLED(builtin_of(_python_called(), function))
    _kept.append(called)
    return int(ctypes.cast(called, ctypes.c_void_p).value or 0)


@once
def _python_called() -> Method:
    return method(pointer("python_called"), b"Call a function of the plug-in.", takes_one=True)


def ended_executables() -> int:
    """The first of the executables without references, which are taken off their list: the next one is in word 16."""
    return _function("ended_executables", ctypes.c_void_p)() or 0


def ready_event() -> int:
    """The event that is always ready."""
    return _library().address("ready")


def element_type(number: int) -> str:
    """The name of element type `number`, or nothing."""
    return TYPES[number] if 0 <= number < len(TYPES) else ""


def number_of_type(name: str) -> int:
    """The number of an element type."""
    return TYPES.index(name)


def allocate(nbytes: int) -> int:
    """Memory for a buffer; MemoryError where there is none."""
    found = _function("hlo_malloc", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)(None, nbytes)
    if not found:
        raise MemoryError(f"no memory for {nbytes:,} bytes")
    return int(found)


def error(code: int, message: str) -> int:
    """A new error."""
    text = message.encode()
    at = allocate(16 + len(text))
    ctypes.memmove(at, code.to_bytes(8, "little") + len(text).to_bytes(8, "little") + text, 16 + len(text))
    return at


def new_buffer(
    kind: str, dimensions: Sequence[int], memory: int, data: int | None = None, ending: int = 0, argument: int = 0,
    order: Sequence[int] | None = None,
) -> Buffer:  # fmt: skip
    """A buffer with undefined contents, or for memory at `data`, which the function at `ending` is to end.

    It lies there row by row, or in another `order`, minor dimensions first.
    """
    nbytes = math.prod(dimensions) * _item_size(number_of_type(kind))
    if data is None:
        data, ending, argument = allocate(nbytes), pointer("owned"), 0
    sizes = (ctypes.c_int64 * len(dimensions))(*dimensions)
    word = ctypes.c_uint64
    make = _function("new_buffer", word, word, word, ctypes.c_void_p, word, word, word, word, word)
    made = make(number_of_type(kind), len(dimensions), sizes, data, nbytes, memory, ending, argument)
    if not made:
        raise MemoryError("no memory for a buffer")
    if order is not None:
        place = made + 8 * (_HEAD_OF_BUFFER + len(dimensions))
        (ctypes.c_int64 * len(order)).from_address(place)[:] = list(order)
        ctypes.c_uint64.from_address(made + 8 * _ORDER).value = place
    return Buffer(made)


class Buffer:
    """A buffer at `address`, as Python code sees it."""

    __slots__ = ("address",)

    def __init__(self, address: int) -> None:
        self.address = address

    def word(self, number: int) -> int:
        """One of its words."""
        return ctypes.c_uint64.from_address(self.address + 8 * number).value

    @property
    def deleted(self) -> bool:
        """Whether its memory was given up."""
        return self.word(8) != 0

    @property
    def is_shared(self) -> bool:
        """Whether others look at its memory, too."""
        return ctypes.c_uint64.from_address(self.word(7)).value > 1

    @property
    def kind(self) -> str:
        """Its element type."""
        return TYPES[self.word(0)]

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Its dimensions."""
        return tuple((ctypes.c_int64 * self.word(1)).from_address(self.word(2)))

    @property
    def order(self) -> tuple[int, ...] | None:
        """Its dimensions as they lie in memory, minor ones first; None where that is row by row."""
        at = self.word(_ORDER)
        return tuple((ctypes.c_int64 * self.word(1)).from_address(at)) if at else None

    def array(self) -> npt.NDArray[Any]:
        """Its contents, for as long as it is there."""
        order = self.order
        if order is None:
            return self._by_rows(self.dimensions)
        major = order[::-1]
        return self._by_rows([self.dimensions[number] for number in major]).transpose(np.argsort(major))

    def _by_rows(self, dimensions: Sequence[int]) -> npt.NDArray[Any]:
        dtype = dtype_of(self.kind)
        size = dtype.itemsize * math.prod(dimensions)
        if size == 0:
            return np.empty(dimensions, dtype)
        memory: Any = (ctypes.c_char * size).from_address(self.word(3))
        return np.ndarray(dimensions, dtype, memory)

    def hold(self) -> None:
        """Keep its memory while `release` was not called."""
        self._counted("Buffer_IncreaseExternalReferenceCount")

    def release(self) -> None:
        """Take back a `hold`."""
        self._counted("Buffer_DecreaseExternalReferenceCount")

    def delete(self) -> None:
        """Give up its memory."""
        self._counted("Buffer_Delete")

    def _counted(self, name: str) -> None:
        arguments = (ctypes.c_uint64 * 3)(24, 0, self.address)
        _function(name, ctypes.c_void_p, ctypes.c_void_p)(ctypes.addressof(arguments))


@cache
def _function(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    library = allocator().library if name.startswith("hlo_") else _library()
    return ctypes.CFUNCTYPE(result, *arguments)(library.address(name))


@once
def _library() -> Library:
    """Loaded once and never unloaded."""
    sizes = [_item_size(number) for number in range(64)]
    table = (ctypes.c_int64 * 64)(*sizes)
    _kept.append(table)
    names = (
        "PyGILState_Ensure", "PyGILState_Release", "PyErr_Fetch", "PyErr_NormalizeException", "PyObject_Vectorcall",
        "PyLong_AsVoidPtr", "Py_DecRef", "PyThreadState_SetAsyncExc", "PyThread_get_thread_ident",
        "PyLong_FromVoidPtr", "PyErr_Clear", "PyErr_ExceptionMatches",
    )  # fmt: skip
    symbols = {name: python_function(name) for name in names} | _provided
    own = {"size_of": ctypes.addressof(table), "KeyboardInterrupt": id(KeyboardInterrupt)}
    symbols |= {name: allocator().library.address(name) for name in ("hlo_malloc", "hlo_free")}
    return load(native_objects(), symbols | own)


@once
def native_objects() -> list[bytes]:
    """The native functions, compiled."""
    machine = host()
    places = {f"{name}__{field}": at.offset for name in NATIVE for field, at in layout(name).items()}
    places |= {f"ExecuteOptions__{field}": at.offset for field, at in layout("struct ExecuteOptions").items()}
    values = {**places, "COMPLETE": COMPLETE}
    values |= {name.upper(): CODES[name] for name in ("cancelled", "interrupted")}
    folder = files("hlotool.jax.pjrt").joinpath("native")
    texts = [folder.joinpath(f"{name}.ll").read_text(encoding="utf-8") for name in ("objects", "execute")]
    text = Template("\n".join(texts)).substitute(values)
    text += "".join(map(_getter, _GETTERS))
    for name in ("clock", "nap"):
        text += with_attributes(part(name, machine), PLUMBING)
    return compiled([text], machine, cache=default_cache())


def _item_size(number: int) -> int:
    """Bytes of an element; 0 for what is no array."""
    name = element_type(number)
    return 0 if name in ("", "token") else dtype_of(name).itemsize


def _getter(name: str) -> str:
    """A function that copies words of an object to its arguments."""
    fields = layout(name)
    lines = [
        f"define ptr @{name}(ptr %args) nounwind {PLUMBING} {{",
        f"  %at = getelementptr i8, ptr %args, i64 {HEAD}",
        "  %object = load ptr, ptr %at",
    ]
    for field, word in _GETTERS[name].items():
        kind = f"i{8 * fields[field].size}"
        lines += [
            f"  %{field}_from = getelementptr i64, ptr %object, i64 {word}",
            f"  %{field} = load {kind}, ptr %{field}_from",
            f"  %{field}_at = getelementptr i8, ptr %args, i64 {fields[field].offset}",
            f"  store {kind} %{field}, ptr %{field}_at",
        ]
    return "\n".join(["", *lines, "  ret ptr null", "}", ""])

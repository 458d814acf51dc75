"""Compiled programs as targets of XLA's foreign function interface.

XLA calls one handler with a frame (``xla/ffi/api/c_api.h``, which jaxlib comes with): addresses of arguments and
results, and an attribute, the number of the program.  The handler is native code (``native/foreign.ll``), which leaves
to Python what is unusual: programs that call Python themselves, errors, questions about itself.  Numbers are of this
process, so that an executable that another one left in jax's compilation cache is never taken for one of this.
"""

from __future__ import annotations

import ctypes
import secrets
import threading
from collections.abc import Callable, Sequence
from importlib.resources import files
from string import Template
from typing import Any

import jax
import numpy as np
import numpy.typing as npt

from hlotool.codegen.llvm.status import COMPLETE
from hlotool.codegen.machine import host
from hlotool.ir import dtype_of
from hlotool.jax.traced import Program, is_key
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import load
from hlotool.runtime.memory import allocator
from hlotool.runtime.object_code import compiled
from hlotool.runtime.once import once
from hlotool.runtime.parts import python_function

__all__ = ["call", "count_runs", "takes"]

_TARGET = "hlotool_call"
_INTERNAL = 13
_EXECUTE = 3
_METADATA = 1

_MOST = 65_536
"""Programs that native code finds; others are run from Python."""

_first = ctypes.c_int64(secrets.randbits(61))
_programs: dict[int, Program] = {}
_tables: dict[int, npt.NDArray[np.int64]] = {}
_places = (ctypes.c_void_p * _MOST)()
_lock = threading.Lock()


class _Extension(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("type", ctypes.c_int), ("next", ctypes.c_void_p))


class _Version(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("major", ctypes.c_int), ("minor", ctypes.c_int),
    )  # fmt: skip


class _Metadata(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("version", _Version), ("traits", ctypes.c_uint32))


class _MetadataExtension(ctypes.Structure):
    _fields_ = (("base", _Extension), ("metadata", ctypes.POINTER(_Metadata)))


class _Buffer(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("dtype", ctypes.c_int), ("data", ctypes.c_void_p),
    )  # fmt: skip


class _Buffers(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("count", ctypes.c_int64),
        ("types", ctypes.c_void_p), ("items", ctypes.POINTER(ctypes.POINTER(_Buffer))),
    )  # fmt: skip


class _Scalar(ctypes.Structure):
    _fields_ = (("dtype", ctypes.c_int), ("value", ctypes.POINTER(ctypes.c_int64)))


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("count", ctypes.c_int64),
        ("types", ctypes.c_void_p), ("names", ctypes.c_void_p), ("items", ctypes.POINTER(ctypes.POINTER(_Scalar))),
    )  # fmt: skip


class _ErrorArguments(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("message", ctypes.c_char_p), ("code", ctypes.c_int),
    )  # fmt: skip


_MakeError = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_ErrorArguments))


class _Api(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.c_void_p), ("version", _Version),
        ("internal", ctypes.c_void_p), ("make_error", _MakeError),
    )  # fmt: skip


class _Frame(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("extension", ctypes.POINTER(_MetadataExtension)), ("api", ctypes.POINTER(_Api)),
        ("context", ctypes.c_void_p), ("stage", ctypes.c_int), ("arguments", _Buffers), ("results", _Buffers),
        ("attributes", _Attributes),
    )  # fmt: skip


def takes(program: Program) -> bool:
    """Whether `program` can be called so: by XLA, it is compiled, and its arrays lie in memory as XLA has them."""
    if "hlotool" in jax.local_devices(backend="cpu")[0].client.platform_version:  # the plug-in: it compiles it all
        return False
    avals = (*program.jaxpr.in_avals, *program.jaxpr.out_avals)
    if program.jaxpr.effects or any(is_key(aval.dtype) or _is_packed(aval.dtype) for aval in avals):
        return False
    return program.executable is not None


def _is_packed(dtype: Any) -> bool:
    """Whether XLA puts several elements into a byte."""
    return "int4" in dtype.name or "int2" in dtype.name or dtype.name.startswith(("float4", "float6"))


def call(program: Program) -> Callable[..., Sequence[Any]]:
    """A function of JAX that calls `program`."""
    _registered()
    with _lock:
        if "number" not in program.derived:
            number = _first.value + len(_programs)
            _programs[number], program.derived["number"] = program, number
            _provide(program, number)
    results = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in program.jaxpr.out_avals]
    attribute = np.int64(program.derived["number"])

    def foreign(*arguments: Any) -> Sequence[Any]:
        found: Sequence[Any] = jax.ffi.ffi_call(_TARGET, results)(*arguments, program=attribute)
        return found

    return foreign


def _provide(program: Program, number: int) -> None:
    """Let native code run `program`, unless that calls Python, whose errors are to be told."""
    executable, place = program.executable, number - _first.value
    if executable is None or executable.entry is None or executable.image is None or place >= _MOST:
        return
    entry = executable.entry
    counts = len(executable.parameters), len(executable.outputs)
    table = np.array([*counts, entry.address, entry.arena_bytes, entry.constants, 0], np.int64)
    _tables[number] = table
    _places[place] = table.ctypes.data


def count_runs() -> None:
    """Add to the records what native code has run since the last time."""
    with _lock:
        for number, table in _tables.items():
            runs, table[5] = int(table[5]), 0
            _programs[number].record.runs += runs


@once
def _registered() -> Any:
    """The handler, which XLA knows from now on; it has to stay."""
    kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Frame))
    functions = {"otherwise": kind(_handle), "ended": kind(_ended)}
    symbols = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in functions.items()}
    symbols |= {"programs": ctypes.addressof(_places), "first": ctypes.addressof(_first)}
    symbols |= {name: allocator().library.address(name) for name in ("hlo_malloc", "hlo_free")}
    names = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_Clear", "PyErr_SetInterrupt")
    symbols |= {name: python_function(name) for name in names}
    text = files("hlotool.jax").joinpath("native", "foreign.ll").read_text(encoding="utf-8")
    text = Template(text).substitute(EXECUTE=_EXECUTE, MOST=_MOST, COMPLETE=COMPLETE)
    library = load(compiled([text], host(), cache=default_cache()), symbols)
    handler = ctypes.CFUNCTYPE(None)(library.address("hlo_foreign"))
    jax.ffi.register_ffi_target(_TARGET, jax.ffi.pycapsule(handler), platform="cpu")
    return handler, library, functions


def _handle(pointer: Any) -> int | None:
    """What native code leaves to Python; it gives the address of an error, or None."""
    frame = pointer.contents
    if frame.extension and frame.extension.contents.base.type == _METADATA:
        version = frame.extension.contents.metadata.contents.version
        version.major, version.minor = 0, 1
        return None
    if frame.stage != _EXECUTE:
        return None
    try:
        _execute(frame)
    except BaseException as error:  # whatever it was, it must not pass through XLA
        return _error(frame, f"{type(error).__name__}: {error}")
    return None


def _ended(pointer: Any) -> int | None:
    """The error of an execution that was interrupted."""
    return _error(pointer.contents, "the execution was interrupted")


def _error(frame: Any, message: str) -> int | None:
    arguments = _ErrorArguments(ctypes.sizeof(_ErrorArguments), None, message.encode(), _INTERNAL)
    found: int | None = frame.api.contents.make_error(ctypes.byref(arguments))
    return found


def _execute(frame: Any) -> None:
    number = frame.attributes.items[0].contents.value.contents.value
    program = _programs.get(number)
    executable = None if program is None else program.executable
    if program is None or executable is None:  # native code knows those that are there
        raise RuntimeError("this program was compiled in another process, with code that is gone")
    inputs = [
        _array(frame.arguments.items[n].contents.data, shape) for n, shape in enumerate(executable.parameters)
    ]
    outputs = [_array(frame.results.items[n].contents.data, shape) for n, shape in enumerate(executable.outputs)]
    program.record.runs += 1
    if executable.into is not None:
        executable.into(inputs, outputs)
        return
    for output, value in zip(outputs, executable.run(*inputs), strict=True):
        output[...] = value


def _array(address: int | None, shape: Any) -> npt.NDArray[Any]:
    """The array of this shape that lies there."""
    dtype = dtype_of(shape.element_type)
    size = dtype.itemsize * int(np.prod(shape.dimensions, dtype=np.int64))
    if address is None or size == 0:
        return np.empty(shape.dimensions, dtype)
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(shape.dimensions, dtype, memory)

"""The short way from a Python call into compiled code.

One C function, itself LLVM IR (``native/call.ll``), serves every executable: a METH_FASTCALL builtin whose
``self`` holds a table that describes the call.  It compares each argument's type, dtype, rank, dimensions,
flags and alignment with the table by reading NumPy's array struct (fixed by NumPy's ABI; `usable` checks it on
this very interpreter), makes the outputs in recycled memory, and calls the entry function.  Whatever does not
fit exactly goes to a Python function, which converts or explains.

The table, in 64-bit words::

    0 parameters  1 outputs  2 entry function  3 arena bytes  4 constants  5 release the GIL?  6 alignment - 1
    7 slow path (a Python callable)  8 how many parameters are written to  9 the address of their numbers
    10 a Python callable for executions that did not say that they are complete, and raised nothing
    11... four words per parameter and then per output: dtype object, rank, address of dimensions, bytes;
    for an output that is an argument: 0, its number, 0, 0
"""

from __future__ import annotations

import ctypes
import math
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hlotool.codegen.llvm.status import COMPLETE
from hlotool.codegen.machine import host
from hlotool.runtime.cache import default_cache
from hlotool.runtime.callback import incomplete
from hlotool.runtime.load import Library, load
from hlotool.runtime.memory import allocator, empty, numpy_function
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import compiled
from hlotool.runtime.once import once
from hlotool.runtime.parts import python_function
from hlotool.system import system

__all__ = ["Method", "builtin", "builtin_of", "method", "usable", "with_table"]

# Offsets in NumPy's PyArrayObject_fields on 64-bit machines.
_TYPE, _DATA, _RANK, _DIMENSIONS, _DTYPE, _FLAGS, _HANDLER = 8, 16, 24, 32, 56, 64, 88
_C_CONTIGUOUS, _OWNS_DATA, _ALIGNED, _WRITEABLE = 0x1, 0x4, 0x100, 0x400
_TAKES_ONE, _FASTCALL = 0x8, 0x80

Leaf: TypeAlias = tuple[np.dtype[Any], tuple[int, ...]]
Arrays: TypeAlias = tuple[npt.NDArray[Any], ...]


class Method(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _ArgumentTable(np.ndarray[Any, Any]):
    """The ``self`` of a builtin: the words of its table, and the objects that they point to."""

    kept: object


def method(address: int, doc: bytes, takes_one: bool = False) -> Method:
    """The definition of a METH_FASTCALL function, or of one that `takes_one` argument (METH_O); it must live as long as
    the builtins that are made of it."""
    return Method(b"call", address, _TAKES_ONE if takes_one else _FASTCALL, doc)


def builtin_of(definition: Method, owner: object) -> Callable[..., Any]:
    """A builtin whose ``self`` is `owner`."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., Any] = make(ctypes.addressof(definition), owner, None)
    return function


def with_table(definition: Method, words: Sequence[int], kept: object) -> Callable[..., Any]:
    """A builtin whose ``self`` is a table of 64-bit `words`, and which keeps what these point to alive."""
    table = np.array(words, np.uint64).view(_ArgumentTable)
    table.kept = kept
    return builtin_of(definition, table)


def builtin(
    slow: Callable[..., Arrays],
    address: int,
    parameters: Sequence[Leaf],
    outputs: Sequence[Leaf],
    arena_bytes: int = 0,
    constants: int = 0,
    release_gil: bool = True,
    alignment: int = 64,
    keep: object = None,
    aliases: Mapping[int, int] | None = None,
    overwritten: Sequence[int] = (),
) -> Callable[..., Arrays]:
    """A builtin function that runs the entry function at `address`.

    It calls `slow` with the same arguments whenever the short way does not apply.  It keeps `slow` and `keep` (the
    code, the constants) alive.  `aliases` maps outputs to the parameters whose arrays they are, and which are among the
    `overwritten`.  Call this only where `usable`.
    """
    aliases = aliases or {}
    leaves = (*parameters, *outputs)
    dimensions = [np.array(shape, np.int64) for _, shape in leaves]
    words = [len(parameters), len(outputs), address, arena_bytes, constants, int(release_gil), alignment - 1, id(slow)]
    written = np.array(overwritten, np.int64)
    words += [len(written), written.ctypes.data, id(incomplete)]
    for number, ((dtype, shape), array) in enumerate(zip(leaves, dimensions, strict=True), -len(parameters)):
        if number in aliases:
            words += [0, aliases[number], 0, 0]
        else:
            words += [id(dtype), len(shape), array.ctypes.data, dtype.itemsize * math.prod(shape)]
    return with_table(_method(), words, (slow, leaves, dimensions, written, keep))


@cache
def usable() -> bool:
    """Whether this interpreter and NumPy lay out arrays as the code here reads them, and nobody wants plain calls."""
    if system().plain_calls:
        return False
    if ctypes.sizeof(ctypes.c_void_p) != 8 or object.__basicsize__ != 16 or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    array = empty((2, 3), np.float32)

    def word(offset: int) -> int:
        return ctypes.c_uint64.from_address(id(array) + offset).value

    rank_and_flags = word(_RANK) & 0xFFFFFFFF, word(_FLAGS) & 0xFFFFFFFF
    return (
        np.ndarray.__basicsize__ > _HANDLER
        and word(_TYPE) == id(np.ndarray)
        and word(_DATA) == array.ctypes.data
        and rank_and_flags == (2, array.flags.num)
        and [*(ctypes.c_int64 * 2).from_address(word(_DIMENSIONS))] == [2, 3]
        and word(_DTYPE) == id(array.dtype)
        and word(_HANDLER) == id(allocator().handler)
    )


@once
def _method() -> Method:
    return method(_library().address("hlo_call"), b"Run the compiled entry computation.")


@once
def _library() -> Library:
    """The loaded C function; its imports are Python's, NumPy's and the allocator's functions."""
    found = allocator()
    symbols = {
        "hlo_malloc": found.library.address("hlo_malloc"),
        "hlo_free": found.library.address("hlo_free"),
        "hlo_handler": id(found.handler),
        "array_type": id(np.ndarray),
        "PyArray_NewFromDescr": numpy_function(94),
    }
    for name in (
        "Py_IncRef", "Py_DecRef", "PyTuple_New", "PyTuple_SetItem", "PyObject_Vectorcall",
        "PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_NoMemory", "PyErr_Occurred",
    ):  # fmt: skip
        symbols[name] = python_function(name)
    machine = host()
    text = native_text(
        "call", TYPE=_TYPE, DATA=_DATA, RANK=_RANK, DIMENSIONS=_DIMENSIONS, DTYPE=_DTYPE, FLAGS=_FLAGS,
        HANDLER=_HANDLER, DENSE=_C_CONTIGUOUS | _ALIGNED, OWNS_DATA=_OWNS_DATA, WRITEABLE=_WRITEABLE, COMPLETE=COMPLETE,
    )  # fmt: skip
    return load(compiled([text], machine, cache=default_cache()), symbols)

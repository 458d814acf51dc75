"""LAPACK's custom calls without Python in between: native code that calls SciPy's LAPACK for all matrices of a batch.

SciPy's module ``cython_lapack`` has the addresses of LAPACK's functions as C knows them, all of whose arguments are
pointers.  A `NativeSite` is a record for one C function of ours (``native/lapack.ll``), in 64-bit words::

    0 that function  1 bytes of scratch memory  2 matrices in the batch  3, 4 copies in: how many, their address
    5, 6 copies out  7 LAPACK's function  8... its arguments: an address, or 1 + 2 * an offset in the scratch memory

A copy is eight words: number of the array in the argument table, offset in the scratch memory, rows, columns, bytes of
an element, bytes from one matrix of the batch to the next.  Matrices are row-major in arrays, and column-major in the
scratch memory, which is zero at first and used for one matrix after the other.

What has no rule here, other options, and empty arrays are left to the evaluator's handlers, which say what all of this
means (`hlotool.evaluate.lapack`).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache
from math import prod
from typing import Any, ClassVar, TypeAlias

import numpy as np

from hlotool.codegen.llvm.status import COMPLETE
from hlotool.codegen.machine import host
from hlotool.evaluate.custom_call import CustomCall
from hlotool.evaluate.lapack import TYPES
from hlotool.lazy_dataclass import dataclass
from hlotool.runtime.cache import default_cache
from hlotool.runtime.load import Library, load
from hlotool.runtime.native_text import native_text
from hlotool.runtime.object_code import compiled
from hlotool.runtime.once import once
from hlotool.runtime.parts import python_function

__all__ = ["NativeSite", "lapack_site"]

_ARGUMENTS = 16  # of a call; LAPACK's functions do not look at those that they do not have
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class NativeSite:
    """A place where emitted code calls a C function; `address` is good while the object is referenced."""

    needs_device: ClassVar[bool] = False
    address: int
    keep: tuple[object, ...] = field(repr=False)

    def meet_in(self, rendezvous: object) -> bool:
        """It never waits for another device."""
        return True


@dataclass(frozen=True, slots=True)
class _Scratch:
    """An argument that lies in the scratch memory."""

    offset: int


_Argument: TypeAlias = "str | int | _Scratch | _Length"


@dataclass(frozen=True, slots=True)
class _Length:
    """A workspace of elements of so many bytes, and the argument behind it: its length, which LAPACK is asked for."""

    bytes: int
    integers: bool = False


class _Call:
    """One call of LAPACK that is being described: what is copied in and out, and the arguments."""

    def __init__(self, call: CustomCall, kind: str) -> None:
        self.call = call
        self.kind = kind
        self.item = np.dtype(TYPES[kind]).itemsize
        self.is_complex = kind in "cz"
        self.real = self.item // 2 if self.is_complex else self.item
        self.bytes = 0
        self.ins: list[int] = []
        self.outs: list[int] = []

    def room(self, length: int) -> _Scratch:
        """Scratch memory of so many bytes."""
        found = _Scratch(self.bytes)
        self.bytes += -(-max(1, length) // _ALIGNMENT) * _ALIGNMENT
        return found

    def take(self, number: int, *own: int) -> _Scratch:
        """A copy of operand `number`, which has the dimensions `own` behind those of the batch."""
        rows, width, size = self._laid_out(self.call.operands[number], own, TYPES[self.kind])
        place = self.room(rows * width * size)
        self.ins += [number, place.offset, rows, width, size, rows * width * size, 0, 0]
        return place

    def give(self, number: int, place: _Scratch, *own: int, type: str = "") -> None:
        """Result `number`, of this type, is what lies at `place` in the end."""
        rows, width, size = self._laid_out(self.call.outputs[number], own, type or TYPES[self.kind])
        first = len(self.call.operands)
        self.outs += [first + number, place.offset, rows, width, size, rows * width * size, 0, 0]

    def result(self, number: int, *own: int, type: str = "") -> _Scratch:
        """Room for result `number`, which is that in the end."""
        place = self.room(prod(own) * np.dtype(type or TYPES[self.kind]).itemsize)
        self.give(number, place, *own, type=type)
        return place

    def values(self, number: int, count: int) -> _Scratch:
        """Room for result `number`: as many real numbers."""
        return self.result(number, count, type=f"f{self.real}")

    def info(self, number: int) -> _Scratch:
        """Room for result `number`: what LAPACK says of its success."""
        return self.result(number, type="i4")

    def is_complete(self) -> bool:
        """Whether all operands are taken, and all results given."""
        operands, results = len(self.call.operands), len(self.call.outputs)
        taken, given = {*self.ins[::8]}, {*self.outs[::8]}
        return taken == {*range(operands)} and given == {*range(operands, operands + results)}

    def _laid_out(self, array: tuple[Any, Sequence[int]], own: tuple[int, ...], type: str) -> tuple[int, int, int]:
        """Rows and columns of an array without the batch, and the bytes of an element; LookupError where it has
        another type or other dimensions: LAPACK, which gets addresses, would read and write what lies beside it."""
        dtype, shape = array
        if dtype != np.dtype(type) or tuple(shape) != (*self.call.operands[0][1][: self.batch], *own):
            raise LookupError(f"{dtype}{[*shape]}")
        return *_matrix(own), dtype.itemsize

    @property
    def batch(self) -> int:
        """How many dimensions are those of the batch."""
        return len(self.call.operands[0][1]) - 2

    def option(self, name: str, allowed: str) -> str:
        """The letter of an option; LookupError where it is none of `allowed`."""
        config = self.call.backend_config
        value = None if isinstance(config, str) else config.get(name)
        letter = chr(value) if isinstance(value, int) and 0 <= value < 128 else ""
        if not letter or letter not in allowed:
            raise LookupError(name)
        return letter


def _matrix(own: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of an array; a vector is one column."""
    return (own[0], own[1]) if len(own) == 2 else (prod(own), 1)


def lapack_site(call: CustomCall) -> NativeSite | None:
    """The site of a custom call; None where the evaluator's handler has to serve it."""
    match = re.fullmatch(r"lapack_([sdcz])([a-z0-9]+)_ffi", call.target)
    rule = _RULES.get(match[2]) if match else None
    if match is None or rule is None or not all(prod(shape) for _, shape in (*call.operands, *call.outputs)):
        return None
    if not call.operands or len(call.operands[0][1]) < 2:
        return None
    described = _Call(call, match[1])
    try:
        routine, arguments = rule(described)
        if not described.is_complete():
            return None
        function = _address(match[1] + routine)
    except LookupError:
        return None
    return None if function is None else _site(described, function, arguments)


def _site(described: _Call, function: int, arguments: Sequence[_Argument]) -> NativeSite:
    keep: list[object] = []

    def constant(value: object) -> int:
        keep.append(value)
        return ctypes.addressof(value)  # type: ignore[arg-type]

    words: list[int] = []
    lengths = _workspaces(described, function, arguments)
    for argument in arguments:
        if isinstance(argument, _Length):
            length = lengths.pop(0)
            place = described.room(length * argument.bytes)
            words += [place.offset * 2 + 1, constant(ctypes.c_int(length))]
        elif isinstance(argument, _Scratch):
            words.append(argument.offset * 2 + 1)
        elif isinstance(argument, str):
            words.append(constant(ctypes.c_char(argument.encode())))
        else:
            words.append(constant(ctypes.c_int(argument)))
    words += [1] * (_ARGUMENTS - len(words))  # the start of the scratch memory, which nobody reads there
    ins, outs = (np.array(copies, np.int64) for copies in (described.ins, described.outs))
    shape = described.call.operands[0][1]
    head = [_library().address("hlo_lapack"), described.bytes, prod(shape[: described.batch])]
    head += [len(ins) // 8, ins.ctypes.data, len(outs) // 8, outs.ctypes.data, function]
    record = np.array([*head, *words], np.int64)
    return NativeSite(record.ctypes.data + 1, (record, ins, outs, *keep))


def _workspaces(described: _Call, function: int, arguments: Sequence[_Argument]) -> list[int]:
    """The lengths of workspaces that LAPACK says are best for these arguments."""
    if not any(isinstance(argument, _Length) for argument in arguments):
        return []
    scratch = (ctypes.c_char * (described.bytes + 64 * len(arguments)))()
    asked: list[Any] = []
    passed: list[Any] = []
    for argument in arguments:
        if isinstance(argument, _Length):
            answer = (ctypes.c_char * 16)()
            asked.append((answer, argument.integers))
            passed += [answer, ctypes.byref(ctypes.c_int(-1))]
        elif isinstance(argument, _Scratch):
            passed.append(ctypes.byref(scratch, argument.offset))
        elif isinstance(argument, str):
            passed.append(ctypes.byref(ctypes.c_char(argument.encode())))
        else:
            passed.append(ctypes.byref(ctypes.c_int(argument)))
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(passed))(function)(
        *(ctypes.cast(one, ctypes.c_void_p) for one in passed)
    )
    lengths = []
    for answer, is_integer in asked:
        kind: Any = ctypes.c_int if is_integer else ctypes.c_double if described.real == 8 else ctypes.c_float
        length = kind.from_buffer(answer).value
        # A large length may have been rounded down on its way through a float.
        lengths.append(length if is_integer else int(np.nextafter(np.float32(length), np.float32(np.inf))) + 1)
    return lengths


# ---- what the routines take


_Rule: TypeAlias = Callable[[_Call], tuple[str, list[_Argument]]]


def _in_place(c: _Call) -> tuple[_Scratch, int, int]:
    """The matrix that is operand and result 0, its rows and columns."""
    rows, columns = c.call.operands[0][1][-2:]
    a = c.take(0, rows, columns)
    c.give(0, a, rows, columns)
    return a, rows, columns


def _square(c: _Call) -> int:
    """Rows of operand 0; LookupError where it has not as many columns."""
    rows, columns = c.call.operands[0][1][-2:]
    if rows != columns:
        raise LookupError
    return rows


def _potrf(c: _Call) -> tuple[str, list[_Argument]]:
    size = _square(c)
    a, _, _ = _in_place(c)
    return "potrf", [c.option("uplo", "LU"), size, a, size, c.info(1)]


def _getrf(c: _Call) -> tuple[str, list[_Argument]]:
    a, rows, columns = _in_place(c)
    return "getrf", [rows, columns, a, rows, c.result(1, min(rows, columns), type="i4"), c.info(2)]


def _geqrf(c: _Call) -> tuple[str, list[_Argument]]:
    a, rows, columns = _in_place(c)
    return "geqrf", [rows, columns, a, rows, c.result(1, min(rows, columns)), _Length(c.item), c.room(4)]


def _orgqr(c: _Call) -> tuple[str, list[_Argument]]:
    a, rows, columns = _in_place(c)
    count = c.call.operands[1][1][-1]
    if not count <= columns <= rows:
        raise LookupError
    name = "ungqr" if c.is_complex else "orgqr"
    return name, [rows, columns, count, a, rows, c.take(1, count), _Length(c.item), c.room(4)]


def _syevd(c: _Call) -> tuple[str, list[_Argument]]:
    mode, size = c.option("mode", "VN"), _square(c)
    a = c.take(0, size, size)
    c.give(0, a if mode == "V" else c.take(0, size, size), size, size)
    first: list[_Argument] = [mode, c.option("uplo", "LU"), size, a, size, c.values(1, size), _Length(c.item)]
    middle: list[_Argument] = [_Length(c.real)] if c.is_complex else []
    return "heevd" if c.is_complex else "syevd", [*first, *middle, _Length(4, integers=True), c.info(2)]


def _gesdd(c: _Call) -> tuple[str, list[_Argument]]:
    mode = c.option("mode", "ASN")
    rows, columns = c.call.operands[0][1][-2:]
    least, most = sorted((rows, columns))
    a = c.take(0, rows, columns)
    c.give(0, c.take(0, rows, columns), rows, columns)
    s, info = c.values(1, least), c.info(4)
    inner, outer = {"A": (rows, columns), "S": (least, least), "N": (1, 1)}[mode]
    if mode == "N":  # what is not computed stays zero
        for number in (2, 3):
            c.result(number, *c.call.outputs[number][1][c.batch :])
        u = vt = c.room(c.item)
    else:
        u, vt = c.result(2, rows, inner), c.result(3, outer, columns)
    stride = 1 if mode == "N" else rows
    words: list[_Argument] = [mode, rows, columns, a, rows, s, u, stride, vt, outer, _Length(c.item)]
    if c.is_complex:
        short, long = 7 * least, least * max(5 * least + 7, 2 * most + 2 * least + 1)
        words.append(c.room(c.real * (short if mode == "N" else long)))
    return "gesdd", [*words, c.room(4 * 8 * least), info]


_RULES: dict[str, _Rule] = {
    "potrf": _potrf, "getrf": _getrf, "geqrf": _geqrf, "orgqr": _orgqr, "ungqr": _orgqr,
    "syevd": _syevd, "heevd": _syevd, "gesdd": _gesdd,
}  # fmt: skip


# ---- SciPy's


@cache
def _address(name: str) -> int | None:
    """The address of a function of LAPACK's; None without SciPy, or where its integers are not C's."""
    try:
        from scipy.linalg import cython_lapack
    except ImportError:
        return None
    capsule = getattr(cython_lapack, "__pyx_capi__", {}).get(name)
    if capsule is None:
        return None
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    signature = name_of(capsule)
    if signature is None or not re.search(rb"\bint \*", signature):
        return None
    return int(pointer_of(capsule, signature) or 0) or None


@once
def _library() -> Library:
    """Loaded once and never unloaded."""
    lines = []
    for n in range(_ARGUMENTS):
        lines += [
            f"  %word{n}.at = getelementptr i64, ptr %words, i64 {n}",
            f"  %word{n} = load i64, ptr %word{n}.at",
            f"  %tag{n} = and i64 %word{n}, 1",
            f"  %inside{n} = icmp ne i64 %tag{n}, 0",
            f"  %offset{n} = lshr i64 %word{n}, 1",
            f"  %own{n} = getelementptr i8, ptr %scratch, i64 %offset{n}",
            f"  %other{n} = inttoptr i64 %word{n} to ptr",
            f"  %argument{n} = select i1 %inside{n}, ptr %own{n}, ptr %other{n}",
        ]
    passed = ", ".join(f"ptr %argument{n}" for n in range(_ARGUMENTS))
    text = native_text("lapack", ARGUMENTS="\n".join(lines), PASSED=passed, COMPLETE=COMPLETE)
    imports = {"calloc": python_function("PyMem_RawCalloc"), "free": python_function("PyMem_RawFree")}
    return load(compiled([text], host(), cache=default_cache()), imports)

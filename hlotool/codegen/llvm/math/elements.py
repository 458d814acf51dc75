"""Element types as the emitters compute with them and as they lie in memory.

Compute type: ``pred`` is i1; integers are their width, at least i8 (sub-byte values sign- or
zero-extended); f32, f64 are themselves; every narrower float is a ``float`` that holds a value which the
narrow type can represent; complex types are a pair (real, imaginary).

Memory type: what a load gives; ``pred``, sub-byte integers and f8/f4 are bytes (of sub-byte types the low
bits count and the others are written as zeros, as in ml_dtypes; those of s1, an int8 of NumPy, as its sign),
bf16 and f16 are 16-bit integers (their bits), complex elements are two loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from hlotool.codegen.llvm.math import lowprecision
from hlotool.codegen.llvm.types import constant_text, type_text
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function
from hlotool.ir.errors import UnsupportedError
from hlotool.ir.types import ELEMENT_TYPES

__all__ = [
    "Value",
    "broadcast",
    "compute_element",
    "compute_type",
    "constant",
    "from_memory",
    "integer_bits",
    "is_complex",
    "is_float",
    "is_integer",
    "is_low_precision",
    "is_signed",
    "joined",
    "kind",
    "memory_type",
    "part_type",
    "parts",
    "round_to",
    "to_memory",
    "vector",
    "wrap",
]

Value = str | tuple[str, str]

_PARTS = {"c64": "f32", "c128": "f64"}


_NO_ARITHMETIC = ("token", "opaque", "tuple", "buffer")
_KINDS = {row.name: row.kind for row in ELEMENT_TYPES.values() if row.kind not in _NO_ARITHMETIC}


def kind(element_type: str) -> str:
    """``pred signed unsigned float complex`` as the table of types has it."""
    found = _KINDS.get(element_type)
    if found is None:
        raise UnsupportedError(f"no arithmetic on element type {element_type!r}")
    return found


def is_complex(element_type: str) -> bool:
    return element_type in _PARTS


def is_float(element_type: str) -> bool:
    return kind(element_type) == "float"


def is_integer(element_type: str) -> bool:
    return kind(element_type) in ("signed", "unsigned")


def is_signed(element_type: str) -> bool:
    return kind(element_type) == "signed"


def is_low_precision(element_type: str) -> bool:
    """A float narrower than f32."""
    return element_type in lowprecision.FORMATS


def integer_bits(element_type: str) -> int:
    """The width of an integer type as HLO counts it (4 for s4)."""
    return ELEMENT_TYPES[element_type].bits


def part_type(element_type: str) -> str:
    """The type of the real part: f32 of c64, f64 of c128."""
    return _PARTS[element_type]


@cache
def compute_element(element_type: str) -> str:
    """The LLVM scalar type that arithmetic on `element_type` uses (of each part, for complex)."""
    sort = kind(element_type)
    if sort == "pred":
        return "i1"
    if sort in ("signed", "unsigned"):
        return f"i{max(8, integer_bits(element_type))}"
    return "double" if element_type in ("f64", "c128") else "float"


def compute_type(element_type: str, lanes: int) -> str:
    """The LLVM type of values of `element_type` in registers; complex: the type of each part."""
    return type_text(compute_element(element_type), lanes)


@cache
def memory_type(element_type: str) -> str:
    """The LLVM scalar type of one element in memory; complex: of each of its two parts."""
    if element_type == "pred":
        return "i8"
    if is_low_precision(element_type):
        return f"i{max(8, ELEMENT_TYPES[element_type].bits)}"
    return compute_element(element_type)


def vector(f: Function, element_type: str, lanes: int, value: Value) -> Vector:
    """The `Vector` of a value that is not complex."""
    assert isinstance(value, str)
    return Vector(f, compute_element(element_type), lanes, value)


def parts(f: Function, element_type: str, lanes: int, value: Value) -> list[Vector]:
    """The vectors that a value is: two of a complex one."""
    kind = compute_element(element_type)
    return [Vector(f, kind, lanes, part) for part in ((value,) if isinstance(value, str) else value)]


def joined(parts: Sequence[Vector]) -> Value:
    """The value of these vectors."""
    return parts[0].name if len(parts) == 1 else (parts[0].name, parts[1].name)


def constant(element_type: str, lanes: int, value: Any) -> Value:
    """The LLVM constant of a Python or NumPy scalar, converted to `element_type` first; splat if lanes > 1.

    Complex types give a pair.
    """
    element = compute_element(element_type)
    if is_complex(element_type):
        number = complex(value)
        return constant_text(element, lanes, number.real), constant_text(element, lanes, number.imag)
    sort = kind(element_type)
    if sort == "pred":
        return constant_text(element, lanes, bool(value))
    if sort in ("signed", "unsigned"):
        width = integer_bits(element_type)
        number = int(value) & ((1 << width) - 1)
        if sort == "signed" and number >> (width - 1):
            number -= 1 << width
        return constant_text(element, lanes, number)
    if is_low_precision(element_type):
        dtype = ELEMENT_TYPES[element_type].dtype
        assert dtype is not None
        with np.errstate(all="ignore"):
            value = np.asarray(value).astype(dtype).astype(np.float32)
    return constant_text(element, lanes, float(value))


def broadcast(f: Function, element_type: str, lanes: int, value: Value) -> Value:
    """A scalar compute value in all of `lanes` lanes."""
    if lanes == 1:
        return value
    if not isinstance(value, str):
        real, imaginary = value
        part = part_type(element_type)
        return _splat(f, part, lanes, real), _splat(f, part, lanes, imaginary)
    return _splat(f, element_type, lanes, value)


def _splat(f: Function, element_type: str, lanes: int, value: str) -> str:
    element = compute_element(element_type)
    if not value.startswith("%"):
        return f"splat ({element} {value})"
    wide = type_text(element, lanes)
    first = f.let(f"insertelement {wide} poison, {element} {value}, i64 0")
    return f.let(f"shufflevector {wide} {first}, {wide} poison, <{lanes} x i32> zeroinitializer")


def from_memory(f: Function, element_type: str, lanes: int, raw: Value) -> Value:
    """The compute value of loaded `raw` (memory type, same lanes).  Complex: a pair in, a pair out."""
    if not isinstance(raw, str):
        return raw
    if memory_type(element_type) == compute_element(element_type):
        return round_to(f, element_type, lanes, raw)
    loaded = Vector(f, memory_type(element_type), lanes, raw)
    if element_type == "pred":
        return loaded.ne(0).name
    return lowprecision.decode(loaded, element_type).name


def to_memory(f: Function, element_type: str, lanes: int, value: Value) -> Value:
    """What to store for compute value `value`; narrow floats must be rounded already (every operation does)."""
    if not isinstance(value, str):
        return value
    computed = vector(f, element_type, lanes, value)
    if memory_type(element_type) == compute_element(element_type):
        return (computed & ((1 << integer_bits(element_type)) - 1)).name if element_type in ("s2", "s4") else value
    if element_type == "pred":
        return computed.cast("zext", "i8").name
    return lowprecision.encode(computed, element_type).name


def round_to(f: Function, element_type: str, lanes: int, value: Value) -> Value:
    """Round a ``float`` to the nearest value of a narrow float type; wrap a sub-byte integer; else nothing."""
    if not isinstance(value, str):
        return value
    if is_low_precision(element_type):
        return lowprecision.round_to(vector(f, element_type, lanes, value), element_type).name
    if is_integer(element_type):
        return wrap(vector(f, element_type, lanes, value), element_type).name
    return value


def wrap(x: Vector, element_type: str) -> Vector:
    """Sub-byte integers: keep the low bits, then extend the sign or zeros."""
    width = integer_bits(element_type)
    if width >= 8:
        return x
    if is_signed(element_type):
        return x.shl(8 - width).ashr(8 - width)
    return x & ((1 << width) - 1)

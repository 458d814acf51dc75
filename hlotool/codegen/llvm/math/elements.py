"""Element types as the emitters compute with them and as they lie in memory.

Compute type: ``pred`` is i1; integers are their width, at least i8 (sub-byte values sign- or
zero-extended); f32, f64 are themselves; every narrower float is a ``float`` that holds a value which the
narrow type can represent; complex types are a pair (real, imaginary).

Memory type: what a load gives; ``pred``, sub-byte integers and f8/f4 are bytes (of sub-byte types the low
bits count and the others are written as zeros, as in ml_dtypes; those of s1, an int8 of NumPy, as its sign),
bf16 and f16 are 16-bit integers (their bits), complex elements are two loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from hlotool.codegen.llvm.math import lowprecision
from hlotool.codegen.llvm.types import Number, constant_text
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function
from hlotool.ir.errors import UnsupportedError
from hlotool.ir.types import ELEMENT_TYPES

__all__ = [
    "Register", "broadcast", "compute_element", "constant", "flattened", "from_memory", "grouped", "integer_bits",
    "is_complex", "is_float", "is_integer", "is_low_precision", "is_signed", "joined", "kind", "memory_type",
    "part_type", "parts", "round_to", "to_memory", "vector", "wrap",
]  # fmt: skip

Register = Vector | tuple[Vector, Vector]
"""What is computed with: a scalar or a vector, and two of them for complex numbers."""

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


@cache
def memory_type(element_type: str) -> str:
    """The LLVM scalar type of one element in memory; complex: of each of its two parts."""
    if element_type == "pred":
        return "i8"
    if is_low_precision(element_type):
        return f"i{max(8, ELEMENT_TYPES[element_type].bits)}"
    return compute_element(element_type)


def vector(register: Register) -> Vector:
    """A register that is not complex."""
    assert isinstance(register, Vector)
    return register


def parts(register: Register) -> tuple[Vector, ...]:
    """The vectors that a register is: two of a complex one."""
    return (register,) if isinstance(register, Vector) else register


def joined(parts: Sequence[Vector]) -> Register:
    """The register of these vectors."""
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def flattened(values: Iterable[Register]) -> list[Vector]:
    """Every vector that `values` are; complex ones are two."""
    return [part for value in values for part in parts(value)]


def grouped(types: Iterable[str], vectors: Iterable[Vector]) -> list[Register]:
    """The registers again."""
    left = iter(vectors)
    return [joined([next(left) for _ in range(1 + is_complex(kind))]) for kind in types]


def constant(f: Function, element_type: str, lanes: int, value: Any) -> Register:
    """The LLVM constant of a Python or NumPy scalar, converted to `element_type` first, in all lanes."""
    element = compute_element(element_type)
    if is_complex(element_type):
        texts = [constant_text(element, lanes, number) for number in (complex(value).real, complex(value).imag)]
        return joined([Vector(f, element, lanes, text) for text in texts])
    return Vector(f, element, lanes, constant_text(element, lanes, _converted(element_type, value)))


def _converted(element_type: str, value: Any) -> Number:
    """The Python number of a scalar, as `element_type` has it."""
    sort = kind(element_type)
    if sort == "pred":
        return bool(value)
    if sort in ("signed", "unsigned"):
        width = integer_bits(element_type)
        number = int(value) & ((1 << width) - 1)
        return number - (1 << width) if sort == "signed" and number >> (width - 1) else number
    if is_low_precision(element_type):
        dtype = ELEMENT_TYPES[element_type].dtype
        assert dtype is not None
        with np.errstate(all="ignore"):
            value = np.asarray(value).astype(dtype).astype(np.float32)
    return float(value)


def broadcast(register: Register, lanes: int) -> Register:
    """A scalar in all of `lanes` lanes."""
    return joined([part.spread(lanes) for part in parts(register)])


def from_memory(element_type: str, raw: Register) -> Register:
    """The register of what was loaded, which has the memory type."""
    if not isinstance(raw, Vector):
        return raw
    if memory_type(element_type) == compute_element(element_type):
        return round_to(element_type, raw)
    return raw.ne(0) if element_type == "pred" else lowprecision.decode(raw, element_type)


def to_memory(element_type: str, register: Register) -> Register:
    """What to store for a register; narrow floats must be rounded already (every operation does)."""
    if not isinstance(register, Vector):
        return register
    if memory_type(element_type) == compute_element(element_type):
        return register & ((1 << integer_bits(element_type)) - 1) if element_type in ("s2", "s4") else register
    return register.cast("zext", "i8") if element_type == "pred" else lowprecision.encode(register, element_type)


def round_to(element_type: str, register: Register) -> Register:
    """Round a ``float`` to the nearest value of a narrow float type; wrap a sub-byte integer; else nothing."""
    if not isinstance(register, Vector):
        return register
    if is_low_precision(element_type):
        return lowprecision.round_to(register, element_type)
    return wrap(register, element_type) if is_integer(element_type) else register


def wrap(x: Vector, element_type: str) -> Vector:
    """Sub-byte integers: keep the low bits, then extend the sign or zeros."""
    width = integer_bits(element_type)
    if width >= 8:
        return x
    if is_signed(element_type):  # without shifts, which processors lack for bytes
        return ((x & ((1 << width) - 1)) ^ (1 << (width - 1))) - (1 << (width - 1))
    return x & ((1 << width) - 1)

"""Scratch matrices for the factorisations: rows of real or complex numbers, parts in separate planes.

A `Number` is a list of one or two `Vector`s (real part, imaginary part), so that one text serves all types.
"""

from __future__ import annotations

from dataclasses import dataclass

from hlotool.codegen.llvm.access import Index, add, address, load, multiply, splat, store
from hlotool.codegen.llvm.math.elements import compute_element, is_complex, round_to
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS, type_text
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.writer import Function

__all__ = ["Matrix", "Number", "conjugate", "divide", "multiply_subtract", "read", "rounded", "write"]

Number = list[Vector]


def read(f: Function, element_type: str, pointer: str, index: Index) -> Number:
    """An element of an array."""
    value = load(f, element_type, pointer, index)
    kind = compute_element(element_type)
    return [Vector(f, kind, 1, part) for part in ((value,) if isinstance(value, str) else value)]


def write(f: Function, element_type: str, pointer: str, index: Index, number: Number) -> None:
    """Store an element of an array."""
    parts = [part.name for part in number]
    store(f, element_type, pointer, index, (parts[0], parts[1]) if is_complex(element_type) else parts[0])


def rounded(element_type: str, number: Number) -> Number:
    """Round a real number to a narrow element type."""
    if is_complex(element_type):
        return number
    (part,) = number
    value = round_to(part.f, element_type, part.lanes, part.name)
    assert isinstance(value, str)
    return [Vector(part.f, part.element, part.lanes, value)]


@dataclass(frozen=True, slots=True)
class Matrix:
    """`rows` rows of `pitch` numbers from `pointer` on; complex ones have a second plane after the first."""

    f: Function
    pointer: str
    kind: str
    rows: int
    pitch: int
    parts: int

    @staticmethod
    def bytes(element_type: str, rows: int, pitch: int) -> int:
        """Scratch bytes of such a matrix."""
        parts = 2 if is_complex(element_type) else 1
        return rows * pitch * parts * BITS[compute_element(element_type)] // 8

    def _place(self, row: Index, column: Index, part: int, ahead: int) -> str:
        index = add(self.f, multiply(self.f, row, self.pitch), column)
        near = address(self.f, self.pointer, self.kind, index)
        return address(self.f, near, self.kind, part * self.rows * self.pitch + ahead)

    def get(self, row: Index, column: Index, lanes: int = 1, ahead: int = 0) -> Number:
        """`lanes` numbers of a row, `ahead` numbers after the place: what is known here costs nothing in a loop."""
        kind, align = type_text(self.kind, lanes), BITS[self.kind] // 8
        return [
            Vector(self.f, self.kind, lanes, self.f.let(f"load {kind}, ptr {place}, align {align}"))
            for place in (self._place(row, column, p, ahead) for p in range(self.parts))
        ]

    def spread(self, row: Index, column: Index, lanes: int, ahead: int = 0) -> Number:
        """One number in all lanes."""
        number = self.get(row, column, 1, ahead)
        return [Vector(self.f, self.kind, lanes, splat(self.f, self.kind, lanes, x.name)) for x in number]

    def put(self, row: Index, column: Index, number: Number, ahead: int = 0) -> None:
        for p, part in enumerate(number):
            place = self._place(row, column, p, ahead)
            self.f.do(f"store {part.type} {part.name}, ptr {place}, align {BITS[self.kind] // 8}")


def conjugate(x: Number) -> Number:
    return x if len(x) == 1 else [x[0], -x[1]]


def multiply_subtract(total: Number, a: Number, b: Number) -> Number:
    """total - a b."""
    real = fma(-a[0], b[0], total[0])
    if len(total) == 1:
        return [real]
    imaginary = fma(-a[0], b[1], total[1])
    return [fma(a[1], b[1], real), fma(-a[1], b[0], imaginary)]


def divide(a: Number, b: Number) -> Number:
    """a / b; complex numbers by Smith's method ("Algorithm 116", 1962), against overflow."""
    if len(b) == 1:
        return [part / b[0] for part in a]
    wide = b[0].fabs().compare("oge", b[1].fabs())
    big, small = _pick(wide, b[0], b[1]), _pick(wide, b[1], b[0])
    ratio = small / big
    size = fma(small, ratio, big)
    first, second = _pick(wide, a[0], a[1]), _pick(wide, a[1], a[0])
    real = fma(second, ratio, first) / size
    # (im - re r) / d, or with the roles exchanged (im r - re) / d.
    straight, turned = fma(-a[0], ratio, a[1]), fma(a[1], ratio, -a[0])
    return [real, _pick(wide, straight, turned) / size]


def _pick(mask: Vector, yes: Vector, no: Vector) -> Vector:
    return yes.let(f"select {mask.type} {mask.name}, {yes.type} {yes.name}, {no.type} {no.name}")

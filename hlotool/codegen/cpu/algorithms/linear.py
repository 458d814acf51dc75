"""Scratch matrices for the factorisations: rows of real or complex numbers, parts in separate planes.

A `Number` is a list of one or two `Vector`s (real part, imaginary part), so that one text serves all types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hlotool.codegen.llvm.arrays import load, store
from hlotool.codegen.llvm.math.elements import compute_element, is_complex, joined, parts, round_to
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Ptr, Vector, where
from hlotool.codegen.llvm.writer import Function

__all__ = ["Matrix", "Number", "conjugate", "divide", "multiply_subtract", "read", "write"]

Number = list[Vector]


def read(pointer: Ptr, element_type: str, index: Index, lanes: int = 1) -> Number:
    """`lanes` neighbouring elements of an array."""
    return list(parts(load(pointer, element_type, index, lanes)))


def write(pointer: Ptr, element_type: str, index: Index, number: Number) -> None:
    """Store as many elements of an array, real ones rounded to its type."""
    store(pointer, element_type, index, round_to(element_type, joined(number)))


@dataclass(frozen=True, slots=True)
class Matrix:
    """`rows` rows of `pitch` numbers from `pointer` on; complex ones have a second plane after the first."""

    pointer: Ptr
    kind: str
    rows: int
    pitch: int
    parts: int

    @staticmethod
    def bytes(element_type: str, rows: int, pitch: int) -> int:
        """Scratch bytes of such a matrix."""
        parts = 2 if is_complex(element_type) else 1
        return rows * pitch * parts * BITS[compute_element(element_type)] // 8

    @property
    def f(self) -> Function:
        """The function that it is used in."""
        return self.pointer.f

    def _place(self, row: Index, column: Index, part: int, ahead: int) -> Ptr:
        near = self.pointer.at(self.kind, row * self.pitch + column)
        return near.at(self.kind, part * self.rows * self.pitch + ahead)

    def get(self, row: Index, column: Index, lanes: int = 1, ahead: int = 0) -> Number:
        """`lanes` numbers of a row, `ahead` numbers after the place: what is known here costs nothing in a loop."""
        places = (self._place(row, column, part, ahead) for part in range(self.parts))
        return [place.load(self.kind, lanes, align=BITS[self.kind] // 8) for place in places]

    def spread(self, row: Index, column: Index, lanes: int, ahead: int = 0) -> Number:
        """One number in all lanes."""
        return [part.spread(lanes) for part in self.get(row, column, 1, ahead)]

    def put(self, row: Index, column: Index, number: Number, ahead: int = 0) -> None:
        for part, value in enumerate(number):
            self._place(row, column, part, ahead).store(value, align=BITS[self.kind] // 8)

    def numbers(self, vectors: Sequence[Vector]) -> list[Number]:
        """Numbers whose parts stand in a row, as loops carry them."""
        return [list(vectors[i : i + self.parts]) for i in range(0, len(vectors), self.parts)]


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
    wide = b[0].fabs().ge(b[1].fabs())
    big, small = where(wide, b[0], b[1]), where(wide, b[1], b[0])
    ratio = small / big
    size = fma(small, ratio, big)
    first, second = where(wide, a[0], a[1]), where(wide, a[1], a[0])
    real = fma(second, ratio, first) / size
    # (im - re r) / d, or with the roles exchanged (im r - re) / d.
    straight, turned = fma(-a[0], ratio, a[1]), fma(a[1], ratio, -a[0])
    return [real, where(wide, straight, turned) / size]

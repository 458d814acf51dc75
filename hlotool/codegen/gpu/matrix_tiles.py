"""Tiles of products on tensor cores: a warp multiplies pieces of 16 rows, 8 columns and some terms at once.

The instructions are ``mma.sync.aligned.m16n8k8`` (TF32), ``m16n8k16`` (floats of 16 bits) and ``m16n8k32`` (integers of
8 bits) of PTX; which elements of the pieces a thread has in its registers is said in the PTX ISA, "Matrix Fragments for
mma".  In words of 32 bits, which hold one, two or four terms, that is the same for all: of the left operand thread
4 r + c has words c and c + 4 of rows r and r + 8, of the right one those of column r.  Factors come from shared memory,
where the terms of a row or column lie side by side.

f32 numbers are split into two of TF32, with 11 bits each, of whose four products the three largest are added up: what
is left out is less than 2^-21 of the product (see Ootomo and Yokota, "Recovering single precision accuracy from Tensor
Cores while surpassing the FP32 theoretical peak performance", 2022).  That holds for numbers that are neither very
small nor very large.

Some pieces are multiplied in turn, by the units that every thread has: those with f32 numbers that have no such parts,
and those with infinities or NaN of the right operand where terms are beyond a border of the left one, which stand for
no term and would make NaN of them.  Who brings such a number raises a flag.  An emulated thread does the same sums term
by term; a chip may round the sum of some products otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.codegen.gpu.grid import Grid
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.math.elements import to_memory, vector
from hlotool.codegen.llvm.math.lowprecision import decode
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Struct, Vector, number, where, zeros
from hlotool.lazy_dataclass import dataclass

__all__ = ["FORMS", "SIDE", "Form", "MatrixTiles"]


@dataclass(frozen=True, slots=True)
class Form:
    """How factors of element type `factor` are multiplied: by LLVM's function `instruction`, which takes words of LLVM
    type `word` with `terms` of them each; sums have LLVM type `total`.  Factors are split into so many `parts`."""

    factor: str
    instruction: str
    word: str
    terms: int
    total: str
    parts: int = 1

    @property
    def is_float(self) -> bool:
        return self.total == "float"


_TF32 = "llvm.nvvm.mma.m16n8k8.row.col.tf32"

FORMS = {
    "f32": Form("f32", _TF32, "i32", 1, "float", parts=2),
    "tf32": Form("f32", _TF32, "i32", 1, "float"),
    "bf16": Form("bf16", "llvm.nvvm.mma.m16n8k16.row.col.bf16", "i32", 2, "float"),
    "f16": Form("f16", "llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "half", 2, "float"),
    "s8": Form("s8", "llvm.nvvm.mma.m16n8k32.row.col.s8", "i32", 4, "i32"),
    "u8": Form("u8", "llvm.nvvm.mma.m16n8k32.row.col.u8", "i32", 4, "i32"),
}
"""By name: a type of factors, or ``tf32`` for f32 numbers that have no more bits than that."""

SIDE = 64
"""Rows, and columns, of the tile of a block."""

_ACROSS = 4
"""Pieces of 8 columns that a warp has sums of."""

_WORDS = 8
"""Words of a row or column that an instruction takes."""

_LEAST_TERMS = 16
"""Of a piece that is worth waiting for."""

_APART = 4
"""Words between the rows of shared memory: with a multiple of 8 and these, the threads of a warp meet in no bank."""

_SMALLEST, _LARGEST = (127 - 100) << 23, (127 + 50) << 23
"""The bits of the least and the largest absolute value of f32 numbers that have two parts."""

_INFINITE = 0xFF << 23
"""Those of the first number that is not finite."""


class MatrixTiles:
    """The sums of a block of 64 rows and columns: of each of 8 warps 16 rows and 32 columns.  Thread 4 r + c of a warp
    has the sums of rows r and r + 8 and columns 2 c and 2 c + 1 of every piece.

    If some terms are `left_out`, it is kept which.
    """

    threads = 256

    def __init__(self, grid: Grid, form: Form, left_out: bool) -> None:
        self.grid, self.form = grid, form
        self.steps = max(1, _LEAST_TERMS // (_WORDS * form.terms))
        self.piece = self.steps * _WORDS * form.terms
        self._pitch = self.steps * _WORDS + _APART
        self._held = [grid.shared("i32", SIDE * self._pitch) for _ in range(2)]
        self._sums = grid.private(form.total, 4 * _ACROSS)
        self._there = grid.shared("i8", SIDE * self.piece) if left_out and form.is_float else None
        checked = form.parts > 1 or self._there is not None
        self._flag = grid.shared("i32", 1) if checked else None

    def clear(self, thread: Int) -> None:
        """Begin with zeros."""
        for n in range(4 * _ACROSS):
            self.grid.at(self._sums, thread, n).store(zeros(self.grid.f, self.form.total))
        flag = self._flag
        if flag is not None:
            when(thread.eq(0), lambda: flag.store(zeros(self.grid.f, "i32")))

    def put(self, side: int, own: Index, term: Index, value: Vector, there: Vector | None) -> None:
        """Bring an element of an operand: of row or column `own` of the tile, and of a term of the piece, which may not
        be `there`."""
        f = self.grid.f
        if there is not None:
            value = where(there, value, zeros(f, value.element))
            if self._there is not None:
                self._there.at("i8", number(f, own) * self.piece).at("i8", term).store(there.cast("zext", "i8"))
        self._check(side, value)
        raw = vector(to_memory(self.form.factor, value))
        raw = raw.bits() if raw.is_float else raw
        self._held[side].at("i32", number(f, own) * self._pitch).at(raw.element, term).store(raw)

    def _check(self, side: int, value: Vector) -> None:
        """Raise the flag for a number that pieces with it are multiplied in turn for."""
        flag = self._flag
        if flag is None:
            return
        size = value.bits() & 0x7FFFFFFF
        if self.form.parts > 1:
            odd = size.ne(0) & (size - _SMALLEST).compare("ugt", _LARGEST - _SMALLEST)
        elif side:
            odd = size.compare("uge", _INFINITE)
        else:
            return
        when(odd.bit(), lambda: flag.store(size.like(1)))

    def multiply(self, thread: Int) -> None:
        """Add the products of a piece."""
        emulated, parts = self.grid.chip.emulated, self.form.parts

        def usual() -> None:
            if emulated:
                self._in_turn(thread, parts)
            else:
                self._instructions(thread)

        if self._flag is None or (emulated and parts == 1):
            usual()
        else:
            raised = self._flag.load("i32").ne(0).bit()
            when(raised, lambda: self._in_turn(thread, 1), usual)

    def deposit(self, thread: Int, whole: Ptr) -> None:
        """Put the sums of a thread where all are, in rows."""
        kind = self.form.total
        row, column = self._corner(thread)
        for n in range(_ACROSS):
            for k, place in enumerate(self._places(thread, n)):
                at = whole.at(kind, (row + 8 * (k // 2)) * SIDE).at(kind, column + (8 * n + k % 2))
                at.store(place.load(kind))

    def _places(self, thread: Int, piece: int) -> list[Ptr]:
        """Where the sums of a piece of columns are."""
        return [self.grid.at(self._sums, thread, 4 * piece + k) for k in range(4)]

    def _first(self, thread: Int) -> tuple[Int, Int]:
        """The first row and column of a thread's warp within the tile of the block."""
        warp = thread // 32
        return number(self.grid.f, (warp // 2) * 16), number(self.grid.f, (warp & 1) * (8 * _ACROSS))

    def _corner(self, thread: Int) -> tuple[Int, Int]:
        """The first row and column of which a thread has a sum."""
        row, column = self._first(thread)
        lane = thread & 31
        return row.plus(lane // 4), column.plus((lane & 3) * 2)

    def _in_turn(self, thread: Int, parts: int) -> None:
        """Term by term; each factor as so many parts."""
        f, kind = self.grid.f, self.form.total
        row, column = self._corner(thread)
        places = [self._places(thread, n) for n in range(_ACROSS)]
        loop = begin_loop(f, 0, self.piece, 1, *(place.load(kind) for piece in places for place in piece))
        left = [self._element(0, row + 8 * n, loop.index, parts) for n in range(2)]
        there = [self._is_there(row + 8 * n, loop.index) for n in range(2)]
        after: list[Vector] = []
        for n in range(_ACROSS):
            right = [self._element(1, column + (8 * n + k), loop.index, parts) for k in range(2)]
            for k, total in enumerate(loop.values[4 * n : 4 * n + 4]):
                added = _added(left[k // 2], right[k % 2], total)
                known = there[k // 2]
                after.append(added if known is None else where(known, added, total))
        for place, total in zip((place for piece in places for place in piece), loop.end(*after), strict=True):
            place.store(total)

    def _element(self, side: int, own: Int, term: Index, parts: int) -> list[Vector]:
        """The parts of a factor."""
        form = self.form
        line = self._held[side].at("i32", number(self.grid.f, own * self._pitch))
        if form.factor == "f32":
            whole = line.at("float", term).load("float")
            return _split(whole) if parts > 1 else [whole]
        raw = line.at(f"i{32 // form.terms}", term).load(f"i{32 // form.terms}")
        return [decode(raw, form.factor) if form.is_float else raw.resize("i32", signed=form.factor == "s8")]

    def _is_there(self, own: Int, term: Index) -> Vector | None:
        if self._there is None:
            return None
        return self._there.at("i8", number(self.grid.f, own * self.piece)).at("i8", term).load("i8").ne(0)

    def _instructions(self, thread: Int) -> None:
        """Multiply the pieces of a warp."""
        lane = thread & 31
        row, column = (first.plus(lane // 4) for first in self._first(thread))
        for step in range(self.steps):
            word = number(self.grid.f, (lane & 3) + step * _WORDS)
            left = self._words(0, [(row + 8 * (n % 2), word + 4 * (n // 2)) for n in range(4)])
            for n in range(_ACROSS):
                right = self._words(1, [(column + 8 * n, word + 4 * k) for k in range(2)])
                places = self._places(thread, n)
                sums = [place.load(self.form.total) for place in places]
                pairs = [(1, 0), (0, 1), (0, 0)] if self.form.parts > 1 else [(0, 0)]  # the small ones first
                for ours, theirs in pairs:
                    sums = self._instruction(left[ours], right[theirs], sums)
                for place, total in zip(places, sums, strict=True):
                    place.store(total)

    def _instruction(self, left: Sequence[Vector], right: Sequence[Vector], sums: Sequence[Vector]) -> list[Vector]:
        f = self.grid.f
        result = Struct(f, sums, "")
        whole = result.named(f.intrinsic(result.type, self.form.instruction, [*left, *right, *sums]))
        return whole.parts()

    def _words(self, side: int, places: Sequence[tuple[Int, Int]]) -> list[list[Vector]]:
        """The words at rows or columns, and words of these, as the instruction takes them: a list for each part."""
        form = self.form
        lanes = 32 // BITS[form.word]
        found = []
        for own, word in places:
            at = self._held[side].at("i32", number(self.grid.f, own * self._pitch)).at("i32", word)
            if form.parts > 1:
                found.append([part.bits() for part in _split(at.load("float"))])
            else:
                found.append([at.load(form.word, lanes, 4)])
        return [list(part) for part in zip(*found, strict=True)]


def _added(left: Sequence[Vector], right: Sequence[Vector], total: Vector) -> Vector:
    """The sum with the products of the parts of two factors."""
    if not total.is_float:
        return left[0] * right[0] + total
    if len(left) > 1:
        total = fma(left[0], right[1], fma(left[1], right[0], total))
    return fma(left[0], right[0], total)


def _split(value: Vector) -> list[Vector]:
    """Two numbers of TF32 that have nearly all bits of an f32."""
    first = _rounded(value)
    return [first, _rounded(value - first)]


def _rounded(value: Vector) -> Vector:
    """A finite f32 number of at most half the largest to 11 bits, ties away from zero."""
    return ((value.bits() + 0x1000) & ~0x1FFF).as_float()

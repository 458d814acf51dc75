"""Tiles of products on tensor cores: a warp multiplies pieces of 16 rows, 8 columns and 16 terms at once.

The instruction is ``mma.sync.aligned.m16n8k16`` of PTX, with factors of 16 bits and sums in f32; which elements of the
pieces a thread has in its registers is said in the PTX ISA, "Matrix Fragments for mma.m16n8k16".  Its factors come from
shared memory, where the terms of a row or column lie side by side.  An emulated thread adds up the sums that it has,
term by term; a chip may round the sum of the 16 products otherwise.
"""

from __future__ import annotations

from hlotool.codegen.gpu.grid import Grid
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import to_memory, vector
from hlotool.codegen.llvm.math.lowprecision import decode
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.values import Index, Int, Ptr, Struct, Vector, number, zeros

__all__ = ["MATRIX_TYPES", "MatrixTiles"]

MATRIX_TYPES = {"bf16": ("llvm.nvvm.mma.m16n8k16.row.col.bf16", "i32"),
                "f16": ("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "half")}  # fmt: skip
"""Types of factors: LLVM's name of the instruction, and what it takes two of them as."""

_TERMS = 16
_PITCH = 24
"""Elements from one row of a piece to the next: 48 bytes, so that the threads of a warp meet in no bank."""

_ACROSS = 4
"""Pieces of 8 columns that a warp has sums of."""


class MatrixTiles:
    """The sums of a block of 64 rows and columns, for factors of `factor` type: of each of 8 warps 16 rows and 32
    columns.  Thread 4 r + c of a warp has the sums of rows r and r + 8 and columns 2 c and 2 c + 1 of every piece."""

    threads = 256
    piece = _TERMS
    tile = (4, 4)

    def __init__(self, grid: Grid, factor: str) -> None:
        self.grid = grid
        self.factor = factor
        self.held = [grid.shared("i16", 64 * _PITCH) for _ in range(2)]
        self.sums = grid.private("float", 4 * _ACROSS)

    def clear(self, thread: Int) -> None:
        """Begin with zeros."""
        for n in range(4 * _ACROSS):
            self.grid.at(self.sums, thread, n).store(zeros(self.grid.f, "float"))

    def put(self, side: int, own: Index, term: Index, value: Vector, there: Vector | None) -> None:
        """Bring an element of an operand: of row or column `own` of the tile, and of a term of the piece; all are
        `there`."""
        raw = vector(to_memory(self.factor, value))
        self.held[side].at("i16", number(self.grid.f, own) * _PITCH).at("i16", term).store(raw)

    def multiply(self, thread: Int) -> None:
        """Add the products of a piece."""
        row, column = self._corner(thread)
        for n in range(_ACROSS):
            places = [self.grid.at(self.sums, thread, 4 * n + k) for k in range(4)]
            if self.grid.chip.emulated:
                self._emulated(places, row, column + 8 * n)
            else:
                self._instruction(places, thread, row, column + 8 * n)

    def deposit(self, thread: Int, whole: Ptr) -> None:
        """Put the sums of a thread where all are, in rows."""
        row, column = self._corner(thread)
        for n in range(_ACROSS):
            for k in range(4):
                at = whole.at("float", (row + 8 * (k // 2)) * 64).at("float", column + (8 * n + k % 2))
                at.store(self.grid.at(self.sums, thread, 4 * n + k).load("float"))

    def _corner(self, thread: Int) -> tuple[Int, Int]:
        """The first row and column of which a thread has a sum, within the tile of the block."""
        warp, lane = thread // 32, thread & 31
        row = (warp // 2) * 16
        column = (warp & 1) * (8 * _ACROSS)
        return number(self.grid.f, row).plus(lane // 4), number(self.grid.f, column).plus((lane & 3) * 2)

    def _emulated(self, places: list[Ptr], row: Int, column: Int) -> None:
        sums = [place.load("float") for place in places]
        loop = begin_loop(self.grid.f, 0, _TERMS, 1, *sums)
        left = [self._element(0, row + 8 * n, loop.index) for n in range(2)]
        right = [self._element(1, column + n, loop.index) for n in range(2)]
        after = [fma(left[n // 2], right[n % 2], total) for n, total in enumerate(loop.values)]
        for place, total in zip(places, loop.end(*after), strict=True):
            place.store(total)

    def _element(self, side: int, own: Int, term: Index) -> Vector:
        raw = self.held[side].at("i16", number(self.grid.f, own * _PITCH)).at("i16", term).load("i16")
        return decode(raw, self.factor)

    def _instruction(self, places: list[Ptr], thread: Int, row: Int, column: Int) -> None:
        """Of the left operand thread 4 r + c has terms 2 c and 2 c + 1, and those 8 further on, of rows r and r + 8; of
        the right one it has those terms of column r."""
        f = self.grid.f
        lane = thread & 31
        term = number(f, (lane & 3) * 2)
        ours = number(f, column - (lane & 3) * 2).plus(lane // 4)
        left = [self._pair(0, row + 8 * (n % 2), term + 8 * (n // 2)) for n in range(4)]
        right = [self._pair(1, ours, term + 8 * n) for n in range(2)]
        sums = [place.load("float") for place in places]
        name, _ = MATRIX_TYPES[self.factor]
        result = Struct(f, sums, "")
        whole = result.named(f.intrinsic(result.type, name, [*left, *right, *sums]))
        for place, total in zip(places, whole.parts(), strict=True):
            place.store(total)

    def _pair(self, side: int, own: Int, term: Int) -> Vector:
        """Two neighbouring terms as the instruction takes them."""
        _, kind = MATRIX_TYPES[self.factor]
        at = self.held[side].at("i16", number(self.grid.f, own * _PITCH)).at("i16", term)
        return at.load(kind, 1 if kind == "i32" else 2, 4)

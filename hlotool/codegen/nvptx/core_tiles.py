"""Tiles of products on the units that every thread has: a thread adds up a small tile of its own, in registers."""

from __future__ import annotations

from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, number, zeros
from hlotool.codegen.nvptx.grid import Grid

__all__ = ["PIECE", "SIDE", "CoreTiles"]

SIDE = 16
"""Threads of a block along rows, and along columns."""

PIECE = 16
"""Terms of the sums that are in shared memory at a time."""

_APART = 4
"""Elements between the lines of shared memory, so that threads meet in few banks."""


class CoreTiles:
    """The sums of a block: `tile` are the rows and columns of each thread's, of LLVM type `kind`."""

    threads = SIDE * SIDE
    piece = PIECE

    def __init__(self, grid: Grid, kind: str, tile: tuple[int, int]) -> None:
        self.grid = grid
        self.kind = kind
        self.tile = tile
        self.pitches = [own * SIDE + _APART for own in tile]
        self.held = [grid.shared(kind, PIECE * pitch) for pitch in self.pitches]
        self.sums = grid.private(kind, tile[0] * tile[1])

    def clear(self, thread: Int) -> None:
        """Begin with zeros."""
        for place in self._rows(thread):
            place.store(zeros(self.grid.f, self.kind, self.tile[1]), self._align(self.tile[1]))

    def put(self, side: int, own: Index, term: Index, value: Vector) -> None:
        """Bring an element of an operand: of row or column `own` of the tile, and of a term of the piece."""
        f = self.grid.f
        self.held[side].at(self.kind, number(f, term) * self.pitches[side]).at(self.kind, own).store(value)

    def multiply(self, thread: Int) -> None:
        """Add the products of a piece."""
        f, kind, (down, across) = self.grid.f, self.kind, self.tile
        corner, places = self._corner(thread), self._rows(thread)
        before = [place.load(kind, across, self._align(across)) for place in places]
        loop = begin_loop(f, 0, PIECE, 1, *before)
        left, right = (
            base.at(kind, number(f, loop.index) * pitch).at(kind, first)
            for base, pitch, first in zip(self.held, self.pitches, corner, strict=True)
        )
        factors, others = left.load(kind, down, self._align(down)), right.load(kind, across, self._align(across))
        after = []
        for n, total in enumerate(loop.values):
            factor = (factors[n] if down > 1 else factors).spread(across)
            after.append(fma(factor, others, total) if total.is_float else factor * others + total)
        for place, total in zip(places, loop.end(*after), strict=True):
            place.store(total, self._align(across))

    def deposit(self, thread: Int, whole: Ptr) -> None:
        """Put the sums of a thread where all are, in rows."""
        row, column = self._corner(thread)
        lanes, pitch = self.tile[1], self.tile[1] * SIDE
        for n, place in enumerate(self._rows(thread)):
            at = whole.at(self.kind, (row + n) * pitch).at(self.kind, column)
            at.store(place.load(self.kind, lanes, self._align(lanes)), self._align(lanes))

    def _corner(self, thread: Int) -> tuple[Index, Index]:
        """The first row and column of a thread's tile within that of its block."""
        return (thread // SIDE) * self.tile[0], number(self.grid.f, thread % SIDE) * self.tile[1]

    def _rows(self, thread: Int) -> list[Ptr]:
        """Where the rows of a thread's sums are."""
        start = self.grid.at(self.sums, thread)
        return [start.at(self.kind, row * self.tile[1]) for row in range(self.tile[0])]

    def _align(self, lanes: int) -> int:
        return min(16, lanes * BITS[self.kind] // 8)

"""Tiles of products on the units that every thread has: a thread adds up a small tile of its own, in registers."""

from __future__ import annotations

from hlotool.codegen.gpu.grid import Grid
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.vector import fma
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, number, where, zeros

__all__ = ["PIECE", "SIDE", "CoreTiles"]

SIDE = 16
"""Threads of a block along rows, and along columns."""

PIECE = 16
"""Terms of the sums that are in shared memory at a time."""

_APART = 4
"""Elements between the lines of shared memory, so that threads meet in few banks."""


class CoreTiles:
    """The sums of a block: `tile` are the rows and columns of each thread's, of LLVM type `kind`.

    If some terms are `left_out` of the sums of rows, it is kept which: no number stands for them, as the other factor
    may be infinite.
    """

    threads = SIDE * SIDE
    piece = PIECE

    def __init__(self, grid: Grid, kind: str, tile: tuple[int, int], left_out: bool) -> None:
        self.grid = grid
        self.kind = kind
        self.tile = tile
        self.pitches = [own * SIDE + _APART for own in tile]
        self.held = [grid.shared(kind, PIECE * pitch) for pitch in self.pitches]
        self.there = grid.shared("i8", PIECE * self.pitches[0]) if left_out else None
        self.sums = grid.private(kind, tile[0] * tile[1])

    def clear(self, thread: Int) -> None:
        """Begin with zeros."""
        for place in self._rows(thread):
            place.store(zeros(self.grid.f, self.kind, self.tile[1]), self._align(self.tile[1]))

    def put(self, side: int, own: Index, term: Index, value: Vector, there: Vector | None) -> None:
        """Bring an element of an operand: of row or column `own` of the tile, and of a term of the piece, which may not
        be `there`."""
        f = self.grid.f
        if there is not None and self.there is not None:
            self.there.at("i8", number(f, term) * self.pitches[0]).at("i8", own).store(there.cast("zext", "i8"))
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
        there = None
        if self.there is not None:
            at = self.there.at("i8", number(f, loop.index) * self.pitches[0]).at("i8", corner[0])
            there = at.load("i8", down, down)
        factors, others = left.load(kind, down, self._align(down)), right.load(kind, across, self._align(across))
        after = []
        for n, total in enumerate(loop.values):
            factor = (factors[n] if down > 1 else factors).spread(across)
            added = fma(factor, others, total) if total.is_float else factor * others + total
            after.append(added if there is None else where((there[n] if down > 1 else there).ne(0), added, total))
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

"""Tiles in vector registers: rows times vectors of sums, elements of `a` in all lanes, vectors of `b` along columns.

That is the scheme of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication".  All strides become
displacements, so that one pointer register serves all rows.  Where `a` runs along the columns too, as in a depthwise
convolution, it is read as vectors.  Where `b` is too long for the first-level cache the loop asks for it ahead of time.

A turn of the innermost loop does several steps of the sum where vectors have 256 bits or less: tiles of 16 registers
have few multiply-adds in a step, and what a turn takes besides them counts, above all where another thread of the same
core wants its share of the instructions.  With 512 bits measurements showed no gain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle, repeat
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.costs import COSTS
from hlotool.codegen.cpu.products.microkernel import Microkernel, open_tile, tile_functions
from hlotool.codegen.cpu.products.product import Blocking, Product, Tap, TileShape
from hlotool.codegen.llvm.control import begin_loop, return_when, when
from hlotool.codegen.llvm.elements import complex_sums, load, multiply_add, plus, store, surplus
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Truth, Vector, choose, either, number, zeros
from hlotool.codegen.llvm.writer import Unit
from hlotool.codegen.machine import LINE, Machine

__all__ = ["VECTORS"]

AHEAD: Annotated[int, Threshold("terms")] = 16
"""Steps of the sum from which `b` is fetched: longer than an access to the second-level cache."""
_FEW_SUMS: Annotated[int, Threshold("vectors")] = 8  # of a tile whose loop takes four steps of the sum a turn
_BRIEF: Annotated[float, Threshold("cost")] = 120e3
"""Of a sum over windows, so little that turns of several steps save less than compiling them takes."""


def _steps_together(product: Product, piece: int, machine: Machine) -> int:
    """Steps of the sum in a turn of the innermost loop: a divisor of all its counts, some 16 multiply-adds and more."""
    asked = machine.choices.steps
    if asked is None and machine.registers == 32:
        return 1
    if asked is None and product.m <= product.tile.rows and product.packing is None:
        return 1  # `b` is read once, and a load whose address moves by one row a turn is what processors prefetch
    arithmetic, first, ends = product.arithmetic, product.terms[0], product.ends
    if asked is None and len(product.terms) > 1 and product.nanoseconds < _BRIEF:
        return 1
    counts = [product.terms[-1]]
    if len(product.terms) == 1:
        counts = [1] if product.reach else [piece, first % piece]
    elif ends is not None and ends.within == 0:
        counts += [count for count, _ in (*ends.before, *ends.behind)]
    sums = product.tile.rows * -(-product.tile.columns // arithmetic.columns) * arithmetic.components
    return math.gcd(asked or (4 if sums <= _FEW_SUMS else 2), *counts)


def _streams(product: Product, columns: int, machine: Machine) -> bool:
    """Whether the next tile to use this part of `b` will not find it in the first-level cache.  Steps of whole pages
    fall on the same sets of that cache: what is fetched early would be gone again."""
    size, asked = columns * product.b.element.bytes * product.depth, machine.choices.fetch_terms
    if asked is not None:
        return asked > 0 and not product.a.column
    return not product.a.column and size > machine.l1 // 2 and product.b.terms[-1] % COSTS.page_bytes != 0


class _TileWriter:
    """Writes a tile function.

    What rows leave out of a dimension of the sum that is not the first, the function is told by two more arguments:
    %first and %last say which tile it is.  Where rows may be there already it is told by one more, %all, whether to
    write these too.
    """

    def __init__(self, unit: Unit, name: str, product: Product, blocking: Blocking, shape: TileShape) -> None:
        assert unit.machine is not None
        self.product, self.shape, self.arithmetic = product, shape, product.arithmetic
        self.accumulates = blocking.piece < product.terms[0]
        self.kept = product.tile.rows - product.m % product.tile.rows if blocking.keeps_rows else 0
        self.together = _steps_together(product, blocking.piece, unit.machine)
        self.streams = _streams(product, shape.columns, unit.machine)
        self.ahead = unit.machine.choices.fetch_terms or AHEAD
        flags = ["first", "last"] * (product.ends is not None) + ["all"] * blocking.keeps_rows
        self.f, self.arguments = open_tile(unit, name, *flags)
        lanes, width = self.arithmetic.lanes, self.arithmetic.columns
        self.vectors = -(-shape.columns // width)
        tail = (shape.columns - (self.vectors - 1) * width) * self.arithmetic.components
        self.actives = [lanes] * (self.vectors - 1) + [tail]
        self.each_row = self.vectors * self.arithmetic.components  # sums of a row
        self.firsts, self.lasts = self._bounds()

    def write(self) -> None:
        rows, count = [row * self.product.a.row for row in range(self.shape.rows)], self.shape.rows * self.each_row
        # With flipped numbers there is a surplus of the sums of all rows behind them.
        count += self.vectors * self.arithmetic.flipped
        sums = [zeros(self.f, self.arithmetic.type, self.arithmetic.lanes)] * count
        arguments = self.arguments
        *_, sums = self._nest(self.product.taps, arguments.k, arguments.a, arguments.b, sums, rows)
        if self.arithmetic.flipped:
            extra = sums[-self.vectors :]
            sums = [value - extra[place % self.vectors] for place, value in enumerate(sums[: -self.vectors])]
        if self.accumulates:
            return_when(self.arguments.add, lambda: self._write_sums(sums, True))
        self._write_sums(sums, False)
        self.f.finish()

    def _nest(
        self, taps: tuple[Tap, ...], count: Index, a: Ptr, b: Ptr, sums: Sequence[Vector], rows: Sequence[Index]
    ) -> tuple[Ptr, Ptr, list[Vector]]:
        """Loops over `taps`, `count` times the first, where `rows` says where each row of `a` is; where that leads to,
        and the sums."""
        steps, ends = 1 if taps[1:] else self.together, self.product.ends
        loop = begin_loop(self.f, 0, count, steps, a, b, *sums, at_least_once=True)
        a, b, *inner = loop.values
        if ends is not None and len(taps) == ends.within + 2:
            inner = self._in_parts(taps[1:], a, b, inner, rows)
        elif taps[1:]:
            *_, inner = self._nest(taps[1:], taps[1].extent, a, b, inner, rows)
        else:
            for step in range(steps):
                inner = self._term(a + step * taps[0].a, b + step * taps[0].b, inner, rows)
        a, b, *inner = loop.end(a + steps * taps[0].a, b + steps * taps[0].b, *inner)
        return a, b, inner

    def _in_parts(
        self, taps: tuple[Tap, ...], a: Ptr, b: Ptr, sums: Sequence[Vector], rows: Sequence[Index]
    ) -> list[Vector]:
        """The sums after loops over `taps`, the first of them in parts, of which all elements are for the same rows.

        What other rows would read there may lie outside of the array.  They read what another row does, and keep the
        sums that they have.
        """
        stop: Index = self.lasts.get(0, taps[0].extent)
        part = begin_loop(self.f, 0, stop, 1, a, b, *sums, at_least_once=True)
        (a, b, *before), at = part.values, number(self.f, part.index)
        end = stop
        present, inside = list(rows), dict[Int, Bool]()
        for bound in dict.fromkeys((*self.lasts.values(), *self.firsts.values())):
            inside[bound] = at < bound
            if bound is not stop:
                end = choose(inside[bound], bound, end)
        for row, bound in self.firsts.items():
            present[row] = choose(inside[bound], rows[-1], present[row])
        for row, bound in self.lasts.items():
            present[row] = choose(inside[bound], present[row], 0)
        length = number(self.f, end) - at
        part.step_by(length)
        a, b, after = self._nest(taps, length, a, b, before, present)
        for bounds, early in ((self.firsts, True), (self.lasts, False)):
            for row, bound in bounds.items():
                for place in range(row * self.each_row, (row + 1) * self.each_row):
                    one, other = (before, after) if early else (after, before)
                    after[place] = either(inside[bound], one[place], other[place])
        return list(part.end(a, b, *after)[2:])

    def _bounds(self) -> tuple[dict[int, Int], dict[int, Int]]:
        """For rows that leave out elements of the dimension with ends: the first one that they take, and the first one
        behind those.  Both come with the last elements first."""
        firsts: dict[int, Int] = {}
        lasts: dict[int, Int] = {}
        ends = self.product.ends
        if ends is None:
            return firsts, lasts
        extent, missing = self.product.terms[-1 - ends.within], 0
        for count, rows in ends.before:
            missing += count
            bound = number(self.f, choose(Bool(self.f, "%first"), missing, 0))
            firsts.update(dict.fromkeys(range(rows), bound))
        missing = 0
        for count, rows in reversed(ends.behind):
            missing += count
            bound = number(self.f, choose(Bool(self.f, "%last"), extent - missing, extent))
            lasts.update(dict.fromkeys(range(self.shape.rows - rows, self.shape.rows), bound))
        return firsts, lasts

    def _term(self, a: Ptr, b: Ptr, sums: Sequence[Vector], rows: Sequence[Index]) -> list[Vector]:
        """The sums with a term more."""
        columns, result = self._columns(b), list(sums)
        for row, where in enumerate(rows):
            start, step = (a, where) if isinstance(where, int) else (a + where, 0)
            factors = zip(self._factors(start, step), cycle(columns), strict=False)
            for place, (left, column) in enumerate(factors, row * self.each_row):
                result[place] = multiply_add(self.arithmetic, left, column, result[place])
        if self.arithmetic.flipped:
            for place, column in enumerate(columns, len(rows) * self.each_row):
                result[place] = surplus(self.arithmetic, column, result[place])
        return result

    def _factors(self, start: Ptr, step: int) -> Iterator[Vector]:
        """What vectors of `b` are multiplied with for the sums of a row: vectors of `a`, or elements in all lanes."""
        element, arithmetic, lanes = self.product.a.element, self.arithmetic, self.arithmetic.lanes
        if self.product.a.column:
            for v, active in enumerate(self.actives):
                yield load(start + (step + v * lanes * element.size), element, arithmetic.type, lanes, active)
        else:
            for part in range(arithmetic.components):
                left = load(start + (step + part * element.size), element, arithmetic.type)
                yield from repeat(left.spread(lanes), self.vectors)

    def _columns(self, b: Ptr) -> list[Vector]:
        """The vectors of a row of `b`; a later one is asked for."""
        matrix, arithmetic = self.product.b, self.arithmetic
        places = [self._along(v * arithmetic.lanes * matrix.element.size) for v in range(self.vectors)]
        columns = [
            load(b + place, matrix.element, arithmetic.type, arithmetic.lanes, active)
            for place, active in zip(places, self.actives, strict=True)
        ]
        if self.streams:
            width = self.shape.columns * matrix.element.bytes
            lines = [*range(0, width, LINE)]
            if matrix.terms[-1] != width and not matrix.lines:  # not packed, so perhaps not aligned to lines either
                lines.append(width - 1)
            for line in lines:
                (b + (self.ahead * matrix.terms[-1] + self._along(line))).fetch()
        return columns

    def _along(self, at: int) -> int:
        """Where byte `at` of a row of `b` is."""
        lines = self.product.b.lines
        return at // LINE * lines + at % LINE if lines else at

    def _write_sums(self, sums: Sequence[Vector], add: bool) -> None:
        """Write the sums, or add them to what is there."""
        writes_all: Truth = Bool(self.f, "%all") if self.kept else False
        when(writes_all, lambda: self._write_rows(sums, range(self.kept), add))
        self._write_rows(sums, range(self.kept, self.shape.rows), add)

    def _write_rows(self, sums: Sequence[Vector], rows: range, add: bool) -> None:
        c, arithmetic = self.product.c, self.arithmetic
        for row in rows:
            for v, active in enumerate(self.actives):
                at = self.arguments.c + (row * c.row + v * arithmetic.lanes * c.element.size)
                value = sums[row * self.each_row + v]
                if arithmetic.complex:
                    value = complex_sums(arithmetic, value, sums[row * self.each_row + v + self.vectors])
                if add:
                    before = load(at, c.element, arithmetic.type, arithmetic.lanes, active)
                    value = plus(arithmetic, before, value)
                store(value, at, c.element, active)


def _emit(unit: Unit, name: str, product: Product, blocking: Blocking, shape: TileShape) -> None:
    _TileWriter(unit, name, product, blocking, shape).write()


VECTORS = Microkernel(begin=tile_functions(_emit), accumulates=True, keeps_rows=True)

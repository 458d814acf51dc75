"""Writes the step that computes a product: tasks, the blocks and pieces of each, and the tiles of these.

`blocking` decides on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.blocking import plan_blocks
from hlotool.codegen.cpu.products.epilogue import Block
from hlotool.codegen.cpu.products.microkernel import Calls, Microkernel, Tile, TileRange
from hlotool.codegen.cpu.products.product import Blocking, Border, Dimension, Product, Reach, TaskDimension
from hlotool.codegen.cpu.products.vector_tiles import VECTORS
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.arguments import argument, begin_tasks, count_in_block, unravel
from hlotool.codegen.llvm.control import Loop, allocate, begin_loop, call, when
from hlotool.codegen.llvm.values import Index, Int, Ptr, Truth, choose, equal, maximum, minimum, number
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = ["emit_product"]

_BYTES: Annotated[float, Threshold("cost")] = 20.0
"""Of a right operand, that one core gets in a nanosecond from behind its own caches."""


def emit_product(unit: Unit, name: str, product: Product, microkernel: Microkernel = VECTORS) -> Step:
    """Define step function `name` and the tile functions it needs; strides and sizes are all static."""
    assert unit.machine is not None
    blocking, time = plan_blocks(product, microkernel, unit.machine), 0.0
    if product.epilogue is not None:
        rows, columns = blocking.row_tiles * product.tile.rows, blocking.panels * product.tile.columns
        block = Block(
            items=product.items, rows=product.m, columns=product.n, pitch=blocking.c.row, height=rows, width=columns
        )
        time = product.epilogue.emit(unit, f"epilogue_{name}", block)
    _StepWriter(unit, name, replace(product, c=blocking.c), blocking, microkernel).write()
    arithmetic = product.nanoseconds / microkernel.speed
    right = product.n * product.depth * math.prod(product.batch[d] for d in product.own)
    reading = right * product.arithmetic.element.bytes / _BYTES
    unit.count({"planned": time, "planned product": max(arithmetic, reading), **_work(product, microkernel)})
    return Step(name, math.prod(d.extent for d in blocking.tasks), max(arithmetic, reading) + time)


def _work(product: Product, microkernel: Microkernel) -> dict[str, float]:
    """Tiles, runs of terms that lie evenly, and the cycles of their work: of multiply-adds and of loads, two of which
    begin in a cycle, and no less than it takes until a sum can go on, unless tiles are so short that several are worked
    on at a time; of writing and rounding vectors of the result; and of adding the lanes of sums."""
    arithmetic, stored = product.arithmetic, product.c.element
    lanes, parts = (arithmetic.lanes if microkernel.along else 1), arithmetic.components
    steps = -(-product.depth * parts // lanes) if microkernel.along else product.depth
    runs = math.prod(product.terms[:-1])
    found = dict.fromkeys(("tile", "tile run", "tile step", "access", "half", "horizontal"), 0.0)
    for rows, down in _cut(product.m, product.tile.rows):
        for columns, beside in _cut(product.n, product.tile.columns):
            tiles = float(product.items) * down * beside
            across = columns if microkernel.along else -(-columns // arithmetic.columns)
            adds, loads, sums = rows * across * parts**2, rows + across, rows * across
            waiting = _LATENCY * (1 if not microkernel.along else max(1, sums) / max(8, sums))
            ahead = max(1.0, min(tiles, _AHEAD / (steps * (adds + loads))))
            cycles = max(adds / 2, loads / 2, waiting / ahead) / microkernel.speed
            found["tile"] += tiles
            found["tile run"] += tiles * runs
            found["tile step"] += tiles * steps * cycles
            found["access"] += tiles * sums * (_SPILLED if microkernel.speed > 1 else _STORE)
            found["half"] += tiles * sums * _ROUNDING if stored.storage != arithmetic.type else 0.0
            found["horizontal"] += tiles * sums * _HORIZONTAL if microkernel.along else 0.0
    return {kind: amount for kind, amount in found.items() if amount}


def _cut(extent: int, tile: int) -> list[tuple[int, int]]:
    """Sizes of tiles along a dimension, and how many there are of each."""
    whole, rest = divmod(extent, tile)
    return [(size, count) for size, count in ((tile, whole), (rest, 1)) if size and count]


_LATENCY = 4.0
"""Cycles until a sum can go on."""

_AHEAD = 256
"""Instructions that a processor looks ahead, about."""

_STORE, _SPILLED = 1.5, 4.5
"""Cycles in which a vector of the result is written: from a vector register; from one of tiles, by way of memory."""

_ROUNDING = 8.0
"""Cycles in which a vector is rounded to a narrow type."""

_HORIZONTAL = 8.0
"""Cycles in which the lanes of a vector are added."""


class _StepWriter:
    """Writes a step function.  `at` has the number of the task's block in each dimension."""

    def __init__(self, unit: Unit, name: str, product: Product, blocking: Blocking, microkernel: Microkernel) -> None:
        self.name, self.product, self.blocking, self.tile = name, product, blocking, product.tile
        self.rows_first = microkernel.rows_first
        self.f = Function(unit, signature(name, plumbing=microkernel.plumbing))
        self.buffer = allocate(self.f, "i8", blocking.buffer, 64) if blocking.buffer else None
        self.tiles: Calls = microkernel.begin(self.f, name, product, blocking)
        self.panels: Ptr | None = None  # where the tasks of this call pack theirs
        if product.packing is not None:
            panels = argument(self.f, product.b.place)
            self.panels = panels + Int(self.f, "%begin") * (product.packing.panels * product.b_step)
        self.at: dict[Dimension, Index] = {}

    def write(self) -> None:
        task = begin_tasks(self.f)
        index, visits = number(self.f, task.index), self.blocking.visits
        if self.product.packing is None:
            self._locate(index, self.blocking.tasks)
            self._block(0)
        else:
            copies = number(self.f, index * self.product.packing.tasks)
            if not self.product.packing.piece:
                self._pack(copies, self.product.packing.tasks)
                self.tiles.begin_panels(copies)
            self._locate(index, self.blocking.tasks)
            loop = begin_loop(self.f, 0, math.prod(d.extent for d in visits))
            self._locate(loop.index, visits)
            if "pieces" in self.at:
                inner = math.prod(d.extent for d in visits[1:])
                begins = equal(number(self.f, loop.index) % inner, 0)
                when(begins, lambda: self._pack(copies + self.at["pieces"], 1))
            self._block(copies)
            loop.end()
        task.end()
        self.tiles.end()
        self.f.finish()

    def _locate(self, index: Index, dimensions: Sequence[TaskDimension]) -> None:
        self.at |= zip((d.name for d in dimensions), unravel(index, [d.extent for d in dimensions]), strict=True)

    def _pack(self, first: Index, tasks: int) -> None:
        """Have so many tasks of the copy pack panels for this task."""
        assert self.product.packing is not None
        assert self.panels is not None
        last = first + tasks
        call(self.f, f"@{self.product.packing.function}", Ptr(self.f, "%args"), first, last, self.panels)

    def _block(self, copies: Index) -> None:
        """A block of the result; the tasks that pack its panels, a piece each, begin with number `copies`."""
        f, product, blocking, tile = self.f, self.product, self.blocking, self.tile
        row, column = self.at["rows"], self.at["columns"]
        a, b = argument(f, product.a.place), self.panels or argument(f, product.b.place)
        first = c = self.buffer or argument(f, product.c.place)
        for d in range(len(product.batch)):
            a, c = a + self.at[d] * product.a.batch[d], c + self.at[d] * product.c.batch[d]
            b = b if self.panels else b + self.at[d] * product.b.batch[d]
        a += row * (blocking.row_tiles * product.a_step)
        a += column * (blocking.panels * tile.columns * product.a.column)
        b = b if self.panels else b + column * (blocking.panels * product.b_step)
        if not self.buffer:
            c += row * (blocking.row_tiles * tile.rows * product.c.row)
            c += column * (blocking.panels * tile.columns * product.c.column)
        self._sum(a, b, c, copies)
        if product.epilogue is not None or product.border is not None:
            complete = equal(self.at["pieces"], blocking.visits[0].extent - 1) if "pieces" in self.at else True
            when(complete, lambda: self._complete(first, c))

    def _sum(self, a: Ptr, b: Ptr, c: Ptr, copies: Index) -> None:
        """All of the sum for a block, or what the task makes of it at a time."""
        f, product, piece, extent = self.f, self.product, self.blocking.piece, self.product.terms[0]
        tap, packing = product.taps[0], product.packing
        bounds: tuple[Index, Index] = self._within(product.reach, extent) if product.reach else (0, extent)
        low, high = bounds
        if "pieces" in self.at:
            begin = number(f, self.at["pieces"] * piece)
            end = begin + piece
            start = number(f, maximum(number(f, low), begin))
            terms = number(f, minimum(number(f, high), end)) - start
            add = start.ne(low)
            a, b = a + start * tap.a, b + (start - begin) * tap.b
            self._tiles(a, b, c, terms, add, terms > 0 if product.reach else True)
        elif piece < extent:
            pieces = begin_loop(f, low, high, piece)
            at = number(f, pieces.index)
            left = minimum(number(f, high) - at, piece)
            add = at.ne(low)
            a = a + at * tap.a
            if packing is not None and packing.piece:
                copy = number(f, copies + at // piece)
                self._pack(copy, 1)
                self.tiles.begin_panels(copy)
            else:
                b = b + at * tap.b
            self._tiles(a, b, c, left, add)
            pieces.end()
        else:
            a, b = a + low * tap.a, b + low * tap.b
            self._tiles(a, b, c, high - low, False)

    def _within(self, reach: Reach, extent: int) -> tuple[Index, Index]:
        """The first of `extent` elements of the outermost dimension of a sum inside, and one more than the last."""
        at = number(self.f, self.at[reach.batch] * reach.step) + reach.start
        missing = (reach.dilation - 1 - at).signed_quotient(reach.dilation)
        past = (reach.size - 1 - at).signed_quotient(reach.dilation) + 1
        low = maximum(missing, 0)
        return low, minimum(past, extent)

    def _tiles(self, a: Ptr, b: Ptr, c: Ptr, terms: Index, add: Truth, some: Truth = True) -> None:
        """The tiles of a block, with `some` terms of the sum."""
        down = self._range("rows", self.blocking.row_tiles, self.product.row_tiles)
        across = self._range("columns", self.blocking.panels, self.product.panels)
        when(some, lambda: self._loops(Tile(a, b, c, terms, add, down, across, False, False)))

    def _range(self, dimension: Dimension, size: int, tiles: int) -> TileRange:
        blocks = -(-tiles // size)
        return TileRange(self.at[dimension], blocks, count_in_block(self.at[dimension], size, tiles, blocks))

    def _loops(self, block: Tile) -> None:
        """Loops over the tiles of a block, which begins like its first tile."""
        product, (rows, columns) = self.product, self.tile
        down = block.down, (product.a_step, 0, rows * product.c.row)
        across = block.across, (columns * product.a.column, product.b_step, columns * product.c.column)
        places = [block.a, block.b, block.c]
        loops: list[tuple[Loop[*tuple[Ptr, ...]], list[int]]] = []
        ranges: list[TileRange] = []
        for tiles, steps in (down, across) if self.rows_first else (across, down):
            moving = [place for place, step in enumerate(steps) if step]
            loop = begin_loop(self.f, 0, tiles.tiles, 1, *[places[place] for place in moving], at_least_once=True)
            for place, value in zip(moving, loop.values, strict=True):
                places[place] = value
            loops.append((loop, [steps[place] for place in moving]))
            ranges.append(replace(tiles, index=loop.index))
        at_down, at_across = ranges if self.rows_first else reversed(ranges)
        short = at_down.is_last() if product.m % rows else False
        narrow = at_across.is_last() if product.n % columns else False
        a, b, c = places
        self.tiles.multiply(Tile(a, b, c, block.terms, block.add, at_down, at_across, short, narrow))
        for loop, far in reversed(loops):
            if isinstance(loop.index, Int):  # else there is no loop
                loop.end(*[place + step for place, step in zip(loop.values, far, strict=True)])

    def _complete(self, first: Ptr, c: Ptr) -> None:
        """What there is to do when the sums of a block at `c` are complete; the result begins at `first`."""
        f, product, (rows, columns) = self.f, self.product, self.tile
        rows, columns = self.blocking.row_tiles * rows, self.blocking.panels * columns
        items = _flat([(extent, self.at[d]) for d, extent in enumerate(product.batch)])
        row, row_end = _span(self.at["rows"], rows, product.m)
        column, column_end = _span(self.at["columns"], columns, product.n)
        if product.border is not None:
            if self.buffer:
                place = _flat([(1, items), (product.m, row), (product.n, column)]) * product.c.element.bytes
            else:
                place = c.minus(first)
            blocks = -(-product.panels // self.blocking.panels)
            wide = count_in_block(self.at["columns"], columns, product.n, blocks)
            self._see_to_border(product.border, c, place, rows, wide)
        if product.epilogue is not None:
            product.epilogue.call(f, f"epilogue_{self.name}", c, items, (row, row_end), (column, column_end))

    def _see_to_border(self, border: Border, c: Ptr, place: Index, high: int, columns: Index) -> None:
        """See to the rows at the border of a block at `c`, which belongs at `place` and has up to `high`."""
        f, product, row_block, (first, end) = self.f, self.product, self.at["rows"], border.rows
        blocks = -(-product.m // high)
        rows, behind = count_in_block(row_block, high, product.m, blocks), product.m - end
        see_to = partial(border.call, f, columns=columns, row=product.c.row, place_row=self.blocking.place_row)
        if first >= end or first > high or behind > product.m - (blocks - 1) * high:
            see_to(c, place, rows=rows)
            return
        edge: Truth = False
        for d, (low, top) in enumerate(border.batch):
            if (low, top) != (0, product.batch[d]):
                edge |= (number(f, self.at[d]) - low).compare("uge", top - low)
        if first or edge is not False:
            start = choose(equal(row_block, 0), first, 0)
            see_to(c, place, rows=choose(edge, rows, start))
        if behind:
            count = choose(equal(row_block, blocks - 1), behind, 0)
            skipped = rows - count
            later = place + skipped * self.blocking.place_row
            count = choose(edge, 0, count)
            see_to(c + skipped * product.c.row, later, rows=count)


def _flat(coordinates: Sequence[tuple[int, Index]]) -> Index:
    """The row-major number of an item, from extents and coordinates."""
    flat: Index = 0
    for extent, at in coordinates:
        flat = flat * extent + at
    return flat


def _span(block: Index, size: int, total: int) -> tuple[Index, Index]:
    """Where block `block` of `size` of `total` things begins and ends."""
    start = block * size
    return start, minimum(start + size, total)

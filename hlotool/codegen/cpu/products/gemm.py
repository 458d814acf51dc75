"""Blocked products of matrices: tile functions driven over tasks.

A `Product` says where the blocks of the two operands and of the result lie, after any packing; the
step that `emit_product` writes runs a tile function over all of it.  Convolutions come here as well: an
output pixel is a row, the window is the sum.

A task is a block of tiles of one batch item and computes its part of the result alone, over the whole
sum in ascending order, so that results depend neither on threads nor on how tasks are spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.costs import COLUMNS_IN_PLACE
from hlotool.codegen.cpu.products.bf16x3_product import Bf16x3, emit_begin, emit_end, emit_multiply
from hlotool.codegen.cpu.products.epilogue import Block, Epilogue
from hlotool.codegen.cpu.products.microkernel import Ends, Inner, Outer, Tap, emit_inner, emit_outer
from hlotool.codegen.cpu.products.rank_update import Part, Update, emit_update
from hlotool.codegen.cpu.products.tiles import CONFIG, SIDE, configure, emit_tiles, release
from hlotool.codegen.kernel import Step, signature
from hlotool.codegen.llvm.addressing import (
    Place,
    advance,
    argument,
    count_in_block,
    is_last_block,
    larger,
    offset,
    smaller,
    unravel,
    when,
)
from hlotool.codegen.llvm.elements import Arithmetic
from hlotool.codegen.llvm.writer import Function, Loop, Unit
from hlotool.codegen.machine import LINE, Machine

__all__ = [
    "SHARED_PANELS",
    "SHARED_ROWS",
    "Batch",
    "Finish",
    "Packing",
    "Product",
    "Reach",
    "TileShape",
    "block_depth",
    "choose_tile",
    "emit_product",
    "nanoseconds",
    "panels_to_pack",
    "piece_to_pack",
    "stays_in_place",
    "terms_at_a_time",
]

_BYTES: Annotated[float, Threshold("cost")] = 20.0
"""Of a right operand, that one core gets in a nanosecond from behind its own caches."""
TASK_FLOPS: Annotated[float, Threshold("flops")] = 1.5e6
"""Some 15 microseconds of one core: long against handing out a task."""
LEAST_FLOPS: Annotated[float, Threshold("flops")] = 0.6e6
"""Of a task of a small product: some threads at least should have one."""
HALF_FLOPS: Annotated[float, Threshold("flops")] = 0.15e6
"""Of a task of a yet smaller one: in a loop, where threads are awake, two should have one."""
BLOCK_ROWS: Annotated[int, Threshold("rows")] = 112  # of `a` (about as many) that a task takes together
BLOCK_BYTES: Annotated[int, Threshold("bytes")] = 16 << 10
"""Of the result that a task keeps for an epilogue, on its stack and in its nearest cache."""
KEPT_BYTES: Annotated[int, Threshold("bytes")] = 48 << 10  # of the result, likewise, where a panel comes in pieces
BLOCK_FLOPS: Annotated[float, Threshold("flops")] = 1e5
"""Of such a block, if it can be smaller: half a microsecond, long against calling the epilogue."""
PIECE_DEPTH: Annotated[int, Threshold("terms")] = 512
"""Terms of the sum whose part of a panel a task packs and uses at a time."""
REPEATED: Annotated[int, Threshold("rows")] = 32  # rows of a result for each that may be made twice
REPEATED_FLOPS: Annotated[float, Threshold("flops")] = 5e5
"""That may always be: some microseconds, against thousands of compiling."""
FLAT_BYTES: Annotated[int, Threshold("bytes")] = 2048
"""Of a row so short that it pays to have rows end to end: one loop, whole vectors."""
SHARED_ROWS: Annotated[int, Threshold("rows")] = 256  # that one task may take, and so pack for itself
SHARED_PANELS: Annotated[int, Threshold("panels")] = 8  # that are enough for threads to share
COLUMNS: Annotated[int, Threshold("columns")] = 256  # that a task takes together
MANY_ROWS: Annotated[int, Threshold("rows")] = 512  # that meet a panel often enough to pack it
_FEW_SUMS: Annotated[int, Threshold("vectors")] = 8  # of a tile whose loop takes four steps of the sum a turn
_BRIEF: Annotated[float, Threshold("cost")] = 120e3
"""Of a sum over windows, so little that turns of several steps save less than compiling them takes."""


@dataclass(frozen=True, slots=True)
class Batch:
    """An outer dimension, and its strides in bytes in both operands and the result."""

    extent: int
    a: int
    b: int
    c: int


class TileShape(NamedTuple):
    """Rows and columns of a register tile; see `Inner` and `Outer` for the kinds."""

    rows: int
    columns: int
    inner: bool = False
    lanewise: bool = False
    registers: bool = False  # tile registers, see `tiles`


class Packing(NamedTuple):
    """Panels of `b` packed by the tasks that use them: `tasks` tasks of copy `function` for `panels` panels.

    With `piece` the product goes through all rows with so many terms of the sum at a time, and each of the tasks of the
    copy is for one of these pieces.  Calls of a step's function pack all their tasks' panels to one place, that of
    their first task: writing to what is in the cache already is most of the gain.
    """

    function: str
    tasks: int
    panels: int
    piece: int = 0


@dataclass(frozen=True, slots=True)
class Finish:
    """A function that tasks call on rows of the result that they have made.

    `call` is the text of the call but for the last arguments: ``ptr`` of the first row, the ``i64`` bytes from the
    result's first element to where it belongs, ``i64`` rows, ``i64`` columns, and ``i64`` bytes between rows, here and
    where they belong.  Rows are left out that lie inside: in each dimension of the batch and of the matrix's rows, that
    is from the first number given here to before the second one.
    """

    call: str
    batch: tuple[tuple[int, int], ...]
    rows: tuple[int, int]


class Reach(NamedTuple):
    """Where the outermost dimension of a sum lies inside of its array, for each item of a dimension of the batch.

    That is dimension number `batch`; element t of item i is element ``start + i * step + t * dilation``, and the array
    has `size` of them.  Each item has one inside at least.
    """

    batch: int
    start: int
    step: int
    dilation: int
    size: int


@dataclass(frozen=True, slots=True)
class Product:
    """``c[batch, i, j] = sum over taps of a[batch, i, taps] * b[batch, taps, j]``; strides in bytes.

    `taps` are the dimensions of the sum (one for a matrix product), outermost first.
    `a_tile` is the distance between blocks of `shape.rows` rows when `a` was packed in such blocks (then `a_row` holds
    inside one, and the last one ends with the last row); `a_column` is its stride along the columns for lanewise
    tiles.  `b_panel` is the distance between panels of `shape.columns` columns; with `b_full` the last one ends with
    the last column.  For `b_line` see `Outer`.  With an `epilogue` that is what computes the outputs, from blocks of
    the result which the tasks keep for it; then nothing lies at `c`, unless it is an output too.  Terms that `reach`
    has outside are left out, and those that `ends` tells.  With `bf16x3` the operands are copies in bf16 parts.  With
    `parts` tiles are those of `rank_update`: of `taps` the first one counts the parts, and the second one blocks.
    """

    batch: tuple[Batch, ...]
    m: int
    n: int
    taps: tuple[Tap, ...]
    how: Arithmetic
    shape: TileShape
    a: Place
    a_row: int
    b: Place
    b_panel: int
    c: Place
    c_row: int
    c_column: int
    a_tile: int = 0
    a_column: int = 0
    b_line: int = 0
    b_full: bool = False
    piece: int = 0
    packing: Packing | None = None
    epilogue: Epilogue | None = None
    finish: Finish | None = None
    reach: Reach | None = None
    ends: Ends | None = None
    bf16x3: Bf16x3 | None = None
    parts: tuple[Part, ...] = ()

    @property
    def depth(self) -> int:
        """Terms of the sum."""
        return math.prod(tap.extent for tap in self.taps)

    @property
    def multiplications(self) -> float:
        """With additions, of the type of the sum."""
        return float(self.m) * self.n * self.depth * math.prod(batch.extent for batch in self.batch)

    @property
    def a_step(self) -> int:
        """Bytes from a tile's rows of `a` to the next one's."""
        return self.a_tile or self.shape.rows * self.a_row


def nanoseconds(multiplications: float, how: Arithmetic) -> float:
    """A rough time of one core for `multiplications` (of real numbers) with additions."""
    return multiplications * how.components**2 / (how.lanes * 3.0)


def choose_tile(
    m: int, n: int, machine: Machine, how: Arithmetic, windows: bool = False, in_lines: bool = False
) -> tuple[float, TileShape]:
    """The outer tile that wastes the fewest cycles on an `m` x `n` result, and those cycles per step of the sum.

    Every tile size that fits the registers is weighed with its edges (see `_cycles`).
    With `windows` the rows of `a` are windows that overlap.  Edges that ask for tile functions of their own must then
    be worth the code.  With `in_lines` rows of tiles are whole lines of the caches.
    """
    width = how.columns
    best: tuple[float, int, int] | None = None
    for vectors in range(1, min(8 if m == 1 else 4, -(-n // width)) + 1):
        # Beside sums and vectors of `b`: broadcasts from memory need a register of their own, and two of 16 are too
        # many where they would cost a sum; products too where they are not fused with the addition.
        spare = 2 if machine.registers == 32 else 3 if how.complex else 1 if vectors == 3 else 2
        spare = 6 if machine.instructions.overwrites else spare
        highest = (machine.registers - vectors - spare) // (vectors * how.components)
        if highest < 1 or (in_lines and vectors * width * how.element.bytes % LINE):
            continue
        fewest = -(-m // highest)
        for row_count in range(fewest, min(fewest + (3 if windows else 1), m + 1)):
            rows = -(-m // row_count)
            cost, edges = 0.0, -1
            for r, row_tiles in ((rows, m // rows), (m % rows, 1)):
                for v, panels in ((vectors, n // (vectors * width)), (-(-(n % (vectors * width)) // width), 1)):
                    if r and v and panels:
                        cost += row_tiles * panels * _cycles(r, v, machine, how, windows)
                        edges += 1
            if windows:
                cost *= 1 + 0.04 * edges
            if best is None or cost < best[0]:
                best = (cost, rows, vectors)
    assert best is not None
    return best[0], TileShape(best[1], best[2] * width)


def _cycles(rows: int, vectors: int, machine: Machine, how: Arithmetic, windows: bool) -> float:
    """Cycles of a step of the sum in a tile of `rows` by `vectors`.

    That is as long as the busier of its multiply-adds and its loads, and no less than the latency of a multiply-add.
    What else there is of instructions adds a little, more so where a core is shared by two threads.  Windows come from
    the first-level cache, and vectors of `b` are what costs.
    """
    broadcasts = rows * how.components
    if machine.registers == 32:
        units = 1.0 if machine.vector_bits == 512 else 0.5  # cycles of a full-width multiply-add
        reads = (broadcasts + vectors) / 2
        extra = 2.0 + 0.3 * vectors + 0.1 * broadcasts if windows else 0.2 * reads
        return max(broadcasts * vectors * units, reads, 4.0) + extra
    return max(broadcasts * vectors / 2, (broadcasts + vectors) / 1.8, 4.0) + 0.14 * broadcasts + 0.32 * vectors + 0.35


def _steps_together(product: Product, piece: int, machine: Machine) -> int:
    """Steps of the sum in a turn of the innermost loop: a divisor of all its counts, some 16 multiply-adds and more."""
    if machine.registers == 32 or product.shape.inner or product.shape.registers:
        return 1
    if product.m <= product.shape.rows and product.packing is None:
        return 1  # `b` is read once, and a load whose address moves by one row a turn is what processors prefetch
    if len(product.taps) > 1 and nanoseconds(product.multiplications, product.how) < _BRIEF:
        return 1
    first, ends, counts = product.taps[0].extent, product.ends, [product.taps[-1].extent]
    if len(product.taps) == 1:
        counts = [1] if product.reach else [piece, first % piece]
    elif ends is not None and ends.within == 0:
        counts += [count for count, _ in (*ends.before, *ends.behind)]
    shape, how = product.shape, product.how
    sums = shape.rows * -(-shape.columns // how.columns) * how.components
    return math.gcd(4 if sums <= _FEW_SUMS else 2, *counts)


def block_depth(machine: Machine, shape: TileShape, how: Arithmetic) -> int:
    """So many terms of the sum that a task's rows of `a` and a panel of `b` stay in the second-level cache."""
    return machine.l2 * 3 // 4 // ((BLOCK_ROWS + shape.columns) * how.element.bytes)


def _panel_bytes(machine: Machine) -> int:
    """Bytes of packed `b` that should stay in the second-level cache."""
    return machine.l2 // 2


def terms_at_a_time(product: Product, machine: Machine) -> int:
    """How much of the outermost dimension of the sum to do at a time, so that panels of `b` stay in cache.

    Between pieces the result waits in `c`, so it must be held there unrounded.
    """
    shape, extent = product.shape, product.taps[0].extent
    inner = product.depth // extent
    if product.piece:
        return product.piece
    if product.c.element.storage != product.how.type or shape.inner or shape.lanewise:
        return extent
    visits = -(-product.m // shape.rows) * math.prod(batch.extent for batch in product.batch if batch.b == 0)
    if visits <= 2:
        return extent
    if inner == 1:
        limit = block_depth(machine, shape, product.how)
    else:
        limit = _panel_bytes(machine) // (shape.columns * product.how.element.bytes)
    pieces = -(-product.depth // limit)
    align = 16 if inner == 1 else 1
    return min(extent, -(-extent // (pieces * align)) * align)


def _blocks(product: Product, piece: int, machine: Machine) -> tuple[int, int]:
    """Tiles of rows and panels of columns in a task."""
    shape = product.shape
    row_tiles, panels = -(-product.m // shape.rows), -(-product.n // shape.columns)
    deep, items = product.depth, math.prod(batch.extent for batch in product.batch)
    tiles = max(1, min(row_tiles, BLOCK_ROWS // shape.rows))
    wide = max(1, min(panels, COLUMNS // shape.columns))
    if any(batch.b == 0 for batch in product.batch):
        # The next tasks come back to the same panels: let those stay in the second-level cache.
        size = shape.columns * min(deep, piece * (deep // product.taps[0].extent)) * product.how.element.bytes
        wide = max(1, min(wide, _panel_bytes(machine) // size))
    flops = 2.0 * product.how.components**2 * product.m * product.n * deep
    if product.epilogue is not None:
        tiles, wide = _within_block(product, tiles, wide)
        flops += product.epilogue.flops / items
    several = max(min(flops / LEAST_FLOPS, 4.0), min(flops / HALF_FLOPS, 2.0)) if items < SHARED_PANELS else 1.0
    wanted = max(1.0, min(max(flops / TASK_FLOPS, several), 64.0 / items))
    whole = product.epilogue is not None and product.epilogue.whole_rows
    while -(-row_tiles // tiles) * -(-panels // wide) < wanted and (tiles > 1 or wide > 1):
        if not whole and (wide * shape.columns >= tiles * shape.rows or tiles == 1):
            if wide == 1:
                break
            wide = -(-wide // 2)
        elif tiles == 1:
            break
        else:
            tiles = -(-tiles // 2)
    if product.packing is not None and product.packing.piece:
        tiles = row_tiles
    return tiles, product.packing.panels if product.packing else wide


def _columns_first(product: Product, machine: Machine) -> bool:
    """Whether tasks take all columns of some rows before the next rows, which needs `b` in the second-level cache.

    Rows of `a` are then read once, and a thread that made them in the kernel before still has some of them.  A small
    `a` is at hand for all columns anyway.
    """
    size = product.depth * product.how.element.bytes
    rows = product.m * math.prod(batch.extent for batch in product.batch if batch.b == 0)
    return product.packing is None and product.n * size <= _panel_bytes(machine) and rows * size > machine.l2 // 8


def _groups_first(product: Product, machine: Machine) -> bool:
    """Whether tasks take all items of a batch with a `b` of its own before the next rows: groups of a convolution.

    They lie side by side in rows of `a`, and all of `b` fits the second-level cache.
    """
    items = [batch for batch in product.batch if batch.b != 0]
    size = product.n * product.depth * product.how.element.bytes * math.prod(batch.extent for batch in items)
    inside = all(0 < batch.a < product.a_row for batch in items)
    return inside and size <= _panel_bytes(machine) and _columns_first(product, machine)


def _within_block(product: Product, tiles: int, wide: int) -> tuple[int, int]:
    """So many tiles of rows and panels that their result is no larger than a block should be.

    Small blocks are best: what an epilogue reads and writes comes and goes beside the sums of the next block.
    """
    shape, size = product.shape, product.c.element.bytes
    panels = -(-product.n // shape.columns)
    if product.epilogue is not None and product.epilogue.whole_rows:
        return _most_row_tiles(product.n, shape, size, tiles), panels
    area = shape.rows * shape.columns
    enough = math.ceil(BLOCK_FLOPS / (2.0 * product.how.components**2 * area * product.depth))
    most = max(1, min(enough, BLOCK_BYTES // (area * size)))
    wide = product.packing.panels if product.packing is not None else min(wide, most)
    return max(1, min(tiles, most // wide)), wide


def _most_row_tiles(n: int, shape: TileShape, size: int, tiles: int) -> int:
    """How many of `tiles` tiles of whole rows a task keeps for an epilogue."""
    return max(1, min(tiles, BLOCK_BYTES // (shape.rows * n * size)))


def stays_in_place(rows: int, columns: int, depth: int, shape: TileShape, how: Arithmetic, machine: Machine) -> bool:
    """Whether rows of `b` that lie close together need no packing, where that alone would be the reason.

    Arrays from outside seldom begin with a cache line.  Vectors that lie across two lines cost more than packing does
    where many rows of the result meet panels that do not stay in the first-level cache.
    """
    panel = depth * shape.columns * how.element.bytes
    return columns <= COLUMNS_IN_PLACE and (rows < MANY_ROWS or panel <= machine.l1 // 2)


def panels_to_pack(
    rows: int, n: int, depth: int, items: int, shape: TileShape, how: Arithmetic, machine: Machine,
    in_pieces: bool = False,
) -> tuple[int, int]:
    """Panels of `b` that a task should pack for itself, or 0 when packing is better done ahead of all tasks.

    A task that meets all `rows` of the result can use panels while they are still in its cache.  That leaves
    the columns (and the `items` of a batch) to share between threads, and has every task read all of `a`.
    Comes with so many terms of the sum as to pack at a time (0: all), where `in_pieces` allows that.
    """
    panels, size, most = -(-n // shape.columns), shape.columns * depth * how.element.bytes, _panel_bytes(machine)
    if rows > SHARED_ROWS or items * panels < SHARED_PANELS:
        return 0, 0
    if in_pieces and depth > PIECE_DEPTH:
        pieces = -(-depth // PIECE_DEPTH)
        return 1, min(depth, -(-depth // (16 * pieces)) * 16)
    if size > (most // 2 if machine.vector_bits == 512 else most):
        return 0, 0
    return max(1, min(COLUMNS // shape.columns, most // size, items * panels // 16)), 0


def piece_to_pack(
    rows: int, n: int, depth: int, first: int, items: int, shape: TileShape, how: Arithmetic, machine: Machine
) -> int:
    """How much of the outermost dimension of a sum, `first` long, tasks should pack of a panel at a time; 0 for all.

    For where a whole panel does not stay in the second-level cache: a convolution of few pixels with many features.
    """
    size, most = shape.columns * depth * how.element.bytes, _panel_bytes(machine)
    piece = most * first // size
    kept = rows * (2 * LINE + shape.columns * how.element.bytes) <= KEPT_BYTES
    # With vectors of 512 bits nothing was measured.
    worth = machine.instructions.tuned and kept and items * -(-n // shape.columns) >= SHARED_PANELS and size > most // 2
    return -(-first // -(-first // piece)) if worth and 1 <= piece < first else 0


def emit_product(unit: Unit, name: str, product: Product) -> Step:
    """Define step function `name` and the tile functions it needs; strides and sizes are all static."""
    shape, how = product.shape, product.how
    row_tiles, panels = -(-product.m // shape.rows), -(-product.n // shape.columns)
    assert unit.machine is not None
    piece, extent = terms_at_a_time(product, unit.machine), product.taps[0].extent
    tiles, wide = _blocks(product, piece, unit.machine)
    block, time, row_bytes = "", 0.0, product.c_row
    packing, region, safe, which = product.packing, "", "", ""
    outside = packing is not None and packing.piece > 0 and not all(batch.b for batch in product.batch)
    f = Function(unit, signature(name, plumbing=product.bf16x3 is not None or not shape.registers))
    if product.epilogue is not None and product.epilogue.kept is not None:
        time = _emit_epilogue(unit, name, product, product.c_row, tiles, wide)
    elif product.epilogue is not None:
        columns, size = wide * shape.columns, product.c.element.bytes
        row_bytes, pitch = product.n * size, min(columns, product.n) * size
        if columns < product.n or pitch > FLAT_BYTES:
            pitch = -(-pitch // 64) * 64 + 64  # rows fall on different sets of the caches
        time = _emit_epilogue(unit, name, product, pitch, tiles, wide)
        rows = min(tiles * shape.rows, product.m)
        kept: list[Batch] = []  # all items that share a panel are kept, where it comes in pieces
        for batch in reversed(product.batch):
            kept.insert(0, replace(batch, c=0 if batch.b or not outside else rows * pitch))
            rows *= batch.extent if kept[0].c else 1
        product = replace(product, c_row=pitch, c_column=size, batch=tuple(kept))
        block = f.let(f"alloca [{rows * pitch} x i8], align 64")
    again, made = _repeats(product, tiles, piece < extent)
    again_across = _repeats_across(product, wide, piece < extent)
    variants: dict[tuple[bool, bool], str] = {}
    if product.bf16x3 is None:
        variants = _emit_tiles(unit, name, product, piece, (again, again_across), made)
    if shape.registers and len(variants) == 1:
        configure(f, _variant(f, variants, None, None, CONFIG))
    if product.bf16x3 is not None and packing is None:
        safe = emit_begin(f, product.bf16x3)
    if packing is not None:
        region = advance(f, argument(f, product.b), "%begin", packing.panels * product.b_panel)

    def pack(first: str, tasks: int) -> None:
        """So many tasks of the copy to this task's place."""
        assert packing is not None
        last = f.let(f"add i64 {first}, {tasks}")
        f.do(f"call void @{packing.function}(ptr %args, i64 {first}, i64 {last}, ptr {region})")

    task = f.begin_loop("%begin", "%end")
    shared = [b for b in product.batch if b.b == 0]
    own = [b for b in product.batch if b.b != 0]
    row_blocks, column_blocks = -(-row_tiles // tiles), -(-panels // wide)
    # Tasks that read the same part of b follow one another, or those that read the same part of a.
    extents = [*(b.extent for b in own), column_blocks]
    inner = [*(b.extent for b in shared), row_blocks]
    if _groups_first(product, unit.machine):
        extents = [*inner, *extents]
        where, visits = unravel(f, task.index, extents), None
        where = [*where[len(inner) :], *where[: len(inner)]]
    elif _columns_first(product, unit.machine):
        extents = [*extents[:-1], *inner, column_blocks]
        where, visits = unravel(f, task.index, extents), None
        where.insert(len(own), where.pop())
    elif packing is None:
        extents += inner
        where, visits = unravel(f, task.index, extents), None
    else:
        first = f.let(f"mul i64 {task.index}, {packing.tasks}")
        if not packing.piece:
            pack(first, packing.tasks)
        if product.bf16x3 is not None:
            safe = emit_begin(f, product.bf16x3, first)
        where = unravel(f, task.index, extents)
        if outside:
            inner = [-(-extent // piece), *inner]
        visits = f.begin_loop(0, math.prod(inner))
        at_visit = unravel(f, visits.index, inner)
        if outside:
            which = at_visit.pop(0)
            new = f.let(f"icmp eq i64 {f.let(f'urem i64 {visits.index}, {math.prod(inner[1:])}')}, 0")
            when(f, new, lambda: pack(f.let(f"add i64 {first}, {which}"), 1))
        where += at_visit
    a, b = argument(f, product.a), region or argument(f, product.b)
    first_c = c = block or argument(f, product.c)
    column_block, row_block = where[len(own)], where[-1]
    own_at, shared_at = iter(where), iter(where[len(own) + 1 :])
    coordinates = [next(own_at if batch.b else shared_at) for batch in product.batch]
    for batch, at in zip(product.batch, coordinates, strict=True):
        a, c = advance(f, a, at, batch.a), advance(f, c, at, batch.c)
        b = advance(f, b, at, 0 if region else batch.b)
    a = advance(f, a, row_block, tiles * product.a_step)
    a = advance(f, a, column_block, wide * shape.columns * product.a_column)
    b = advance(f, b, column_block, 0 if region else wide * product.b_panel)
    if not block:
        c = advance(f, c, row_block, tiles * shape.rows * product.c_row)
        c = advance(f, c, column_block, wide * shape.columns * product.c_column)
    low, high = _within(f, product.reach, extent, coordinates) if product.reach else (0, extent)
    pieces: Loop | None = None
    some = "true"
    if which:
        begin = f.let(f"mul i64 {which}, {piece}")
        end = f.let(f"add i64 {begin}, {piece}")
        from_here = larger(f, str(low), begin)
        end = smaller(f, str(high), end)
        k, add = f.let(f"sub i64 {end}, {from_here}"), f.let(f"icmp ne i64 {from_here}, {low}")
        a = advance(f, a, from_here, product.taps[0].a)
        b = advance(f, b, f.let(f"sub i64 {from_here}, {begin}"), product.taps[0].b)
        some = f.let(f"icmp sgt i64 {k}, 0") if product.reach else some
    elif piece < extent:
        pieces = f.begin_loop(low, high, piece)
        left = f.let(f"sub i64 {high}, {pieces.index}")
        k = smaller(f, left, str(piece))
        add = f.let(f"icmp ne i64 {pieces.index}, {low}")
        a = advance(f, a, pieces.index, product.taps[0].a)
        if packing is not None and packing.piece:
            first = f.let(f"add i64 {first}, {f.let(f'udiv i64 {pieces.index}, {piece}')}")
        else:
            b = advance(f, b, pieces.index, product.taps[0].b)
    else:
        k, add = str(extent), "false"
        if product.reach:
            a, b = advance(f, a, str(low), product.taps[0].a), advance(f, b, str(low), product.taps[0].b)
            k = f.let(f"sub i64 {high}, {low}")
    if packing is not None and packing.piece and not which:
        pack(first, 1)

    down = _Span(row_block, row_blocks, count_in_block(f, row_block, tiles, row_tiles, row_blocks))
    across = _Span(column_block, column_blocks, count_in_block(f, column_block, wide, panels, column_blocks))
    used = safe or _Variants(variants, again, again_across, made)
    when(f, some, lambda: _emit_block(f, product, (a, b, c), down, across, (k, add), used))
    if pieces is not None:
        f.end_loop(pieces)

    def complete() -> None:
        """What there is to do when the sums of a block are complete."""
        item = _flat(f, [(batch.extent, at) for batch, at in zip(product.batch, coordinates, strict=True)])
        row, row_end = _span(f, row_block, tiles * shape.rows, product.m)
        column_start, column_end = _span(f, column_block, wide * shape.columns, product.n)
        if product.finish is not None:
            if block:
                place = _flat(f, [(1, item), (product.m, row), (product.n, column_start)])
                place = f.let(f"mul i64 {place}, {product.c.element.bytes}")
            else:
                here, there = (f.let(f"ptrtoint ptr {p} to i64") for p in (c, first_c))
                place = f.let(f"sub i64 {here}, {there}")
            numbers = row_block, row_blocks, tiles * shape.rows
            columns_made = count_in_block(f, column_block, wide * shape.columns, product.n, column_blocks)
            _finish(f, product, coordinates, (c, place), numbers, columns_made, row_bytes)
        if product.epilogue is not None:
            f.do(
                f"call void @epilogue_{name}(ptr %args, ptr {c}, i64 {item}, i64 {row}, i64 {row_end}, "
                f"i64 {column_start}, i64 {column_end})"
            )

    if product.epilogue is not None or product.finish is not None:
        when(f, f.let(f"icmp eq i64 {which}, {inner[0] - 1}") if which else "true", complete)
    if visits is not None:
        f.end_loop(visits)
    f.end_loop(task)
    if product.bf16x3 is not None:
        emit_end(f)
    elif shape.registers:
        release(f)
    f.finish()

    arithmetic = nanoseconds(product.multiplications, how) / (0.85 if how.bf16x3 else 8.0 if shape.registers else 1.0)
    right = product.n * product.depth * math.prod(batch.extent for batch in product.batch if batch.b)
    return Step(name, math.prod(extents), max(arithmetic, right * how.element.bytes / _BYTES) + time)


class _Span(NamedTuple):
    """A block of a dimension: its number, of how many, and how many tiles it has."""

    block: str
    blocks: int
    trips: str | int

    def begins(self, f: Function, loop: Loop) -> str:
        """Whether `loop` over its tiles is at the first one of all."""
        tests = [f.let(f"icmp eq i64 {at}, 0") for at in (self.block, loop.index) if at != "0"]
        if len(tests) == 2:
            return f.let(f"and i1 {tests[0]}, {tests[1]}")
        return tests[0] if tests else "true"

    def ends(self, f: Function, loop: Loop) -> str:
        """Whether `loop` over its tiles has come to the last one of all."""
        last = is_last_block(f, self.block, self.blocks)
        if not loop.label:
            return last
        final = self.trips - 1 if isinstance(self.trips, int) else f.let(f"sub i64 {self.trips}, 1")
        ends = f.let(f"icmp eq i64 {loop.index}, {final}")
        return ends if last == "true" else f.let(f"and i1 {ends}, {last}")


class _Variants(NamedTuple):
    """Tile functions by (rest of the rows, rest of the columns); with `again` whole ones make the rest of the rows,
    with `again_across` that of the columns, and with `made` they leave the rows that are there already as they are."""

    names: Mapping[tuple[bool, bool], str]
    again: bool
    again_across: bool
    made: bool


def _emit_block(
    f: Function, product: Product, places: tuple[str, str, str], down: _Span, across: _Span, terms: tuple[str, str],
    tiles: _Variants | str,
) -> None:
    """The tiles of a block at `places` of the operands and the result.

    `terms` are how many there are and whether they are added to what is there.  `tiles` are tile functions, or
    whether parts can be multiplied.  The last tile of a dimension may be a smaller one, or begin earlier: one call is
    for all of them.
    """
    shape, (a, b, c), (k, add) = product.shape, places, terms
    columns = f.begin_loop(0, across.trips, 1, [("ptr", a), ("ptr", b), ("ptr", c)], at_least_once=True)
    narrow = across.ends(f, columns) if product.n % shape.columns else None
    rows = f.begin_loop(0, down.trips, 1, [("ptr", columns.values[0]), ("ptr", columns.values[2])], at_least_once=True)
    short = down.ends(f, rows) if product.m % shape.rows else None
    (at_a, at_c), at_b = rows.values, columns.values[1]
    if isinstance(tiles, str):
        assert product.bf16x3 is not None
        (tap,) = product.taps
        left = at_a, product.a_row, product.bf16x3.part, SIDE * tap.a
        extents = _left(f, short, product.m, shape.rows), _left(f, narrow, product.n, shape.columns)
        chunks = f.let(f"sdiv i64 {k}, {SIDE}")
        emit_multiply(f, tiles, left, at_b, (at_c, product.c_row), extents, chunks, add)
    else:
        if shape.registers and len(tiles.names) > 1:
            changes = f.let(f"icmp eq i64 {rows.index}, 0") if rows.label else "true"
            changes = f.let(f"or i1 {changes}, {short}") if rows.label and short else changes
            when(f, changes, lambda: configure(f, _variant(f, tiles.names, short, narrow, CONFIG)))
        tile, which = _variant(f, tiles.names, short, narrow), ""
        if product.ends is not None:  # tiles of which rows leave terms out are told which they are
            which = f", i1 {down.begins(f, rows)}, i1 {short or down.ends(f, rows)}"
        if tiles.made:
            which += f", i1 {f.let(f'xor i1 {short}, true')}"
        if product.m > shape.rows:
            before = shape.rows - product.m % shape.rows
            at_a = _moved(f, short, at_a, before * product.a_row * (bool(product.a_tile) - tiles.again))
            at_c = _moved(f, short, at_c, -before * product.c_row * tiles.again)
        if product.n > shape.columns:
            before = shape.columns - product.n % shape.columns
            column = product.b.element.bytes if product.b_full else product.b_panel // shape.columns
            at_a = _moved(f, narrow, at_a, -before * product.a_column * tiles.again_across)
            at_b = _moved(f, narrow, at_b, before * column * (product.b_full - tiles.again_across))
            at_c = _moved(f, narrow, at_c, -before * product.c_column * tiles.again_across)
        f.do(f"call void {tile}(ptr {at_a}, ptr {at_b}, ptr {at_c}, i64 {k}, i1 {add}{which})")
    for loop, steps in (
        (rows, (product.a_step, shape.rows * product.c_row)),
        (columns, (shape.columns * product.a_column, product.b_panel, shape.columns * product.c_column)),
    ):
        moves = zip(loop.values, steps, strict=True) if loop.label else ()
        f.end_loop(loop, [offset(f, at, step) for at, step in moves])


def _variant(
    f: Function, variants: Mapping[tuple[bool, bool], str], short: str | None, narrow: str | None, prefix: str = ""
) -> str:
    """The tile function, or what is called that with `prefix`, for the rest of the rows and of the columns if `short`
    and `narrow` say so; None where there is but one kind."""

    def either(condition: str | None, yes: str | None, no: str | None) -> str | None:
        return yes or no if yes is None or no is None else f.let(f"select i1 {condition}, ptr {yes}, ptr {no}")

    names = {edges: f"@{prefix}{name}" for edges, name in variants.items()}
    whole, rest = (either(narrow, names.get((edge, True)), names.get((edge, False))) for edge in (False, True))
    found = either(short, rest, whole)
    assert found is not None
    return found


def _left(f: Function, condition: str | None, total: int, size: int) -> str | int:
    """What is left of `total` after things of `size` under `condition` (None: never), else `size`."""
    return size if condition is None else f.let(f"select i1 {condition}, i64 {total % size}, i64 {size}")


def _moved(f: Function, condition: str | None, pointer: str, amount: int) -> str:
    """`pointer`, `amount` bytes further on under `condition` (None: never)."""
    if condition is None or amount == 0:
        return pointer
    return offset(f, pointer, f.let(f"select i1 {condition}, i64 {amount}, i64 0"))


def _emit_epilogue(unit: Unit, name: str, product: Product, pitch: int, tiles: int, wide: int) -> float:
    """Define the epilogue of a product whose tasks have so many tiles of rows and panels; its estimated time."""
    assert product.epilogue is not None
    items = math.prod(batch.extent for batch in product.batch)
    rows, columns = tiles * product.shape.rows, wide * product.shape.columns
    return product.epilogue.emit(
        unit, f"epilogue_{name}", Block(items, product.m, product.n, pitch, rows, columns)
    )


def _flat(f: Function, coordinates: Sequence[tuple[int, str]]) -> str:
    """The row-major number of an item, from extents and coordinates."""
    flat = "0"
    for extent, at in coordinates:
        flat = at if flat == "0" else f.let(f"add i64 {f.let(f'mul i64 {flat}, {extent}')}, {at}")
    return flat


def _within(f: Function, reach: Reach, extent: int, coordinates: Sequence[str]) -> tuple[str, str]:
    """The first of `extent` elements of the outermost dimension of a sum inside, and one more than the last."""

    def per_step(value: str) -> str:
        return value if reach.dilation == 1 else f.let(f"sdiv i64 {value}, {reach.dilation}")

    at = f.let(f"add i64 {f.let(f'mul i64 {coordinates[reach.batch]}, {reach.step}')}, {reach.start}")
    missing = per_step(f.let(f"sub i64 {reach.dilation - 1}, {at}"))
    past = f.let(f"add i64 {per_step(f.let(f'sub i64 {reach.size - 1}, {at}'))}, 1")
    low = larger(f, missing, "0")
    return low, smaller(f, past, str(extent))


def _span(f: Function, block: str, size: int, total: int) -> tuple[str, str]:
    """Where block `block` of `size` of `total` things begins and ends."""
    if block == "0":
        return "0", str(min(size, total))
    start = f.let(f"mul i64 {block}, {size}")
    end = f.let(f"add i64 {start}, {size}")
    return start, smaller(f, end, str(total))


def _finish(
    f: Function, product: Product, coordinates: Sequence[str], block: tuple[str, str], number: tuple[str, int, int],
    columns: str | int, row_bytes: int,
) -> None:
    """Call the product's `finish` on the rows that want it of the block at `block` (pointer and place).

    It is the `number` (which, of how many, of how many rows each) of the blocks of a matrix.
    """
    finish, (c, place), (row_block, blocks, high) = product.finish, block, number
    assert finish is not None
    rows, (first, end) = count_in_block(f, row_block, high, product.m, blocks), finish.rows
    behind = product.m - end

    def call(c: str, place: str, rows: str | int) -> None:
        f.do(
            f"call void {finish.call}ptr {c}, i64 {place}, i64 {rows}, i64 {columns}, i64 {product.c_row}, "
            f"i64 {row_bytes})"
        )

    if first >= end or first > high or behind > product.m - (blocks - 1) * high:
        call(c, place, rows)
        return
    edge = ""
    for batch, at, (low, top) in zip(product.batch, coordinates, finish.batch, strict=True):
        if (low, top) != (0, batch.extent):
            beyond = f.let(f"icmp uge i64 {f.let(f'sub i64 {at}, {low}')}, {top - low}")
            edge = f.let(f"or i1 {edge}, {beyond}") if edge else beyond
    if first or edge:
        begins = "true" if row_block == "0" else f.let(f"icmp eq i64 {row_block}, 0")
        start = f.let(f"select i1 {begins}, i64 {first}, i64 0")
        call(c, place, f.let(f"select i1 {edge}, i64 {rows}, i64 {start}") if edge else start)
    if behind:
        count = f.let(f"select i1 {is_last_block(f, row_block, blocks)}, i64 {behind}, i64 0")
        skipped = f.let(f"sub i64 {rows}, {count}")
        later = f.let(f"add i64 {place}, {f.let(f'mul i64 {skipped}, {row_bytes}')}")
        count = f.let(f"select i1 {edge}, i64 0, i64 {count}") if edge else count
        call(advance(f, c, skipped, product.c_row), later, count)


def _repeats(product: Product, tiles: int, accumulate: bool) -> tuple[bool, bool]:
    """Whether the rest of the rows is made by a whole tile that makes some rows again, which saves tile functions; and
    whether it must not write those.

    It may where they are of the same task, with `tiles` tiles, and nothing is added to what is there.
    """
    shape, rows, m = product.shape, product.shape.rows, product.m
    before, items = rows - m % rows, math.prod(batch.extent for batch in product.batch)
    flops = 2.0 * product.how.components**2 * before * product.n * product.depth * items
    little = m % rows > 0 and m > rows and (before * REPEATED <= m or flops <= REPEATED_FLOPS)
    if not accumulate and m % (tiles * rows) > rows:
        return little, False
    return (little and not (shape.inner or shape.registers),) * 2


def _repeats_across(product: Product, wide: int, accumulate: bool) -> bool:
    """Whether the rest of the columns is made by a whole tile that makes some columns again.

    It may where nothing is added to what is there, those columns of `b` lie together, and either they are of the same
    task, with `wide` panels, or nobody but the tiles works on the result: several tasks may write the same there.
    """
    shape, how, n = product.shape, product.how, product.n
    columns, rest, items = shape.columns, n % shape.columns, math.prod(batch.extent for batch in product.batch)
    if accumulate or shape.registers or product.b_line or not 0 < rest < columns < n:
        return False
    together = shape.inner or product.b_full or product.b_panel == columns * product.b.element.bytes
    step = 1 if shape.inner else how.columns
    more = columns - -(-rest // step) * step
    flops = 2.0 * how.components**2 * product.m * more * product.depth * items
    own = n % (wide * columns) > columns or not (product.epilogue or product.finish)
    return together and own and (more * REPEATED <= n or flops <= REPEATED_FLOPS)


def _emit_tiles(
    unit: Unit, name: str, product: Product, piece: int, again: tuple[bool, bool], made: bool
) -> dict[tuple[bool, bool], str]:
    """The tile functions that the extents ask for, by (rest of the rows, rest of the columns).

    For `again` (down, across) and `made` see `_Variants`.  They do `piece` of the outermost dimension of the sum at a
    time.
    """
    assert unit.machine is not None
    names: dict[tuple[bool, bool], str] = {}
    shape, accumulate = product.shape, piece < product.taps[0].extent
    together = _steps_together(product, piece, unit.machine)
    down, across = again
    for edge_row, rows in ((False, shape.rows), (True, 0 if down else product.m % shape.rows)):
        for edge_column, columns in ((False, shape.columns), (True, 0 if across else product.n % shape.columns)):
            present = (edge_row or product.m >= rows) and (edge_column or product.n >= columns)
            if not (rows and columns and present):
                continue
            tile = names[edge_row, edge_column] = f"tile{rows}x{columns}_{name}"
            a, b, c = product.a.element, product.b.element, product.c.element
            if product.parts:
                _, block, term = product.taps
                emit_update(unit, tile, Update(
                    rows, columns, product.parts, block.extent, block.a, b, term.b, c, product.c_row
                ), product.how)
            elif shape.inner:
                step = product.b_panel // shape.columns
                inner = Inner(
                    rows, columns, product.depth, a, product.a_row, b, step, c, product.c_row, product.c_column
                )
                emit_inner(unit, tile, inner, product.how)
            else:
                outer = Outer(
                    rows, columns, a, product.a_row, product.taps, b,
                    c, product.c_row, accumulate, shape.lanewise, product.b_line, product.ends,
                    shape.rows - product.m % shape.rows if made else 0, together,
                )
                (emit_tiles if shape.registers else emit_outer)(unit, tile, outer, product.how)
    return names

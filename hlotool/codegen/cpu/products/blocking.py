"""How a product is cut: the tile it is made of, panels to pack, and tasks, which are blocks of tiles.

A task is a block of tiles of one batch item and computes its part of the result alone, over the whole sum in ascending
order, so that results depend neither on threads nor on how tasks are spread.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.costs import COSTS
from hlotool.codegen.cpu.products.microkernel import Microkernel
from hlotool.codegen.cpu.products.product import Blocking, Dimension, Matrix, Product, TaskDimension, TileShape
from hlotool.codegen.llvm.elements import Arithmetic
from hlotool.codegen.machine import LINE, Machine

__all__ = [
    "SHARED_PANELS", "SHARED_ROWS", "block_depth", "choose_tile", "panels_to_pack", "piece_to_pack", "plan_blocks",
    "rows_to_update", "stays_in_place", "strip_to_pack", "terms_at_a_time",
]  # fmt: skip

BLOCK_ROWS: Annotated[int, Threshold("rows")] = 112  # of `a` (about as many) that a task takes together
COLUMNS: Annotated[int, Threshold("columns")] = 256  # that a task takes together
KEPT_BYTES: Annotated[int, Threshold("bytes")] = 48 << 10
"""Of the result that a task keeps on its stack, where a panel comes in pieces."""
PIECE_DEPTH: Annotated[int, Threshold("terms")] = 512
"""Terms of the sum whose part of a panel a task packs and uses at a time."""
SHARED_ROWS: Annotated[int, Threshold("rows")] = 256  # that one task may take, and so pack for itself
SHARED_PANELS: Annotated[int, Threshold("panels")] = 8  # that are enough for threads to share
STRIP_ROWS: Annotated[int, Threshold("rows")] = 16  # up to which wide strips are packed, of few terms
STRIP_TERMS: Annotated[int, Threshold("terms")] = 4  # of a strip, at least
STRIP_COLUMNS: Annotated[int, Threshold("columns")] = 1024  # that are enough to be read one after the other
STRIP_BYTES: Annotated[int, Threshold("bytes")] = 32 << 10  # of the part of the result that a strip meets
MANY_ROWS: Annotated[int, Threshold("rows")] = 512  # that meet a panel often enough to pack it
TASK_FLOPS: Annotated[float, Threshold("flops")] = 1.5e6
"""Some 15 microseconds of one core: long against handing out a task."""
LEAST_FLOPS: Annotated[float, Threshold("flops")] = 0.6e6
"""Of a task of a small product: some threads at least should have one."""
HALF_FLOPS: Annotated[float, Threshold("flops")] = 0.15e6
"""Of a task of a yet smaller one: in a loop, where threads are awake, two should have one."""
BLOCK_BYTES: Annotated[int, Threshold("bytes")] = 16 << 10
"""Of the result that a task keeps for an epilogue, on its stack and in its nearest cache."""
BLOCK_FLOPS: Annotated[float, Threshold("flops")] = 1e5
"""Of such a block, if it can be smaller: half a microsecond, long against calling the epilogue."""
REPEATED: Annotated[int, Threshold("rows")] = 32  # rows of a result for each that may be computed twice
REPEATED_FLOPS: Annotated[float, Threshold("flops")] = 5e5
"""That may always be: some microseconds, against thousands of compiling."""
FLAT_BYTES: Annotated[int, Threshold("bytes")] = 2048
"""Of a row so short that it pays to have rows end to end: one loop, whole vectors."""


def choose_tile(
    m: int, n: int, machine: Machine, arithmetic: Arithmetic, windows: bool = False, in_lines: bool = False
) -> tuple[float, TileShape]:
    """The outer tile that wastes the fewest cycles on an `m` x `n` result, and those cycles per step of the sum.

    Every tile size that fits the registers is weighed with its edges (see `_cycles`).
    With `windows` the rows of `a` are windows that overlap.  Edges that ask for tile functions of their own must then
    be worth the code.  With `in_lines` rows of tiles are whole lines of the caches.
    """
    width, choices = arithmetic.columns, machine.choices
    best: tuple[float, int, int] | None = None
    chosen: tuple[float, int, int] | None = None
    for vectors in range(1, min(8 if m == 1 else 4, -(-n // width)) + 1):
        # Beside sums and vectors of `b`: broadcasts from memory need a register of their own, and two of 16 are too
        # many where they would cost a sum; products too where they are not fused with the addition.
        spare = 2 if machine.registers == 32 else 3 if arithmetic.complex else 1 if vectors == 3 else 2
        spare = 6 if machine.instructions.overwrites else spare
        spare += (vectors + 1) * arithmetic.flipped
        highest = (machine.registers - vectors - spare) // (vectors * arithmetic.components)
        if highest < 1 or (in_lines and vectors * width * arithmetic.element.bytes % LINE):
            continue
        heights = _heights(m, highest, windows)
        if choices.tile_rows is not None and choices.tile_rows <= min(m, highest):
            heights.append(choices.tile_rows)
        for rows in dict.fromkeys(heights):
            cost, edges = 0.0, -1
            for r, row_tiles in ((rows, m // rows), (m % rows, 1)):
                for v, panels in ((vectors, n // (vectors * width)), (-(-(n % (vectors * width)) // width), 1)):
                    if r and v and panels:
                        cost += row_tiles * panels * _cycles(r, v, machine, arithmetic, windows)
                        edges += 1
            if windows:
                cost *= 1 + 0.04 * edges
            if best is None or cost < best[0]:
                best = (cost, rows, vectors)
            asked = choices.tile_rows in (None, rows) and choices.tile_vectors in (None, vectors)
            if asked and (chosen is None or cost < chosen[0]):
                chosen = (cost, rows, vectors)
    best = chosen or best
    assert best is not None
    return best[0], TileShape(best[1], best[2] * width)


def _heights(m: int, highest: int, windows: bool) -> list[int]:
    """Rows of tiles, no more than `highest`, that divide `m` rows about evenly."""
    fewest = -(-m // highest)
    return [-(-m // count) for count in range(fewest, min(fewest + (3 if windows else 1), m + 1))]


def _cycles(rows: int, vectors: int, machine: Machine, arithmetic: Arithmetic, windows: bool) -> float:
    """Cycles of a step of the sum in a tile of `rows` by `vectors`.

    That is as long as the busier of its multiply-adds and its loads, and no less than the latency of a multiply-add.
    What else there is of instructions adds a little, more so where a core is shared by two threads.  Windows come from
    the first-level cache, and vectors of `b` are what costs.
    """
    broadcasts = rows * arithmetic.components
    if machine.registers == 32:
        reads = (broadcasts + vectors) / 2
        extra = 2.0 + 0.3 * vectors + 0.1 * broadcasts if windows else 0.2 * reads
        return max(broadcasts * vectors * machine.instructions.fma_cycles, reads, 4.0) + extra
    return max(broadcasts * vectors / 2, (broadcasts + vectors) / 1.8, 4.0) + 0.14 * broadcasts + 0.32 * vectors + 0.35


def block_depth(machine: Machine, tile: TileShape, arithmetic: Arithmetic) -> int:
    """So many terms of the sum that a task's rows of `a` and a panel of `b` stay in the second-level cache."""
    return machine.l2 * 3 // 4 // ((BLOCK_ROWS + tile.columns) * arithmetic.element.bytes)


def panel_bytes(machine: Machine) -> int:
    """Bytes of packed `b` that should stay in the second-level cache."""
    return machine.l2 // 2


def stays_in_place(rows: int, columns: int, size: int, machine: Machine) -> bool:
    """Whether rows of `b` that lie close together need no packing, where that alone would be the reason.

    Arrays from outside seldom begin with a cache line.  Vectors that lie across two lines cost more than packing does
    where many rows of the result meet panels, of `size` bytes, that do not stay in the first-level cache.
    """
    return columns <= COSTS.columns_in_place and (rows < MANY_ROWS or size <= machine.l1 // 2)


def panels_to_pack(
    rows: int, panels: int, *, size: int, width: int, machine: Machine, depth: int = 0
) -> tuple[int, int]:
    """Of all `panels`, how many a task should pack for itself, or 0 when that is better done ahead of all tasks.

    A task that meets all `rows` of the result can use panels, of `width` columns and `size` bytes, while they are still
    in its cache.  That leaves the panels to share between threads, and has every task read all of `a`.
    Comes with so many terms of the sum as to pack at a time (0: all), where its `depth` is given.
    """
    most, own = panel_bytes(machine), machine.choices.own_panels
    if own == 0 or panels < SHARED_PANELS or (own is None and rows > SHARED_ROWS):
        return 0, 0
    if depth > PIECE_DEPTH:
        pieces = -(-depth // PIECE_DEPTH)
        return 1, min(depth, -(-depth // (16 * pieces)) * 16)
    if size > (most if _packs_large(machine) else most // 2):
        return 0, 0
    columns = machine.choices.block_columns or COLUMNS
    return max(1, min(columns // width, most // size, panels // 16)), 0


def rows_to_update(rows: int, machine: Machine) -> int:
    """The most rows with which updates of the whole result pay (see `rank_update`): `rows`, and less than half of them
    with vectors of 512 bits, where tiles are about twice as high, and so read `b` half as often."""
    return rows if machine.vector_bits < 512 else (rows - 1) // 2


def _packs_large(machine: Machine) -> bool:
    """Whether tasks pack for themselves what takes most of a core's cache.  With vectors of 512 bits convolutions took
    up to a fifth longer with whole panels packed so; with pieces of panels nothing was measured."""
    return machine.instructions.tuned and machine.vector_bits < 512


def strip_to_pack(
    rows: int, columns: int, terms: int, *, width: int, size: int, machine: Machine
) -> tuple[int, int]:
    """How many panels, of `width` columns, a task should pack for few `rows`, and so many terms at a time (0: all).

    Each element of `b` is used that seldom that reading it is what takes time: long pieces of some rows of `b`, in the
    order of memory, while what is packed of them, elements of `size` bytes, and the part of the result stay in the
    first-level cache.
    """
    shared = columns // (2 * machine.cores) if machine.cores > 1 else columns
    wide = max(width, min(STRIP_COLUMNS, STRIP_BYTES // (rows * size), shared))
    panels = wide // width
    piece = max(STRIP_TERMS, machine.l1 * 2 // 3 // (panels * width * size))
    return panels, piece if piece < terms else 0


def piece_to_pack(rows: int, panels: int, *, size: int, row: int, first: int, machine: Machine) -> int:
    """How much of the outermost dimension of a sum, `first` long, tasks should pack of a panel at a time; 0 for all.

    For where a whole panel, of `size` bytes and `row` for each term, does not stay in the second-level cache: a
    convolution of few pixels with many features.
    """
    most = panel_bytes(machine)
    piece = most * first // size
    kept = rows * (2 * LINE + row) <= KEPT_BYTES
    worth = _packs_large(machine) and kept and panels >= SHARED_PANELS
    return -(-first // -(-first // piece)) if worth and size > most // 2 and 1 <= piece < first else 0


def plan_blocks(product: Product, microkernel: Microkernel, machine: Machine) -> Blocking:
    """The blocks and tasks of a product whose tiles `microkernel` multiplies."""
    piece = terms_at_a_time(product, microkernel, machine)
    row_tiles, panels = _blocks(product, piece, machine)
    tasks, visits = _orders(product, machine)
    extents: dict[Dimension, int] = {
        "rows": -(-product.row_tiles // row_tiles), "columns": -(-product.panels // panels),
        "pieces": -(-product.terms[0] // piece),
    }
    extents |= enumerate(product.batch)
    c, buffer = _result(product, row_tiles, panels, keeps_items="pieces" in visits)
    accumulates = piece < product.terms[0]
    repeats_rows, keeps_rows = _repeats_rows(product, microkernel, row_tiles, accumulates)
    repeats_columns = _repeats_columns(product, microkernel, panels, accumulates)
    return Blocking(
        tasks=tuple(TaskDimension(d, extents[d]) for d in tasks),
        visits=tuple(TaskDimension(d, extents[d]) for d in visits), row_tiles=row_tiles, panels=panels, piece=piece,
        c=c, buffer=buffer, place_row=product.n * c.element.bytes if buffer else c.row,
        shapes=_shapes(product, repeats_rows, repeats_columns),
        repeats_rows=repeats_rows, keeps_rows=keeps_rows, repeats_columns=repeats_columns,
    )


def terms_at_a_time(product: Product, microkernel: Microkernel, machine: Machine) -> int:
    """How much of the outermost dimension of the sum to do at a time, so that panels of `b` stay in cache.

    Between pieces the result waits in `c`, so it must be held there unrounded.
    """
    tile, extent = product.tile, product.terms[0]
    if product.piece:
        return product.piece
    unrounded = product.c.element.storage == product.arithmetic.type
    if not (unrounded and microkernel.accumulates) or product.a.column:
        return extent
    visits, asked = product.row_tiles * math.prod(product.batch[d] for d in product.shared), machine.choices.terms
    if visits <= 2 and asked is None:
        return extent
    plain = product.depth == extent
    if asked is not None:
        limit = asked
    elif plain:
        limit = block_depth(machine, tile, product.arithmetic)
    else:
        limit = panel_bytes(machine) // (tile.columns * product.arithmetic.element.bytes)
    pieces = -(-product.depth // limit)
    align = 16 if plain else 1
    return min(extent, -(-extent // (pieces * align)) * align)


def _blocks(product: Product, piece: int, machine: Machine) -> tuple[int, int]:
    """Tiles of rows and panels of columns in a task."""
    tile, epilogue, choices = product.tile, product.epilogue, machine.choices
    tiles = max(1, min(product.row_tiles, (choices.block_rows or BLOCK_ROWS) // tile.rows))
    wide = max(1, min(product.panels, (choices.block_columns or COLUMNS) // tile.columns))
    if product.shared:
        # The next tasks come back to the same panels: let those stay in the second-level cache.
        depth = min(product.depth, piece * (product.depth // product.terms[0]))
        wide = max(1, min(wide, panel_bytes(machine) // (tile.columns * depth * product.arithmetic.element.bytes)))
    flops = 2.0 * product.arithmetic.components**2 * product.m * product.n * product.depth
    if epilogue is not None:
        tiles, wide = _within_buffer(product, tiles, wide, choices.block_bytes or BLOCK_BYTES)
        flops += epilogue.flops / product.items
    several = max(min(flops / LEAST_FLOPS, 4.0), min(flops / HALF_FLOPS, 2.0)) if product.items < SHARED_PANELS else 1.0
    wanted = max(1.0, min(max(flops / TASK_FLOPS, several), 64.0 / product.items))
    if choices.task_flops is not None:
        wanted = max(1.0, min(flops / choices.task_flops, 64.0 / product.items))
    whole = epilogue is not None and epilogue.whole_rows
    while -(-product.row_tiles // tiles) * -(-product.panels // wide) < wanted and (tiles > 1 or wide > 1):
        if not whole and (wide * tile.columns >= tiles * tile.rows or tiles == 1):
            if wide == 1:
                break
            wide = -(-wide // 2)
        elif tiles == 1:
            break
        else:
            tiles = -(-tiles // 2)
    if product.packing is not None and product.packing.piece:
        tiles = product.row_tiles
    return tiles, product.packing.panels if product.packing else wide


def _within_buffer(product: Product, tiles: int, wide: int, room: int) -> tuple[int, int]:
    """So many tiles of rows and panels that their result has no more bytes than tasks have room for, for an epilogue.

    Small blocks are best: what an epilogue reads and writes comes and goes beside the sums of the next block.
    """
    tile, size = product.tile, product.c.element.bytes
    if product.epilogue is not None and product.epilogue.whole_rows:
        return max(1, min(tiles, room // (tile.rows * product.n * size))), product.panels
    area = tile.rows * tile.columns
    enough = math.ceil(BLOCK_FLOPS / (2.0 * product.arithmetic.components**2 * area * product.depth))
    most = max(1, min(enough, room // (area * size)))
    wide = product.packing.panels if product.packing is not None else min(wide, most)
    return max(1, min(tiles, most // wide)), wide


def _orders(product: Product, machine: Machine) -> tuple[list[Dimension], list[Dimension]]:
    """The dimensions that tasks count, and those that each goes through itself, from major to minor.

    Tasks that read the same part of `b` follow one another, or those that read the same part of `a`.
    """
    own, shared, packing = product.own, product.shared, product.packing
    if packing is not None:
        pieces: list[Dimension] = ["pieces"] if packing.piece and shared else []
        return [*own, "columns"], [*pieces, *shared, "rows"]
    if not _reads_rows_once(product, machine):
        return [*own, "columns", *shared, "rows"], []
    if _lies_in_rows(product, machine):
        return [*shared, "rows", *own, "columns"], []
    return [*own, *shared, "rows", "columns"], []


def _reads_rows_once(product: Product, machine: Machine) -> bool:
    """Whether tasks take all columns of some rows before the next rows, which needs `b` in the second-level cache.

    Rows of `a` are then read once, and a thread that computed them in the kernel before still has some of them.  A
    small `a` is at hand for all columns anyway.
    """
    asked = machine.choices.rows_once
    if asked is not None:
        return bool(asked)
    size = product.depth * product.arithmetic.element.bytes
    rows = product.m * math.prod(product.batch[d] for d in product.shared)
    return product.n * size <= panel_bytes(machine) and rows * size > machine.l2 // 8


def _lies_in_rows(product: Product, machine: Machine) -> bool:
    """Whether tasks take all items of a batch with a `b` of its own before the next rows: groups of a convolution.

    They lie side by side in rows of `a`, and all of `b` fits the second-level cache.
    """
    items = math.prod(product.batch[d] for d in product.own)
    size = product.n * product.depth * product.arithmetic.element.bytes * items
    return all(0 < product.a.batch[d] < product.a.row for d in product.own) and size <= panel_bytes(machine)


def _result(product: Product, row_tiles: int, panels: int, keeps_items: bool) -> tuple[Matrix, int]:
    """Where tasks write the result, and the bytes of a buffer of their own, if that is where.

    With `keeps_items` there is room for all items that share a panel, since that comes in pieces.
    """
    c, epilogue = product.c, product.epilogue
    if epilogue is None or epilogue.kept is not None:
        return c, 0
    size, columns = c.element.bytes, panels * product.tile.columns
    pitch = min(columns, product.n) * size
    if columns < product.n or pitch > FLAT_BYTES:
        pitch = -(-pitch // 64) * 64 + 64  # rows fall on different sets of the caches
    rows = min(row_tiles * product.tile.rows, product.m)
    strides = [0] * len(product.batch)
    for d in reversed(product.shared if keeps_items else ()):
        strides[d] = rows * pitch
        rows *= product.batch[d]
    return replace(c, batch=tuple(strides), row=pitch, column=size), rows * pitch


def _repeats_rows(product: Product, microkernel: Microkernel, tiles: int, accumulates: bool) -> tuple[bool, bool]:
    """Whether a whole tile computes the rest of the rows, and some rows again, which saves tile functions; and whether
    it must not write those.

    It may where they are of the same task, with `tiles` tiles, and nothing is added to what is there.
    """
    rows, m = product.tile.rows, product.m
    before = rows - m % rows
    flops = 2.0 * product.arithmetic.components**2 * before * product.n * product.depth * product.items
    little = m % rows > 0 and m > rows and (before * REPEATED <= m or flops <= REPEATED_FLOPS)
    if not accumulates and m % (tiles * rows) > rows:
        return little, False
    return (little and microkernel.keeps_rows,) * 2


def _repeats_columns(product: Product, microkernel: Microkernel, wide: int, accumulates: bool) -> bool:
    """Whether a whole tile computes the rest of the columns, and some columns again.

    It may where nothing is added to what is there, those columns of `b` lie together, and either they are of the same
    task, with `wide` panels, or nobody but the tiles works on the result: several tasks may write the same there.
    """
    columns, n, step = product.tile.columns, product.n, microkernel.columns_together(product.arithmetic)
    rest = n % columns
    if accumulates or not step or product.b.lines or not 0 < rest < columns < n:
        return False
    together = product.b.whole or product.b_step == columns * product.b.column
    more = columns - -(-rest // step) * step
    flops = 2.0 * product.arithmetic.components**2 * product.m * more * product.depth * product.items
    own = n % (wide * columns) > columns or not (product.epilogue or product.border)
    return together and own and (more * REPEATED <= n or flops <= REPEATED_FLOPS)


def _shapes(product: Product, repeats_rows: bool, repeats_columns: bool) -> dict[tuple[bool, bool], TileShape]:
    """The shapes of tile functions, by whether they are for the rest of the rows and for that of the columns."""
    found: dict[tuple[bool, bool], TileShape] = {}
    (rows, columns), m, n = product.tile, product.m, product.n
    for rest_row, high in ((False, rows), (True, 0 if repeats_rows else m % rows)):
        for rest_column, wide in ((False, columns), (True, 0 if repeats_columns else n % columns)):
            present = (rest_row or m >= high) and (rest_column or n >= wide)
            if high and wide and present:
                found[rest_row, rest_column] = TileShape(high, wide)
    return found

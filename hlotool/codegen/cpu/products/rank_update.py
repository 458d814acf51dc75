"""Products of few rows with a large right operand, which is read once, from where it lies.

A register tile (`microkernel`) keeps sums in registers, and so reads `b` again for every few rows: from a copy, which
for few rows in all takes a good part of the product's time.  Here a block of the result, with all rows, stays in the
first-level cache and is updated for `TERMS` terms of the sum at a time (a rank-k update): what registers keep are these
elements of some rows of `a`, while the sums and as many rows of `b` go by, a vector at a time.  The rows of `b` are
brought together first, since vectors of arrays from outside lie across lines of the caches; all rows of the result use
them before the next ones are needed, which are fetched meanwhile.

A table says which rows meet a part of the sum, and where in `a` that is, so that a convolution leaves out what lies
outside of its input.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.microkernel import TILE_PARAMETERS, multiply_add, splat
from hlotool.codegen.llvm.addressing import advance, offset
from hlotool.codegen.llvm.elements import Arithmetic, Element, load, store, vector_type
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import LINE, Machine

__all__ = ["TERMS", "Part", "Update", "columns_of", "emit_update", "serves_updates"]

TERMS: Annotated[int, Threshold("terms")] = 4  # of the sum, that an update adds
MOST_ROWS: Annotated[int, Threshold("rows")] = 128
"""Whose sums stay in the first-level cache; with more a copy of `b` is used often enough, too."""
PANELS: Annotated[int, Threshold("panels")] = 8
"""Of columns, that are enough for threads to share, unless there are more cores."""
LARGE: Annotated[int, Threshold("times")] = 4
"""How many times what a core's own cache holds `b` has, if reading it counts."""
_FEWEST: Annotated[int, Threshold("vectors")] = 2  # of a row of a tile
_MOST: Annotated[int, Threshold("vectors")] = 8
"""Of one at most: against these, bringing elements of `a` to registers counts little."""


class Part(NamedTuple):
    """Part of a sum: bytes from the start of `b`; and rows of the result, each with where it begins in `a`."""

    b: int
    rows: tuple[tuple[int, int], ...]


class Update(NamedTuple):
    """A tile of `rows` rows and `columns` columns, whole vectors; strides in bytes.

    Each of `parts` has `blocks` times `TERMS` terms: these lie side by side in `a`, `a_block` from the next ones, and
    in rows of `b`, `b_row` apart.
    """

    rows: int
    columns: int
    parts: tuple[Part, ...]
    blocks: int
    a_block: int
    b: Element
    b_row: int
    c: Element
    c_row: int


def serves_updates(
    rows: int, columns: int, parts: int, terms: int, b: Element, how: Arithmetic, machine: Machine
) -> bool:
    """Whether a product can be made so, of which `parts` times `terms` rows of `b` are too much for a core's own cache.

    The columns of `b` lie side by side.  With vectors of 512 bits nothing was measured.
    """
    plain = how.type in ("float", "double") and not how.complex and not how.pairs and b.storage == how.type
    whole = terms % TERMS == 0 and columns % how.lanes == 0 and columns >= _FEWEST * PANELS * how.lanes
    large = parts * terms * columns * b.bytes > LARGE * machine.l2
    return plain and whole and large and rows <= MOST_ROWS and machine.instructions.tuned


def columns_of(rows: int, columns: int, how: Arithmetic, machine: Machine) -> int:
    """Columns of a tile of a product that `serves_updates`, whose sums take half of the first-level cache at most."""
    near = machine.l1 // 2 // (rows * how.lanes * how.element.bytes)
    shared = columns // (max(PANELS, machine.cores) * how.lanes)
    return how.lanes * max(_FEWEST, min(_MOST, near, shared))


def _together(machine: Machine) -> int:
    """Rows whose elements of `a` are kept, beside their sums, a vector of `b` and, unless fused, a product."""
    others = 2 if machine.instructions.overwrites else 1
    return (machine.registers - others) // (TERMS + 1)


def emit_update(unit: Unit, name: str, tile: Update, how: Arithmetic) -> None:
    """Define tile function `name`; it makes whole sums, and does not use %k and %add."""
    assert unit.machine is not None
    together, size, kind = _together(unit.machine), how.element.bytes, vector_type(how.type, how.lanes)
    pitch, vector = tile.columns * size, how.lanes * size
    spots, starts = _table(tile, together, pitch)
    for label, numbers in (("spots", spots), ("parts", starts)):
        unit.constant(f"{label}_{name}", f"[{len(numbers)} x i64] [{', '.join(f'i64 {n}' for n in numbers)}], align 64")
    f = Function(unit, f"internal void @{name}{TILE_PARAMETERS} nounwind")
    sums = f.let(f"alloca [{(tile.rows + 1) * pitch} x i8], align 64")
    near = f.let(f"alloca [{TERMS * pitch} x i8], align 64")
    f.clear(sums, (tile.rows + 1) * pitch)

    part = f.begin_loop(0, len(tile.parts))
    start = advance(f, f"@parts_{name}", part.index, 16)
    first, last, at_b = (f.let(f"load i64, ptr {offset(f, start, at)}") for at in (0, 16, 8))
    block = f.begin_loop(0, tile.blocks, 1, [("ptr", "%a"), ("ptr", offset(f, "%b", at_b))])
    a, b = block.values
    for term in range(TERMS):
        for line in range(0, pitch + LINE - 1, LINE):
            f.fetch(offset(f, b, (TERMS + term) * tile.b_row + min(line, pitch - 1)))
    for term in range(TERMS):
        for at in range(0, pitch, vector):
            value = load(f, offset(f, b, term * tile.b_row + at), tile.b, how, how.lanes)
            f.do(f"store {kind} {value}, ptr {offset(f, near, term * pitch + at)}, align {vector}")
    spot = f.begin_loop(first, last, together * 16)
    entries = [offset(f, f"@spots_{name}", f.let(f"add i64 {spot.index}, {16 * row}")) for row in range(together)]
    kept, targets = [], []
    for entry in entries:
        at_a = offset(f, a, f.let(f"load i64, ptr {entry}"))
        targets.append(offset(f, sums, f.let(f"load i64, ptr {offset(f, entry, 8)}")))
        values = [load(f, offset(f, at_a, term * size), how.element, how, 0) for term in range(TERMS)]
        kept.append([splat(f, value, kind, how, how.lanes) for value in values])
    across = f.begin_loop(0, pitch, vector)
    column = offset(f, near, across.index)
    places = [offset(f, target, across.index) for target in targets]
    totals = [f.let(f"load {kind}, ptr {place}, align {vector}") for place in places]
    for term in range(TERMS):
        right = f.let(f"load {kind}, ptr {offset(f, column, term * pitch)}, align {vector}")
        totals = [
            multiply_add(f, how, how.lanes, left[term], right, total) for left, total in zip(kept, totals, strict=True)
        ]
    for place, total in zip(places, totals, strict=True):
        f.do(f"store {kind} {total}, ptr {place}, align {vector}")
    f.end_loop(across)
    f.end_loop(spot)
    f.end_loop(block, [offset(f, a, tile.a_block), offset(f, b, TERMS * tile.b_row)])
    f.end_loop(part)

    row = f.begin_loop(0, tile.rows, 1, [("ptr", sums), ("ptr", "%c")])
    source, target = row.values
    for number in range(tile.columns // how.lanes):
        value = f.let(f"load {kind}, ptr {offset(f, source, number * vector)}, align {vector}")
        store(f, value, offset(f, target, number * how.lanes * tile.c.size), tile.c, how, how.lanes)
    f.end_loop(row, [offset(f, source, pitch), offset(f, target, tile.c_row)])
    f.finish()


def _table(tile: Update, together: int, pitch: int) -> tuple[list[int], list[int]]:
    """For each row of each part where it begins in `a` and in the sums; for each part where its rows begin in that, and
    where it begins in `b`.  Rows come `together`, filled up with one that nobody reads."""
    spots: list[int] = []
    starts: list[int] = []
    for part in tile.parts:
        starts += 8 * len(spots), part.b
        for at, row in (*part.rows, *[(0, tile.rows)] * (-len(part.rows) % together)):
            spots += at, row * pitch
    return spots, [*starts, 8 * len(spots)]

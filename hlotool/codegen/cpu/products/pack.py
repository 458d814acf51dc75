"""Strided copies that lay operands out for the tile functions, and results out for their users.

Packing is mostly a step of its own, ahead of the product: every block is then packed once, whichever tasks
read it later (packing inside the product's tasks would repeat it for every block of rows, or need storage
per thread, which tasks do not have), and its tasks run in parallel like any others.  Where one task meets
all rows it calls the same function for its own panels instead (see `gemm.panels_to_pack`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import PLUMBING, Step, signature
from hlotool.codegen.llvm.addressing import (
    Place,
    advance,
    argument,
    count_in_block,
    is_last_block,
    load,
    offset,
    smaller,
    store,
    unravel,
    vector_type,
    when,
)
from hlotool.codegen.llvm.elements import Arithmetic, Element, element
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.vectors import transposed
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import LINE

__all__ = ["Axis", "Copy", "emit_copy"]

CALLED = "(ptr noalias %args, i64 %begin, i64 %end, ptr noalias %to)"
_APART: Annotated[int, Threshold("times")] = 4
"""How many times what a task reads of a row the next may be away for processors to fetch it ahead."""
TASK_BYTES: Annotated[int, Threshold("bytes")] = 64 << 10  # of panels that a task packs
ROWS_AHEAD: Annotated[int, Threshold("rows")] = 32  # rows from which a task fetches what does not lie together
RUN_BYTES: Annotated[int, Threshold("bytes")] = 8 << 10
"""Read at a time where panels lie side by side: whole pages, which processors fetch ahead."""


class Axis(NamedTuple):
    """A dimension of a copy with its strides in bytes."""

    extent: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy an array, converting its elements; `columns` is cut into panels `width` wide.

    The first `lead` outer dimensions, then groups of panels count slowest in the tasks.  With `group`, panels in a
    group, the copy is for others to call, who say where a group goes (the `target` only says of what elements): see
    `CALLED`.  With `piece` each task copies so many rows, and all go to the same place.  With `full` the last panel
    begins earlier where columns are left over, and has some that the one before has too.
    Column j of panel p goes to ``p * panel + j * columns.target`` from the start of its row.  Fast when
    the target's columns are contiguous and the source is contiguous along rows or along columns.

    With `partner` the target holds pairs and a row of it is two rows of the source, `partner` bytes apart, both
    contiguous along columns; `odd` says that the last row has no partner and is paired with zeros.
    """

    outer: tuple[Axis, ...]
    rows: Axis
    columns: Axis
    width: int
    panel: int
    source: Place
    target: Place
    how: Arithmetic
    lead: int = 0
    group: int = 0
    piece: int = 0
    full: bool = False
    partner: int = 0
    odd: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the last panel begins earlier."""
        return self.full and self.columns.extent > self.width and self.columns.extent % self.width > 0


def emit_copy(unit: Unit, name: str, copy: Copy) -> Step:
    """Define step function `name`."""
    copy = _as_bits(copy)
    source, target = copy.source.element, copy.target.element
    dense = copy.columns.target == target.bytes
    if copy.partner:
        mode = "pairs"
    elif dense and copy.columns.source == source.bytes:
        mode = "rows"
    elif dense and copy.rows.source == source.bytes and source.components == 1:
        mode = "transpose"
    else:
        mode = "scalar"
    rows, columns, width = copy.rows.extent, copy.columns.extent, copy.width
    panels = -(-columns // width)
    run = RUN_BYTES // source.bytes if mode in ("rows", "pairs") else 256
    group = copy.group or max(1, min(panels, run // width))
    chunk = max(8, TASK_BYTES // (min(columns, group * width) * max(source.bytes, target.bytes)) // 8 * 8)
    chunk = min(copy.piece or chunk, rows)

    plumbing, there = mode == "transpose" or source == target, copy.group == 0
    definition = signature(name, plumbing) if there else f"void @{name}{CALLED} nounwind" + f" {PLUMBING}" * plumbing
    f = Function(unit, definition)
    task = f.begin_loop("%begin", "%end")
    groups, chunks = -(-panels // group), -(-rows // chunk)
    extents = [axis.extent for axis in copy.outer]
    extents = [*extents[: copy.lead], groups, *extents[copy.lead :], chunks]
    *outer, at_chunk = unravel(f, task.index, extents)
    at_group = outer.pop(copy.lead)
    read, write = argument(f, copy.source), argument(f, copy.target) if there else "%to"
    for number, (axis, at) in enumerate(zip(copy.outer, outer, strict=True)):
        read = advance(f, read, at, axis.source)
        write = advance(f, write, at, axis.target if there or number >= copy.lead else 0)
    read = advance(f, read, at_chunk, chunk * copy.rows.source)
    write = advance(f, write, at_chunk, 0 if copy.piece else chunk * copy.rows.target)
    begin: str | int = 0
    end: str | int = columns
    if copy.is_full and groups > 1:
        begin = f.let(f"mul i64 {at_group}, {group * width}")
        end = smaller(f, f.let(f"add i64 {begin}, {group * width}"), str(columns))
    read = advance(f, read, at_group, 0 if copy.is_full else group * width * copy.columns.source)
    write = advance(f, write, at_group, group * copy.panel if there else 0)
    rows_here = count_in_block(f, at_chunk, chunk, rows, chunks)
    panels_here = count_in_block(f, at_group, group, columns // width, groups)
    rest = is_last_block(f, at_group, groups) if columns % width else None

    def panels_of(read: str, write: str, body: Callable[[str, str, int], None]) -> None:
        """Run `body(read, write, columns)` on the panels of this task."""
        if copy.is_full:
            loop = f.begin_loop(begin, end, width, [("ptr", write)])
            at = smaller(f, loop.index, str(columns - width))
            body(advance(f, read, at, copy.columns.source), loop.values[0], width)
            f.end_loop(loop, _move(f, loop.values, copy.panel))
            return
        if columns >= width:
            loop = f.begin_loop(0, panels_here, 1, [("ptr", read), ("ptr", write)])
            body(loop.values[0], loop.values[1], width)
            after = _move(f, loop.values, width * copy.columns.source, copy.panel)
            read, write = f.end_loop(loop, after)
        when(f, rest, lambda: body(read, write, columns % width))

    if mode == "transpose":
        panels_of(read, write, lambda r, w, n: _transposed_panel(f, name, copy, r, w, n, rows_here, chunk))
    else:
        row = f.begin_loop(0, rows_here, 1, [("ptr", read), ("ptr", write)])
        if copy.partner:
            at_row = f.let(f"add i64 {row.index}, {f.let(f'mul i64 {at_chunk}, {chunk}')}")
            last = f.let(f"icmp eq i64 {at_row}, {rows - 1}") if copy.odd else None
            panels_of(row.values[0], row.values[1], lambda r, w, n: _pairs(f, copy, r, w, n, last))
        else:
            one = _row if mode == "rows" else _scalars
            panels_of(row.values[0], row.values[1], lambda r, w, n: one(f, copy, r, w, n))
        f.end_loop(row, _move(f, row.values, copy.rows.source, copy.rows.target))
    f.end_loop(task)
    f.finish()
    if mode == "transpose":
        _emit_transposes(unit, name, copy, chunk)
    tasks, elements = 1, rows * columns
    for extent in extents:
        tasks *= extent
    for axis in copy.outer:
        elements *= axis.extent
    return Step(name, tasks, elements * (source.bytes + target.bytes) / (5.0 if mode == "scalar" else 20.0))


def _as_bits(copy: Copy) -> Copy:
    """A copy that converts nothing moves integers; eight-byte complex numbers then move as one."""
    held, how = copy.source.element, copy.how
    if held != copy.target.element:
        return copy
    bits = 64 if held.name == "c64" else 8 * held.size
    moved = Element(held.name, "unsigned", f"i{bits}", bits // 8, held.bytes * 8 // bits)
    lanes = max(2, how.lanes * how.bits // bits)
    return replace(
        copy,
        source=replace(copy.source, element=moved),
        target=replace(copy.target, element=moved),
        how=Arithmetic(moved.storage, bits, lanes, False, False),
    )


def _move(f: Function, pointers: list[str], *amounts: int) -> list[str]:
    return [f.let(f"getelementptr i8, ptr {p}, i64 {by}") for p, by in zip(pointers, amounts, strict=True)]


def _row(f: Function, copy: Copy, read: str, write: str, columns: int) -> None:
    """Copy `columns` contiguous elements."""
    source, target, how = copy.source.element, copy.target.element, copy.how
    scalars = columns * source.components
    if _scattered(f, copy):
        for line in range(0, columns * source.bytes, LINE):
            f.fetch(offset(f, read, ROWS_AHEAD * copy.rows.source + line))
    for at in range(0, scalars, how.lanes):
        active = min(how.lanes, scalars - at)
        value = load(f, offset(f, read, at * source.size), source, how, how.lanes, active)
        store(f, value, offset(f, write, at * target.size), target, how, how.lanes, active)


def _scattered(f: Function, copy: Copy) -> bool:
    """Whether rows are so far apart that processors do not fetch ahead what a task reads of them.

    With vectors of 512 bits nothing was measured.
    """
    narrow = f.unit.machine is not None and f.unit.machine.vector_bits < 512
    read = copy.group * copy.width * copy.source.element.bytes
    return narrow and copy.group > 0 and copy.rows.source >= _APART * read


def _pairs(f: Function, copy: Copy, read: str, write: str, columns: int, alone: str | None) -> None:
    """Interleave `columns` elements of two rows; under `alone` the second row is not there."""
    half, whole, lanes = copy.source.element, element("u32"), copy.how.lanes
    half = element("u16") if half.kind == "float" else half
    how, kind = Arithmetic("i32", 32, lanes, False, False, False), vector_type("i32", lanes)
    second, kept = str(copy.partner), ""
    if alone is not None:
        second = f.let(f"select i1 {alone}, i64 0, i64 {copy.partner}")
        kept = f.let(f"select i1 {alone}, {kind} zeroinitializer, {kind} splat (i32 -1)")
    second = f.let(f"getelementptr i8, ptr {read}, i64 {second}")
    for at in range(0, columns, lanes):
        active = min(lanes, columns - at)
        low = load(f, offset(f, read, at * half.size), half, how, lanes, active)
        high = load(f, offset(f, second, at * half.size), half, how, lanes, active)
        if half.kind == "signed":
            low = f.let(f"and {kind} {low}, splat (i32 65535)")
        high = f.let(f"shl {kind} {high}, splat (i32 16)")
        if kept:
            high = f.let(f"and {kind} {high}, {kept}")
        store(f, f.let(f"or {kind} {low}, {high}"), offset(f, write, at * whole.size), whole, how, lanes, active)


def _scalars(f: Function, copy: Copy, read: str, write: str, columns: int) -> None:
    """Copy `columns` elements one by one."""
    source, target, how = copy.source.element, copy.target.element, copy.how
    loop = f.begin_loop(0, columns, 1, [("ptr", read), ("ptr", write)])
    for part in range(source.components):
        value = load(f, offset(f, loop.values[0], part * source.size), source, how, 0)
        store(f, value, offset(f, loop.values[1], part * target.size), target, how, 0)
    f.end_loop(loop, _move(f, loop.values, copy.columns.source, copy.columns.target))


def _side(how: Arithmetic) -> int:
    """Rows and columns of a block transposed in registers; larger ones gain nothing and cost code."""
    return min(how.lanes, 8)


def _transposed_panel(
    f: Function, name: str, copy: Copy, read: str, write: str, columns: int, rows: str | int, chunk: int
) -> None:
    """Copy a panel whose source is contiguous along rows, in square blocks; the tasks' rows are cut into `chunk`.

    The last block of a row or a column of blocks begins earlier where less than a block is left: whole blocks that
    write some elements again are less code than smaller ones, and one loop less than code of their own.
    """
    side, last = _side(copy.how), _last_rows(copy, chunk)
    source, target = copy.source.element, copy.target.element

    def blocks(
        extent: str | int, read: str, write: str, steps: tuple[int, int], body: Callable[[str, str], None]
    ) -> None:
        """Run `body` on blocks along `extent` elements, at least a block, which are `steps` bytes apart."""
        if isinstance(extent, int) and extent % side == 0:
            loop = f.begin_loop(0, extent // side, 1, [("ptr", read), ("ptr", write)])
            body(*loop.values)
            f.end_loop(loop, _move(f, loop.values, side * steps[0], side * steps[1]))
            return
        end = f.let(f"sub i64 {extent}, {side}")
        loop = f.begin_loop(0, extent, side)
        at = smaller(f, loop.index, end)
        body(advance(f, read, at, steps[0]), advance(f, write, at, steps[1]))
        f.end_loop(loop)

    def band(read: str, write: str, tall: int) -> None:
        """Blocks of `tall` rows, along the columns."""

        def block(read: str, write: str) -> None:
            f.do(f"call void @t{min(columns, side)}x{tall}_{name}(ptr {read}, ptr {write})")

        if columns < side:
            block(read, write)
        else:
            blocks(columns, read, write, (copy.columns.source, target.bytes), block)

    steps = source.bytes, copy.rows.target
    if copy.rows.extent < side:
        band(read, write, copy.rows.extent)
    elif last >= side:
        blocks(rows, read, write, steps, lambda r, w: band(r, w, side))
    else:  # the last task has but a few rows
        few = f.let(f"icmp eq i64 {rows}, {last}")
        when(f, few, lambda: band(read, write, last))
        many = f.let(f"xor i1 {few}, true")
        when(f, many, lambda: blocks(rows, read, write, steps, lambda r, w: band(r, w, side)))


def _last_rows(copy: Copy, chunk: int) -> int:
    """Rows of the last task, where the others have `chunk`."""
    return (copy.rows.extent - 1) % chunk + 1


def _emit_transposes(unit: Unit, name: str, copy: Copy, chunk: int) -> None:
    """Define the block functions that `_transposed_panel` calls: ``@t<columns>x<rows>_name(ptr from, ptr to)``."""
    side, columns, width = _side(copy.how), copy.columns.extent, copy.width
    panels = ([width] if columns >= width else []) + ([columns % width] if columns % width else [])
    panels = panels[:1] if copy.is_full else panels
    wides = dict.fromkeys(min(panel, side) for panel in panels)
    talls = dict.fromkeys(min(rows, side) for rows in (copy.rows.extent, _last_rows(copy, chunk)))
    for wide in wides:
        for tall in talls:
            _emit_transpose(unit, f"t{wide}x{tall}_{name}", copy, wide, tall)


def _emit_transpose(unit: Unit, name: str, copy: Copy, wide: int, tall: int) -> None:
    """Transpose `wide` runs of `tall` source elements."""
    f = Function(unit, f"internal void @{name}(ptr noalias %from, ptr noalias %to) nounwind")
    source, target, how, side = copy.source.element, copy.target.element, copy.how, _side(copy.how)
    block = [
        load(f, offset(f, "%from", i * copy.columns.source), source, how, side, tall) if i < wide else "poison"
        for i in range(side)
    ]
    rows = transposed([Vector(f, how.type, side, row) for row in block])
    for i in range(tall):
        store(f, rows[i].name, offset(f, "%to", i * copy.rows.target), target, how, side, wide)
    f.finish()

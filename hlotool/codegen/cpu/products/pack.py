"""Strided copies that lay operands out for the tile functions, and results out for their users.

Packing is mostly a step of its own, ahead of the product: every block is then packed once, whichever tasks
read it later (packing inside the product's tasks would repeat it for every block of rows, or need storage
per thread, which tasks do not have), and its tasks run in parallel like any others.  Where one task meets
all rows it calls the same function for its own panels instead (see `blocking.panels_to_pack`).

Padded copies are arrays framed with zeros, or cropped, for a convolution to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import PLUMBING, Step, signature
from hlotool.codegen.llvm.arguments import Place, argument, begin_tasks, count_in_block, unravel
from hlotool.codegen.llvm.control import begin_loop, call, open_function, when
from hlotool.codegen.llvm.elements import Arithmetic, Element, element, load, store
from hlotool.codegen.llvm.values import (
    Bool,
    Index,
    Int,
    Ptr,
    Truth,
    Vector,
    choose,
    either,
    equal,
    minimum,
    negated,
    number,
    zeros,
)
from hlotool.codegen.llvm.vectors import transposed
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import LINE
from hlotool.lazy_dataclass import dataclass

__all__ = ["CALLED", "TASK_BYTES", "Axis", "Copy", "PadAxis", "emit_copy", "emit_pad", "emit_zeros"]

CALLED = "(ptr noalias %args, i64 %begin, i64 %end, ptr noalias %to)"
_APART: Annotated[int, Threshold("times")] = 4
"""How many times what a task reads of a row the next may be away for processors to fetch it ahead."""
TASK_BYTES: Annotated[int, Threshold("bytes")] = 64 << 10  # of panels that a task packs
ROWS_AHEAD: Annotated[int, Threshold("rows")] = 32  # rows from which a task fetches what does not lie together
RUN_BYTES: Annotated[int, Threshold("bytes")] = 8 << 10
"""Read at a time where panels lie side by side: whole pages, which processors fetch ahead."""
SHORT_BYTES: Annotated[int, Threshold("bytes")] = 512
"""Bytes of a copy that takes no longer in place than the call of a library's function."""
_ROW: Annotated[int, Threshold("elements")] = 64  # of a row so short that it becomes one with the next
_ROWS: Annotated[int, Threshold("elements")] = 16384  # of both, likewise
_STRAIGHT: Annotated[int, Threshold("vectors")] = 16  # that are written without a loop


class Axis(NamedTuple):
    """A dimension of a copy with its strides in bytes."""

    extent: int
    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy an array, converting its elements; `columns` is cut into panels `width` wide.

    The first `lead` outer dimensions, then groups of panels count slowest in the tasks.  With `group`, panels in a
    group, the copy is for others to call, who say where a group goes (the `target` only says of what elements, and the
    first dimensions have no strides in it): see `CALLED`.  With `piece` each task copies so many rows, and all go to
    the same place.  With `full` the last panel begins earlier, as columns are left over, and has some that the one
    before has too.
    Column j of panel p goes to ``p * panel + j * columns.target`` from the start of its row.  Fast when
    the target's columns are contiguous and the source is contiguous along rows or along columns.

    With `partner` the target holds pairs, or fours (see `Arithmetic.together`), and a row of it is as many rows of the
    source, `partner` bytes apart, all contiguous along columns; of the `singles` that the source has, the last may
    lack partners: zeros take their places.  With `flip` the top bits of bytes change.  The target begins `first` bytes
    further on.
    """

    outer: tuple[Axis, ...]
    rows: Axis
    columns: Axis
    width: int
    panel: int
    source: Place
    target: Place
    arithmetic: Arithmetic
    lead: int = 0
    group: int = 0
    piece: int = 0
    full: bool = False
    partner: int = 0
    singles: int = 0
    flip: bool = False
    first: int = 0

    @property
    def panels(self) -> int:
        return -(-self.columns.extent // self.width)

    @property
    def mode(self) -> str:
        """What is contiguous where: rows are copied, pairs of rows, squares transposed, or elements one by one."""
        source, target = self.source.element, self.target.element
        dense = self.columns.target == target.bytes
        if self.partner:
            return "pairs"
        if dense and self.columns.source == source.bytes:
            return "rows"
        return "transpose" if dense and self.rows.source == source.bytes and source.components == 1 else "scalars"


def emit_copy(unit: Unit, name: str, copy: Copy) -> Step:
    """Define step function `name`."""
    return _CopyWriter(unit, name, _as_bits(_by_runs(copy))).write()


def _by_runs(copy: Copy) -> Copy:
    """The same copy with what lies side by side in the source as its rows, from the first on, where columns do not:
    such as the window of a kernel whose features are outside of it, or a reversed one.  Else elements are copied one by
    one, and the source is gone over as often as that dimension has elements."""
    size, inner = copy.source.element.bytes, (copy.rows, *copy.outer[copy.lead :])
    run = next((axis for axis in inner if abs(axis.source) == size and axis.extent > 1), None)
    if run is None or copy.mode != "scalars" or copy.columns.target != copy.target.element.bytes or copy.piece:
        return copy
    rest = sorted((axis for axis in inner if axis is not run), key=lambda axis: -abs(axis.source))
    source, first = copy.source, 0
    if run.source < 0:
        last = run.extent - 1
        source, first = replace(source, start=source.start + last * run.source), last * run.target
        run = Axis(run.extent, -run.source, -run.target)
    return replace(copy, outer=(*copy.outer[: copy.lead], *rest), rows=run, source=source, first=first)


def _as_bits(copy: Copy) -> Copy:
    """A copy that converts nothing moves integers; eight-byte complex numbers then move as one."""
    source, arithmetic = copy.source.element, copy.arithmetic
    if source != copy.target.element:
        return copy
    bits = 64 if source.name == "c64" else 8 * source.size
    moved = Element(source.name, "unsigned", f"i{bits}", bits // 8, source.bytes * 8 // bits)
    lanes = max(2, arithmetic.lanes * arithmetic.bits // bits)
    return replace(
        copy, source=replace(copy.source, element=moved), target=replace(copy.target, element=moved),
        arithmetic=Arithmetic(type=moved.storage, bits=bits, lanes=lanes),
    )


class _CopyWriter:
    """Writes a step function, or one for others to call: tasks are `group` panels by `chunk` rows."""

    def __init__(self, unit: Unit, name: str, copy: Copy) -> None:
        self.unit, self.name, self.copy, self.arithmetic = unit, name, copy, copy.arithmetic
        self.source, self.target, self.mode = copy.source.element, copy.target.element, copy.mode
        rows, columns, width = copy.rows.extent, copy.columns.extent, copy.width
        run = RUN_BYTES // self.source.bytes if self.mode in ("rows", "pairs") else 256
        self.group = copy.group or max(1, min(copy.panels, run // width))
        row_bytes = min(columns, self.group * width) * max(self.source.bytes, self.target.bytes)
        self.chunk = min(copy.piece or max(8, TASK_BYTES // row_bytes // 8 * 8), rows)
        self.groups, self.chunks = -(-copy.panels // self.group), -(-rows // self.chunk)
        self.side = min(self.arithmetic.lanes, 8)  # of squares to transpose; larger ones gain nothing and cost code
        self.squares: set[tuple[int, int]] = set()  # and parts of them, which are transposed by functions
        plumbing = self.mode == "transpose" or self.source == self.target
        called = f"void @{name}{CALLED} nounwind" + f" {PLUMBING}" * plumbing
        self.f = Function(unit, called if copy.group else signature(name, plumbing))

    def write(self) -> Step:
        copy = self.copy
        extents = [axis.extent for axis in copy.outer]
        extents = [*extents[: copy.lead], self.groups, *extents[copy.lead :], self.chunks]
        task = begin_tasks(self.f)
        *outer, chunk = unravel(task.index, extents)
        group = outer.pop(copy.lead)
        self._task(outer, group, chunk)
        task.end()
        self.f.finish()
        for wide, tall in sorted(self.squares, reverse=True):
            self._emit_transpose(wide, tall)
        elements = copy.rows.extent * copy.columns.extent * math.prod(axis.extent for axis in copy.outer)
        pace = 5.0 if self.mode == "scalars" else 20.0
        return Step(self.name, math.prod(extents), elements * (self.source.bytes + self.target.bytes) / pace)

    def _task(self, outer: list[Index], group: Index, chunk: Index) -> None:
        copy, stays = self.copy, self.copy.group > 0
        width, columns = copy.width, copy.columns.extent
        read = argument(self.f, copy.source)
        write = (Ptr(self.f, "%to") if stays else argument(self.f, copy.target)) + copy.first
        for axis, at in zip(copy.outer, outer, strict=True):
            read, write = read + at * axis.source, write + at * axis.target
        read += chunk * (self.chunk * copy.rows.source)
        write += chunk * (0 if copy.piece else self.chunk * copy.rows.target)
        bounds: tuple[Index, Index] = (0, columns)
        if copy.full and self.groups > 1:
            begin = group * (self.group * width)
            bounds = begin, minimum(begin + self.group * width, columns)
        read += group * (0 if copy.full else self.group * width * copy.columns.source)
        write += group * (0 if stays else self.group * copy.panel)
        rows = count_in_block(chunk, self.chunk, copy.rows.extent, self.chunks)
        panels = count_in_block(group, self.group, columns // width, self.groups)
        rest = equal(group, self.groups - 1) if columns % width else False
        if self.mode == "transpose":
            self._panels(read, write, bounds, panels, rest, lambda r, w, n: self._transposed(r, w, n, rows))
            return
        row = begin_loop(self.f, 0, rows, 1, read, write)
        read, write = row.values
        if self.mode == "pairs":
            parts = self._parts(number(self.f, row.index) + chunk * self.chunk)
            self._panels(read, write, bounds, panels, rest, lambda r, w, n: self._pairs(r, w, n, parts))
        else:
            one = self._row if self.mode == "rows" else self._scalars
            self._panels(read, write, bounds, panels, rest, one)
        row.end(read + copy.rows.source, write + copy.rows.target)

    def _panels(
        self, read: Ptr, write: Ptr, bounds: tuple[Index, Index], panels: Index, rest: Truth,
        body: Callable[[Ptr, Ptr, int], None],
    ) -> None:
        """Run `body(read, write, columns)` on the panels of a task: whole ones within `bounds`, of the columns, if the
        last begins earlier; else so many, and the `rest`."""
        copy, columns, width = self.copy, self.copy.columns.extent, self.copy.width
        if copy.full:
            panel = begin_loop(self.f, *bounds, width, write)
            at = minimum(panel.index, columns - width)
            body(read + at * copy.columns.source, panel.values[0], width)
            panel.end(panel.values[0] + copy.panel)
            return
        if columns >= width:
            loop = begin_loop(self.f, 0, panels, 1, read, write)
            read, write = loop.values
            body(read, write, width)
            read, write = loop.end(read + width * copy.columns.source, write + copy.panel)
        when(rest, lambda: body(read, write, columns % width))

    def _row(self, read: Ptr, write: Ptr, columns: int) -> None:
        """Copy `columns` contiguous elements."""
        lanes, scalars = self.arithmetic.lanes, columns * self.source.components
        if self._is_scattered():
            for line in range(0, columns * self.source.bytes, LINE):
                (read + (ROWS_AHEAD * self.copy.rows.source + line)).fetch()
        for at in range(0, scalars, lanes):
            active = min(lanes, scalars - at)
            value = self._load(read + at * self.source.size, lanes, active)
            store(value, write + at * self.target.size, self.target, active)

    def _load(self, read: Ptr, lanes: int, active: int) -> Vector:
        """Scalars of the source, as the target has them."""
        value = load(read, self.source, self.arithmetic.type, lanes, active)
        return value ^ -128 if self.copy.flip else value

    def _is_scattered(self) -> bool:
        """Whether rows are so far apart that processors do not fetch ahead what a task reads of them.

        With vectors of 512 bits products took longer where they were fetched ahead, but for strips: few rows at a time.
        """
        copy, machine = self.copy, self.unit.machine
        if machine is None:
            return False
        gains = copy.piece > 0 or (machine.instructions.tuned and machine.vector_bits < 512)
        read = copy.group * copy.width * self.source.bytes
        return gains and copy.group > 0 and copy.rows.source >= _APART * read

    def _parts(self, row: Int) -> list[tuple[Index, Vector | None]]:
        """For each part of the elements of a row of the target: where its row of the source is, from the first part's
        on, and a mask that clears what the source does not have."""
        copy, together = self.copy, self.copy.arithmetic.together
        complete, found = copy.singles // together, list[tuple[Index, Vector | None]]()
        for part in range(together):
            distance = part * copy.partner
            if copy.singles == together * copy.rows.extent or (part == 0 and complete + 1 >= copy.rows.extent):
                found.append((distance, None))
                continue
            place = row * together + part
            inside, nothing = place < copy.singles, zeros(self.f, "i32", self.arithmetic.lanes)
            nearest = (minimum(place, copy.singles - 1) - row * together) * copy.partner
            found.append((nearest, either(inside, nothing.like(-1), nothing)))
        return found

    def _pairs(self, read: Ptr, write: Ptr, columns: int, parts: Sequence[tuple[Index, Vector | None]]) -> None:
        """Interleave `columns` elements of as many rows as there are `parts`."""
        whole, lanes, bits = element("u32"), self.arithmetic.lanes, 32 // len(parts)
        kind = element("u16") if self.source.kind == "float" else self.source
        rows = [read + distance for distance, _ in parts]
        for at in range(0, columns, lanes):
            active, value = min(lanes, columns - at), zeros(self.f, "i32", lanes)
            for part, (row, (_, kept)) in enumerate(zip(rows, parts, strict=True)):
                one = load(row + at * kind.size, kind, "i32", lanes, active)
                if part < len(parts) - 1 and kind.kind == "signed":
                    one = one & ((1 << bits) - 1)
                one = one.shl(part * bits) if part else one
                value = value | (one & kept if kept else one)
            value = value ^ -0x7F7F7F80 if self.copy.flip else value
            store(value, write + at * whole.size, whole, active)

    def _scalars(self, read: Ptr, write: Ptr, columns: int) -> None:
        steps = self.copy.columns.source, self.copy.columns.target
        _copy_apart(read, write, columns, steps, self.source, self.target, self.arithmetic.type, self.copy.flip)

    def _transposed(self, read: Ptr, write: Ptr, columns: int, rows: Index) -> None:
        """Copy a panel whose source is contiguous along rows, in square blocks.

        The last block of a row or a column of blocks begins earlier where less than a block is left: whole blocks that
        write some elements again are less code than smaller ones, and one loop less than code of their own.
        """
        copy, side = self.copy, self.side

        def band(read: Ptr, write: Ptr, tall: int) -> None:
            """Blocks of `tall` rows, along the columns."""
            self.squares.add((min(columns, side), tall))
            function = f"@t{min(columns, side)}x{tall}_{self.name}"
            steps = copy.columns.source, self.target.bytes
            if columns < side:
                call(self.f, function, read, write)
            else:
                self._blocks(columns, read, write, steps, lambda r, w: call(self.f, function, r, w))

        def bands() -> None:
            self._blocks(rows, read, write, (self.source.bytes, copy.rows.target), lambda r, w: band(r, w, side))

        if copy.rows.extent < side:
            band(read, write, copy.rows.extent)
        elif self._last_rows >= side:
            bands()
        else:  # the last task has but a few rows
            few = equal(rows, self._last_rows)
            when(few, lambda: band(read, write, self._last_rows))
            when(negated(few), bands)

    def _blocks(
        self, extent: Index, read: Ptr, write: Ptr, steps: tuple[int, int], body: Callable[[Ptr, Ptr], None]
    ) -> None:
        """Run `body` on blocks along `extent` elements, at least a block, which are `steps` bytes apart."""
        side = self.side
        if isinstance(extent, int) and extent % side == 0:
            loop = begin_loop(self.f, 0, extent // side, 1, read, write)
            read, write = loop.values
            body(read, write)
            loop.end(read + side * steps[0], write + side * steps[1])
            return
        end = number(self.f, extent) - side
        block = begin_loop(self.f, 0, extent, side)
        at = minimum(block.index, end)
        body(read + at * steps[0], write + at * steps[1])
        block.end()

    @property
    def _last_rows(self) -> int:
        """Rows of the last task, where the others have `chunk`."""
        return (self.copy.rows.extent - 1) % self.chunk + 1

    def _emit_transpose(self, wide: int, tall: int) -> None:
        """Transpose `wide` runs of `tall` source elements."""
        f, block = open_function(self.unit, f"t{wide}x{tall}_{self.name}", _Block, internal=True, noalias=True)
        kind, side, copy = self.arithmetic.type, self.side, self.copy
        runs = [
            self._load(block.source + i * copy.columns.source, side, tall) if i < wide
            else zeros(f, kind, side).named("poison")
            for i in range(side)
        ]  # fmt: skip
        rows = transposed(runs)
        for i in range(tall):
            store(rows[i], block.target + i * copy.rows.target, self.target, wide)
        f.finish()


class _Block(NamedTuple):
    """The parameters of a function that transposes a block."""

    source: Ptr
    target: Ptr


def emit_zeros(unit: Unit, name: str, place: Place, extents: Sequence[int], strides: Sequence[int]) -> Step:
    """Define step function `name`, which clears an array with these strides in bytes."""
    f, element, (*outer, inner) = Function(unit, signature(name)), place.element, extents
    task = begin_tasks(f)
    at = argument(f, place)
    for where, stride in zip(unravel(task.index, outer), strides[:-1], strict=True):
        at += where * stride
    loop = begin_loop(f, 0, inner, 1, at)
    (at,) = loop.values
    for part in range(element.components):
        (at + part * element.size).store(zeros(f, element.storage), element.size)
    loop.end(at + strides[-1])
    task.end()
    f.finish()
    return Step(name, math.prod(outer), float(math.prod(extents)))


class PadAxis(NamedTuple):
    """A dimension: source element i (of `extent`, `stride` bytes apart) goes to element ``low + i`` of `target`."""

    extent: int
    stride: int
    target: int
    low: int = 0

    @property
    def plain(self) -> bool:
        return self.low == 0 and self.extent == self.target

    def inside(self) -> tuple[int, int]:
        """The first source element within the target, and how many there are."""
        first = max(0, -self.low)
        return first, max(0, min(self.extent, self.target - self.low) - first)


def emit_pad(
    unit: Unit, name: str, axes: Sequence[PadAxis], source: Place, target: Place, arithmetic: Arithmetic
) -> Step:
    """Define step function `name`: fill the dense row-major target, whose dimensions `axes` are from outermost in."""
    *outer, inner = _merged(axes)
    stored = target.element
    f = Function(unit, signature(name, plumbing=inner.stride == stored.bytes and source.element == stored))
    task = begin_tasks(f)
    read, write = argument(f, source), argument(f, target)
    write += task.index * (inner.target * stored.bytes)
    inside: list[Bool] = []
    for axis, at in zip(outer, unravel(task.index, [axis.target for axis in outer]), strict=True):
        if axis.plain:
            read += at * axis.stride
            continue
        place = number(f, at) - axis.low
        inside.append(place.below(axis.extent))
        read += place * axis.stride
    first, count = inner.inside()
    start, end = (inner.low + first, inner.low + first + count) if count else (inner.target,) * 2
    test: Truth = reduce(and_, inside, True) if count else True
    parts = stored.components
    _frame(write, start * parts, end * parts, inner.target * parts, test, stored, arithmetic)
    if count:
        read, at_start = read + first * inner.stride, write + start * stored.bytes
        when(test, lambda: _copy(read, at_start, count, inner.stride, source.element, stored, arithmetic))
    task.end()
    f.finish()
    tasks = math.prod(axis.target for axis in outer)
    return Step(name, tasks, tasks * inner.target * stored.bytes / 10.0)


def _merged(axes: Sequence[PadAxis]) -> list[PadAxis]:
    """Neighbouring dimensions joined where the inner one is copied whole and the source has them as one."""
    merged = [axes[-1]]
    for axis in reversed(axes[:-1]):
        inner = merged[-1]
        short = inner.target < _ROW or inner.target * axis.target <= _ROWS  # a row is a task; leave some
        if short and inner.plain and axis.stride == inner.extent * inner.stride:
            size = inner.extent
            merged[-1] = PadAxis(axis.extent * size, inner.stride, axis.target * size, axis.low * size)
        else:
            merged.append(axis)
    return merged[::-1]


def _frame(
    write: Ptr, start: int, end: int, size: int, inside: Truth, stored: Element, arithmetic: Arithmetic
) -> None:
    """Clear a row of `size` scalars but for those from `start` to `end`, or all of it where it is not `inside`.

    Whole vectors may reach into the part that is copied later.
    """
    lanes = arithmetic.lanes
    most = size // lanes
    behind = min(end, most * lanes)
    _clear(write + behind * stored.size, size - behind, stored, arithmetic)
    before, every = min(-(-start // lanes), most), -(-behind // lanes)
    if isinstance(inside, bool) or before == every:
        _clear(write, before * lanes, stored, arithmetic)
        return
    vector = lanes * stored.size
    write.clear(choose(inside, before * vector, every * vector))


def _clear(write: Ptr, count: int, stored: Element, arithmetic: Arithmetic) -> None:
    """Clear `count` scalars."""
    trips, rest = divmod(count, arithmetic.lanes)
    size, zero = arithmetic.lanes * stored.size, zeros(write.f, stored.storage, arithmetic.lanes)
    at_once = trips if trips <= _STRAIGHT else 1  # a loop takes LLVM as long as some twenty stores
    if trips:
        loop = begin_loop(write.f, 0, trips, at_once, write)
        (write,) = loop.values
        for at in range(at_once):
            (write + at * size).store(zero, stored.size)
        (write,) = loop.end(write + at_once * size)
    if rest:
        store(zero, write, stored if zero.is_float else replace(stored, kind="unsigned", width=0), rest)


def _copy(
    read: Ptr, write: Ptr, count: int, stride: int, source: Element, target: Element, arithmetic: Arithmetic
) -> None:
    """Copy `count` elements of the innermost dimension, `stride` bytes apart in the source."""
    f, kind, lanes, size = read.f, arithmetic.type, arithmetic.lanes, count * source.bytes
    if stride != source.bytes:
        _copy_apart(read, write, count, (stride, target.bytes), source, target, kind)
        return
    if source == target and size > SHORT_BYTES:
        write.copy_from(read, size)
        return
    rest = count * source.components
    for scalars in (8 * lanes, lanes):
        trips, rest = divmod(rest, scalars)
        if trips:
            loop = begin_loop(f, 0, trips, 1, read, write)
            read, write = loop.values
            for at in range(0, scalars, lanes):
                store(load(read + at * source.size, source, kind, lanes), write + at * target.size, target)
            read, write = loop.end(read + scalars * source.size, write + scalars * target.size)
    if rest:
        store(load(read, source, kind, lanes, rest), write, target, rest)


def _copy_apart(
    read: Ptr, write: Ptr, count: int, steps: tuple[int, int], source: Element, target: Element, kind: str,
    flip: bool = False,
) -> None:
    """Copy `count` elements one by one, which are `steps` bytes apart; with `flip` top bits of bytes change."""
    loop = begin_loop(read.f, 0, count, 1, read, write)
    read, write = loop.values
    for part in range(source.components):
        value = load(read + part * source.size, source, kind)
        store(value ^ -128 if flip else value, write + part * target.size, target)
    loop.end(read + steps[0], write + steps[1])

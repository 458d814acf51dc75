"""Matrix products (`dot`): which way to compute one, and its kernel.

The plan follows from shape and strides alone.  Products that are thin along m or n with both operands
contiguous along k run as dot products (`Inner` tiles).  All others broadcast the left operand over
vectors of the right one (`Outer` tiles); large ones pack what is not laid out well for that first.

Products of bf16 numbers on processors that multiply them in pairs, and of integers that fit 16 bits, are products of
matrices half as deep whose elements are pairs: rows that lie along k are those already, anything else is copied into
pairs, and an odd k is filled up with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.costs import PAGE, PAGED_ROWS, ROWS_ALONG, ROWS_IN_PLACE, TERMS_IN_PLACE
from hlotool.codegen.cpu.products.bf16x3 import BLOCK, CHUNK, GROUP, LINES, PART, RANGE, Split, both, emit_split, pays
from hlotool.codegen.cpu.products.bf16x3_product import Bf16x3
from hlotool.codegen.cpu.products.epilogue import Epilogue
from hlotool.codegen.cpu.products.gemm import (
    SHARED_PANELS,
    SHARED_ROWS,
    Batch,
    Packing,
    Product,
    TileShape,
    block_depth,
    choose_tile,
    emit_product,
    panels_to_pack,
    stays_in_place,
    terms_at_a_time,
)
from hlotool.codegen.cpu.products.microkernel import Tap
from hlotool.codegen.cpu.products.pack import Axis, Copy, emit_copy
from hlotool.codegen.cpu.products.prologue import Prologue
from hlotool.codegen.cpu.products.rank_update import TERMS, Part, columns_of, serves_updates
from hlotool.codegen.cpu.products.tiles import SIDE
from hlotool.codegen.kernel import Kernel, Step, signature
from hlotool.codegen.llvm.addressing import Place, advance, argument, unravel
from hlotool.codegen.llvm.elements import (
    Arithmetic,
    Element,
    arithmetic,
    element,
    multiplies_bf16x3,
    multiplies_pairs,
    multiplies_shorts,
    multiplies_tiles,
)
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import LINE, Machine

__all__ = ["DotSpec", "Scratch", "emit_dot", "emit_zeros"]

LHS, RHS, OUT, SCRATCH = range(4)

_THIN: Annotated[int, Threshold("rows")] = 8  # up to which sums go along vectors
_LONG: Annotated[int, Threshold("vectors")] = 8  # of a sum, from which on that pays up to `ROWS_ALONG`
_WIDER: Annotated[int, Threshold("times")] = 4  # how much larger an operand is than one that is turned for it
_SIDE: Annotated[int, Threshold("rows")] = 4  # of a tile of sums along vectors, and its columns
_PAIRED: Annotated[int, Threshold("rows")] = 8  # below which making pairs takes longer than they save
_HALVED: Annotated[int, Threshold("rows")] = 64  # that two threads share
_UPDATED: Annotated[int, Threshold("rows")] = 8  # from which on updates pay
_UPDATED_MOST: Annotated[int, Threshold("rows")] = 64  # and up to which they do, against a copy
_ROWS_DEEP: Annotated[int, Threshold("rows")] = 64  # that read panels in place which outgrow a cache


@dataclass(frozen=True, slots=True)
class DotSpec:
    """``out[b, i, j] = sum_k lhs[b, i, k] * rhs[b, k, j]`` with `batch` any number of dimensions.

    Strides count elements and may be anything the arrays allow, so transposed operands need no copies.
    `lhs`, `rhs`, `out` and `accumulate` are HLO element types; 16-bit floats accumulate in f32 and round
    once, integers wrap in the type of `out`, pred is and/or.  Subnormal bf16 operands may count as zeros (the
    processor's instruction for pairs reads them so).  With `rhs_panel` the columns of rhs, a multiple, lie in panels of
    64 bytes, so many elements apart.
    """

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    lhs_batch: tuple[int, ...]
    lhs_m: int
    lhs_k: int
    rhs_batch: tuple[int, ...]
    rhs_k: int
    rhs_n: int
    out_batch: tuple[int, ...]
    out_m: int
    out_n: int
    lhs: str = "f32"
    rhs: str = "f32"
    out: str = "f32"
    accumulate: str = "f32"
    rhs_panel: int = 0


@dataclass(slots=True)
class Scratch:
    """Bytes of the scratch buffer in argument `slot` given out so far."""

    size: int = 0
    slot: int = SCRATCH

    def take(self, size: int, held: Element) -> Place:
        """A part of `size` bytes, on a cache line of its own."""
        start = self.size
        self.size += -(-size // 64) * 64
        return Place(self.slot, start, held)


@dataclass(slots=True)
class _Matrix:
    """A matrix operand or result: where it lies and its strides in bytes (batch, down, across)."""

    place: Place
    batch: tuple[int, ...]
    down: int
    across: int
    partner: int = 0  # bytes between the elements of a pair that do not lie side by side
    odd: bool = False  # the last of these pairs has one element only
    made: Prologue | None = None  # computes what does not lie anywhere: the strides are those of a dense array
    panel: int = 0  # bytes between panels of lines of the caches, where columns lie so

    @property
    def element(self) -> Element:
        return self.place.element

    def transposed(self) -> _Matrix:
        return replace(self, down=self.across, across=self.down)


@dataclass(slots=True)
class _Writer:
    """The kernel in the making."""

    name: str
    unit: Unit
    machine: Machine
    how: Arithmetic
    extents: tuple[int, ...]
    pairs: bool = False
    shorts: bool = False
    tiles: bool = False
    bf16x3: bool = False
    epilogue: Epilogue | None = None
    scratch: Scratch = field(default_factory=Scratch)
    steps: list[Step] = field(default_factory=list)

    def pack(
        self, label: str, source: _Matrix, rows: int, columns: int, width: int, held: Element,
        group: int = 0, piece: int = 0, full: bool = False,
    ) -> tuple[_Matrix, int, Packing | None]:
        """Copy `source` (rows x columns) to panels of `width` columns; also the bytes between panels.

        With `group` the copy is not a step, but for the product's tasks to call, for as many panels at a time, and with
        `piece` for as many rows.  With `full` the last panel is whole, and ends with the last column.
        """
        panels = -(-columns // width)
        panel = (piece or rows) * width * held.bytes
        groups = -(-panels // (group or 1))
        place = self.scratch.take(math.prod(self.extents) * groups * (group or 1) * panel, held)
        batch = _dense(self.extents, panels * panel)
        axes = tuple(Axis(e, s, t) for e, s, t in zip(self.extents, source.batch, batch, strict=True))
        down = Axis(rows, source.down, width * held.bytes)
        across = Axis(columns, source.across, held.bytes)
        copy = Copy(
            axes, down, across, width, panel, source.place, place, self.how, len(axes), group, piece, full,
            source.partner, source.odd,
        )
        step, packing = self._copied(label, source, copy), None
        if group:
            packing = Packing(step.function, step.tasks // (math.prod(self.extents) * groups), group, piece)
        else:
            self.steps.append(step)
        return _Matrix(place, batch, width * held.bytes, held.bytes), panel, packing

    def pair(self, label: str, source: _Matrix, rows: int, k: int, along: bool) -> _Matrix:
        """`source` (`rows` x `k` numbers) as pairs along k; `along` asks for pairs that follow one another."""
        size, pair = source.element.bytes, self.how.element
        if source.made is None and self.in_pairs(source, k):
            return replace(source, place=replace(source.place, element=pair), across=pair.bytes)
        if source.down == size and not along:
            return replace(source, across=2 * source.across, partner=source.across, odd=k % 2 == 1)
        half = source.element if source.element.kind == "float" else element("s16")
        dense = self.spread(label, source, rows, k, half)
        if k % 2:
            outer = tuple(Axis(e, 0, s) for e, s in zip((*self.extents, rows), (*dense.batch, dense.down), strict=True))
            end = replace(dense.place, start=dense.place.start + k * half.bytes)
            self.steps.append(emit_zeros(self.unit, f"{label}_end_{self.name}", outer, Axis(1, 0, half.bytes), end))
        return replace(dense, place=replace(dense.place, element=pair), across=pair.bytes)

    def in_pairs(self, source: _Matrix, k: int) -> bool:
        """Whether the rows of `source`, along k, are pairs as they lie."""
        size = source.element.bytes
        aligned = not any(step % (2 * size) for step in (*source.batch, source.down))
        return size == 2 and source.across == size and k % 2 == 0 and aligned

    def spread(self, label: str, source: _Matrix, rows: int, columns: int, held: Element) -> _Matrix:
        """Copy `source` to rows, contiguous and a little more than `columns` apart."""
        pitch = (columns + 16 + columns % 2) * held.bytes
        place = self.scratch.take(math.prod(self.extents) * rows * pitch, held)
        batch = _dense(self.extents, rows * pitch)
        axes = tuple(Axis(e, s, t) for e, s, t in zip(self.extents, source.batch, batch, strict=True))
        width = 4 * self.how.columns
        copy = Copy(
            axes, Axis(rows, source.down, pitch), Axis(columns, source.across, held.bytes), width,
            width * held.bytes, source.place, place, self.how,
        )
        self.steps.append(self._copied(label, source, copy))
        return _Matrix(place, batch, pitch, held.bytes)

    def split(
        self, label: str, source: _Matrix, lines: int, terms: int, right: bool, group: int = 0
    ) -> tuple[Split, Step]:
        """The copy of `source` (terms down, lines across) to blocks of parts; with `group` it is for tasks to call.

        What all items of the batch share is copied once.
        """
        extents = _own(self.extents, source)
        axes = tuple(Axis(extent, stride, 0) for extent, stride in zip(extents, source.batch, strict=True))
        held, nowhere = element("u32"), Place(0, 0, element("u32"))
        copy = Split(
            axes, lines, source.across, terms, source.down, right, source.place, nowhere, nowhere, source.panel,
            called=group > 0,
        )
        copy = replace(copy, group=group or (1 if copy.along else min(GROUP, -(-copy.blocks // 4))))
        blocks = -(-copy.blocks // copy.group) * copy.group
        target = self.scratch.take(math.prod(extents) * blocks * copy.size, held)
        batch = _dense(extents, copy.blocks * copy.size)
        axes = tuple(a._replace(target=stride if a.source else 0) for a, stride in zip(axes, batch, strict=True))
        copy = replace(copy, outer=axes, target=target, ranges=self.scratch.take(RANGE * copy.tasks, held))
        return copy, emit_split(self.unit, f"split_{label}_{self.name}", copy)

    def _copied(self, label: str, source: _Matrix, copy: Copy) -> Step:
        name = f"{label}_{self.name}"
        return emit_copy(self.unit, name, copy) if source.made is None else source.made.emit(self.unit, name, copy)


def emit_dot(
    name: str,
    spec: DotSpec,
    machine: Machine,
    slots: tuple[int, int, int, int] = (LHS, RHS, OUT, SCRATCH),
    epilogue: Epilogue | None = None,
    prologues: tuple[Prologue | None, Prologue | None] = (None, None),
) -> Kernel:
    """The kernel `name` of a matrix product; `slots` are the arguments lhs, rhs, out and, if asked for, scratch.

    With an `epilogue` the result is dense and row-major, and goes into that instead of out.  With `prologues` they
    compute lhs or rhs, as dense arrays.  An empty result gives a
    kernel without steps.  Raises UnsupportedError for element types that cannot be combined.
    """
    unit = Unit(machine)
    extents, lhs, rhs, out = _operands(spec, slots)
    lhs.made, rhs.made = prologues
    pairs = multiplies_pairs(spec.lhs, spec.rhs, spec.accumulate, machine)
    shorts = multiplies_shorts(spec.lhs, spec.rhs, spec.accumulate, machine) and not any(prologues)
    tiles = multiplies_tiles(spec.lhs, spec.rhs, spec.accumulate, machine)
    how = arithmetic(spec.accumulate, machine)
    bf16x3 = multiplies_bf16x3(spec.lhs, spec.rhs, spec.accumulate, machine)
    scratch = Scratch(slot=slots[SCRATCH])
    writer = _Writer(name, unit, machine, how, extents, pairs, shorts, tiles, bf16x3, epilogue, scratch)
    m, n, k = spec.m, spec.n, spec.k
    if min(m, n, *extents, 1) > 0:
        if k == 0:
            outer = tuple(Axis(e, 0, s) for e, s in zip((*extents, m), (*out.batch, out.down), strict=True))
            writer.steps.append(emit_zeros(unit, name, outer, Axis(n, 0, out.across), out.place))
        else:
            # The vectors run along the result's contiguous dimension; a single column becomes a row.
            if m > 1 and (n == 1 or (out.across != out.element.bytes and out.down == out.element.bytes)):
                m, n, lhs, rhs, out = n, m, rhs.transposed(), lhs.transposed(), out.transposed()
            _emit(writer, m, n, k, lhs, rhs, out)
    return finish_kernel(unit, writer.steps, writer.scratch.size)


def emit_zeros(unit: Unit, name: str, outer: Sequence[Axis], inner: Axis, place: Place) -> Step:
    """Define step function `name`, which clears an array (only `target` strides count)."""
    f = Function(unit, signature(name))
    held = place.element
    how = Arithmetic(held.storage, 8 * held.size, 0, False, False, False)
    task = f.begin_loop("%begin", "%end")
    at = argument(f, place)
    for axis, where in zip(outer, unravel(f, task.index, [axis.extent for axis in outer]), strict=True):
        at = advance(f, at, where, axis.target)
    loop = f.begin_loop(0, inner.extent, 1, [("ptr", at)])
    for part in range(held.components):
        pointer = f.let(f"getelementptr i8, ptr {loop.values[0]}, i64 {part * held.size}")
        zero = "0.0" if held.storage in ("float", "double") else "0"
        f.do(f"store {how.type} {zero}, ptr {pointer}, align {held.size}")
    f.end_loop(loop, [f.let(f"getelementptr i8, ptr {loop.values[0]}, i64 {inner.target}")])
    f.end_loop(task)
    f.finish()
    tasks = math.prod(axis.extent for axis in outer)
    return Step(name, tasks, float(tasks * inner.extent))


def _dense(extents: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Row-major strides of `extents` items of `size` bytes."""
    return tuple(size * math.prod(extents[at + 1 :]) for at in range(len(extents)))


def _operands(spec: DotSpec, slots: Sequence[int]) -> tuple[tuple[int, ...], _Matrix, _Matrix, _Matrix]:
    """Batch extents and the three matrices in bytes; batch dimensions that lie as one are merged."""
    sizes = [element(name).bytes for name in (spec.lhs, spec.rhs, spec.out)]
    merged: list[tuple[int, tuple[int, ...]]] = []
    for extent, *strides in zip(spec.batch, spec.lhs_batch, spec.rhs_batch, spec.out_batch, strict=True):
        here = tuple(stride * size for stride, size in zip(strides, sizes, strict=True))
        if extent == 1:
            continue
        if merged and all(up == extent * low for up, low in zip(merged[-1][1], here, strict=True)):
            merged[-1] = (merged[-1][0] * extent, here)
        else:
            merged.append((extent, here))
    extents = tuple(extent for extent, _ in merged)
    described = (
        (LHS, spec.lhs, spec.lhs_m, spec.lhs_k), (RHS, spec.rhs, spec.rhs_k, spec.rhs_n),
        (OUT, spec.out, spec.out_m, spec.out_n),
    )
    matrices = [
        _Matrix(
            Place(slots[slot], 0, element(kind)), tuple(strides[slot] for _, strides in merged),
            down * sizes[slot], across * sizes[slot],
        )
        for slot, kind, down, across in described
    ]
    matrices[RHS].panel = spec.rhs_panel * sizes[RHS]
    return extents, matrices[LHS], matrices[RHS], matrices[OUT]


def _emit(writer: _Writer, m: int, n: int, k: int, a: _Matrix, b: _Matrix, c: _Matrix) -> None:
    """Choose between the two kinds of tiles, and whether they work on pairs."""
    lanes = writer.how.columns
    along_a, along_b = a.across == a.element.bytes, b.down == b.element.bytes
    thin, inner = min(m, n), False
    few = thin <= _THIN or (thin <= ROWS_ALONG and k >= _LONG * lanes and along_a and along_b)
    if few and k >= max(lanes // 2, 2) and not b.panel:
        # A thin operand that does not run along k is cheap to turn; a large one is not.
        inner = (along_b and (along_a or _WIDER * m <= n)) or (along_a and _WIDER * n <= m and m > 1)
    inner = inner and a.made is None and b.made is None
    if writer.bf16x3 and c.across == c.element.bytes and _serve_bf16x3(writer, m, n, k, a, b):
        return _emit_bf16x3(writer, m, n, k, a, b, c)
    writer.tiles = writer.tiles and not inner and k % (2 * SIDE) == 0
    shorts = writer.shorts and not inner
    if (writer.pairs and inner) or ((writer.pairs or writer.tiles or shorts) and min(m, k) >= _PAIRED):
        writer.how = replace(writer.how, pairs=True)
        a = writer.pair("pair_lhs", a, m, k, inner or writer.tiles)
        b = writer.pair("pair_rhs", b.transposed(), n, k, inner).transposed()
        k = -(-k // 2)
    if not inner and _serves_updates(writer, m, n, k, b, c):
        return _emit_updates(writer, m, n, k, a, b, c)
    return (_emit_inner if inner else _emit_outer)(writer, m, n, k, a, b, c)


def _emit_inner(writer: _Writer, m: int, n: int, k: int, a: _Matrix, b: _Matrix, c: _Matrix) -> None:
    if a.across != a.element.bytes:
        a, *_ = writer.pack("pack_lhs", a, m, k, k, writer.how.element)
    if b.down != b.element.bytes:
        packed, *_ = writer.pack("pack_rhs", b.transposed(), n, k, k, writer.how.element)
        b = packed.transposed()
    most = 16 if writer.machine.registers == 32 else 8
    rows = min(m, _SIDE if n >= _SIDE or writer.how.complex else most // min(n, _SIDE))
    columns = min(n, max(1, most // (rows * writer.how.components)))
    writer.steps.append(
        emit_product(writer.unit, writer.name, Product(
            _batches(writer.extents, a, b, c), m, n, (Tap(k, a.across, b.down),), writer.how,
            TileShape(rows, columns, inner=True),
            a.place, a.down, b.place, columns * b.across, c.place, c.down, c.across, epilogue=writer.epilogue,
        ))
    )


def _serves_updates(writer: _Writer, m: int, n: int, k: int, b: _Matrix, c: _Matrix) -> bool:
    """Whether `rank_update` can make this product, and saves time: rows of `b` fall on few sets of the caches, and so
    would have to be copied to be read again."""
    in_place = b.made is None and not b.panel and b.across == b.element.bytes and c.across == c.element.bytes
    whole_rows = writer.epilogue is not None and writer.epilogue.whole_rows
    some = _UPDATED <= m <= _UPDATED_MOST and b.down % (PAGE // 4) == 0
    return in_place and not whole_rows and some and serves_updates(m, n, 1, k, b.element, writer.how, writer.machine)


def _emit_updates(writer: _Writer, m: int, n: int, k: int, a: _Matrix, b: _Matrix, c: _Matrix) -> None:
    """A product of few rows, whose left operand is copied alone."""
    how, columns = writer.how, columns_of(m, n, writer.how, writer.machine)
    if a.made is not None:
        a = writer.spread("made_lhs", a, m, k, how.element)
    a, block, _ = writer.pack("pack_lhs", a, m, k, TERMS, how.element)
    taps = Tap(1, 0, 0), Tap(k // TERMS, block, TERMS * b.down), Tap(TERMS, a.across, b.down)
    writer.steps.append(
        emit_product(writer.unit, writer.name, Product(
            _batches(writer.extents, a, b, c), m, n, taps, how, TileShape(m, columns),
            a.place, a.down, b.place, columns * b.across, c.place, c.down, c.across, epilogue=writer.epilogue,
            parts=(Part(0, tuple((row * a.down, row) for row in range(m))),),
        ))
    )


def _emit_outer(writer: _Writer, m: int, n: int, k: int, a: _Matrix, b: _Matrix, c: _Matrix) -> None:
    how = writer.how
    whole_rows = writer.epilogue is not None and writer.epilogue.whole_rows
    if writer.tiles and how.pairs:
        shape = TileShape(min(m, 2 * SIDE), min(n, 2 * SIDE), registers=True)
    else:  # rows that two threads share: few whole ones should not make a tile more for one of them
        rows = -(-m // 2) if whole_rows and m <= _HALVED else m
        _, shape = choose_tile(rows, n, writer.machine, how)
    usual = shape
    if b.panel:
        _, shape = choose_tile(rows, n, writer.machine, how, in_lines=True)
    panels, result, full = -(-n // shape.columns), c, False
    if c.across != c.element.bytes and n > 1:
        size = m * n * c.element.bytes
        place = writer.scratch.take(math.prod(writer.extents) * size, c.element)
        result = _Matrix(place, _dense(writer.extents, size), n * c.element.bytes, c.element.bytes)

    panel, a_tile, packing = shape.columns * b.across, 0, None
    if b.panel:
        panel = panel // LINE * b.panel
    # Without packing: few passes over `b`, or rows of `b` that lie close together.  A row stride of whole pages
    # puts all rows on the same sets of the caches; 16-bit floats would be converted again in each pass.
    native, deep = b.element.storage == how.type, k > block_depth(writer.machine, usual, how)
    few = m <= (PAGED_ROWS if b.down % PAGE == 0 or not native else _ROWS_DEEP if deep else ROWS_IN_PLACE)
    few = few or (native and stays_in_place(m, n, k, usual, how, writer.machine))
    group = piece = 0
    if b.across != b.element.bytes or b.partner or b.panel or b.made is not None or not few:
        if not whole_rows:
            unrounded = c.element.storage == how.type and all(b.batch)
            group, piece = panels_to_pack(m, n, k, math.prod(writer.extents), usual, how, writer.machine, unrounded)
        if not b.panel:
            full = b.made is None and not shape.registers
            b, panel, packing = writer.pack("pack_rhs", b, k, n, shape.columns, how.element, group, piece, full)
            full = full and n > shape.columns
    if a.made is not None:
        a = writer.spread("pack_lhs", a, m, k, how.element)
    turned = a.across != a.element.bytes
    converted = a.element.storage != how.type
    # Rows that fall on few sets of the first-level cache, unless they leave some of its ways (a page each) to others
    # and fill all sets of the second level.
    aliased = a.down % (PAGE // 4) == 0 and not turned
    if shape.rows + 2 <= writer.machine.l1 >> 12 and (piece or not deep):
        aliased = False
    if a.partner or (panels > 2 and m > 1 and (converted or (k > TERMS_IN_PLACE and (turned or aliased)))):
        if turned:
            packed, a_tile, _ = writer.pack("pack_lhs", a.transposed(), k, m, shape.rows, how.element, full=True)
            a = packed.transposed()
        else:
            a = writer.spread("pack_lhs", a, m, k, how.element)
    product = Product(
        _batches(writer.extents, a, b, result), m, n, (Tap(k, a.across, b.down),), how, shape,
        a.place, a.down, b.place, panel, result.place, result.down, result.across,
        a_tile, b_line=b.panel, b_full=full, piece=piece, packing=packing, epilogue=writer.epilogue,
    )  # fmt: skip
    if b.panel:  # the sum is added up as if the columns lay side by side
        product = replace(product, piece=terms_at_a_time(replace(product, shape=usual), writer.machine))
    writer.steps.append(emit_product(writer.unit, writer.name, product))
    if result is not c:
        axes = tuple(Axis(e, s, t) for e, s, t in zip(writer.extents, result.batch, c.batch, strict=True))
        width = min(n, 64)
        copy = Copy(
            axes, Axis(m, result.down, c.down), Axis(n, result.across, c.across), width, width * c.across,
            result.place, replace(c.place), how,
        )
        writer.steps.append(emit_copy(writer.unit, f"unpack_{writer.name}", copy))


def _serve_bf16x3(writer: _Writer, m: int, n: int, k: int, a: _Matrix, b: _Matrix) -> bool:
    """Whether `bf16x3` can split both matrices, and multiplying those saves more time than it takes."""
    numbers = k * (m * math.prod(_own(writer.extents, a)) + n * math.prod(_own(writer.extents, b)))
    there = a.made is None and b.made is None and a.element.bytes in (a.across, a.down)
    there = there and b.element.bytes in (b.across, b.down)
    enough = min(m, n) >= LINES and k >= 2 * CHUNK and pays(float(m) * n * k * math.prod(writer.extents), numbers)
    # Few rows: splitting all columns is worth it if those stay in a cache until they are multiplied.
    near = m > SHARED_ROWS or 6 * n * k <= writer.machine.l2 or _own_bf16x3(writer, m, n, k, b) > 0
    return there and enough and near


def _own(extents: tuple[int, ...], matrix: _Matrix) -> tuple[int, ...]:
    """Extents of the batch, 1 where `matrix` is the same for all items."""
    return tuple(extent if stride else 1 for extent, stride in zip(extents, matrix.batch, strict=True))


def _own_bf16x3(writer: _Writer, m: int, n: int, k: int, b: _Matrix) -> int:
    """Panels of `b` which a task should split itself, because it meets all rows; 0 for none."""
    panels, size, most = -(-n // LINES), -(-k // CHUNK) * BLOCK, writer.machine.l2 // 4
    items = math.prod(_own(writer.extents, b))
    whole_rows = writer.epilogue is not None and writer.epilogue.whole_rows
    if m > SHARED_ROWS or items * panels < SHARED_PANELS or size > most or whole_rows:
        return 0
    return max(1, min(GROUP, most // size, items * panels // 8))


def _emit_bf16x3(writer: _Writer, m: int, n: int, k: int, a: _Matrix, b: _Matrix, c: _Matrix) -> None:
    """A product of f32 numbers in bf16 parts: both matrices are copied, to blocks."""
    how, depth = replace(writer.how, pairs=True, bf16x3=True), -(-k // CHUNK) * SIDE
    group = _own_bf16x3(writer, m, n, k, b)
    left, copy_left = writer.split("lhs", a.transposed(), m, k, False)
    right, copy_right = writer.split("rhs", b, n, k, True, group)
    packing = Packing(copy_right.function, 1, group) if group else None
    writer.steps.append(copy_left if group else both(writer.unit, f"split_{writer.name}", copy_left, copy_right))
    batches = [_Matrix(copy.target, tuple(axis.target for axis in copy.outer), 0, 0) for copy in (left, right)]
    bf16x3 = Bf16x3(PART, left.ranges, left.tasks, right.ranges, right.tasks)
    writer.steps.append(
        emit_product(writer.unit, writer.name, Product(
            _batches(writer.extents, batches[0], batches[1], c), m, n, (Tap(depth, BLOCK // SIDE, BLOCK // SIDE),), how,
            TileShape(LINES, LINES, registers=True),
            left.target, CHUNK * 2, right.target, right.size, c.place, c.down, c.across,
            left.size, packing=packing, epilogue=writer.epilogue, bf16x3=bf16x3,
        ))
    )


def _batches(extents: tuple[int, ...], a: _Matrix, b: _Matrix, c: _Matrix) -> tuple[Batch, ...]:
    return tuple(Batch(*each) for each in zip(extents, a.batch, b.batch, c.batch, strict=True))

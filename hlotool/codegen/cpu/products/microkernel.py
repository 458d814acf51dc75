"""Register tiles: the innermost functions of matrix products and convolutions.

A tile function ``void @name(ptr %a, ptr %b, ptr %c, i64 %k, i1 %add)`` computes a small block of
``c[i, j] (+)= sum_k a[i, k] * b[k, j]`` in vector registers.  `Outer` keeps rows times vectors of
accumulators, broadcasts elements of `a` and reads vectors of `b` along j (the scheme of Goto and
van de Geijn, "Anatomy of High-Performance Matrix Multiplication"); `Inner` reads both operands as
vectors along k, for skinny products whose operands are contiguous there.  All strides are static:
they become displacements, so one pointer register serves all rows.  Where `b` is too long for the first-level cache the
loop asks for it ahead of time.

A turn of the innermost loop does several steps of the sum where vectors have 256 bits or less (`together`): tiles of
16 registers have few multiply-adds in a step, and what a turn takes besides them counts, above all where another thread
of the same core wants its share of the instructions.  With 512 bits measurements showed no gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.costs import PAGE
from hlotool.codegen.llvm.addressing import offset, when
from hlotool.codegen.llvm.elements import Arithmetic, Element, load, store, vector_type
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import LINE, Machine

__all__ = ["Ends", "Inner", "Outer", "Tap", "emit_inner", "emit_outer"]

AHEAD: Annotated[int, Threshold("terms")] = 16
"""Steps of the sum from which `b` is fetched: longer than an access to the second-level cache."""
TILE_PARAMETERS = "(ptr %a, ptr %b, ptr %c, i64 %k, i1 %add)"


class Tap(NamedTuple):
    """A dimension of the sum and its strides in bytes in both operands."""

    extent: int
    a: int
    b: int


class Ends(NamedTuple):
    """Elements at the ends of a dimension of a sum that some rows leave out: the one with `within` others within it.

    Each of `before` and `behind` is a number of elements, and how many rows of the first tile (its first ones) and of
    the last tile (its last ones) do without them.
    """

    before: tuple[tuple[int, int], ...]
    behind: tuple[tuple[int, int], ...]
    within: int = 0


class Outer(NamedTuple):
    """A tile of `rows` x `columns` elements; strides in bytes.

    The sum runs over `taps`, outermost first; the function's %k replaces the extent of the first.  A
    `lanewise` tile has an `a` that runs along the columns too: ``c[i, j] = sum_k a[i, k, j] * b[k, j]``, the
    depthwise convolution.  With `accumulate` the function looks at %add and adds to what `c` holds.  With `b_line` rows
    of `b` lie in lines of the caches, so many bytes apart.  With `ends`, what rows
    leave out of a tap that is not the first, the function is told by two more arguments, %first and %last, which tile
    it is.  With `made` it is told by one more, %all, whether `c` gets its first rows too, so many, or has them already.
    All counts of the last tap are multiples of `together`.
    """

    rows: int
    columns: int
    a: Element
    a_row: int
    taps: tuple[Tap, ...]
    b: Element
    c: Element
    c_row: int
    accumulate: bool = False
    lanewise: bool = False
    b_line: int = 0
    ends: Ends | None = None
    made: int = 0
    together: int = 1


class Inner(NamedTuple):
    """A tile of `rows` x `columns` dot products over `depth` contiguous elements; strides in bytes."""

    rows: int
    columns: int
    depth: int
    a: Element
    a_row: int
    b: Element
    b_column: int
    c: Element
    c_row: int
    c_column: int


def emit_outer(unit: Unit, name: str, tile: Outer, how: Arithmetic) -> None:
    """Define tile function `name`."""
    more = ", i1 %first, i1 %last" * (tile.ends is not None) + ", i1 %all" * (tile.made > 0)
    f = Function(unit, f"internal void @{name}{TILE_PARAMETERS[:-1]}{more}) nounwind")
    lanes, vectors = how.lanes, -(-tile.columns // how.columns)
    tail = (tile.columns - (vectors - 1) * how.columns) * how.components
    actives = [lanes] * (vectors - 1) + [tail]
    kind = vector_type(how.type, lanes)
    count = tile.rows * vectors * how.components
    streams = unit.machine is not None and _streams(tile, unit.machine)
    width = tile.columns * tile.b.bytes
    lines = [*range(0, width, LINE)]
    if tile.taps[-1].b != width and not tile.b_line:  # not packed, so perhaps not aligned to lines either
        lines.append(width - 1)

    def along(at: int) -> int:
        """Where byte `at` of a row of `b` is."""
        return at // LINE * tile.b_line + at % LINE if tile.b_line else at

    each_row = vectors * how.components  # sums of a row
    rows = [row * tile.a_row for row in range(tile.rows)]

    def body(a: str, b: str, sums: Sequence[str], rows: Sequence[str | int]) -> list[str]:
        """A term of the sums; `rows` says where each row of `a` is."""
        places = [along(v * lanes * tile.b.size) for v in range(vectors)]
        columns = [
            load(f, offset(f, b, place), tile.b, how, lanes, active)
            for place, active in zip(places, actives, strict=True)
        ]
        if streams:
            for line in lines:
                f.fetch(offset(f, b, AHEAD * tile.taps[-1].b + along(line)))
        result = list(sums)
        for row, there in enumerate(rows):
            start, step = (a, there) if isinstance(there, int) else (offset(f, a, there), 0)
            if tile.lanewise:
                for v, column in enumerate(columns):
                    at = offset(f, start, step + v * lanes * tile.a.size)
                    place = row * vectors + v
                    value = load(f, at, tile.a, how, lanes, actives[v])
                    result[place] = multiply_add(f, how, lanes, value, column, result[place])
                continue
            for part in range(how.components):
                at = offset(f, start, step + part * tile.a.size)
                left = splat(f, load(f, at, tile.a, how, 0), kind, how, lanes)
                for v, column in enumerate(columns):
                    place = (row * how.components + part) * vectors + v
                    result[place] = multiply_add(f, how, lanes, left, column, result[place])
        return result

    def loop(
        taps: tuple[Tap, ...], count: str | int, a: str, b: str, sums: Sequence[str], rows: Sequence[str | int]
    ) -> tuple[str, str, list[str]]:
        """Loops over `taps`, `count` times the first; where that leads to, and the sums."""
        steps = 1 if taps[1:] else tile.together
        carried = [("ptr", a), ("ptr", b), *((kind, value) for value in sums)]
        outer = f.begin_loop(0, count, steps, carried, at_least_once=True)
        a, b, *inner = outer.values
        if taps[1:]:
            inner = nest(taps[1:], taps[1].extent, a, b, inner, rows)
        else:
            for step in range(steps):
                inner = body(offset(f, a, step * taps[0].a), offset(f, b, step * taps[0].b), inner, rows)
        a, b = offset(f, a, steps * taps[0].a), offset(f, b, steps * taps[0].b)
        a, b, *inner = f.end_loop(outer, [a, b, *inner])
        return a, b, inner

    def nest(
        taps: tuple[Tap, ...], count: str | int, a: str, b: str, sums: Sequence[str], rows: Sequence[str | int]
    ) -> list[str]:
        """The sums after loops over `taps`, `count` times the first."""
        if tile.ends is None or len(taps) != tile.ends.within + 1:
            return loop(taps, count, a, b, sums, rows)[2]
        return in_parts(taps, a, b, sums)

    firsts, lasts = _bounds(f, tile) if tile.ends else ({}, {})

    def in_parts(taps: tuple[Tap, ...], a: str, b: str, sums: Sequence[str]) -> list[str]:
        """The sums after loops over `taps`, the first of them in parts, of which all elements are for the same rows.

        What other rows would read there may lie outside of the array.  They read what another row does, and keep the
        sums that they have.
        """
        stop = lasts.get(0, taps[0].extent)
        carried = [("ptr", a), ("ptr", b), *((kind, value) for value in sums)]
        part = f.begin_loop(0, stop, 1, carried, at_least_once=True)
        a, b, *before = part.values
        end, inside = str(stop), dict[str, str]()
        there: list[str | int] = [*rows]
        for bound in dict.fromkeys((*lasts.values(), *firsts.values())):
            inside[bound] = f.let(f"icmp slt i64 {part.index}, {bound}")
            if bound != stop:
                end = f.let(f"select i1 {inside[bound]}, i64 {bound}, i64 {end}")
        for row, bound in firsts.items():
            there[row] = f.let(f"select i1 {inside[bound]}, i64 {rows[-1]}, i64 {there[row]}")
        for row, bound in lasts.items():
            there[row] = f.let(f"select i1 {inside[bound]}, i64 {there[row]}, i64 0")
        part.step = f.let(f"sub i64 {end}, {part.index}")
        a, b, after = loop(taps, part.step, a, b, before, there)
        for bounds, early in ((firsts, True), (lasts, False)):
            for row, bound in bounds.items():
                for place in range(row * each_row, (row + 1) * each_row):
                    one, other = (before, after) if early else (after, before)
                    both = f"{kind} {one[place]}, {kind} {other[place]}"
                    after[place] = f.let(f"select i1 {inside[bound]}, {both}")
        return f.end_loop(part, [a, b, *after])[2:]

    sums = nest(tile.taps, "%k", "%a", "%b", ["zeroinitializer"] * count, rows)

    def write_rows(first: int, end: int, add: bool) -> None:
        for row in range(first, end):
            for v in range(vectors):
                at = offset(f, "%c", row * tile.c_row + v * lanes * tile.c.size)
                place = row * how.components * vectors + v
                value = sums[place]
                if how.complex:
                    value = _complex(f, how, lanes, value, sums[place + vectors])
                if add:
                    before = load(f, at, tile.c, how, lanes, actives[v])
                    value = plus(f, how, lanes, before, value)
                store(f, value, at, tile.c, how, lanes, actives[v])

    def write(add: bool) -> None:
        when(f, "%all" if tile.made else None, lambda: write_rows(0, tile.made, add))
        write_rows(tile.made, tile.rows, add)

    if tile.accumulate:
        more, first = f.fresh("more"), f.fresh("first")
        f.branch("%add", more, first)
        f.label(more)
        write(True)
        f.do("ret void")
        f.label(first)
    write(False)
    f.finish()


def _bounds(f: Function, tile: Outer) -> tuple[dict[int, str], dict[int, str]]:
    """For rows that leave out elements of the dimension with ends: the first one that they take, and the first one
    behind those.  Both come with the last elements first."""
    assert tile.ends is not None
    firsts: dict[int, str] = {}
    lasts: dict[int, str] = {}
    extent, missing = tile.taps[-1 - tile.ends.within].extent, 0
    for number, rows in tile.ends.before:
        missing += number
        bound = f.let(f"select i1 %first, i64 {missing}, i64 0")
        firsts.update(dict.fromkeys(range(rows), bound))
    missing = 0
    for number, rows in reversed(tile.ends.behind):
        missing += number
        bound = f.let(f"select i1 %last, i64 {extent - missing}, i64 {extent}")
        lasts.update(dict.fromkeys(range(tile.rows - rows, tile.rows), bound))
    return firsts, lasts


def _streams(tile: Outer, machine: Machine) -> bool:
    """Whether the next tile to use this part of `b` will not find it in the first-level cache.  Steps of whole pages
    fall on the same sets of that cache: what is fetched early would be gone again."""
    size = tile.columns * tile.b.bytes * math.prod(tap.extent for tap in tile.taps)
    return not tile.lanewise and size > machine.l1 // 2 and tile.taps[-1].b % PAGE != 0


def emit_inner(unit: Unit, name: str, tile: Inner, how: Arithmetic) -> None:
    """Define tile function `name`; %k and %add are not used."""
    f = Function(unit, f"internal void @{name}{TILE_PARAMETERS} nounwind")
    lanes, kind = how.lanes, vector_type(how.type, how.lanes)
    cells = [(i, j) for i in range(tile.rows) for j in range(tile.columns)]
    parts = how.components
    scalars = tile.depth * parts
    # Enough independent sums to cover the latency of the multiply-add, however few cells there are.
    ways = max(1, min(8 // (len(cells) * parts), scalars // lanes))

    def step(at_a: str, at_b: str, sums: Sequence[str], way: int, active: int) -> list[str]:
        rows = [load(f, offset(f, at_a, i * tile.a_row), tile.a, how, lanes, active) for i in range(tile.rows)]
        columns = [load(f, offset(f, at_b, j * tile.b_column), tile.b, how, lanes, active) for j in range(tile.columns)]
        crossed = [_swapped(f, how, lanes, column) for column in columns] if how.complex else []
        result = list(sums)
        for cell, (i, j) in enumerate(cells):
            place = (cell * ways + way) * parts
            result[place] = multiply_add(f, how, lanes, rows[i], columns[j], result[place])
            if how.complex:
                result[place + 1] = multiply_add(f, how, lanes, rows[i], crossed[j], result[place + 1])
        return result

    sums = ["zeroinitializer"] * (len(cells) * ways * parts)
    a, b, left = "%a", "%b", scalars
    for width in dict.fromkeys((ways, 1)):
        trips, left = divmod(left, width * lanes)
        if trips:
            loop = f.begin_loop(0, trips, 1, [("ptr", a), ("ptr", b), *((kind, value) for value in sums)])
            a, b, sums = loop.values[0], loop.values[1], loop.values[2:]
            for way in range(width):
                shift = way * lanes
                sums = step(offset(f, a, shift * tile.a.size), offset(f, b, shift * tile.b.size), sums, way, 0)
            shift = width * lanes
            after = [offset(f, a, shift * tile.a.size), offset(f, b, shift * tile.b.size), *sums]
            a, b, *sums = f.end_loop(loop, after)
    if left:
        sums = step(a, b, sums, 0, left)
    for cell, (i, j) in enumerate(cells):
        at = offset(f, "%c", i * tile.c_row + j * tile.c_column)
        for part in range(parts):
            total = sums[cell * ways * parts + part]
            for way in range(1, ways):
                total = plus(f, how, lanes, total, sums[(cell * ways + way) * parts + part])
            if how.complex and part == 0:  # the real part is the sum of re*re less the sum of im*im
                total = f.let(f"fmul {kind} {total}, {_signs(how, lanes, '1.0', '-1.0')}")
            store(f, _total(f, how, lanes, total), offset(f, at, part * tile.c.size), tile.c, how, 0)
    f.finish()


def multiply_add(f: Function, how: Arithmetic, lanes: int, x: str, y: str, to: str) -> str:
    """`x * y + to`, fused where the processor can; `(x and y) or to` for booleans.

    Pairs of bf16 add both their products, in f32 with rounding to nearest; VDPBF16PS takes subnormal numbers
    for zeros, operands and sums alike.  Pairs of s16 add both theirs by PMADDWD.
    """
    kind = vector_type(how.type, lanes)
    if how.pairs and how.type == "i32":
        halves, name = vector_type("i16", 2 * lanes), _PAIRS_OF_SHORTS[lanes]
        both = [(halves, f.let(f"bitcast {kind} {value} to {halves}")) for value in (x, y)]
        return plus(f, how, lanes, f.intrinsic(kind, f"llvm.x86.{name}", both), to)
    if how.pairs:
        halves = vector_type("bfloat", 2 * lanes)
        both = [(halves, f.let(f"bitcast {kind} {value} to {halves}")) for value in (x, y)]
        return f.intrinsic(kind, f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", [(kind, to), *both])
    if how.type in ("float", "double"):
        short = f"v{lanes}f{how.bits}"
        return f.intrinsic(kind, f"llvm.fmuladd.{short}", [(kind, x), (kind, y), (kind, to)])
    product = f.let(f"{'and' if how.boolean else 'mul'} {kind} {x}, {y}")
    return plus(f, how, lanes, product, to)


_PAIRS_OF_SHORTS = {4: "sse2.pmadd.wd", 8: "avx2.pmadd.wd", 16: "avx512.pmaddw.d.512"}
"""LLVM's names of the sums of two products, by how many of them."""


def plus(f: Function, how: Arithmetic, lanes: int, x: str, y: str) -> str:
    """The sum of two vectors (or, for booleans)."""
    operation = "fadd" if how.type in ("float", "double") else "or" if how.boolean else "add"
    return f.let(f"{operation} {vector_type(how.type, lanes)} {x}, {y}")


def _total(f: Function, how: Arithmetic, lanes: int, value: str) -> str:
    """The sum of all lanes."""
    kind = vector_type(how.type, lanes)
    if how.type in ("float", "double"):
        callee = f.unit.declare(how.type, f"llvm.vector.reduce.fadd.v{lanes}f{how.bits}", [how.type, kind])
        return f.let(f"call reassoc {how.type} {callee}({how.type} -0.0, {kind} {value})")
    operation = "or" if how.boolean else "add"
    return f.intrinsic(how.type, f"llvm.vector.reduce.{operation}.v{lanes}{how.type}", [(kind, value)])


def splat(f: Function, value: str, kind: str, how: Arithmetic, lanes: int) -> str:
    """A vector that has `value` in all lanes."""
    one = f.let(f"insertelement {kind} poison, {how.type} {value}, i64 0")
    return f.let(f"shufflevector {kind} {one}, {kind} poison, <{lanes} x i32> zeroinitializer")


def _signs(how: Arithmetic, lanes: int, even: str, odd: str) -> str:
    return "<" + ", ".join(f"{how.type} {(even, odd)[lane % 2]}" for lane in range(lanes)) + ">"


def _swapped(f: Function, how: Arithmetic, lanes: int, value: str) -> str:
    """The vector with real and imaginary parts exchanged."""
    kind = vector_type(how.type, lanes)
    order = ", ".join(f"i32 {lane ^ 1}" for lane in range(lanes))
    return f.let(f"shufflevector {kind} {value}, {kind} poison, <{lanes} x i32> <{order}>")


def _complex(f: Function, how: Arithmetic, lanes: int, by_real: str, by_imaginary: str) -> str:
    """From the sums of re(a) * b and im(a) * b over interleaved b: the interleaved complex sums."""
    swapped = _swapped(f, how, lanes, by_imaginary)
    return multiply_add(f, how, lanes, swapped, _signs(how, lanes, "-1.0", "1.0"), by_real)

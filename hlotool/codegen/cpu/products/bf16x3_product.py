"""Products of matrices in bf16 parts (see `bf16x3`), on tile registers or, where numbers have none, with f32 numbers.

Tile registers multiply 32 rows by 32 columns.  At the edges, of fewer, that is made elsewhere, and a part of it copied.
The functions are the same for all products: a process compiles them once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice

from hlotool.codegen.cpu.products import bf16x3
from hlotool.codegen.cpu.products.bf16x3 import BLOCK, CHUNK, LINES, PART, PARTS, RANGE, ROW, TILE
from hlotool.codegen.cpu.products.microkernel import Calls, Microkernel, Tile
from hlotool.codegen.cpu.products.product import Product
from hlotool.codegen.cpu.products.tiles import SIDE, configure, move_tile, operate, tile_config
from hlotool.codegen.kernel import Definition, Helper
from hlotool.codegen.llvm.arguments import Place, argument
from hlotool.codegen.llvm.control import allocate, ask, begin_loop, call, open_function, return_when, when
from hlotool.codegen.llvm.values import Bool, Index, Int, Ptr, Truth, Vector, choose, either, number, where, zeros
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.lazy_dataclass import dataclass

__all__ = ["Bf16x3", "bf16x3_tiles", "emit_begin", "emit_end", "emit_multiply", "library"]

_ORDER = ((0, 2), (0, 1), (1, 1), (1, 0), (0, 0), (2, 0))
"""The products of parts of the left and of the right matrix, so that few are fetched twice."""

AHEAD = 1  # chunks that lines of both matrices are fetched ahead

_PRODUCT = 2 * 127 - 100
"""The least sum of the exponents (as f32 has them) of two numbers whose product is not too small."""


@dataclass(frozen=True, slots=True)
class Bf16x3:
    """What a product of parts knows of them: bytes between those of rows of the left matrix, and all ranges."""

    part: int
    left: Place
    lefts: int
    right: Place
    rights: int


def library(machine: Machine) -> tuple[str, ...]:
    """The texts of all functions that programs for `machine` may call."""
    if not machine.has_tiles:
        return ()
    return tuple(helper.text for helper in (_product(), *bf16x3.copies()))


def emit_begin(f: Function, operands: Bf16x3, task: Index | None = None) -> Bool:
    """Get tile registers ready; gives whether they can multiply matrices with these ranges, or task `task` of the right
    one."""
    f.unit.use(_product())
    left, right, rights = argument(f, operands.left), argument(f, operands.right), operands.rights
    if task is not None:
        right, rights = right + task * RANGE, 1
    return ask(f, "@bf16x3_begin", Bool, left, operands.lefts, right, rights)


def emit_multiply(
    *, a: Ptr, a_row: int, a_part: int, a_chunk: int, b: Ptr, c: Ptr, c_row: int, rows: Index, columns: Index,
    chunks: Index, add: Truth, safe: Bool, table: tuple[str, int] = ("bf16x3_once", 1),
) -> None:
    """Multiply at most 32 rows by as many columns, and add that to what is there if told to; `b` is a block.

    Strides are bytes between rows, between parts of a row, and between chunks of `a`, and between rows of the result at
    `c`.  With `table`, the name of a constant and how many numbers it has, there are `chunks` chunks so many bytes
    further for each of the numbers.
    """
    f, (name, taps) = a.f, table
    left = a, a_row, a_part, a_chunk, Ptr(f, f"@{name}"), taps
    call(f, "@bf16x3_multiply", *left, b, c, c_row, rows, columns, chunks, add, safe)


def emit_end(f: Function) -> None:
    """Let go of the tile registers."""
    call(f, "@bf16x3_end")


def bf16x3_tiles(operands: Bf16x3) -> Microkernel:
    """One function is for tiles of all shapes, and for all products."""
    return Microkernel(
        begin=lambda f, name, product, blocking: _Calls(f, operands, product), accumulates=True,
        columns_together=lambda arithmetic: 0, speed=0.85, rows_first=True,
    )


class _Calls(Calls):
    """See `microkernel.Calls`.  Parts of `b` that tasks make can be multiplied or not, from task to task."""

    def __init__(self, f: Function, operands: Bf16x3, product: Product) -> None:
        self.f, self.operands, self.product = f, operands, product
        self.safe: Bool | None = None if product.packing else emit_begin(f, operands)

    def begin_panels(self, task: Index) -> None:
        self.safe = emit_begin(self.f, self.operands, task)

    def multiply(self, tile: Tile) -> None:
        assert self.safe is not None
        product, (rows, columns), (tap,) = self.product, self.product.tile, self.product.taps
        high, wide = choose(tile.short, product.m % rows, rows), choose(tile.narrow, product.n % columns, columns)
        emit_multiply(
            a=tile.a, a_row=product.a.row, a_part=self.operands.part, a_chunk=SIDE * tap.a, b=tile.b, c=tile.c,
            c_row=product.c.row, rows=high, columns=wide,
            chunks=number(self.f, tile.terms).signed_quotient(SIDE), add=tile.add, safe=self.safe,
        )

    def end(self) -> None:
        emit_end(self.f)


_PITCH = LINES * 4  # bytes of a row of sums that are put down


@dataclass(frozen=True, slots=True)
class _Factors:
    """Parameters that say where rows of the left matrix are, and a block of the right one; see `emit_multiply`."""

    a: Ptr
    a_row: Int
    a_part: Int
    a_chunk: Int
    table: Ptr
    taps: Int
    b: Ptr

    @property
    def factors(self) -> tuple[Ptr, Int, Int, Int, Ptr, Int, Ptr]:
        return self.a, self.a_row, self.a_part, self.a_chunk, self.table, self.taps, self.b

    def tap(self, number: Index) -> Ptr:
        """Where rows begin for number `number` of the table."""
        return self.a + self.table.at("i64", number).load_int()


@dataclass(frozen=True, slots=True)
class _Multiply(_Factors):
    c: Ptr
    c_row: Int
    rows: Int
    columns: Int
    chunks: Int
    add: Bool
    safe: Bool


@dataclass(frozen=True, slots=True)
class _Tiles(_Factors):
    c: Ptr
    c_row: Int
    chunks: Int
    add: Bool


@dataclass(frozen=True, slots=True)
class _Exact(_Factors):
    sums: Ptr
    rows: Int
    chunks: Int


@cache
def _product() -> Helper:
    """The functions of products: they are the same for all of them."""
    unit = Unit()
    _emit_begin(unit)
    f = Function(unit, "void @bf16x3_end() nounwind")
    operate(f, "tilerelease")
    f.finish()
    _emit_multiply(unit)
    _emit_tiles(unit)
    _emit_exact(unit)
    _emit_move(unit)
    return bf16x3.kept_helper(unit, "@bf16x3_once = external constant i64")


def _emit_begin(unit: Unit) -> None:
    """Define ``bf16x3_begin``: see `emit_begin`."""
    unit.data("bf16x3_shapes", tile_config([SIDE, SIDE], [SIDE, SIDE]))
    unit.definitions.append(Definition("bf16x3_once", "@bf16x3_once = constant i64 0"))
    f = Function(unit, "i1 @bf16x3_begin(ptr %left, i64 %lefts, ptr %right, i64 %rights) nounwind")
    configure(Ptr(f, "@bf16x3_shapes"))
    exponents, fine = [], Vector(f, "i1", 1, "true")
    for side in ("left", "right"):
        start = Ptr(f, f"%{side}"), *bf16x3.empty_range(f)
        loop = begin_loop(f, 0, Int(f, f"%{side}s"), 1, *start, at_least_once=True)
        at, low, high = loop.values
        low = low.call("umin", at.load("i32", SIDE, align=64))
        high = high.call("umax", (at + RANGE // 2).load("i32", SIDE, align=64))
        _, low, high = loop.end(at + RANGE, low, high)
        least, largest = low.reduce("umin"), high.reduce("umax")
        fine &= least.compare("uge", bf16x3.SMALLEST - 1)
        fine &= largest.compare("ule", bf16x3.LARGEST)
        exponents.append(least.lshr(23))
    fine &= (exponents[0] + exponents[1]).compare("uge", _PRODUCT)
    f.finish(f"{fine.type} {fine.name}")


def _emit_multiply(unit: Unit) -> None:
    """Define ``bf16x3_multiply``: what is not a whole block, or not safe, is added up in a block of its own."""
    f, given = open_function(unit, "bf16x3_multiply", _Multiply)
    whole = given.rows.eq(LINES) & given.columns.eq(LINES)
    factors, to = given.factors, (given.c, given.c_row)
    return_when(given.safe & whole, lambda: call(f, "@bf16x3_tiles", *factors, *to, given.chunks, given.add))
    sums = allocate(f, "i8", LINES * _PITCH, align=64)
    part = sums, _PITCH
    call(f, "@bf16x3_move", *to, *part, given.rows, given.columns, given.add)
    when(
        given.safe,
        lambda: call(f, "@bf16x3_tiles", *factors, *part, given.chunks, True),
        lambda: call(f, "@bf16x3_exact", *factors, sums, given.rows, given.chunks),
    )
    call(f, "@bf16x3_move", *part, *to, given.rows, given.columns, True)
    f.finish()


def _emit_tiles(unit: Unit) -> None:
    """Define ``bf16x3_tiles``: the product of whole blocks on tile registers, added to what is there with `add`.

    Registers 0 to 3 hold sums, 4 and 5 rows of `a`, 6 and 7 columns of `b`.
    """
    f, given = open_function(unit, "bf16x3_tiles", _Tiles, internal=True)
    row, column = given.a_row * SIDE, given.c_row * SIDE
    lefts: list[Index] = [0, row]
    for part in range(1, PARTS):
        lefts.append(given.a_part * part)
        lefts.append(lefts[-1] + row)
    below = given.c + column
    cells = [given.c, given.c + ROW, below, below + ROW]

    def load_sums() -> None:
        for register, cell in enumerate(cells):
            move_tile("tileloadd64", register, cell, given.c_row)

    def clear_sums() -> None:
        for register in range(len(cells)):
            operate(f, "tilezero", register)

    when(given.add, load_sums, clear_sums)
    tap = begin_loop(f, 0, given.taps, 1, given.b, at_least_once=True)
    loop = begin_loop(f, 0, given.chunks, 1, given.tap(tap.index), *tap.values, at_least_once=True)
    a, b = loop.values
    last = [-1, -1]
    ahead, each = _coming(given, a, b), 2 * BLOCK // ROW // (len(_ORDER) * len(cells))
    for parts in _ORDER:
        for half in (0, 1):
            if parts[0] != last[0]:
                move_tile("tileloadd64", 4 + half, a + lefts[2 * parts[0] + half], given.a_row)
            if parts[1] != last[1]:
                move_tile("tileloadd64", 6 + half, b + (parts[1] * PART + half * TILE), ROW)
        last = [*parts]
        for register in range(len(cells)):
            operate(f, "tdpbf16ps", register, 4 + register // 2, 6 + register % 2)
            for line in islice(ahead, each):
                line.fetch()
    _, b = loop.end(a + given.a_chunk, b + BLOCK)
    tap.end(b)
    for register, cell in enumerate(cells):
        move_tile("tilestored64", register, cell, given.c_row)
    f.finish()


def _coming(given: _Tiles, a: Ptr, b: Ptr) -> Iterator[Ptr]:
    """The lines of the caches in which a later chunk lies: of the right matrix, and of the left one."""
    place = a + given.a_chunk * AHEAD
    for row in range(LINES):
        for part in range(PARTS):
            yield b + (AHEAD * BLOCK + (row * PARTS + part) * ROW)
            yield place + given.a_part * part if part else place
        place += given.a_row


def _emit_move(unit: Unit) -> None:
    """Define ``bf16x3_move``: copy rows of a block; zeros unless they are `present`."""
    places = "ptr %from, i64 %from_row, ptr %to, i64 %to_row"
    f = Function(unit, f"internal void @bf16x3_move({places}, i64 %rows, i64 %columns, i1 %present) nounwind")
    columns = Int(f, "%columns")
    masks = bf16x3.first_lanes(columns), bf16x3.first_lanes(columns - SIDE)
    some = [either(Bool(f, "%present"), mask, zeros(f, "i1", SIDE)) for mask in masks]
    row = begin_loop(f, 0, Int(f, "%rows"), 1, Ptr(f, "%from"), Ptr(f, "%to"), at_least_once=True)
    read, write = row.values
    for v in (0, 1):
        value = (read + ROW * v).load_masked("float", some[v], align=4)
        (write + ROW * v).store_masked(value, masks[v], align=4)
    row.end(read + Int(f, "%from_row"), write + Int(f, "%to_row"))
    f.finish()


def _emit_exact(unit: Unit) -> None:
    """Define ``bf16x3_exact``: add the product of some rows and a block to the sums, with f32 numbers."""
    f, given = open_function(unit, "bf16x3_exact", _Exact, internal=True)
    left, right = (allocate(f, "float", LINES * LINES, align=64) for _ in range(2))
    tap = begin_loop(f, 0, given.taps, 1, given.b, at_least_once=True)
    chunk = begin_loop(f, 0, given.chunks, 1, given.tap(tap.index), *tap.values, at_least_once=True)
    a, b = chunk.values
    row = begin_loop(f, 0, given.rows, 1, a, left, at_least_once=True)
    at, put = row.values
    shifts = [given.a_part * part for part in range(PARTS)]
    _join([at + shift for shift in shifts], (put, put + ROW))
    row.end(at + given.a_row, put + _PITCH)
    pair = begin_loop(f, 0, SIDE, 1, b, right)
    at, put = pair.values
    for v in (0, 1):
        places = [at + (part * PART + v * TILE) for part in range(PARTS)]
        _join(places, (put + ROW * v, put + (SIDE * _PITCH + ROW * v)))
    pair.end(at + ROW, put + _PITCH)
    _multiply(given, left, right)
    _, b = chunk.end(a + given.a_chunk, b + BLOCK)
    tap.end(b)
    f.finish()


def _multiply(given: _Exact, left: Ptr, right: Ptr) -> None:
    """Add the product of two chunks of 32 x 32 f32 numbers to the sums; rows beyond the last may be anything."""
    together = 4
    rows = begin_loop(left.f, 0, given.rows, together, left, given.sums, at_least_once=True)
    at, to = rows.values
    places = [to + (_PITCH * row + ROW * v) for row in range(together) for v in (0, 1)]
    sums = [place.load("float", SIDE, align=64) for place in places]
    term = begin_loop(left.f, 0, CHUNK, 1, at, right, *sums)
    x, y, *sums = term.values
    columns = [(y + ROW * v).load("float", SIDE, align=64) for v in (0, 1)]
    for row in range(together):
        factor = (x + _PITCH * row).load("float", align=4).spread(SIDE)
        for v, column in enumerate(columns):
            sums[2 * row + v] = factor.call("fmuladd", column, sums[2 * row + v])
    _, _, *sums = term.end(x + 4, y + _PITCH, *sums)
    for value, place in zip(sums, places, strict=True):
        place.store(value, align=64)
    rows.end(at + _PITCH * together, to + _PITCH * together)


def _join(places: list[Ptr], to: tuple[Ptr, Ptr]) -> None:
    """Read parts of pairs, and write the f32 numbers that are first and those that are second in pairs."""
    pairs = [place.load("i32", SIDE, align=64) for place in places]
    for second, put in enumerate(to):
        words = [pair & -1 << 16 if second else pair.shl(16) for pair in pairs]
        parts = [word.as_float() for word in words]
        whole = parts[0] + (parts[1] + parts[2])
        bits = words[0] | words[1].lshr(16)
        unsplit = words[2].eq(bf16x3.MARK)
        put.store(where(unsplit, bits.as_float(), whole), align=64)

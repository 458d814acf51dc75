"""Products of matrices in bf16 parts (see `bf16x3`), on tile registers or, where numbers have none, with f32 numbers.

Tile registers multiply 32 rows by 32 columns.  At the edges, of fewer, that is made elsewhere, and a part of it copied.
The functions are the same for all products: a process compiles them once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import islice

from hlotool.codegen.cpu.products.bf16x3 import (
    BITS,
    BLOCK,
    CHUNK,
    FLOATS,
    LARGEST,
    LINES,
    MARK,
    PART,
    PARTS,
    RANGE,
    ROW,
    SMALLEST,
    TILE,
    WIDE,
    copies,
    first_lanes,
    kept_helper,
    load_lanes,
)
from hlotool.codegen.cpu.products.tiles import SIDE, operate, tile_config
from hlotool.codegen.kernel import Definition, Helper
from hlotool.codegen.llvm.addressing import Place, advance, argument, offset
from hlotool.codegen.llvm.elements import has_tiles
from hlotool.codegen.llvm.values import Ptr
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine

__all__ = ["Bf16x3", "emit_begin", "emit_end", "emit_multiply", "library"]

_ORDER = ((0, 2), (0, 1), (1, 1), (1, 0), (0, 0), (2, 0))
"""The products of parts of the left and of the right matrix, so that few are fetched twice."""

AHEAD = 1  # chunks that lines of the right matrix are fetched ahead

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
    if not has_tiles(machine):
        return ()
    return tuple(helper.text for helper in (_product(), *copies()))


def emit_begin(f: Function, bf16x3: Bf16x3, task: str = "") -> str:
    """Get tile registers ready; gives whether they can multiply matrices with these ranges, or task `task` of the right
    one."""
    f.unit.use(_product())
    left, right, rights = argument(f, bf16x3.left), argument(f, bf16x3.right), bf16x3.rights
    if task:
        right, rights = advance(f, right, task, RANGE), 1
    return f.let(f"call i1 @bf16x3_begin(ptr {left}, i64 {bf16x3.lefts}, ptr {right}, i64 {rights})")


def emit_multiply(
    f: Function, safe: str, a: tuple[str, int, int, int], b: str, c: tuple[str, int],
    extents: tuple[str | int, str | int],
    chunks: str | int, add: str, table: tuple[str, int] | None = None,
) -> None:
    """Multiply at most 32 rows by as many columns (`extents`); `b` is a block.

    `a` is where the rows are and the bytes between them, between parts and between chunks; `c` where the result goes
    and the bytes between its rows.  With `table`, the name of a constant and how many numbers it has, there are
    `chunks` chunks so many bytes further for each of the numbers.
    """
    name, count = table or ("@bf16x3_once", 1)
    f.do(
        f"call void @bf16x3_multiply(ptr {a[0]}, i64 {a[1]}, i64 {a[2]}, i64 {a[3]}, ptr {name}, i64 {count}, ptr {b}, "
        f"ptr {c[0]}, i64 {c[1]}, i64 {extents[0]}, i64 {extents[1]}, i64 {chunks}, i1 {add}, i1 {safe})"
    )


def emit_end(f: Function) -> None:
    """Let go of the tile registers."""
    f.do("call void @bf16x3_end()")


_LEFT = "ptr %a, i64 %a_row, i64 %a_part, i64 %a_chunk, ptr %table, i64 %taps"
_PITCH = LINES * 4  # bytes of a row of sums that are put down


@cache
def _product() -> Helper:
    """The functions of products: they are the same for all of them."""
    unit = Unit()
    _emit_begin(unit)
    f = Function(unit, "void @bf16x3_end() nounwind")
    operate(f, "tilerelease", [])
    f.finish()
    _emit_multiply(unit)
    _emit_tiles(unit)
    _emit_exact(unit)
    _emit_move(unit)
    declared = [
        "declare i1 @bf16x3_begin(ptr, i64, ptr, i64)",
        "declare void @bf16x3_end()",
        "declare void @bf16x3_multiply(ptr, i64, i64, i64, ptr, i64, ptr, ptr, i64, i64, i64, i64, i1, i1)",
        "@bf16x3_once = external constant i64",
    ]
    return kept_helper(unit, *declared)


def _emit_begin(unit: Unit) -> None:
    shapes = tile_config([SIDE, SIDE], [SIDE, SIDE])
    unit.data("bf16x3_shapes", shapes)
    unit.definitions.append(Definition("bf16x3_once", "@bf16x3_once = constant i64 0"))
    f = Function(unit, "i1 @bf16x3_begin(ptr %left, i64 %lefts, ptr %right, i64 %rights) nounwind")
    operate(f, "ldtilecfg", [("ptr", "@bf16x3_shapes")])
    exponents, fine = [], "true"
    for where, count in (("%left", "%lefts"), ("%right", "%rights")):
        start = [("ptr", where), (WIDE, "splat (i32 -1)"), (WIDE, "zeroinitializer")]
        loop = f.begin_loop(0, count, 1, start, at_least_once=True)
        at, *found = loop.values
        for lane, which in enumerate(("umin", "umax")):
            here = f.let(f"load {WIDE}, ptr {offset(f, at, lane * RANGE // 2)}, align 64")
            found[lane] = f.intrinsic(WIDE, f"llvm.{which}.v{SIDE}i32", [(WIDE, found[lane]), (WIDE, here)])
        _, low, high = f.end_loop(loop, [offset(f, at, RANGE), *found])
        low = f.intrinsic("i32", f"llvm.vector.reduce.umin.v{SIDE}i32", [(WIDE, low)])
        high = f.intrinsic("i32", f"llvm.vector.reduce.umax.v{SIDE}i32", [(WIDE, high)])
        for test in (f"icmp uge i32 {low}, {SMALLEST - 1}", f"icmp ule i32 {high}, {LARGEST}"):
            fine = f.let(f"and i1 {fine}, {f.let(test)}")
        exponents.append(f.let(f"lshr i32 {low}, 23"))
    least = f.let(f"add i32 {exponents[0]}, {exponents[1]}")
    fine = f.let(f"and i1 {fine}, {f.let(f'icmp uge i32 {least}, {_PRODUCT}')}")
    f.finish(f"i1 {fine}")


def _emit_multiply(unit: Unit) -> None:
    """What is not a whole block, or not safe, is added up in a block of its own."""
    f = Function(
        unit,
        f"void @bf16x3_multiply({_LEFT}, ptr %b, ptr %c, i64 %c_row, i64 %rows, i64 %columns, i64 %chunks, i1 %add, "
        "i1 %safe) nounwind",
    )
    left = ", ".join(f"{part}" for part in _LEFT.split(", "))
    whole = f.let(f"and i1 {f.let(f'icmp eq i64 %rows, {LINES}')}, {f.let(f'icmp eq i64 %columns, {LINES}')}")
    here = f.let(f"and i1 %safe, {whole}")
    f.branch(here, "whole", "part")
    f.label("whole")
    f.do(f"call void @bf16x3_tiles({left}, ptr %b, ptr %c, i64 %c_row, i64 %chunks, i1 %add)")
    f.do("ret void")
    f.label("part")
    sums = f.let(f"alloca [{LINES * _PITCH} x i8], align 64")
    held = f"ptr {sums}, i64 {_PITCH}"
    f.do(f"call void @bf16x3_move(ptr %c, i64 %c_row, {held}, i64 %rows, i64 %columns, i1 %add)")
    f.branch("%safe", "tiles", "exact")
    f.label("tiles")
    f.do(f"call void @bf16x3_tiles({left}, ptr %b, {held}, i64 %chunks, i1 true)")
    f.jump("done")
    f.label("exact")
    f.do(f"call void @bf16x3_exact({left}, ptr %b, ptr {sums}, i64 %rows, i64 %chunks)")
    f.jump("done")
    f.label("done")
    f.do(f"call void @bf16x3_move({held}, ptr %c, i64 %c_row, i64 %rows, i64 %columns, i1 true)")
    f.finish()


def _emit_tiles(unit: Unit) -> None:
    """Define ``bf16x3_tiles``: the product of whole blocks on tile registers, added to what is there with %add.

    Registers 0 to 3 hold sums, 4 and 5 rows of `a`, 6 and 7 columns of `b`.
    """
    right = "ptr %b, ptr %c, i64 %c_row, i64 %chunks, i1 %add"
    f = Function(unit, f"internal void @bf16x3_tiles({_LEFT}, {right}) nounwind")
    row, column = f.let(f"mul i64 %a_row, {SIDE}"), f.let(f"mul i64 %c_row, {SIDE}")
    lefts = ["0", row]
    for part in range(1, PARTS):
        lefts.append(f.let(f"mul i64 %a_part, {part}"))
        lefts.append(f.let(f"add i64 {lefts[-1]}, {row}"))
    below = f.let(f"getelementptr i8, ptr %c, i64 {column}")
    cells = ["%c", offset(f, "%c", ROW), below, offset(f, below, ROW)]
    f.branch("%add", "more", "first")
    f.label("more")
    for register, cell in enumerate(cells):
        operate(f, "tileloadd64", [("i8", str(register)), ("ptr", cell), ("i64", "%c_row")])
    f.jump("begin")
    f.label("first")
    for register in range(len(cells)):
        operate(f, "tilezero", [("i8", str(register))])
    f.jump("begin")
    f.label("begin")
    tap = f.begin_loop(0, "%taps", 1, [("ptr", "%b")], at_least_once=True)
    loop = f.begin_loop(0, "%chunks", 1, [("ptr", _tap(f, tap.index)), ("ptr", tap.values[0])], at_least_once=True)
    a, b = loop.values
    held = [-1, -1]
    lines, each = iter(range(0, BLOCK, ROW)), BLOCK // ROW // (len(_ORDER) * len(cells))
    for parts in _ORDER:
        for half in (0, 1):
            if parts[0] != held[0]:
                at = f.let(f"getelementptr i8, ptr {a}, i64 {lefts[2 * parts[0] + half]}")
                operate(f, "tileloadd64", [("i8", str(4 + half)), ("ptr", at), ("i64", "%a_row")])
            if parts[1] != held[1]:
                at = offset(f, b, parts[1] * PART + half * TILE)
                operate(f, "tileloadd64", [("i8", str(6 + half)), ("ptr", at), ("i64", str(ROW))])
        held = [*parts]
        for register in range(len(cells)):
            pair = ("i8", str(4 + register // 2)), ("i8", str(6 + register % 2))
            operate(f, "tdpbf16ps", [("i8", str(register)), *pair])
            for line in islice(lines, each):
                f.fetch(offset(f, b, AHEAD * BLOCK + line))
    f.end_loop(tap, f.end_loop(loop, [f.let(f"getelementptr i8, ptr {a}, i64 %a_chunk"), offset(f, b, BLOCK)])[1:])
    for register, cell in enumerate(cells):
        operate(f, "tilestored64", [("i8", str(register)), ("ptr", cell), ("i64", "%c_row")])
    f.finish()


def _tap(f: Function, number: str) -> str:
    """Where rows begin for number `number` of the table."""
    place = f.let(f"getelementptr i64, ptr %table, i64 {number}")
    return f.let(f"getelementptr i8, ptr %a, i64 {f.let(f'load i64, ptr {place}')}")


def _emit_move(unit: Unit) -> None:
    """Define ``bf16x3_move``: copy rows of a block; zeros without %there."""
    places = "ptr %from, i64 %from_row, ptr %to, i64 %to_row"
    f = Function(unit, f"internal void @bf16x3_move({places}, i64 %rows, i64 %columns, i1 %there) nounwind")
    masks = [first_lanes(f, "%columns"), first_lanes(f, f.let(f"sub i64 %columns, {SIDE}"))]
    some = [f.let(f"select i1 %there, {BITS} {mask}, {BITS} zeroinitializer") for mask in masks]
    callee = unit.declare("void", f"llvm.masked.store.v{SIDE}f32.p0", [FLOATS, "ptr", BITS])
    row = f.begin_loop(0, "%rows", 1, [("ptr", "%from"), ("ptr", "%to")], at_least_once=True)
    for v in (0, 1):
        value, at = load_lanes(f, offset(f, row.values[0], ROW * v), some[v]), offset(f, row.values[1], ROW * v)
        f.do(f"call void {callee}({FLOATS} {value}, ptr align 4 {at}, {BITS} {masks[v]})")
    strides = zip(row.values, ("%from_row", "%to_row"), strict=True)
    f.end_loop(row, [f.let(f"getelementptr i8, ptr {at}, i64 {stride}") for at, stride in strides])
    f.finish()


def _emit_exact(unit: Unit) -> None:
    """Define ``bf16x3_exact``: add the product of %rows rows and a block to the sums, with f32 numbers."""
    f = Function(unit, f"internal void @bf16x3_exact({_LEFT}, ptr %b, ptr %sums, i64 %rows, i64 %chunks) nounwind")
    left, right = (f.let(f"alloca [{LINES * LINES} x float], align 64") for _ in range(2))
    tap = f.begin_loop(0, "%taps", 1, [("ptr", "%b")], at_least_once=True)
    chunk = f.begin_loop(0, "%chunks", 1, [("ptr", _tap(f, tap.index)), ("ptr", tap.values[0])], at_least_once=True)
    a, b = chunk.values
    row = f.begin_loop(0, "%rows", 1, [("ptr", a), ("ptr", left)], at_least_once=True)
    at, put = row.values
    shifts = [f.let(f"mul i64 %a_part, {part}") for part in range(PARTS)]
    places = [f.let(f"getelementptr i8, ptr {at}, i64 {shift}") for shift in shifts]
    _join(f, places, (put, offset(f, put, ROW)))
    f.end_loop(row, [f.let(f"getelementptr i8, ptr {at}, i64 %a_row"), offset(f, put, _PITCH)])
    pair = f.begin_loop(0, SIDE, 1, [("ptr", b), ("ptr", right)])
    at, put = pair.values
    for v in (0, 1):
        places = [offset(f, at, part * PART + v * TILE) for part in range(PARTS)]
        _join(f, places, (offset(f, put, ROW * v), offset(f, put, SIDE * _PITCH + ROW * v)))
    f.end_loop(pair, [offset(f, at, ROW), offset(f, put, _PITCH)])
    _multiply(f, left, right)
    f.end_loop(tap, f.end_loop(chunk, [f.let(f"getelementptr i8, ptr {a}, i64 %a_chunk"), offset(f, b, BLOCK)])[1:])
    f.finish()


def _multiply(f: Function, left: str, right: str) -> None:
    """Add the product of two chunks of 32 x 32 f32 numbers to the sums; rows beyond %rows may be anything."""
    together = 4
    rows = f.begin_loop(0, "%rows", together, [("ptr", left), ("ptr", "%sums")], at_least_once=True)
    at, to = rows.values
    places = [offset(f, to, _PITCH * row + ROW * v) for row in range(together) for v in (0, 1)]
    held = [f.let(f"load {FLOATS}, ptr {place}, align 64") for place in places]
    term = f.begin_loop(0, CHUNK, 1, [("ptr", at), ("ptr", right), *((FLOATS, value) for value in held)])
    x, y, *held = term.values
    columns = [f.let(f"load {FLOATS}, ptr {offset(f, y, ROW * v)}, align 64") for v in (0, 1)]
    for row in range(together):
        splat = Ptr(f, offset(f, x, _PITCH * row)).load("float", align=4).spread(SIDE).name
        for v, column in enumerate(columns):
            arguments = [(FLOATS, splat), (FLOATS, column), (FLOATS, held[2 * row + v])]
            held[2 * row + v] = f.intrinsic(FLOATS, f"llvm.fmuladd.v{SIDE}f32", arguments)
    _, _, *held = f.end_loop(term, [offset(f, x, 4), offset(f, y, _PITCH), *held])
    for value, place in zip(held, places, strict=True):
        f.do(f"store {FLOATS} {value}, ptr {place}, align 64")
    f.end_loop(rows, [offset(f, at, _PITCH * together), offset(f, to, _PITCH * together)])


def _join(f: Function, places: list[str], to: tuple[str, str]) -> None:
    """Read parts of pairs, and write the f32 numbers that are first and those that are second in pairs."""
    pairs = [f.let(f"load {WIDE}, ptr {place}, align 64") for place in places]
    for number, put in enumerate(to):
        if number == 0:
            words = [f.let(f"shl {WIDE} {pair}, splat (i32 16)") for pair in pairs]
        else:
            words = [f.let(f"and {WIDE} {pair}, splat (i32 {-1 << 16})") for pair in pairs]
        first, second, last = (f.let(f"bitcast {WIDE} {word} to {FLOATS}") for word in words)
        whole = f.let(f"fadd {FLOATS} {first}, {f.let(f'fadd {FLOATS} {second}, {last}')}")
        bits = f.let(f"or {WIDE} {words[0]}, {f.let(f'lshr {WIDE} {words[1]}, splat (i32 16)')}")
        kept = f.let(f"icmp eq {WIDE} {words[2]}, splat (i32 {MARK})")
        as_kept = f.let(f"bitcast {WIDE} {bits} to {FLOATS}")
        value = f.let(f"select {BITS} {kept}, {FLOATS} {as_kept}, {FLOATS} {whole}")
        f.do(f"store {FLOATS} {value}, ptr {put}, align 64")

"""f32 matrices as sums of three bf16 matrices, for processors that multiply tiles of those (Intel AMX).

Rounded to 8 bits three times, an f32 number is the sum of three bf16 numbers, its *parts*, and nothing is left over:
``x = x0 + x1 + x2`` with ``|x1| <= 2^-8 |x|`` and ``|x2| <= 2^-16 |x|``.  Of the nine products of the parts of two
numbers the six largest are added up; the other three are less than ``2^-22 |x y|`` together in the worst case, and as
a rule well below the rounding of one f32 addition.  Tile registers add 32 terms before they add to the sum, so that it
is rounded less often than a sum of f32 products.  (Henry, Tang and Heinecke, "Leveraging the bfloat16 Artificial
Intelligence Datatype For Higher-Precision Computations", 2019; the rounding to 8 bits is Veltkamp's, in Dekker, "A
floating-point technique for extending the available precision", 1971.  oneMKL calls the mode ``float_to_bf16x3``.)

That holds for numbers that are not too small or too large, for their parts and for the products of parts: tile
registers take subnormal numbers for zeros.  So copies also note how small and how large the numbers are, and a product
of matrices for which that matters is computed with f32 numbers (see `bf16x3_product`), joined again from their parts.
What has none, infinities and NaN among them, lies in the first two bit for bit.

A matrix lies in blocks of 32 lines: rows of the left one, columns of the right one.  A block is a sequence of chunks,
32 terms of the sum each; a chunk has two tile registers for each part, 16 rows of 64 bytes.  These are lines of 32
terms of the left matrix, pairs of terms of 16 columns of the right one.  A pair is a term of the first half of the
chunk and the same of the second half.  Terms are filled up with zeros to whole chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.pack import CALLED, Axis
from hlotool.codegen.cpu.products.tiles import SIDE
from hlotool.codegen.kernel import PLUMBING, Helper, Step, signature
from hlotool.codegen.llvm.addressing import Place, advance, argument, count_in_block, offset, unravel, when
from hlotool.codegen.llvm.values import Vector
from hlotool.codegen.llvm.vectors import transposed
from hlotool.codegen.llvm.writer import Function, Unit

__all__ = [
    "BITS",
    "BLOCK",
    "CHUNK",
    "FLOATS",
    "GROUP",
    "LARGEST",
    "LINES",
    "MARK",
    "PART",
    "PARTS",
    "PIXEL_CHUNK",
    "RANGE",
    "ROW",
    "SMALLEST",
    "TILE",
    "WIDE",
    "Split",
    "both",
    "copies",
    "emit_nothing",
    "emit_pixels",
    "emit_split",
    "first_lanes",
    "kept_helper",
    "load_lanes",
    "pays",
]

LINES = 2 * SIDE  # of a matrix in a block
CHUNK = 2 * SIDE  # terms of the sum in a tile register
PARTS = 3
ROW = 64  # bytes of a row of a tile register
TILE = SIDE * ROW  # bytes of one
PART = 2 * TILE  # bytes of a part of a chunk of a block
BLOCK = PARTS * PART  # bytes of a chunk of a block
PIXEL_CHUNK = PARTS * ROW  # bytes of a chunk of a pixel
PAYS: Annotated[int, Threshold("uses")] = 100
"""Multiplications of each number that pay for its parts (measured on Sapphire Rapids)."""
LEAST: Annotated[float, Threshold("multiplications")] = 2.5e7
"""Multiplications of a product that is worth the trouble: some 100 microseconds."""
GROUP: Annotated[int, Threshold("blocks")] = 4  # blocks at most in a task

RANGE = 128  # bytes of a range: 16 absolute values less one, the least but for zeros, and 16 that are the largest

SMALLEST, LARGEST = (127 - 100) << 23, (127 + 50) << 23
"""The bits of the least and the largest absolute value that parts are made for."""

MARK = 0x7FFF << 16
"""The last part, a NaN, of what has no parts."""

WIDE, FLOATS, BITS = f"<{SIDE} x i32>", f"<{SIDE} x float>", f"<{SIDE} x i1>"
_EVERY = ", ".join(f"i32 {lane}" for lane in range(SIDE))


@dataclass(frozen=True, slots=True)
class Split:
    """A copy of `lines` x `terms` f32 numbers, `line` and `term` bytes apart, to the parts of a left or right matrix.

    One of `line` and `term` is the size of a number.  With `panel` lines lie in panels of 16, so many bytes apart.
    There are such matrices for all of `outer`.  Each task makes `group` blocks, and notes the range of their numbers at
    a place of its own.  If it is `called` by others they say where the blocks go: see `pack.CALLED`.  Blocks are
    `pitch` bytes apart, if they do not follow one another.
    """

    outer: tuple[Axis, ...]
    lines: int
    line: int
    terms: int
    term: int
    right: bool
    source: Place
    target: Place
    ranges: Place
    panel: int = 0
    group: int = 1
    called: bool = False
    pitch: int = 0

    @property
    def size(self) -> int:
        """Bytes from block to block."""
        return self.pitch or -(-self.terms // CHUNK) * BLOCK

    @property
    def blocks(self) -> int:
        return -(-self.lines // LINES)

    @property
    def along(self) -> bool:
        """Whether it is terms that lie side by side."""
        return self.term == 4 and not self.panel

    @property
    def tasks(self) -> int:
        """How many ranges there will be."""
        tasks = -(-self.blocks // self.group)
        for axis in self.outer:
            tasks *= axis.extent
        return tasks


def pays(multiplications: float, numbers: float) -> bool:
    """Whether so many multiplications make up for the parts of so many numbers."""
    return multiplications >= max(PAYS * numbers, LEAST)


def emit_split(unit: Unit, name: str, split: Split) -> Step:
    """Define step function `name`, or one for others to call."""
    f = Function(unit, f"void @{name}{CALLED} nounwind {PLUMBING}" if split.called else signature(name, plumbing=True))
    task = f.begin_loop("%begin", "%end")
    high, groups = split.group * LINES, -(-split.blocks // split.group)
    *outer, group = unravel(f, task.index, [*(axis.extent for axis in split.outer), groups])
    far = high // SIDE * split.panel if split.panel else high * split.line
    read = advance(f, argument(f, split.source), group, far)
    write = "%to" if split.called else advance(f, argument(f, split.target), group, split.group * split.size)
    for axis, at in zip(split.outer, outer, strict=True):
        read, write = advance(f, read, at, axis.source), advance(f, write, at, 0 if split.called else axis.target)
    lines = count_in_block(f, group, high, split.lines, groups)
    found = advance(f, argument(f, split.ranges), task.index, RANGE)
    turned = split.along == split.right
    unit.use(_mark())
    unit.use(_helper(split.along, turned))
    emit_nothing(f, found)
    steps = f"i64 {split.line}" if split.along else f"i64 {split.term}, i64 {split.panel or ROW}"
    f.do(
        f"call void @{_name(split.along, turned)}(ptr {read}, {steps}, i64 {split.size}, i64 {lines}, "
        f"i64 {split.terms}, ptr {write}, ptr {found})"
    )
    f.end_loop(task)
    f.finish()
    elements = split.lines * split.terms
    for axis in split.outer:
        elements *= axis.extent
    return Step(name, split.tasks, elements / 4.0)


def emit_pixels(f: Function, read: str, step: int, count: int, features: int, write: str, found: str) -> None:
    """Split pixels, `step` bytes apart, of whole chunks of features; the range at `found` grows.

    They lie one behind the other, and in a pixel the parts of the first chunk, those of the second and so on.
    """
    f.unit.use(_mark())
    f.unit.use(_pixels())
    f.do(
        f"call void @bf16x3_pixels(ptr {read}, i64 {step}, i64 {count}, i64 {features}, ptr {write}, ptr {found})"
    )


def emit_nothing(f: Function, found: str) -> None:
    """Make the range at `found` that of no numbers."""
    f.do(f"store {WIDE} splat (i32 -1), ptr {found}, align 64")
    f.do(f"store {WIDE} zeroinitializer, ptr {offset(f, found, RANGE // 2)}, align 64")


def both(unit: Unit, name: str, first: Step, second: Step) -> Step:
    """Define step function `name` for the tasks of both steps, which do not depend on one another."""
    f = Function(unit, signature(name, plumbing=True))
    between = str(first.tasks)
    for step, which, start in ((first, "smin", "0"), (second, "smax", between)):
        tasks = [f.intrinsic("i64", f"llvm.{which}.i64", [("i64", t), ("i64", between)]) for t in ("%begin", "%end")]
        begin, end = (f.let(f"sub i64 {task}, {start}") for task in tasks)
        f.do(f"call void @{step.function}(ptr %args, i64 {begin}, i64 {end})")
    f.finish()
    return Step(name, first.tasks + second.tasks, first.cost + second.cost)


def copies() -> list[Helper]:
    """All functions that copy."""
    return [*(_helper(along, turned) for along in (False, True) for turned in (False, True)), _pixels(), _mark()]


def kept_helper(unit: Unit, *declared: str) -> Helper:
    """The functions of `unit`, for all programs."""
    return Helper(unit.declared, unit.defined, "\n".join(declared), kept=True)


def _name(along: bool, turned: bool) -> str:
    return f"bf16x3_of_{'terms' if along else 'lines'}{'_turned' if turned else ''}"


@cache
def _helper(along: bool, turned: bool) -> Helper:
    """The function that splits some lines whose terms, or terms whose lines, lie side by side.

    ``bf16x3_of_terms(ptr from, i64 line, i64 size, i64 lines, i64 terms, ptr to, ptr range)`` and
    ``bf16x3_of_lines(ptr from, i64 term, i64 panel, i64 size, ...)`` make blocks of `size` bytes.  The first makes
    those of a left matrix, the second of a right one; for the others tile registers are to be `turned`.
    """
    unit = Unit()
    name, steps = _name(along, turned), "i64 %line" if along else "i64 %term, i64 %panel"
    where = "ptr noalias %to, ptr noalias %range"
    f = Function(unit, f"void @{name}(ptr noalias %from, {steps}, i64 %size, i64 %lines, i64 %terms, {where}) nounwind")
    unit.use(_mark())
    (_of_terms if along else _of_lines)(f, turned)
    f.finish()
    if turned:
        _emit_turn(unit)
    types = ", ".join(["ptr", *["i64"] * (steps.count("i64") + 3), "ptr", "ptr"])
    return kept_helper(unit, f"declare void @{name}({types})")


def _of_terms(f: Function, turned: bool) -> None:
    """Chunk by chunk, half a block at a time: 16 lines give a tile register of each part, or its transpose."""
    buffer = f.let(f"alloca [{PARTS * TILE} x i8], align 64") if turned else ""
    start = [("ptr", "%from"), ("ptr", "%to"), *_noted(f)]
    kinds = [kind for kind, _ in start]
    block = f.begin_loop(0, "%lines", LINES, start, at_least_once=True)
    lines = f.let(f"sub i64 %lines, {block.index}")
    lines = f.intrinsic("i64", "llvm.smin.i64", [("i64", lines), ("i64", str(LINES))])
    chunk = f.begin_loop(0, "%terms", CHUNK, [*zip(kinds, block.values, strict=True)], at_least_once=True)
    left = f.let(f"sub i64 %terms, {chunk.index}")
    masks = [first_lanes(f, left), first_lanes(f, f.let(f"sub i64 {left}, {SIDE}"))]
    half = f.begin_loop(0, lines, SIDE, [*zip(kinds, chunk.values, strict=True)], at_least_once=True)
    at, to, low, high = half.values
    count = f.let(f"sub i64 {lines}, {half.index}")
    count = f.intrinsic("i64", "llvm.smin.i64", [("i64", count), ("i64", str(SIDE))])
    line = f.begin_loop(0, count, 1, [*zip(kinds, (at, buffer or to, low, high), strict=True)], at_least_once=True)
    at, put, low, high = line.values
    places = [(at, masks[0]), (offset(f, at, SIDE * 4), masks[1])]
    low, high = _split(f, places, (low, high), put, TILE if turned else PART, str(4 * CHUNK * 4))
    at = f.let(f"getelementptr i8, ptr {at}, i64 %line")
    at, _, low, high = f.end_loop(line, [at, offset(f, put, ROW), low, high])
    if turned:
        for number in range(PARTS):
            f.do(f"call void @bf16x3_turn(ptr {offset(f, buffer, number * TILE)}, ptr {offset(f, to, number * PART)})")
    _, _, low, high = f.end_loop(half, [at, offset(f, to, TILE), low, high])
    after = [offset(f, chunk.values[0], CHUNK * 4), offset(f, chunk.values[1], BLOCK), low, high]
    _, _, low, high = f.end_loop(chunk, after)
    steps = f.let(f"mul i64 %line, {LINES}"), "%size"
    at, to = (f.let(f"getelementptr i8, ptr {p}, i64 {by}") for p, by in zip(block.values[:2], steps, strict=True))
    _, _, low, high = f.end_loop(block, [at, to, low, high])
    _note(f, low, high, _mark_call(f"i64 %line, i64 {f.let(f'mul i64 %line, {SIDE}')}, i64 4", turned))


def _of_lines(f: Function, turned: bool) -> None:
    """Chunk by chunk, a pair of terms at a time: 16 lines give a row of a tile register of each part, or a column."""
    half_chunk, whole_chunk = (f.let(f"mul i64 %term, {count}") for count in (SIDE, CHUNK))
    buffer = f.let(f"alloca [{2 * GROUP * PARTS * TILE} x i8], align 64") if turned else ""
    chunk = f.begin_loop(0, "%terms", CHUNK, [("ptr", "%from"), ("ptr", "%to"), *_noted(f)], at_least_once=True)
    to = chunk.values[1]
    start = [("ptr", chunk.values[0]), ("ptr", buffer or to), *zip((WIDE, WIDE), chunk.values[2:], strict=True)]
    pair = f.begin_loop(0, SIDE, 1, start)
    at, put = pair.values[:2]
    there = []
    for shift in (0, SIDE):
        term = f.let(f"add i64 {f.let(f'add i64 {chunk.index}, {pair.index}')}, {shift}")
        there.append(f.let(f"icmp slt i64 {term}, %terms"))
    start = [("ptr", at), *zip((WIDE, WIDE), pair.values[2:], strict=True)]
    some = f.begin_loop(0, "%lines", SIDE, start, at_least_once=True)
    place, low, high = some.values
    lines = first_lanes(f, f.let(f"sub i64 %lines, {some.index}"))
    masks = [f.let(f"select i1 {known}, {BITS} {lines}, {BITS} zeroinitializer") for known in there]
    second = f.let(f"getelementptr i8, ptr {place}, i64 {half_chunk}")
    row = f.let(f"getelementptr i8, ptr {put}, i64 {_half_of_block(f, some.index, turned)}")
    places = [(place, masks[0]), (second, masks[1])]
    low, high = _split(f, places, (low, high), row, TILE if turned else PART, whole_chunk)
    after = f.end_loop(some, [f.let(f"getelementptr i8, ptr {place}, i64 %panel"), low, high])
    below = f.let(f"getelementptr i8, ptr {at}, i64 %term")
    at, _, low, high = f.end_loop(pair, [below, offset(f, put, ROW), *after[1:]])
    at = f.let(f"getelementptr i8, ptr {at}, i64 {half_chunk}")
    if turned:
        some = f.begin_loop(0, "%lines", SIDE, at_least_once=True)
        tiles = f.let(f"getelementptr i8, ptr {buffer}, i64 {_half_of_block(f, some.index, True)}")
        half = f.let(f"getelementptr i8, ptr {to}, i64 {_half_of_block(f, some.index, False)}")
        for number in range(PARTS):
            from_, into = offset(f, tiles, number * TILE), offset(f, half, number * PART)
            f.do(f"call void @bf16x3_turn(ptr {from_}, ptr {into})")
        f.end_loop(some)
    _, _, low, high = f.end_loop(chunk, [at, offset(f, to, BLOCK), low, high])
    _note(f, low, high, _mark_call("i64 4, i64 %panel, i64 %term", not turned))


@cache
def _pixels() -> Helper:
    """``bf16x3_pixels``: see `emit_pixels`."""
    unit = Unit()
    where = "ptr noalias %to, ptr noalias %range"
    f = Function(unit, f"void @bf16x3_pixels(ptr noalias %from, i64 %line, i64 %lines, i64 %terms, {where}) nounwind")
    unit.use(_mark())
    pixel = f.begin_loop(0, "%lines", 1, [("ptr", "%from"), ("ptr", "%to"), *_noted(f)], at_least_once=True)
    at, to, low, high = pixel.values
    start = [("ptr", at), ("ptr", to), (WIDE, low), (WIDE, high)]
    chunk = f.begin_loop(0, "%terms", CHUNK, start, at_least_once=True)
    place, put, low, high = chunk.values
    every = "splat (i1 true)"
    places = [(place, every), (offset(f, place, SIDE * 4), every)]
    low, high = _split(f, places, (low, high), put, ROW, str(4 * CHUNK * 4))
    _, to, low, high = f.end_loop(chunk, [offset(f, place, CHUNK * 4), offset(f, put, PARTS * ROW), low, high])
    _, _, low, high = f.end_loop(pixel, [f.let(f"getelementptr i8, ptr {at}, i64 %line"), to, low, high])
    size = f.let(f"mul i64 %terms, {2 * PARTS}")
    half, block, panel = (f.let(f"mul i64 {n}, {by}") for n, by in ((size, SIDE), (size, LINES), ("%line", SIDE)))
    steps = f"i64 %line, i64 {panel}, i64 4, i64 {block}"
    inside = f"i64 {half}, i64 {size}, i64 4, i64 {PARTS * ROW}, i64 {ROW}"
    _note(f, low, high, f"call void @bf16x3_mark(ptr %from, {steps}, i64 %lines, i64 %terms, ptr %to, {inside})")
    f.finish()
    return kept_helper(unit, "declare void @bf16x3_pixels(ptr, i64, i64, i64, ptr, ptr)")


def _mark_call(steps: str, right: bool) -> str:
    """A call of `bf16x3_mark` for lines, panels of 16 lines and terms that are `steps` apart."""
    down, across = (4, ROW) if right else (ROW, 4)
    inside = f"i64 {TILE}, i64 {down}, i64 {across}, i64 {BLOCK}, i64 {PART}"
    return f"call void @bf16x3_mark(ptr %from, {steps}, i64 %size, i64 %lines, i64 %terms, ptr %to, {inside})"


def _half_of_block(f: Function, line: str, buffered: bool) -> str:
    """Where the tile registers of `line`, a multiple of 16, are: bytes from those of the first line."""
    if buffered:
        return f.let(f"mul i64 {line}, {PARTS * TILE // SIDE}")
    block = f.let(f"mul i64 {f.let(f'lshr i64 {line}, {LINES.bit_length() - 1}')}, %size")
    second = f.let(f"and i64 {line}, {SIDE}")
    return f.let(f"add i64 {block}, {f.let(f'mul i64 {second}, {TILE // SIDE}')}")


def load_lanes(f: Function, pointer: str, mask: str) -> str:
    """The f32 numbers in the lanes of `mask`, zeros in the others."""
    callee = f.unit.declare(FLOATS, f"llvm.masked.load.v{SIDE}f32.p0", ["ptr", BITS, FLOATS])
    return f.let(f"call {FLOATS} {callee}(ptr align 4 {pointer}, {BITS} {mask}, {FLOATS} zeroinitializer)")


def _noted(f: Function) -> list[tuple[str, str]]:
    """The range so far."""
    places = "%range", offset(f, "%range", RANGE // 2)
    return [(WIDE, f.let(f"load {WIDE}, ptr {place}, align 64")) for place in places]


def _note(f: Function, low: str, high: str, call: str) -> None:
    """Write the range down; where it is too wide `call` sees to it."""
    f.do(f"store {WIDE} {low}, ptr %range, align 64")
    f.do(f"store {WIDE} {high}, ptr {offset(f, '%range', RANGE // 2)}, align 64")
    low = f.intrinsic("i32", f"llvm.vector.reduce.umin.v{SIDE}i32", [(WIDE, low)])
    high = f.intrinsic("i32", f"llvm.vector.reduce.umax.v{SIDE}i32", [(WIDE, high)])
    small = f.let(f"icmp ult i32 {low}, {SMALLEST - 1}")
    wide = f.let(f"or i1 {small}, {f.let(f'icmp ugt i32 {high}, {LARGEST}')}")
    when(f, wide, lambda: f.do(call))


@cache
def _mark() -> Helper:
    """``bf16x3_mark``, which puts numbers that have no parts in their place.

    %line, %panel and %term are bytes between lines, panels of 16 lines and terms.  Where they go, blocks are %size
    bytes apart, halves of a block %half, lines in them %down, pairs %across, chunks %chunk, and parts %part.
    """
    unit = Unit()
    f = Function(
        unit,
        "void @bf16x3_mark(ptr %from, i64 %line, i64 %panel, i64 %term, i64 %size, i64 %lines, i64 %terms, ptr %to, "
        "i64 %half, i64 %down, i64 %across, i64 %chunk, i64 %part) nounwind",
    )
    line = f.begin_loop(0, "%lines", 1, at_least_once=True)
    tiles = [f.let(f"lshr i64 {line.index}, 4"), f.let(f"and i64 {line.index}, {SIDE - 1}")]
    read = "%from"
    for count, by in zip(tiles, ("%panel", "%line"), strict=True):
        read = f.let(f"getelementptr i8, ptr {read}, i64 {f.let(f'mul i64 {count}, {by}')}")
    parts = (f.let(f"lshr i64 {line.index}, 5"), f.let(f"and i64 {tiles[0]}, 1"), tiles[1])
    write = "%to"
    for count, by in zip(parts, ("%size", "%half", "%down"), strict=True):
        write = f.let(f"getelementptr i8, ptr {write}, i64 {f.let(f'mul i64 {count}, {by}')}")
    term = f.begin_loop(0, "%terms", 1, [("ptr", read)], at_least_once=True)
    bits = f.let(f"load i32, ptr {term.values[0]}, align 4")
    size = f.let(f"and i32 {bits}, {0x7FFFFFFF}")
    small = f.let(f"icmp ult i32 {f.let(f'add i32 {size}, -1')}, {SMALLEST - 1}")
    other = f.let(f"or i1 {small}, {f.let(f'icmp ugt i32 {size}, {LARGEST}')}")

    def put() -> None:
        pair, half = (f.let(f"and i64 {term.index}, {bits}") for bits in (SIDE - 1, SIDE))
        chunk = f.let(f"mul i64 {f.let(f'lshr i64 {term.index}, {CHUNK.bit_length() - 1}')}, %chunk")
        place = f.let(f"add i64 {chunk}, {f.let(f'mul i64 {pair}, %across')}")
        place = f.let(f"add i64 {place}, {f.let(f'lshr i64 {half}, 3')}")
        at = f.let(f"getelementptr i8, ptr {write}, i64 {place}")
        kept = [f.let(f"trunc i32 {word} to i16") for word in (f.let(f"lshr i32 {bits}, 16"), bits)]
        for value in [*kept, str(MARK >> 16)]:
            f.do(f"store i16 {value}, ptr {at}, align 2")
            at = f.let(f"getelementptr i8, ptr {at}, i64 %part")

    when(f, other, put)
    f.end_loop(term, [f.let(f"getelementptr i8, ptr {term.values[0]}, i64 %term")])
    f.end_loop(line)
    f.finish()
    types = ", ".join(["ptr", *["i64"] * 6, "ptr", *["i64"] * 5])
    return kept_helper(unit, f"declare void @bf16x3_mark({types})")


def first_lanes(f: Function, count: str) -> str:
    """The mask of the first `count` lanes."""
    count = f.intrinsic("i64", "llvm.smax.i64", [("i64", count), ("i64", "0")])
    count = f.let(f"trunc i64 {f.intrinsic('i64', 'llvm.umin.i64', [('i64', count), ('i64', str(SIDE))])} to i32")
    return f.let(f"icmp ult {WIDE} <{_EVERY}>, {Vector(f, 'i32', 1, count).spread(SIDE).name}")


def _split(
    f: Function, places: list[tuple[str, str]], found: tuple[str, str], to: str, step: int, further: str
) -> tuple[str, str]:
    """Write parts of pairs, `step` bytes apart, of the numbers at two places in the lanes of masks.

    Gives the range with these numbers.  Numbers `further` on will be wanted soon.
    """
    low, high = found
    pairs = ["zeroinitializer"] * PARTS
    for number, (place, mask) in enumerate(places):
        ahead = f.let(f"getelementptr i8, ptr {place}, i64 {further}")
        f.fetch(ahead)
        value = load_lanes(f, place, mask)
        size = f.let(f"and {WIDE} {f.let(f'bitcast {FLOATS} {value} to {WIDE}')}, splat (i32 {0x7FFFFFFF})")
        below = f.let(f"add {WIDE} {size}, splat (i32 -1)")  # zeros come last
        low = f.intrinsic(WIDE, f"llvm.umin.v{SIDE}i32", [(WIDE, low), (WIDE, below)])
        high = f.intrinsic(WIDE, f"llvm.umax.v{SIDE}i32", [(WIDE, high), (WIDE, size)])
        first = _rounded(f, value)
        rest = f.let(f"fsub {FLOATS} {value}, {first}")
        second = _rounded(f, rest)
        last = f.let(f"fsub {FLOATS} {rest}, {second}")
        for at, part in enumerate((first, second, last)):
            word = f.let(f"bitcast {FLOATS} {part} to {WIDE}")
            if number == 0:
                pairs[at] = f.let(f"lshr {WIDE} {word}, splat (i32 16)")
            else:
                pairs[at] = _beside(f, pairs[at], word)
    for at, pair in enumerate(pairs):
        f.do(f"store {WIDE} {pair}, ptr {offset(f, to, at * step)}, align 64")
    return low, high


def _beside(f: Function, low: str, high: str) -> str:
    """`low`, and the upper halves of the words of `high`.  Written as `or` and `and` LLVM takes it for a shuffle, which
    costs three times as much."""
    arguments = [(WIDE, low), (WIDE, high), (WIDE, f"splat (i32 {-1 << 16})"), ("i32", str(0xF0 | 0xCC & 0xAA))]
    return f.intrinsic(WIDE, "llvm.x86.avx512.pternlog.d.512", arguments)


def _rounded(f: Function, value: str) -> str:
    """`value` to 8 bits (Veltkamp)."""
    scaled = f.let(f"fmul {FLOATS} {value}, splat (float {float((1 << 16) + 1)})")
    return f.let(f"fadd {FLOATS} {f.let(f'fsub {FLOATS} {value}, {scaled}')}, {scaled}")


def _emit_turn(unit: Unit) -> None:
    """Define ``bf16x3_turn(ptr from, ptr to)``, which transposes a tile register in memory."""
    f = Function(unit, "internal void @bf16x3_turn(ptr noalias %from, ptr noalias %to) nounwind")
    rows = [f.let(f"load {WIDE}, ptr {offset(f, '%from', ROW * at)}, align 64") for at in range(SIDE)]
    for at, row in enumerate(transposed([Vector(f, "i32", SIDE, row) for row in rows])):
        f.do(f"store {WIDE} {row.name}, ptr {offset(f, '%to', ROW * at)}, align 64")
    f.finish()



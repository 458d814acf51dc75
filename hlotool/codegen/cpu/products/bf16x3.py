"""Operand splitting: f32 matrices as sums of three bf16 matrices, for processors that multiply tiles of those (AMX).

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

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, NamedTuple

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.products.pack import CALLED, Axis
from hlotool.codegen.cpu.products.tiles import SIDE
from hlotool.codegen.kernel import PLUMBING, Helper, Step, signature
from hlotool.codegen.llvm.arguments import Place, argument, begin_tasks, count_in_block, unravel
from hlotool.codegen.llvm.control import allocate, begin_loop, call, open_function, when
from hlotool.codegen.llvm.values import Index, Int, Ptr, Vector, either, iota, zeros
from hlotool.codegen.llvm.vectors import transposed
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.lazy_dataclass import dataclass

__all__ = [
    "BLOCK", "CHUNK", "GROUP", "LARGEST", "LINES", "MARK", "PART", "PARTS", "PIXEL_CHUNK", "RANGE", "ROW", "SMALLEST",
    "TILE", "Split", "both", "clear_range", "copies", "emit_pixels", "emit_split", "empty_range", "first_lanes",
    "kept_helper", "pays",
]  # fmt: skip

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A copy of `lines` x `terms` f32 numbers, `line` and `term` bytes apart, to the parts of a left or right matrix.

    It is terms that lie side by side (`along`), or lines; with `panel` these lie in panels of 16, so many bytes apart.
    There are such matrices for all of `outer`.  Each task makes `group` blocks, or `piece` terms of these, and notes
    the range of their numbers at a place of its own.  If it is `called` by others they say where blocks go: see
    `pack.CALLED`.  Blocks are `size` bytes apart.  Numbers are fetched so many terms `ahead` of those that are split.
    """

    outer: tuple[Axis, ...]
    lines: int
    line: int
    terms: int
    term: int
    along: bool
    right: bool
    source: Place
    target: Place
    ranges: Place
    panel: int
    group: int
    piece: int
    called: bool
    size: int
    ahead: int

    @property
    def blocks(self) -> int:
        return -(-self.lines // LINES)

    @property
    def pieces(self) -> int:
        """Of each block."""
        return -(-self.terms // self.piece)

    @property
    def tasks(self) -> int:
        """How many ranges there will be."""
        return -(-self.blocks // self.group) * self.pieces * math.prod(axis.extent for axis in self.outer)


def pays(multiplications: float, numbers: float) -> bool:
    """Whether so many multiplications make up for the parts of so many numbers."""
    return multiplications >= max(PAYS * numbers, LEAST)


def emit_split(unit: Unit, name: str, split: Split) -> Step:
    """Define step function `name`, or one for others to call."""
    f = Function(unit, f"void @{name}{CALLED} nounwind {PLUMBING}" if split.called else signature(name, plumbing=True))
    task = begin_tasks(f)
    high, groups = split.group * LINES, -(-split.blocks // split.group)
    *outer, group, piece = unravel(task.index, [*(axis.extent for axis in split.outer), groups, split.pieces])
    read = argument(f, split.source) + group * (high // SIDE * split.panel if split.panel else high * split.line)
    read += piece * (split.piece * split.term)
    write = Ptr(f, "%to") if split.called else argument(f, split.target) + group * (split.group * split.size)
    for axis, at in zip(split.outer, outer, strict=True):
        read, write = read + at * axis.source, write + at * (0 if split.called else axis.target)
    lines = count_in_block(group, high, split.lines, groups)
    terms = count_in_block(piece, split.piece, split.terms, split.pieces)
    noted = argument(f, split.ranges) + task.index * RANGE
    turned = split.along == split.right
    unit.use(_mark())
    unit.use(_helper(split.along, turned))
    clear_range(noted)
    steps = (split.line,) if split.along else (split.term, split.panel or ROW)
    ahead = split.ahead * (4 if split.along else split.term)
    call(f, f"@{_name(split.along, turned)}", read, *steps, split.size, lines, terms, ahead, write, noted)
    task.end()
    f.finish()
    elements = split.lines * split.terms * math.prod(axis.extent for axis in split.outer)
    return Step(name, split.tasks, elements / 4.0)


def emit_pixels(read: Ptr, step: int, count: int, features: int, write: Ptr, noted: Ptr) -> None:
    """Split pixels, `step` bytes apart, of whole chunks of features; the range at `noted` grows.

    They lie one behind the other, and in a pixel the parts of the first chunk, those of the second and so on.
    """
    f = read.f
    f.unit.use(_mark())
    f.unit.use(_pixels())
    call(f, "@bf16x3_pixels", read, step, count, features, write, noted)


def clear_range(noted: Ptr) -> None:
    """Make the range at `noted` that of no numbers."""
    least, largest = empty_range(noted.f)
    noted.store(least, align=64)
    (noted + RANGE // 2).store(largest, align=64)


def empty_range(f: Function) -> tuple[Vector, Vector]:
    """The range of no numbers: absolute values less one, and absolute values."""
    zero = zeros(f, "i32", SIDE)
    return zero.like(-1), zero


def both(unit: Unit, name: str, first: Step, second: Step) -> Step:
    """Define step function `name` for the tasks of both steps, which do not depend on one another."""
    f, between = Function(unit, signature(name, plumbing=True)), first.tasks
    args, bounds = Ptr(f, "%args"), (Int(f, "%begin"), Int(f, "%end"))
    call(f, f"@{first.function}", args, *[task.at_most(between) for task in bounds])
    later = [task.at_least(between) for task in bounds]
    call(f, f"@{second.function}", args, *[task - between for task in later])
    f.finish()
    return Step(name, first.tasks + second.tasks, first.cost + second.cost)


def copies() -> list[Helper]:
    """All functions that copy."""
    return [*(_helper(along, turned) for along in (False, True) for turned in (False, True)), _pixels(), _mark()]


def kept_helper(unit: Unit, *data: str) -> Helper:
    """The functions of `unit`, for all programs; `data` says how it is declared."""
    declared = [part.declaration for part in unit.definitions if not part.text.startswith("define internal")]
    return Helper(unit.declared, unit.defined, "\n".join([*filter(None, declared), *data]), kept=True)


class _Terms(NamedTuple):
    """Terms side by side: bytes between lines, between blocks, and to what is fetched; the others are of `_Lines` as
    well."""

    source: Ptr
    line: Int
    size: Int
    lines: Int
    terms: Int
    ahead: Int
    target: Ptr
    noted: Ptr


class _Lines(NamedTuple):
    """Lines side by side: bytes between terms, between panels of 16 lines, between blocks, and to what is fetched."""

    source: Ptr
    term: Int
    panel: Int
    size: Int
    lines: Int
    terms: Int
    ahead: Int
    target: Ptr
    noted: Ptr


def _range(noted: Ptr) -> tuple[Vector, Vector]:
    """The range at `noted`."""
    second = noted + RANGE // 2
    return noted.load("i32", SIDE, align=64), second.load("i32", SIDE, align=64)


def _name(along: bool, turned: bool) -> str:
    return f"bf16x3_of_{'terms' if along else 'lines'}{'_turned' if turned else ''}"


@cache
def _helper(along: bool, turned: bool) -> Helper:
    """The function that splits some lines whose terms (`along`), or terms whose lines, lie side by side.

    The first makes blocks of a left matrix, the second of a right one; for the others tile registers are to be
    `turned`.
    """
    unit, name = Unit(), _name(along, turned)
    unit.use(_mark())
    (_emit_of_terms if along else _emit_of_lines)(unit, name, turned)
    if turned:
        _emit_turn(unit)
    return kept_helper(unit)


def _emit_of_terms(unit: Unit, name: str, turned: bool) -> None:
    """Chunk by chunk, half a block at a time: 16 lines give a tile register of each part, or its transpose."""
    f, given = open_function(unit, name, _Terms, noalias=True)
    buffer = allocate(f, "i8", PARTS * TILE, align=64) if turned else None
    start = given.source, given.target, *_range(given.noted)
    block = begin_loop(f, 0, given.lines, LINES, *start, at_least_once=True)
    lines = (given.lines - block.index).at_most(LINES)
    chunk = begin_loop(f, 0, given.terms, CHUNK, *block.values, at_least_once=True)
    left = given.terms - chunk.index
    masks = first_lanes(left), first_lanes(left - SIDE)
    half = begin_loop(f, 0, lines, SIDE, *chunk.values, at_least_once=True)
    at, to, least, largest = half.values
    count = (lines - half.index).at_most(SIDE)
    line = begin_loop(f, 0, count, 1, at, buffer or to, least, largest, at_least_once=True)
    at, put, *noted = line.values
    pairs = (at, masks[0]), (at + SIDE * 4, masks[1])
    least, largest = _split(pairs, (noted[0], noted[1]), put, TILE if turned else PART, given.ahead)
    at, _, least, largest = line.end(at + given.line, put + ROW, least, largest)
    if buffer is not None:
        _turn(buffer, to)
    _, _, least, largest = half.end(at, to + TILE, least, largest)
    read, write, *_ = chunk.values
    _, _, least, largest = chunk.end(read + CHUNK * 4, write + BLOCK, least, largest)
    read, write, *_ = block.values
    far = given.line * LINES
    _, _, least, largest = block.end(read + far, write + given.size, least, largest)
    panel = given.line * SIDE
    _note(given.noted, (least, largest), lambda: _mark_blocks(given, given.line, panel, 4, right=turned))
    f.finish()


def _emit_of_lines(unit: Unit, name: str, turned: bool) -> None:
    """Chunk by chunk, a pair of terms at a time: 16 lines give a row of a tile register of each part, or a column."""
    f, given = open_function(unit, name, _Lines, noalias=True)
    half_chunk = given.term * SIDE
    buffer = allocate(f, "i8", 2 * GROUP * PARTS * TILE, align=64) if turned else None
    start = given.source, given.target, *_range(given.noted)
    chunk = begin_loop(f, 0, given.terms, CHUNK, *start, at_least_once=True)
    at, to, least, largest = chunk.values
    pair = begin_loop(f, 0, SIDE, 1, at, buffer or to, least, largest)
    at, put, least, largest = pair.values
    inside = []
    for shift in (0, SIDE):
        term = chunk.index + pair.index + shift
        inside.append(term < given.terms)
    some = begin_loop(f, 0, given.lines, SIDE, at, least, largest, at_least_once=True)
    place, least, largest = some.values
    lines = first_lanes(given.lines - some.index)
    masks = [either(known, lines, zeros(f, "i1", SIDE)) for known in inside]
    second = place + half_chunk
    row = put + _half_of_block(some.index, None if turned else given.size)
    pairs = (place, masks[0]), (second, masks[1])
    least, largest = _split(pairs, (least, largest), row, TILE if turned else PART, given.ahead)
    _, least, largest = some.end(place + given.panel, least, largest)
    at, _, least, largest = pair.end(at + given.term, put + ROW, least, largest)
    at += half_chunk
    if buffer is not None:
        half = begin_loop(f, 0, given.lines, SIDE, at_least_once=True)
        tiles = buffer + _half_of_block(half.index, None)
        _turn(tiles, to + _half_of_block(half.index, given.size))
        half.end()
    _, _, least, largest = chunk.end(at, to + BLOCK, least, largest)
    _note(given.noted, (least, largest), lambda: _mark_blocks(given, 4, given.panel, given.term, right=not turned))
    f.finish()


def _half_of_block(line: Index, size: Int | None) -> Index:
    """Where the tile registers of `line`, a multiple of 16, are: bytes from those of the first line.

    Blocks are `size` bytes apart; with None it is in the buffer, which has no blocks.
    """
    if size is None:
        return line * (PARTS * TILE // SIDE)
    block = (line >> LINES.bit_length() - 1) * size
    return block + (line & SIDE) * (TILE // SIDE)


class _Pixels(NamedTuple):
    """Pixels, `line` bytes apart, and their features."""

    source: Ptr
    line: Int
    lines: Int
    terms: Int
    target: Ptr
    noted: Ptr


@cache
def _pixels() -> Helper:
    """``bf16x3_pixels``: see `emit_pixels`."""
    unit = Unit()
    f, given = open_function(unit, "bf16x3_pixels", _Pixels, noalias=True)
    unit.use(_mark())
    start = given.source, given.target, *_range(given.noted)
    pixel = begin_loop(f, 0, given.lines, 1, *start, at_least_once=True)
    chunk = begin_loop(f, 0, given.terms, CHUNK, *pixel.values, at_least_once=True)
    place, put, least, largest = chunk.values
    every = Vector(f, "i1", 1, "true").spread(SIDE)
    pairs = (place, every), (place + SIDE * 4, every)
    least, largest = _split(pairs, (least, largest), put, ROW, 4 * CHUNK * 4)
    _, to, least, largest = chunk.end(place + CHUNK * 4, put + PARTS * ROW, least, largest)
    _, _, least, largest = pixel.end(pixel.values[0] + given.line, to, least, largest)
    size = given.terms * (2 * PARTS)
    half, block, panel = size * SIDE, size * LINES, given.line * SIDE

    def mark() -> None:
        steps = given.line, panel, 4, block, given.lines, given.terms
        call(f, "@bf16x3_mark", given.source, *steps, given.target, half, size, 4, PARTS * ROW, ROW)

    _note(given.noted, (least, largest), mark)
    f.finish()
    return kept_helper(unit)


def _mark_blocks(given: _Terms | _Lines, line: Index, panel: Index, term: Index, *, right: bool) -> None:
    """Call `bf16x3_mark` for lines, panels of 16 lines and terms that are so far apart, and lie in blocks then."""
    down, across = (4, ROW) if right else (ROW, 4)
    steps = line, panel, term, given.size, given.lines, given.terms
    call(given.source.f, "@bf16x3_mark", given.source, *steps, given.target, TILE, down, across, BLOCK, PART)


def _note(noted: Ptr, found: tuple[Vector, Vector], mark: Callable[[], None]) -> None:
    """Write a range down; where it is too wide `mark` sees to it."""
    least, largest = found
    noted.store(least, align=64)
    (noted + RANGE // 2).store(largest, align=64)
    lowest, highest = least.reduce("umin"), largest.reduce("umax")
    wide = lowest.compare("ult", SMALLEST - 1) | highest.compare("ugt", LARGEST)
    when(wide.bit(), mark)


class _Mark(NamedTuple):
    """Bytes between lines, panels of 16 lines and terms; where they go, between blocks (`size`), halves of a block,
    lines in those (`down`), pairs (`across`), chunks and parts."""

    source: Ptr
    line: Int
    panel: Int
    term: Int
    size: Int
    lines: Int
    terms: Int
    target: Ptr
    half: Int
    down: Int
    across: Int
    chunk: Int
    part: Int


@cache
def _mark() -> Helper:
    """``bf16x3_mark``, which puts numbers that have no parts in their place."""
    unit = Unit()
    f, given = open_function(unit, "bf16x3_mark", _Mark)
    line = begin_loop(f, 0, given.lines, 1, at_least_once=True)
    panel, row = line.index >> 4, line.index & SIDE - 1
    read = given.source + panel * given.panel
    read += row * given.line
    block, half = line.index >> 5, panel & 1
    write = given.target + block * given.size
    write += half * given.half
    write += row * given.down
    term = begin_loop(f, 0, given.terms, 1, read, at_least_once=True)
    (at,) = term.values
    bits = at.load("i32", align=4)
    size = bits & 0x7FFFFFFF
    wide = (size + -1).compare("ult", SMALLEST - 1) | size.compare("ugt", LARGEST)

    def put() -> None:
        pair, second = term.index & SIDE - 1, term.index & SIDE
        place = (term.index >> CHUNK.bit_length() - 1) * given.chunk
        to = write + (place + pair * given.across + (second >> 3))
        upper, lower = bits.lshr(16).resize("i16", signed=False), bits.resize("i16", signed=False)
        for value in (upper, lower, lower.like(MARK >> 16)):
            to.store(value, align=2)
            to += given.part

    when(wide.bit(), put)
    term.end(at + given.term)
    line.end()
    f.finish()
    return kept_helper(unit)


def first_lanes(count: Int) -> Vector:
    """The mask of the first `count` lanes."""
    lanes = count.at_least(0).call("umin", SIDE).vector().resize("i32", signed=False)
    return iota(count.f, "i32", SIDE).compare("ult", lanes.spread(SIDE))


def _split(
    places: Iterable[tuple[Ptr, Vector]], found: tuple[Vector, Vector], to: Ptr, step: int, further: Index
) -> tuple[Vector, Vector]:
    """Write parts of pairs, `step` bytes apart, of the numbers at two places in the lanes of masks.

    Gives the range with these numbers.  Numbers `further` on will be wanted soon.
    """
    least, largest = found
    pairs: list[Vector] = []
    for place, mask in places:
        (place + further).fetch()
        value = place.load_masked("float", mask, align=4)
        size = value.bits() & 0x7FFFFFFF
        least = least.call("umin", size + -1)  # zeros come last
        largest = largest.call("umax", size)
        first = _rounded(value)
        rest = value - first
        second = _rounded(rest)
        parts = first, second, rest - second
        if not pairs:
            pairs = [part.bits().lshr(16) for part in parts]
        else:
            pairs = [_beside(pair, part.bits()) for pair, part in zip(pairs, parts, strict=True)]
    for at, pair in enumerate(pairs):
        (to + at * step).store(pair, align=64)
    return least, largest


def _beside(low: Vector, high: Vector) -> Vector:
    """`low`, and the upper halves of the words of `high`.  Written as `or` and `and` LLVM takes it for a shuffle, which
    costs three times as much."""
    truth = Vector(low.f, "i32", 1, str(0xF0 | 0xCC & 0xAA))
    operands = [low, high, low.like(-1 << 16), truth]
    return low.named(low.f.intrinsic(low.type, "llvm.x86.avx512.pternlog.d.512", operands))


def _rounded(value: Vector) -> Vector:
    """`value` to 8 bits (Veltkamp)."""
    scaled = value * Vector(value.f, "float", 1, str(float((1 << 16) + 1))).spread(SIDE)
    return value - scaled + scaled


def _turn(source: Ptr, target: Ptr) -> None:
    """Transpose a tile register of each part."""
    for part in range(PARTS):
        call(source.f, "@bf16x3_turn", source + part * TILE, target + part * PART)


def _emit_turn(unit: Unit) -> None:
    """Define ``bf16x3_turn``, which transposes a tile register in memory."""
    f = Function(unit, "internal void @bf16x3_turn(ptr noalias %from, ptr noalias %to) nounwind")
    rows = [(Ptr(f, "%from") + ROW * at).load("i32", SIDE, align=64) for at in range(SIDE)]
    for at, row in enumerate(transposed(rows)):
        (Ptr(f, "%to") + ROW * at).store(row, align=64)
    f.finish()

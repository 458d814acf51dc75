"""Sort and topk by many threads: records of a key and an index, which differ, so that whatever sorts them is stable.

A block sorts a tile of records in shared memory by a network (Batcher, "Sorting networks and their applications",
1968).  Longer lines are merged: every record finds its place in the other run by halving.  In the end the elements of
all operands are taken in the order of the indices.  Comparators that are no keys have a thread for each line (see
`hlotool.codegen.algorithms.sort`): what is no ordering is to give some permutation all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.keys import Key, emit_key, key_bits, recognise
from hlotool.codegen.algorithms.radix import Records, indexed
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.grid import Grid, open_grid
from hlotool.codegen.gpu.items import THREADS, copy_grid, item_grid
from hlotool.codegen.gpu.spaces import counters
from hlotool.codegen.kernel import Kernel, Note, Step, Uses
from hlotool.codegen.llvm.arguments import empty_kernel
from hlotool.codegen.llvm.arrays import aligned
from hlotool.codegen.llvm.control import begin_loop, conditional, when
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import BITS
from hlotool.codegen.llvm.values import Index, Int, Ptr, Truth, Vector, choose, number, where
from hlotool.codegen.llvm.writer import Unit
from hlotool.ir import Instruction, byte_size
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_sort", "emit_topk"]

_TILE: Annotated[int, Threshold("records")] = 1024
"""That a block sorts."""

_LEAST = 64
"""Records of a tile at least: two for each thread of a warp, or one."""

_ORDERED = frozenset({"bf16", "f16", "f32", "f64", *(f"{s}{bits}" for s in "su" for bits in (8, 16, 32, 64))})
"""Types whose elements in memory are in the order of their keys; others are converted first."""

_KEY_BITS = 64
"""Of all keys together, at most."""


@dataclass(frozen=True, slots=True)
class _Sort:
    """`count` lines of `length` elements, `stride` apart, of operands with `types`, by `keys`; the first `kept` of them
    are wanted, with their `positions` as a further result or without."""

    count: int
    length: int
    stride: int
    types: tuple[str, ...]
    keys: tuple[Key, ...]
    kept: int
    positions: bool = False

    @property
    def records(self) -> Records:
        return indexed(sum(key_bits(key.element_type) for key in self.keys), self.length)

    @property
    def kinds(self) -> list[str]:
        """What elements of the results are moved as, those of operands first."""
        return [*(f"i{8 * byte_size(t)}" for t in self.types), *(["i32"] if self.positions else [])]

    @property
    def segment(self) -> int:
        """A power of two that a line, or a tile of it, fits."""
        return min(_TILE, 1 << (self.length - 1).bit_length())

    @property
    def tile(self) -> int:
        """Records of a block: of several lines, where they are short."""
        whole = 1 << (self.count * self.segment - 1).bit_length()
        return max(self.segment, min(_TILE, whole), _LEAST) if self.length <= _TILE else self.segment

    @property
    def threads(self) -> int:
        return min(THREADS, self.tile // 2)

    @property
    def buffers(self) -> int:
        return len(self.types) + len(self.kinds)

    def place(self, line: Index, position: Index, length: int) -> Index:
        """The number of an element of an array whose lines have so many."""
        if self.stride == 1:
            return line * length + position
        outer, inner = counters(line, [-(-self.count // self.stride), self.stride])
        return outer * (length * self.stride) + inner + position * self.stride

    def taken(self, sources: Sequence[Ptr], line: Index, record: Vector) -> list[Vector]:
        """What the results have for a record of a line, of operands at `sources`."""
        position = self.position(record)
        place = self.place(line, position, self.length)
        found = [
            source.at(kind, place).load(kind, align=BITS[kind] // 8)
            for source, kind in zip(sources, self.kinds, strict=False)
        ]
        return [*found, *([position.vector().resize("i32", signed=False)] if self.positions else [])]

    def put(self, grid: Grid, line: Index, position: Index, values: Sequence[Vector]) -> None:
        """Write that to a position of the results, if it is wanted."""

        def write() -> None:
            place = self.place(line, position, self.kept)
            for n, value in enumerate(values):
                target = grid.argument(len(self.types) + n)
                target.at(value.element, place).store(value, BITS[value.element] // 8)

        when(number(grid.f, position) < self.kept if self.kept < self.length else True, write)

    def record(self, grid: Grid, line: Index, position: Index) -> Vector:
        """The record of an element: its keys, the first one in the highest bits, above the position."""
        records, shift = self.records, self.records.bits // 2
        found = number(grid.f, position).vector().resize(records.type, signed=False)
        place = self.place(line, position, self.length)
        for key in reversed(self.keys):
            kind = self.kinds[key.operand]
            raw = grid.argument(key.operand).at(kind, place).load(kind, align=BITS[kind] // 8)
            found = found | emit_key(key, raw).resize(records.type, signed=False).shl(shift)
            shift += key_bits(key.element_type)
        return found

    def position(self, record: Vector) -> Int:
        """The position in a record."""
        return record.resize(f"i{self.records.bits // 2}", signed=False).resize("i64", signed=False).index()


def emit_sort(
    name: str, instruction: Instruction, chip: Chip, in_place: bool, otherwise: Callable[[], Kernel]
) -> Kernel:
    """The kernel of a sort, or what is made `otherwise`.  If any is `in_place`, outputs are the buffers of operands."""
    operands = [operand.shape for operand in instruction.operands]
    (dimension,) = instruction.attributes["dimensions"]
    shape, keys = operands[0], recognise(instruction.attributes["to_apply"])
    if shape.size == 0:
        return empty_kernel(name, chip.machine)
    if not keys or sum(key_bits(key.element_type) for key in keys) > _KEY_BITS:
        return otherwise()
    length = shape.dimensions[dimension] if shape.dimensions else 1
    types = tuple(operand.element_type for operand in operands)
    stride = prod(shape.dimensions[dimension + 1 :])
    return _sorted(name, _Sort(shape.size // length, length, stride, types, keys, length), chip, in_place)


def emit_topk(name: str, instruction: Instruction, chip: Chip, otherwise: Callable[[], Kernel]) -> Kernel:
    """The kernel of a topk along the last dimension, or what is made `otherwise`."""
    shape, k = instruction.operands[0].shape, int(instruction.attributes["k"])
    kind = shape.element_type
    if k == 0 or shape.size == 0 or not shape.dimensions or kind not in _ORDERED:
        return otherwise()
    length = shape.dimensions[-1]
    key = Key(0, kind, instruction.attributes.get("largest") is not False, False)
    sort = _Sort(shape.size // length, length, 1, (kind,), (key,), min(k, length), positions=True)
    return _sorted(name, sort, chip, in_place=False)


def _sorted(name: str, sort: _Sort, chip: Chip, in_place: bool) -> Kernel:
    unit = Unit(chip.machine)
    if sort.length <= _TILE:
        return _finished(unit, [_short(unit, name, sort, chip)], 0, "a block sorts some lines in shared memory")
    return _long(unit, name, sort, chip, in_place)


def _finished(unit: Unit, steps: Sequence[Step], scratch: int, why: str) -> Kernel:
    uses: Uses = (("records that are sorted, and operands", scratch),) if scratch else ()
    note = Note("sort", why, (("grids", len(steps)), ("blocks", max(step.tasks for step in steps))))
    return replace(finish_kernel(unit, list(steps), scratch, uses), notes=(note,))


def _short(unit: Unit, name: str, sort: _Sort, chip: Chip) -> Step:
    """Lines that fit a tile."""
    per_block = sort.tile // sort.segment
    grid = open_grid(unit, name, chip, -(-sort.count // per_block), sort.threads, sort.buffers)
    f, records = grid.f, sort.records
    held = grid.shared(records.type, sort.tile)

    def of(own: Index) -> tuple[Index, Index, Truth]:
        """The line and the position of record number `own` of the tile, and whether there is such an element."""
        line, position = counters(own, [per_block, sort.segment])
        line = number(f, line).plus(grid.block * per_block)
        inside: Truth = number(f, position) < sort.length if sort.length < sort.segment else True
        whole: Truth = line < sort.count if sort.count % per_block else True
        return line, position, whole & inside if isinstance(inside, bool) else inside & whole

    _fill(grid, sort, held, of)
    _network(grid, held, records.type, sort.tile, sort.segment, sort.threads)
    trips = sort.tile // sort.threads
    moved = [grid.private(kind, trips) for kind in sort.kinds]

    def each(thread: Int, body: Callable[[Index, Index], None]) -> None:
        trip = begin_loop(f, 0, trips)
        body(number(f, trip.index * sort.threads).plus(thread), trip.index)
        trip.end()

    def take(thread: Int, own: Index, trip: Index) -> None:
        line, _, there = of(own)

        def load() -> None:
            sources = [grid.argument(n) for n in range(len(sort.types))]
            values = sort.taken(sources, line, held.at(records.type, own).load(records.type))
            for value, private in zip(values, moved, strict=True):
                grid.at(private, thread, trip).store(value)

        when(there, load)

    def put(thread: Int, own: Index, trip: Index) -> None:
        line, position, there = of(own)
        when(there, lambda: sort.put(grid, line, position, [grid.at(p, thread, trip).load(p.kind) for p in moved]))

    with grid.phase() as thread:  # outputs may be where operands are: all is taken before anything is put
        each(thread, lambda own, trip: take(thread, own, trip))
    with grid.phase(last=True) as thread:
        each(thread, lambda own, trip: put(thread, own, trip))
    return grid.finish()


def _fill(grid: Grid, sort: _Sort, held: Ptr, of: Callable[[Index], tuple[Index, Index, Truth]]) -> None:
    """Bring the records of a tile to shared memory; those of no element come last."""
    kind = sort.records.type
    none = Vector(grid.f, kind, 1, "-1")
    with grid.phase() as thread:
        own = begin_loop(grid.f, thread, sort.tile, sort.threads)
        line, position, there = of(own.index)
        (record,) = conditional(there, lambda: (sort.record(grid, line, position),), none)
        held.at(kind, own.index).store(record)
        own.end()


def _network(grid: Grid, held: Ptr, kind: str, tile: int, segment: int, threads: int) -> None:
    """Sort the segments of a tile: runs of 2, 4, 8... records that rise and fall in turn are merged by comparing and
    exchanging what is half a run apart, then a quarter, and so on."""
    f, rounds = grid.f, segment.bit_length() - 1
    if not rounds:
        return
    outer = begin_loop(f, 0, rounds, 1, number(f, 2))
    (run,) = outer.values
    inner = begin_loop(f, 0, number(f, outer.index).plus(1), 1, run >> 1, at_least_once=True)
    (apart,) = inner.values
    with grid.phase() as thread:
        pair = begin_loop(f, thread, tile // 2, threads)
        low = number(f, pair.index) & (apart - 1)
        first = ((number(f, pair.index) - low) << 1) + low
        places = held.at(kind, first), held.at(kind, first + apart)
        a, b = (place.load(kind) for place in places)
        rises = ((first & (segment - 1)) & run).eq(0).vector()
        exchange = a.compare("ugt", b).eq(rises)
        places[0].store(where(exchange, b, a))
        places[1].store(where(exchange, a, b))
        pair.end()
    inner.end(apart >> 1)
    outer.end(run << 1)


def _long(unit: Unit, name: str, sort: _Sort, chip: Chip, in_place: bool) -> Kernel:
    """Lines of several tiles, which are merged."""
    size = aligned(sort.count * sort.length * sort.records.bytes)
    sources, scratch = list(range(len(sort.types))), 2 * size
    starts = [0] * len(sort.types)
    steps: list[Step] = []
    buffers = sort.buffers + 1
    if in_place:
        slot, copies = sort.buffers, []
        for n, t in enumerate(sort.types):
            starts[n], sources[n] = scratch, slot
            copies.append((sort.count * sort.length * byte_size(t), n, slot, scratch))
            scratch += aligned(copies[-1][0])
        steps.append(copy_grid(unit, f"copy_{name}", chip, copies, buffers))
    steps.append(_tiles(unit, f"tiles_{name}", sort, chip))
    run, at = sort.tile, 0
    while run < sort.length:
        steps.append(_merge(unit, f"merge{run}_{name}", sort, chip, run, (at, size - at)))
        run, at = 2 * run, size - at

    def take(grid: Grid, own: Int) -> None:
        line, position = counters(own, [sort.count, sort.kept])
        record = sort.records.load(grid.argument(sort.buffers) + at, number(grid.f, line * sort.length) + position)
        places = [grid.argument(slot) + start for slot, start in zip(sources, starts, strict=True)]
        sort.put(grid, line, position, sort.taken(places, line, record))

    steps.append(item_grid(unit, name, chip, sort.count * sort.kept, buffers, take))
    return _finished(unit, steps, scratch, "blocks sort tiles in shared memory, which are merged")


def _tiles(unit: Unit, name: str, sort: _Sort, chip: Chip) -> Step:
    """Sort the tiles of lines, and write their records."""
    per_line = -(-sort.length // sort.tile)
    grid = open_grid(unit, name, chip, sort.count * per_line, sort.threads, sort.buffers + 1)
    f, records = grid.f, sort.records
    line, tile = counters(grid.block, [sort.count, per_line])
    held = grid.shared(records.type, sort.tile)

    def of(own: Index) -> tuple[Index, Index, Truth]:
        position = number(f, own).plus(tile * sort.tile)
        return line, position, position < sort.length if sort.length % sort.tile else True

    _fill(grid, sort, held, of)
    _network(grid, held, records.type, sort.tile, sort.tile, sort.threads)
    with grid.phase(last=True) as thread:
        own = begin_loop(f, thread, sort.tile, sort.threads)
        _, position, there = of(own.index)

        def write() -> None:
            record = held.at(records.type, own.index).load(records.type)
            records.store(grid.argument(sort.buffers), line * sort.length + position, record)

        when(there, write)
        own.end()
    return grid.finish()


def _merge(unit: Unit, name: str, sort: _Sort, chip: Chip, run: int, places: tuple[int, int]) -> Step:
    """Merge pairs of runs: a record goes as far behind the start of both as there are smaller ones in both."""
    records = sort.records

    def merge(grid: Grid, own: Int) -> None:
        f = grid.f
        source, target = (grid.argument(sort.buffers) + place for place in places)
        line, position = counters(own, [sort.count, sort.length])
        base = line * sort.length
        within = number(f, position) & (run - 1)
        start = number(f, position) - within
        other = number(f, choose((number(f, position) & run).eq(0), start + run, start - run))
        end = choose(other + run < sort.length, other + run, sort.length)
        length = number(f, end) - other
        record = records.load(source, own)
        step = begin_loop(f, 0, run.bit_length(), 1, number(f, 0), choose(length > 0, length, number(f, 0)))
        found, left = step.values
        half = left >> 1
        place = choose(left > 0, number(f, base + other) + found + half, own)
        smaller = records.load(source, place).compare("ult", record).bit()
        ahead = (number(f, left) > 0) & smaller
        after = choose(ahead, found + half + 1, found)
        found, _ = step.end(number(f, after), number(f, choose(ahead, left - half - 1, half)))
        pair = number(f, start) & ~run
        records.store(target, number(f, base + pair) + within + found, record)

    return item_grid(unit, name, chip, sort.count * sort.length, sort.buffers + 1, merge)


"""Reduce-window by many threads: a thread for each result, and scans by blocks.

A line of a scan is divided into parts, one for each block, and these into a few neighbouring elements for each thread.
One grid reduces the parts; another one reduces what lies ahead of its own elements, and goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.reduce_window import Code, Reduction, Scan, reduction_of, scan_lines, scan_of
from hlotool.codegen.algorithms.windows import Carried, for_each_tap
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.grid import Grid, open_grid
from hlotool.codegen.gpu.items import THREADS, item_grid
from hlotool.codegen.gpu.spaces import counters
from hlotool.codegen.kernel import Kernel, Note, Step, Uses
from hlotool.codegen.llvm.arguments import empty_kernel
from hlotool.codegen.llvm.arrays import aligned, load
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.math.elements import flattened
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Index, Int, Ptr, minimum, number
from hlotool.codegen.llvm.writer import Unit
from hlotool.ir import Instruction
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_reduce_window"]

_EACH = 8
"""Neighbouring elements of a thread: a line of memory, of f32."""

_TOGETHER = 16
"""Threads whose elements are reduced together before those of all."""

_ROOM = 16
"""Bytes for a value of an accumulator, of whatever type."""

_LONG: Annotated[int, Threshold("elements")] = 64
"""Elements of a line that are worth a block."""

_LINES: Annotated[int, Threshold("lines")] = 1 << 12
"""Lines side by side that keep a chip busy with a thread for each."""


def emit_reduce_window(name: str, instruction: Instruction, chip: Chip) -> Kernel:
    """The kernel of a reduce-window."""
    reduction = reduction_of(instruction, chip.machine)
    if prod(reduction.out) == 0:
        return empty_kernel(name, chip.machine)
    unit, scan = Unit(chip.machine), scan_of(reduction)
    if scan is None:
        return _finished(unit, [_results(unit, name, reduction, chip)], 0, "every result has a thread")
    lines = _Lines(reduction, scan)
    if lines.fit_blocks:
        return _by_blocks(unit, name, lines, chip)
    return _finished(unit, [_by_threads(unit, name, lines, chip)], 0, "every line of the scan has a thread")


def _finished(unit: Unit, steps: Sequence[Step], scratch: int, why: str) -> Kernel:
    uses: Uses = (("parts of scans", scratch),) if scratch else ()
    note = Note("windows", why, (("grids", len(steps)), ("blocks", steps[-1].tasks)))
    return replace(finish_kernel(unit, list(steps), scratch, uses), notes=(note,))


def _code(grid: Grid, reduction: Reduction) -> Code:
    count = len(reduction.types)
    slots = [grid.argument(slot) for slot in range(3 * count)]
    initial = [load(place, t, 0) for t, place in zip(reduction.types, slots[count:], strict=False)]
    return Code(grid.f, reduction, slots[:count], initial, slots[2 * count :])


def _results(unit: Unit, name: str, reduction: Reduction, chip: Chip) -> Step:
    """A thread for each result, which goes through its window."""

    def reduce(grid: Grid, own: Int) -> None:
        code = _code(grid, reduction)

        def visit(at: Index, tap: Index, carried: Carried) -> Carried:
            return code.reduce(carried, at, 0)

        places = counters(own, reduction.out)
        carried = for_each_tap(grid.f, reduction.window, reduction.base, places, code.start(1, 1), visit)
        code.write(carried, own, 0, 0)

    return item_grid(unit, name, chip, prod(reduction.out), 3 * len(reduction.types), reduce)


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a scan."""

    reduction: Reduction
    scan: Scan

    @property
    def size(self) -> int:
        return self.reduction.base[self.scan.dimension]

    @property
    def results(self) -> int:
        return self.reduction.out[self.scan.dimension]

    @property
    def inner(self) -> int:
        """Lines side by side in memory."""
        return prod(self.reduction.out[self.scan.dimension + 1 :])

    @property
    def count(self) -> int:
        return prod(self.reduction.out[: self.scan.dimension]) * self.inner

    @property
    def fit_blocks(self) -> bool:
        """Whether blocks share lines: what comes first must not matter, and no result may be repeated."""
        if self.size < _LONG or (self.inner > 1 and self.count >= _LINES):
            return False
        return bool(self.reduction.reducer.opcodes) and self.results - 1 + self.scan.lead <= self.size

    @property
    def threads(self) -> int:
        found = 2 * _TOGETHER
        while found < THREADS and found * _EACH < self.size:
            found *= 2
        return found

    @property
    def parts(self) -> int:
        """Of a line, each of which a block does."""
        return -(-self.size // (self.threads * _EACH))

    @property
    def part_bytes(self) -> int:
        """Of the values of one accumulator for all parts."""
        return aligned(_ROOM * self.count * self.parts)

    def place(self, line: Index, position: Index, length: int) -> Index:
        """The number of an element of an array of lines that have so many: the one at a position of the scan."""
        outer, inner = counters(line, [self.count // self.inner, self.inner])
        own = (length - 1) - position if self.scan.backward else position
        return outer * (length * self.inner) + inner + own * self.inner


def _by_threads(unit: Unit, name: str, lines: _Lines, chip: Chip) -> Step:
    """A thread for each line."""

    def scan(grid: Grid, own: Int) -> None:
        outer, inner = counters(own, [lines.count // lines.inner, lines.inner])
        starts = outer * (lines.size * lines.inner) + inner, outer * (lines.results * lines.inner) + inner
        scan_lines(_code(grid, lines.reduction), lines.scan, starts, (lines.inner, 0, 0), 1, 1)

    return item_grid(unit, name, chip, lines.count, 3 * len(lines.reduction.types), scan)


# ---- blocks


class _BlockScan:
    """A grid whose blocks each have a part of a line."""

    def __init__(self, unit: Unit, name: str, lines: _Lines, chip: Chip) -> None:
        self.lines = lines
        scratch = int(lines.parts > 1)
        buffers = 3 * len(lines.reduction.types) + scratch
        self.grid = open_grid(unit, name, chip, lines.count * lines.parts, lines.threads, buffers)
        self.f = self.grid.f
        self.code = _code(self.grid, lines.reduction)
        self.line, self.part = counters(self.grid.block, [lines.count, lines.parts])
        self.kinds = [value.element for value in self.neutral()]
        self.sums = [self._room(lines.threads) for _ in self.kinds]
        self.groups = [self._room(lines.threads // _TOGETHER) for _ in self.kinds]
        size = lines.part_bytes
        self.bases = [self.grid.argument(buffers - 1) + n * size for n in range(len(self.kinds) if scratch else 0)]

    def _room(self, count: int) -> Ptr:
        return self.grid.shared("i8", _ROOM * count)

    def neutral(self) -> Carried:
        """Accumulators that change nothing."""
        found = self.lines.reduction.reducer.neutral(self.f, 1)
        assert found is not None
        return tuple(flattened(found))

    def load(self, places: Sequence[Ptr], at: Index) -> Carried:
        pairs = zip(places, self.kinds, strict=True)
        return tuple((place + number(self.f, at) * _ROOM).load(kind) for place, kind in pairs)

    def store(self, places: Sequence[Ptr], at: Index, values: Carried) -> None:
        for place, value in zip(places, values, strict=True):
            (place + number(self.f, at) * _ROOM).store(value)

    def join(self, left: Carried, right: Carried) -> Carried:
        ours, theirs = (self.code.accumulators(side)[0] for side in (left, right))
        return tuple(flattened(self.lines.reduction.reducer.join(ours, theirs)))

    def joined(self, places: Sequence[Ptr], first: Index, stop: Index, before: Carried) -> Carried:
        """What was accumulated before, and all values from `first` on, in order."""
        loop = begin_loop(self.f, first, stop, 1, *before)
        return loop.end(*self.join(loop.values, self.load(places, loop.index)))

    def through(self, thread: Int, before: Carried, body: Callable[[Int, Carried], None]) -> Carried:
        """Go through the elements of a thread; `body` is told the position of each, and what was accumulated then."""
        first = number(self.f, self.part * (self.lines.threads * _EACH)).plus(thread * _EACH)
        loop = begin_loop(self.f, first, minimum(first + _EACH, self.lines.size), 1, *before)
        position = number(self.f, loop.index)
        after = self.code.reduce(loop.values, self.lines.place(self.line, position, self.lines.size), 0)
        body(position, after)
        return loop.end(*after)

    def reduce(self) -> None:
        """Put what each thread has to `sums`, and what some have together to `groups`."""
        with self.grid.phase() as thread:
            self.store(self.sums, thread, self.through(thread, self.neutral(), lambda position, after: None))
        with self.grid.phase() as thread:

            def together() -> None:
                first = thread * _TOGETHER
                self.store(self.groups, thread, self.joined(self.sums, first, first + _TOGETHER, self.neutral()))

            when(thread < self.lines.threads // _TOGETHER, together)


def _by_blocks(unit: Unit, name: str, lines: _Lines, chip: Chip) -> Kernel:
    steps = []
    scratch = 0
    if lines.parts > 1:
        parts = _BlockScan(unit, f"parts_{name}", lines, chip)
        parts.reduce()
        with parts.grid.phase(last=True) as thread:

            def whole() -> None:
                total = parts.joined(parts.groups, 0, lines.threads // _TOGETHER, parts.neutral())
                parts.store(parts.bases, parts.line * lines.parts + parts.part, total)

            when(thread.eq(0), whole)
        scratch = len(parts.kinds) * lines.part_bytes
        steps.append(parts.grid.finish())
    steps.append(_write(_BlockScan(unit, name, lines, chip)))
    return _finished(unit, steps, scratch, "blocks have parts of lines, and threads neighbouring elements")


def _write(scan: _BlockScan) -> Step:
    """Go on from what lies ahead of the elements of a thread, and write."""
    lines, f = scan.lines, scan.f
    lead, results = lines.scan.lead, lines.results
    scan.reduce()
    before = tuple(flattened(scan.code.initial))
    if lines.parts > 1:
        first = number(f, scan.line * lines.parts)
        before = scan.joined(scan.bases, first, first + scan.part, before)

    def write(position: Int, after: Carried) -> None:
        own = position + (1 - lead)

        def put() -> None:
            scan.code.write(after, lines.place(scan.line, own, results), 0, 0)

        when(own.below(results), put)

    with scan.grid.phase(last=True) as thread:
        group = thread // _TOGETHER
        ahead = scan.joined(scan.groups, 0, group, before)
        ahead = scan.joined(scan.sums, group * _TOGETHER, thread, ahead)
        scan.through(thread, ahead, write)
        if lead < 1:

            def put_first() -> None:
                loop = begin_loop(f, 0, min(results, 1 - lead))
                start = scan.code.start(1, 1)
                scan.code.write(start, lines.place(scan.line, number(f, loop.index), results), 0, 0)
                loop.end()

            when(thread.eq(0) & number(f, scan.part).eq(0), put_first)
    return scan.grid.finish()


"""reduce-window: any number of operands, any window, any reducer.

Windows that cover everything up to (or from) their position are scans, O(n).  Other windows are walked tap by tap:
over vectors of the trailing dimensions that have no window, or over vectors of output positions when the minor
dimension has one.
"""

from __future__ import annotations

from math import prod
from typing import Annotated

from hlotool.analysis.indexing import row_major_strides
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.windows import Carried, blocks, for_each_tap, window_dimensions
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import begin_tasks, empty_kernel, step_function
from hlotool.codegen.llvm.arrays import load, offset, positions, store, vector_lanes
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.math.elements import Register, broadcast, flattened, grouped, is_complex, vector
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.reduce import Reducer, reducer
from hlotool.codegen.llvm.values import Index, Int, Ptr, choose, minimum
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, WindowDimension
from hlotool.lazy_dataclass import dataclass

__all__ = ["Code", "Reduction", "Scan", "emit_reduce_window", "reduction_of", "scan_lines", "scan_of"]

_UNROLL: Annotated[int, Threshold("vectors")] = 4
"""Vectors (or lines) that are reduced side by side."""
_WIDEST_STRIDE: Annotated[int, Threshold("elements")] = 4  # of windows that are reduced in vectors
_TAP: Annotated[float, Threshold("cost")] = 1.0
"""Nanoseconds to find an element of a window, for as many columns as are reduced side by side."""
_SCAN: Annotated[int, Threshold("elements")] = 5
"""Windows from this size on that are prefixes or suffixes are scanned."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduce-window of arrays of `types`, with the dimensions `base`, to arrays with those of `out`."""

    types: tuple[str, ...]
    base: tuple[int, ...]
    out: tuple[int, ...]
    window: tuple[WindowDimension, ...]
    reducer: Reducer
    lanes: int


@dataclass(frozen=True, slots=True)
class Code:
    """The open step function."""

    f: Function
    reduction: Reduction
    inputs: list[Ptr]
    initial: list[Register]
    outputs: list[Ptr]

    def start(self, lanes: int, times: int) -> Carried:
        """`times` accumulators that hold the initial values."""
        return tuple(flattened(broadcast(value, lanes) for value in self.initial)) * times

    def accumulators(self, carried: Carried) -> list[list[Register]]:
        """The registers of each accumulator."""
        types = self.reduction.types
        size = len(types) + sum(map(is_complex, types))
        return [grouped(types, carried[i : i + size]) for i in range(0, len(carried), size)]

    def reduce(self, carried: Carried, place: Index, pitch: int, stride: int = 1) -> Carried:
        """Let the accumulators take an element for each lane, `stride` apart; each of them `pitch` after the last."""
        types, lanes = self.reduction.types, carried[0].lanes
        result: Carried = ()
        for number, accumulator in enumerate(self.accumulators(carried)):
            spot = place + number * pitch
            new = [_strided(pointer, t, spot, lanes, stride) for pointer, t in zip(self.inputs, types, strict=True)]
            result += tuple(flattened(self.reduction.reducer.step(accumulator, new)))
        return result

    def write(self, carried: Carried, line: Index, position: Index, pitch: int) -> None:
        """Write what was accumulated to this position of a line, each vector `pitch` after the last."""
        for number, accumulator in enumerate(self.accumulators(carried)):
            place = line + position + number * pitch
            results = self.reduction.reducer.finish(accumulator)
            for t, pointer, value in zip(self.reduction.types, self.outputs, results, strict=True):
                store(pointer, t, place, value)


def _strided(pointer: Ptr, element_type: str, at: Index, lanes: int, stride: int) -> Register:
    if lanes == 1 or stride == 1:
        return load(pointer, element_type, at, lanes)
    return vector(load(pointer, element_type, at, lanes * stride)).shuffle(range(0, lanes * stride, stride))


def emit_reduce_window(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of a reduce-window of n operands and n initial values."""
    reduction = reduction_of(instruction, machine)
    if prod(reduction.out) == 0:
        return empty_kernel(name, machine)
    window, unit, scan = reduction.window, Unit(machine), scan_of(reduction)
    if scan is not None:
        step = _define_scan(unit, name, reduction, scan)
    elif not window or window[-1].is_trivial:
        step = _define_columns(unit, name, reduction)
    else:
        step = _define_rows(unit, name, reduction)
    return finish_kernel(unit, [step])


def reduction_of(instruction: Instruction, machine: Machine) -> Reduction:
    """What a reduce-window is to do."""
    count = len(instruction.operands) // 2
    shape = instruction.operands[0].shape
    types = tuple(o.shape.element_type for o in instruction.operands[:count])
    window = window_dimensions(instruction.attributes.get("window"), shape.rank)
    combine, out = reducer(instruction.attributes["to_apply"], types), next(instruction.shape.leaves()).dimensions
    return Reduction(types, shape.dimensions, out, window, combine, vector_lanes(machine, types))


def _open(unit: Unit, name: str, reduction: Reduction) -> Code:
    count = len(reduction.types)
    f, pointers = step_function(unit, name, 3 * count)
    initial = [load(p, t, 0) for t, p in zip(reduction.types, pointers[count : 2 * count], strict=True)]
    return Code(f, reduction, pointers[:count], initial, pointers[2 * count :])


def _cost(reduction: Reduction, lanes: int) -> float:
    return prod(reduction.out) * prod(d.size for d in reduction.window) * len(reduction.types) * 0.5 / lanes


def _define_columns(unit: Unit, name: str, reduction: Reduction) -> Step:
    """Trailing dimensions without a window are columns; tasks are the leading output positions."""
    split = max((dimension + 1 for dimension, row in enumerate(reduction.window) if not row.is_trivial), default=0)
    columns = prod(reduction.out[split:])
    outer = reduction.out[:split] or (1,)
    tasks = prod(outer[:-1])
    parts = blocks(columns, reduction.lanes, _UNROLL)
    code = _open(unit, name, reduction)
    f = code.f
    task = begin_tasks(f)
    lead = positions(task.index, outer[:-1])
    last = begin_loop(f, 0, outer[-1])
    outputs = [*lead, last.index]
    element = offset(outputs, row_major_strides(outer)) * columns
    for start, stop, lanes, times in parts:
        column = begin_loop(f, start, stop, lanes * times)

        def visit(at: Index, tap: Index, carried: Carried, lanes: int = lanes, own: Index = column.index) -> Carried:
            return code.reduce(carried, at * columns + own, lanes)

        carried = code.start(lanes, times)
        carried = for_each_tap(f, reduction.window[:split], reduction.base[:split], outputs, carried, visit)
        code.write(carried, element, column.index, lanes)
        column.end()
    last.end()
    task.end()
    f.finish()
    sides = sum((stop - start) // (lanes * times) for start, stop, lanes, times in parts)
    taps = prod(outer) * prod(d.size for d in reduction.window) * sides
    return Step(name, tasks, _cost(reduction, reduction.lanes) + _TAP * taps)


def _define_rows(unit: Unit, name: str, reduction: Reduction) -> Step:
    """The minor dimension has a window: vectors of output positions where all its taps exist, single ones elsewhere."""
    row, size, count = reduction.window[-1], reduction.base[-1], reduction.out[-1]
    lead_sizes = reduction.out[:-1]
    tasks = prod(lead_sizes)
    first, after, lanes = _interior(row, size, count, reduction)
    code = _open(unit, name, reduction)
    f = code.f
    task = begin_tasks(f)
    lead = positions(task.index, lead_sizes)
    element = task.index * count

    def visit(at: Index, tap: Index, carried: Carried) -> Carried:
        return code.reduce(carried, at, 0, row.stride)

    for start, stop, width, inside in (
        (0, first, 1, False), (first, after, lanes, True), (after, count, 1, False)
    ):  # fmt: skip
        if start < stop:
            loop = begin_loop(f, start, stop, width)
            interior = [False] * len(lead) + [inside]
            carried = for_each_tap(
                f, reduction.window, reduction.base, [*lead, loop.index], code.start(width, 1), visit, interior
            )
            code.write(carried, element, loop.index, 0)
            loop.end()
    task.end()
    f.finish()
    return Step(name, tasks, _cost(reduction, max(1, lanes // 2)))


def _interior(row: WindowDimension, size: int, count: int, reduction: Reduction) -> tuple[int, int, int]:
    """Output positions [first, after) that go in vectors of `lanes`, so that nothing outside the row is read."""
    widest = 1 if any(map(is_complex, reduction.types)) else _WIDEST_STRIDE
    lanes = 1 if row.base_dilation > 1 or row.stride > widest else reduction.lanes
    first = max(0, -(-row.padding_low // row.stride))
    while lanes > 1:
        # The vector at o reads up to o * stride - low + (dilated window - 1) + lanes * stride - 1 < size.
        last = (size - lanes * row.stride + row.padding_low - (row.dilated_size - 1)) // row.stride
        vectors = min((last - first) // lanes + 1 if last >= first else 0, max(0, count - first) // lanes)
        if vectors > 0:
            return first, first + vectors * lanes, lanes
        lanes //= 2
    return 0, 0, 1


@dataclass(frozen=True, slots=True)
class Scan:
    """Output i (counted from the end when `backward`) covers the first ``i + lead`` elements (from that end)."""

    dimension: int
    lead: int
    backward: bool


def scan_of(reduction: Reduction) -> Scan | None:
    """The scan that a reduce-window is, if it is one."""
    windowed = [d for d, row in enumerate(reduction.window) if not row.is_trivial]
    if len(windowed) != 1:
        return None
    (dimension,) = windowed
    row, size, count = reduction.window[dimension], reduction.base[dimension], reduction.out[dimension]
    if row.stride != 1 or row.base_dilation != 1 or row.window_dilation != 1 or min(row.size, size) < _SCAN:
        return None
    if count - 1 - row.padding_low <= 0:
        return Scan(dimension, row.size - row.padding_low, False)
    if row.size - 1 - row.padding_low >= size - 1 and not reduction.reducer.in_order:
        return Scan(dimension, size - count + 1 + row.padding_low, True)
    return None


def _define_scan(unit: Unit, name: str, reduction: Reduction, scan: Scan) -> Step:
    size, count = reduction.base[scan.dimension], reduction.out[scan.dimension]
    outer, inner = prod(reduction.out[: scan.dimension]), prod(reduction.out[scan.dimension + 1 :])
    code = _open(unit, name, reduction)
    f = code.f
    if inner > 1:
        tasks = outer
        task = begin_tasks(f)
        for start, stop, lanes, times in blocks(inner, reduction.lanes, _UNROLL):
            column = begin_loop(f, start, stop, lanes * times)
            base = task.index * (size * inner) + column.index
            out = task.index * (count * inner) + column.index
            scan_lines(code, scan, (base, out), (inner, lanes, lanes), lanes, times)
            column.end()
        task.end()
    else:
        # Lines side by side hide the latency of the reducer; the last task takes those left over one by one.
        times = min(_UNROLL, outer)
        groups = outer // times
        tasks = -(-outer // times)
        begin, end = Int(f, "%begin"), Int(f, "%end")
        task = begin_loop(f, begin, minimum(end, groups))
        base, out = task.index * (times * size), task.index * (times * count)
        scan_lines(code, scan, (base, out), (1, size, count), 1, times)
        task.end()
        if tasks > groups:
            last = begin_loop(f, groups * times, choose(end > groups, outer, 0))
            base, out = last.index * size, last.index * count
            scan_lines(code, scan, (base, out), (1, size, count), 1, 1)
            last.end()
    f.finish()
    return Step(name, tasks, outer * inner * max(size, count) * 1.0 / min(inner, reduction.lanes))


def scan_lines(
    code: Code, scan: Scan, starts: tuple[Index, Index], pitches: tuple[int, int, int], lanes: int, times: int
) -> None:
    """Scan `times` lines of vectors.  `pitches`: between elements, between lines of the base, of the output."""
    reduction = code.reduction
    size, count = reduction.base[scan.dimension], reduction.out[scan.dimension]
    pitch, base_pitch, out_pitch = pitches

    def position(index: Index, length: int) -> Index:
        return (length - 1 - index if scan.backward else index) * pitch

    # Outputs [0, waiting) cover nothing; `early` elements come before the first output that covers something;
    # outputs up to `growing` take one more element each; the rest cover everything.
    waiting = min(count, max(0, -scan.lead + 1)) if scan.lead < 1 else 0
    early = max(0, min(scan.lead - 1, size))
    growing = max(waiting, min(count, size - scan.lead + 1))
    carried = code.start(lanes, times)
    for first, after, takes, writes in (
        (0, waiting, False, True), (0, early, True, False), (waiting, growing, True, True),
        (growing, count, False, True),
    ):  # fmt: skip
        if first >= after:
            continue
        loop = begin_loop(code.f, first, after, 1, *carried)
        carried = loop.values
        if takes:
            element = loop.index + (scan.lead - 1) if writes else loop.index
            carried = code.reduce(carried, starts[0] + position(element, size), base_pitch)
        if writes:
            code.write(carried, starts[1] + position(loop.index, count), 0, out_pitch)
        carried = loop.end(*carried)

"""reduce-window: any number of operands, any window, any reducer.

Windows that cover everything up to (or from) their position are scans, O(n).  Other windows are walked tap by tap:
over vectors of the trailing dimensions that have no window, or over vectors of output positions when the minor
dimension has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.cpu.algorithms.windows import Carried, blocks, for_each_tap, window_dimensions
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.access import (
    Index,
    add,
    choose,
    empty_kernel,
    load,
    minimum,
    multiply,
    positions,
    step_function,
    store,
    strides,
    subtract,
    vector_lanes,
)
from hlotool.codegen.llvm.math.elements import Value, broadcast, compute_type, is_complex
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.reduce import Reducer, reducer
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Instruction, WindowDimension

__all__ = ["emit_reduce_window"]

_UNROLL: Annotated[int, Threshold("vectors")] = 4
"""Vectors (or lines) that are reduced side by side."""
_WIDEST_STRIDE: Annotated[int, Threshold("elements")] = 4  # of windows that are reduced in vectors
_TAP: Annotated[float, Threshold("cost")] = 1.0
"""Nanoseconds to find an element of a window, for as many columns as are reduced side by side."""
_SCAN: Annotated[int, Threshold("elements")] = 5
"""Windows from this size on that are prefixes or suffixes are scanned."""


@dataclass(frozen=True, slots=True)
class _Reduction:
    types: tuple[str, ...]
    base: tuple[int, ...]
    out: tuple[int, ...]
    window: tuple[WindowDimension, ...]
    reducer: Reducer
    lanes: int

    def kinds(self, lanes: int) -> list[str]:
        """LLVM types of one accumulator, complex ones split into parts."""
        return [compute_type(t, lanes) for t in self.types for _ in range(2 if is_complex(t) else 1)]

    def flat(self, values: list[Value]) -> list[str]:
        return [part for value in values for part in ((value,) if isinstance(value, str) else value)]

    def grouped(self, flat: list[str]) -> list[Value]:
        parts = iter(flat)
        return [(next(parts), next(parts)) if is_complex(t) else next(parts) for t in self.types]


@dataclass(frozen=True, slots=True)
class _Buffers:
    inputs: list[str]
    initial: list[Value]
    outputs: list[str]


def emit_reduce_window(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of a reduce-window of n operands and n initial values."""
    count = len(instruction.operands) // 2
    shape = instruction.operands[0].shape
    types = tuple(o.shape.element_type for o in instruction.operands[:count])
    out = next(instruction.shape.leaves()).dimensions
    if prod(out) == 0:
        return empty_kernel(name, machine)
    window = window_dimensions(instruction.attributes.get("window"), shape.rank)
    lanes = vector_lanes(machine, types)
    how = reducer(instruction.attributes["to_apply"], types)
    reduction = _Reduction(types, shape.dimensions, out, window, how, lanes)
    unit = Unit(machine)
    scan = _scan_of(reduction)
    if scan is not None:
        step = _define_scan(unit, name, reduction, scan)
    elif not window or window[-1].is_trivial:
        step = _define_columns(unit, name, reduction)
    else:
        step = _define_rows(unit, name, reduction)
    return finish_kernel(unit, [step])


def _open(unit: Unit, name: str, reduction: _Reduction) -> tuple[Function, _Buffers]:
    count = len(reduction.types)
    f, pointers = step_function(unit, name, 3 * count)
    initial = [load(f, t, p, 0) for t, p in zip(reduction.types, pointers[count : 2 * count], strict=True)]
    return f, _Buffers(pointers[:count], initial, pointers[2 * count :])


def _start(f: Function, reduction: _Reduction, buffers: _Buffers, lanes: int, times: int) -> Carried:
    """`times` accumulators that hold the initial values."""
    wide = [broadcast(f, t, lanes, v) for t, v in zip(reduction.types, buffers.initial, strict=True)]
    return list(zip(reduction.kinds(lanes) * times, reduction.flat(wide) * times, strict=True))


def _accumulators(reduction: _Reduction, carried: Carried, times: int) -> list[list[Value]]:
    size = len(carried) // times
    return [reduction.grouped([v for _, v in carried[i * size : (i + 1) * size]]) for i in range(times)]


def _write(
    f: Function, reduction: _Reduction, buffers: _Buffers, values: list[Value], element: Index, lanes: int
) -> None:
    results = reduction.reducer.finish(f, values, lanes)
    for t, pointer, value in zip(reduction.types, buffers.outputs, results, strict=True):
        store(f, t, pointer, element, value, lanes)


def _position(f: Function, coordinates: list[Index], sizes: tuple[int, ...]) -> Index:
    result: Index = 0
    for coordinate, stride in zip(coordinates, strides(sizes), strict=True):
        result = add(f, result, multiply(f, coordinate, stride))
    return result


def _cost(reduction: _Reduction, lanes: int) -> float:
    return prod(reduction.out) * prod(d.size for d in reduction.window) * len(reduction.types) * 0.5 / lanes


def _define_columns(unit: Unit, name: str, reduction: _Reduction) -> Step:
    """Trailing dimensions without a window are columns; tasks are the leading output positions."""
    rank = len(reduction.window)
    split = rank
    while split and reduction.window[split - 1].is_trivial:
        split -= 1
    columns = prod(reduction.out[split:])
    outer = reduction.out[:split]
    tasks = prod(outer[:-1])
    f, buffers = _open(unit, name, reduction)
    task = f.begin_loop("%begin", "%end")
    lead = positions(f, task.index, outer[:-1])
    last = f.begin_loop(0, outer[-1]) if outer else None
    outputs = [*lead, last.index] if last else []
    element = multiply(f, _position(f, outputs, outer), columns)
    for start, stop, lanes, times in blocks(columns, reduction.lanes, _UNROLL):
        column = f.begin_loop(start, stop, lanes * times)

        def visit(
            at: Index, tap: Index, carried: Carried, lanes: int = lanes, times: int = times, own: str = column.index
        ) -> Carried:
            place = add(f, multiply(f, at, columns), own)
            result: list[str] = []
            for number, accumulator in enumerate(_accumulators(reduction, carried, times)):
                spot = add(f, place, number * lanes)
                new = [load(f, t, p, spot, lanes) for t, p in zip(reduction.types, buffers.inputs, strict=True)]
                result += reduction.flat(reduction.reducer.step(f, accumulator, new, lanes))
            return [(kind, value) for (kind, _), value in zip(carried, result, strict=True)]

        carried = _start(f, reduction, buffers, lanes, times)
        carried = for_each_tap(f, reduction.window[:split], reduction.base[:split], outputs, carried, visit)
        for number, values in enumerate(_accumulators(reduction, carried, times)):
            spot = add(f, add(f, element, column.index), number * lanes)
            _write(f, reduction, buffers, values, spot, lanes)
        f.end_loop(column)
    if last:
        f.end_loop(last)
    f.end_loop(task)
    f.finish()
    sides = sum((stop - start) // (lanes * n) for start, stop, lanes, n in blocks(columns, reduction.lanes, _UNROLL))
    taps = prod(outer) * prod(d.size for d in reduction.window) * sides
    return Step(name, tasks, _cost(reduction, reduction.lanes) + _TAP * taps)


def _define_rows(unit: Unit, name: str, reduction: _Reduction) -> Step:
    """The minor dimension has a window: vectors of output positions where all its taps exist, single ones elsewhere."""
    row, size, count = reduction.window[-1], reduction.base[-1], reduction.out[-1]
    lead_sizes = reduction.out[:-1]
    tasks = prod(lead_sizes)
    first, after, lanes = _interior(row, size, count, reduction)
    f, buffers = _open(unit, name, reduction)
    task = f.begin_loop("%begin", "%end")
    lead = positions(f, task.index, lead_sizes)
    element = multiply(f, task.index, count)

    def reduce_at(position: Index, lanes: int, inside: bool) -> None:
        def visit(at: Index, tap: Index, carried: Carried) -> Carried:
            (accumulator,) = _accumulators(reduction, carried, 1)
            sources = zip(reduction.types, buffers.inputs, strict=True)
            new = [_strided(f, t, p, at, lanes, row.stride) for t, p in sources]
            result = reduction.flat(reduction.reducer.step(f, accumulator, new, lanes))
            return [(kind, value) for (kind, _), value in zip(carried, result, strict=True)]

        carried = _start(f, reduction, buffers, lanes, 1)
        interior = [False] * len(lead) + [inside]
        carried = for_each_tap(
            f, reduction.window, reduction.base, [*lead, position], carried, visit, interior
        )
        (values,) = _accumulators(reduction, carried, 1)
        _write(f, reduction, buffers, values, add(f, element, position), lanes)

    for start, stop, width, inside in (
        (0, first, 1, False), (first, after, lanes, True), (after, count, 1, False)
    ):  # fmt: skip
        if start < stop:
            loop = f.begin_loop(start, stop, width)
            reduce_at(loop.index, width, inside)
            f.end_loop(loop)
    f.end_loop(task)
    f.finish()
    return Step(name, tasks, _cost(reduction, max(1, lanes // 2)))


def _interior(row: WindowDimension, size: int, count: int, reduction: _Reduction) -> tuple[int, int, int]:
    """Output positions [first, after) that go in vectors of `lanes`, so that nothing outside the row is read."""
    lanes = reduction.lanes
    widest = 1 if any(map(is_complex, reduction.types)) else _WIDEST_STRIDE
    if row.base_dilation > 1 or row.stride > widest:
        return 0, 0, 1
    first = max(0, -(-row.padding_low // row.stride))
    while lanes > 1:
        # The vector at o reads up to o * stride - low + (dilated window - 1) + lanes * stride - 1 < size.
        last = (size - lanes * row.stride + row.padding_low - (row.dilated_size - 1)) // row.stride
        vectors = min((last - first) // lanes + 1 if last >= first else 0, max(0, count - first) // lanes)
        if vectors > 0:
            return first, first + vectors * lanes, lanes
        lanes //= 2
    return 0, 0, 1


def _strided(f: Function, element_type: str, pointer: str, at: Index, lanes: int, stride: int) -> Value:
    if lanes == 1 or stride == 1:
        return load(f, element_type, pointer, at, lanes)
    value = load(f, element_type, pointer, at, lanes * stride)
    kind = compute_type(element_type, lanes * stride)
    mask = ", ".join(f"i32 {i * stride}" for i in range(lanes))
    return f.let(f"shufflevector {kind} {value}, {kind} poison, <{lanes} x i32> <{mask}>")


@dataclass(frozen=True, slots=True)
class _Scan:
    """Output i (counted from the end when `backward`) covers the first ``i + lead`` elements (from that end)."""

    dimension: int
    lead: int
    backward: bool


def _scan_of(reduction: _Reduction) -> _Scan | None:
    windowed = [d for d, row in enumerate(reduction.window) if not row.is_trivial]
    if len(windowed) != 1:
        return None
    (dimension,) = windowed
    row, size, count = reduction.window[dimension], reduction.base[dimension], reduction.out[dimension]
    if row.stride != 1 or row.base_dilation != 1 or row.window_dilation != 1 or min(row.size, size) < _SCAN:
        return None
    if count - 1 - row.padding_low <= 0:
        return _Scan(dimension, row.size - row.padding_low, False)
    if row.size - 1 - row.padding_low >= size - 1 and not reduction.reducer.in_order:
        return _Scan(dimension, size - count + 1 + row.padding_low, True)
    return None


def _define_scan(unit: Unit, name: str, reduction: _Reduction, scan: _Scan) -> Step:
    size, count = reduction.base[scan.dimension], reduction.out[scan.dimension]
    outer, inner = prod(reduction.out[: scan.dimension]), prod(reduction.out[scan.dimension + 1 :])
    f, buffers = _open(unit, name, reduction)
    if inner > 1:
        parts = blocks(inner, reduction.lanes, _UNROLL)
        tasks = outer
        task = f.begin_loop("%begin", "%end")
        for start, stop, lanes, times in parts:
            column = f.begin_loop(start, stop, lanes * times)
            base = add(f, multiply(f, task.index, size * inner), column.index)
            out = add(f, multiply(f, task.index, count * inner), column.index)
            _scan_lines(f, reduction, buffers, scan, (base, out), (inner, lanes, lanes), lanes, times)
            f.end_loop(column)
        f.end_loop(task)
    else:
        # Lines side by side hide the latency of the reducer; the last task takes those left over one by one.
        times = min(_UNROLL, outer)
        groups = outer // times
        tasks = -(-outer // times)
        task = f.begin_loop("%begin", minimum(f, "%end", groups))
        base, out = multiply(f, task.index, times * size), multiply(f, task.index, times * count)
        _scan_lines(f, reduction, buffers, scan, (base, out), (1, size, count), 1, times)
        f.end_loop(task)
        if tasks > groups:
            last = f.begin_loop(groups * times, choose(f, "sgt", "%end", groups, outer, 0))
            base, out = multiply(f, last.index, size), multiply(f, last.index, count)
            _scan_lines(f, reduction, buffers, scan, (base, out), (1, size, count), 1, 1)
            f.end_loop(last)
    f.finish()
    return Step(name, tasks, outer * inner * max(size, count) * 1.0 / min(inner, reduction.lanes))


def _scan_lines(
    f: Function,
    reduction: _Reduction,
    buffers: _Buffers,
    scan: _Scan,
    starts: tuple[Index, Index],
    pitches: tuple[int, int, int],
    lanes: int,
    times: int,
) -> None:
    """Scan `times` lines of vectors.  `pitches`: between elements, between lines of the base, of the output."""
    size, count = reduction.base[scan.dimension], reduction.out[scan.dimension]
    pitch, base_pitch, out_pitch = pitches

    def consume(index: Index, carried: Carried) -> Carried:
        element = subtract(f, size - 1, index) if scan.backward else index
        place = add(f, starts[0], multiply(f, element, pitch))
        result: list[str] = []
        for number, accumulator in enumerate(_accumulators(reduction, carried, times)):
            spot = add(f, place, number * base_pitch)
            new = [load(f, t, p, spot, lanes) for t, p in zip(reduction.types, buffers.inputs, strict=True)]
            result += reduction.flat(reduction.reducer.step(f, accumulator, new, lanes))
        return [(kind, value) for (kind, _), value in zip(carried, result, strict=True)]

    def write(index: Index, carried: Carried) -> None:
        element = subtract(f, count - 1, index) if scan.backward else index
        place = add(f, starts[1], multiply(f, element, pitch))
        for number, values in enumerate(_accumulators(reduction, carried, times)):
            _write(f, reduction, buffers, values, add(f, place, number * out_pitch), lanes)

    carried = _start(f, reduction, buffers, lanes, times)
    kinds = [kind for kind, _ in carried]
    # Outputs [0, waiting) cover nothing; `early` elements come before the first output that covers something;
    # outputs up to `growing` take one more element each; the rest cover everything.
    waiting = min(count, max(0, -scan.lead + 1)) if scan.lead < 1 else 0
    early = max(0, min(scan.lead - 1, size))
    growing = max(waiting, min(count, size - scan.lead + 1))

    def loop_over(first: int, after: int, takes: bool, writes: bool, carried: Carried) -> Carried:
        if first >= after:
            return carried
        loop = f.begin_loop(first, after, 1, carried)
        here = list(zip(kinds, loop.values, strict=True))
        if takes:
            here = consume(add(f, loop.index, scan.lead - 1) if writes else loop.index, here)
        if writes:
            write(loop.index, here)
        return list(zip(kinds, f.end_loop(loop, [v for _, v in here]), strict=True))

    carried = loop_over(0, waiting, False, True, carried)
    carried = loop_over(0, early, True, False, carried)
    carried = loop_over(waiting, growing, True, True, carried)
    loop_over(growing, count, False, True, carried)

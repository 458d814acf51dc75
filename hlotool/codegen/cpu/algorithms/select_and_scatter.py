"""select-and-scatter: each window of the operand selects one element; its element of the source is scattered there.

Leading dimensions without a window are tasks, trailing ones are columns: windows of different columns do not meet, so
that a vector of columns selects lane by lane and then visits its taps once more, to update the lanes that
selected each.  Windows are taken in row-major order.
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
    empty_kernel,
    load,
    multiply,
    positions,
    splat,
    step_function,
    store,
    vector_lanes,
)
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import Value, broadcast, compute_type, is_complex
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.types import type_text
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation, Instruction, WindowDimension

__all__ = ["emit_select_and_scatter"]

_VISIT: Annotated[float, Threshold("cost")] = 8.0
"""Nanoseconds for an element of a window, which is compared and then perhaps updated, of a vector of columns."""


@dataclass(frozen=True, slots=True)
class _Pooling:
    type: str
    window: tuple[WindowDimension, ...]  # of the dimensions between tasks and columns
    base: tuple[int, ...]
    source: tuple[int, ...]
    columns: int
    select: Computation
    scatter: Computation
    operand: str
    updates: str
    out: str

    def parts(self, value: Value) -> list[str]:
        return [value] if isinstance(value, str) else list(value)

    def value(self, parts: list[str]) -> Value:
        return (parts[0], parts[1]) if is_complex(self.type) else parts[0]


def emit_select_and_scatter(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``select-and-scatter(operand, source, init)``."""
    operand, source = (o.shape for o in instruction.operands[:2])
    if operand.size == 0:
        return empty_kernel(name, machine)
    window = window_dimensions(instruction.attributes.get("window"), operand.rank)
    first, after = 0, operand.rank
    while first < after and window[first].is_trivial:
        first += 1
    while after > first and window[after - 1].is_trivial:
        after -= 1
    element_type = operand.element_type
    tasks, columns = prod(operand.dimensions[:first]), prod(operand.dimensions[after:])
    base, inner = operand.dimensions[first:after], source.dimensions[first:after]
    lanes = vector_lanes(machine, [element_type])
    unit = Unit(machine)
    f, (data, updates, init, out) = step_function(unit, name, 4)
    start = load(f, element_type, init, 0)
    attributes = instruction.attributes
    pooling = _Pooling(
        element_type, window[first:after], base, inner, columns, attributes["select"], attributes["scatter"],
        data, updates, out,
    )  # fmt: skip
    task = f.begin_loop("%begin", "%end")
    region = multiply(f, task.index, prod(base) * columns)
    for begin, stop, width, _ in blocks(prod(base) * columns, lanes, 1):
        fill = f.begin_loop(begin, stop, width)
        store(f, element_type, out, add(f, region, fill.index), broadcast(f, element_type, width, start), width)
        f.end_loop(fill)
    place = f.begin_loop(0, prod(inner))
    outputs = positions(f, place.index, inner)
    row = multiply(f, add(f, multiply(f, task.index, prod(inner)), place.index), columns)
    for begin, stop, width, _ in blocks(columns, lanes, 1):
        column = f.begin_loop(begin, stop, width)
        _window(f, pooling, outputs, add(f, region, column.index), add(f, row, column.index), width)
        f.end_loop(column)
    f.end_loop(place)
    f.end_loop(task)
    f.finish()
    visits = prod(inner) * prod(d.size for d in window)
    cost = tasks * columns * (prod(base) * 0.1 + visits * _VISIT) / min(lanes, columns)
    return finish_kernel(unit, [Step(name, tasks, cost)])


def _window(f: Function, pooling: _Pooling, outputs: list[Index], base: Index, source: Index, lanes: int) -> None:
    """One window position of `lanes` columns: `base` and `source` are element numbers of its first column."""
    kind = compute_type(pooling.type, lanes)
    taps = type_text("i32", lanes)

    def best_of(at: Index, tap: Index, carried: Carried) -> Carried:
        *parts, chosen = [value for _, value in carried]
        best = pooling.value(parts)
        candidate = load(f, pooling.type, pooling.operand, add(f, base, multiply(f, at, pooling.columns)), lanes)
        (keep,) = emit_inline(f, pooling.select, [best, candidate], lanes)
        none = f.let(f"icmp slt {taps} {chosen}, zeroinitializer" if lanes > 1 else f"icmp slt i32 {chosen}, 0")
        flags = type_text("i1", lanes)
        take = f.let(f"xor {flags} {keep}, {'splat (i1 true)' if lanes > 1 else 'true'}")
        take = f.let(f"or {flags} {take}, {none}")
        values = [
            f.let(f"select {flags} {take}, {kind} {new}, {kind} {old}")
            for new, old in zip(pooling.parts(candidate), parts, strict=True)
        ]
        mine = f.let(f"select {flags} {take}, {taps} {_tap(f, tap, lanes)}, {taps} {chosen}")
        return [*((kind, v) for v in values), (taps, mine)]

    nothing = [(kind, "zeroinitializer" if lanes > 1 else "0.0" if kind in ("float", "double") else "0")]
    nothing = [(kind, "false")] if kind == "i1" else nothing
    start: Carried = nothing * (2 if is_complex(pooling.type) else 1)
    start.append((taps, "splat (i32 -1)" if lanes > 1 else "-1"))
    chosen = for_each_tap(f, pooling.window, pooling.base, outputs, start, best_of)[-1][1]
    update = load(f, pooling.type, pooling.updates, source, lanes)

    def put(at: Index, tap: Index, carried: Carried) -> Carried:
        place = add(f, base, multiply(f, at, pooling.columns))
        here = f.let(f"icmp eq {taps} {chosen}, {_tap(f, tap, lanes)}")
        old = load(f, pooling.type, pooling.out, place, lanes)
        (new,) = emit_inline(f, pooling.scatter, [old, update], lanes)
        flags = type_text("i1", lanes)
        merged = [
            f.let(f"select {flags} {here}, {kind} {a}, {kind} {b}")
            for a, b in zip(pooling.parts(new), pooling.parts(old), strict=True)
        ]
        store(f, pooling.type, pooling.out, place, pooling.value(merged), lanes)
        return carried

    for_each_tap(f, pooling.window, pooling.base, outputs, [], put)


def _tap(f: Function, tap: Index, lanes: int) -> str:
    if isinstance(tap, int):
        return f"splat (i32 {tap})" if lanes > 1 else str(tap)
    return splat(f, "i32", lanes, f.let(f"trunc i64 {tap} to i32"))

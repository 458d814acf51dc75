"""select-and-scatter: each window of the operand selects one element; its element of the source is scattered there.

Leading dimensions without a window are tasks, trailing ones are columns: windows of different columns do not meet, so
that a vector of columns selects lane by lane and then visits its taps once more, to update the lanes that
selected each.  Windows are taken in row-major order.
"""

from __future__ import annotations

from math import prod
from typing import Annotated

from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.windows import Carried, blocks, for_each_tap, window_dimensions
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import begin_tasks, empty_kernel, step_function
from hlotool.codegen.llvm.arrays import load, positions, store, vector_lanes
from hlotool.codegen.llvm.control import begin_loop
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import broadcast, compute_element, is_complex, joined, parts, vector
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Index, Ptr, Vector, where, zeros
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation, Instruction, WindowDimension
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_select_and_scatter"]

_VISIT: Annotated[float, Threshold("cost")] = 8.0
"""Nanoseconds for an element of a window, which is compared and then perhaps updated, of a vector of columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pooling:
    type: str
    window: tuple[WindowDimension, ...]  # of the dimensions between tasks and columns
    base: tuple[int, ...]
    columns: int
    select: Computation
    scatter: Computation
    operand: Ptr
    source: Ptr
    out: Ptr


def emit_select_and_scatter(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of ``select-and-scatter(operand, source, init)``."""
    operand, source = (o.shape for o in instruction.operands[:2])
    if operand.size == 0:
        return empty_kernel(name, machine)
    window = window_dimensions(instruction.attributes.get("window"), operand.rank)
    windowed = [dimension for dimension, row in enumerate(window) if not row.is_trivial]
    first, after = (windowed[0], windowed[-1] + 1) if windowed else (operand.rank, operand.rank)
    element_type = operand.element_type
    tasks, columns = prod(operand.dimensions[:first]), prod(operand.dimensions[after:])
    base, inner = operand.dimensions[first:after], source.dimensions[first:after]
    lanes = vector_lanes(machine, [element_type])
    unit = Unit(machine)
    f, (data, updates, init, out) = step_function(unit, name, 4)
    start = load(init, element_type, 0)
    pooling = _Pooling(
        type=element_type, window=window[first:after], base=base, columns=columns,
        select=instruction.attributes["select"], scatter=instruction.attributes["scatter"],
        operand=data, source=updates, out=out,
    )  # fmt: skip
    task = begin_tasks(f)
    alone = columns if machine.is_gpu else 1  # columns with tasks of their own
    beside, own = columns // alone, task.index % alone
    lead = task.index // alone
    region = lead * (prod(base) * columns) + own
    for begin, stop, width, _ in blocks(prod(base) * beside, lanes, 1):
        fill = begin_loop(f, begin, stop, width)
        store(out, element_type, region + fill.index * alone, broadcast(start, width))
        fill.end()
    place = begin_loop(f, 0, prod(inner))
    outputs = positions(place.index, inner)
    row = (lead * prod(inner) + place.index) * columns + own
    for begin, stop, width, _ in blocks(beside, lanes, 1):
        column = begin_loop(f, begin, stop, width)
        _window(f, pooling, outputs, region + column.index, row + column.index, width)
        column.end()
    place.end()
    task.end()
    f.finish()
    visits = prod(inner) * prod(d.size for d in window)
    cost = tasks * columns * (prod(base) * 0.1 + visits * _VISIT) / min(lanes, columns)
    return finish_kernel(unit, [Step(name, tasks * alone, cost)])


def _window(f: Function, pooling: _Pooling, outputs: list[Index], base: Index, source: Index, lanes: int) -> None:
    """One window position of `lanes` columns: `base` and `source` are element numbers of its first column."""
    kind, complex_parts = compute_element(pooling.type), 2 if is_complex(pooling.type) else 1

    def best_of(at: Index, tap: Index, carried: Carried) -> Carried:
        *best, chosen = carried
        candidate = load(pooling.operand, pooling.type, base + at * pooling.columns, lanes)
        (keep,) = emit_inline(f, pooling.select, [joined(best), candidate], lanes)
        none = chosen.lt(zeros(f, "i32", lanes))
        take = ~vector(keep) | none
        values = [where(take, mine, others) for mine, others in zip(parts(candidate), best, strict=True)]
        return *values, where(take, _number(chosen, tap), chosen)

    nothing = zeros(f, "i32", lanes).like(-1)
    start = [zeros(f, kind, lanes)] * complex_parts
    *_, chosen = for_each_tap(f, pooling.window, pooling.base, outputs, (*start, nothing), best_of)
    update = load(pooling.source, pooling.type, source, lanes)

    def put(at: Index, tap: Index, carried: Carried) -> Carried:
        place = base + at * pooling.columns
        here = chosen.eq(_number(chosen, tap))
        old = load(pooling.out, pooling.type, place, lanes)
        (new,) = emit_inline(f, pooling.scatter, [old, update], lanes)
        pairs = zip(parts(new), parts(old), strict=True)
        store(pooling.out, pooling.type, place, joined([where(here, a, b) for a, b in pairs]))
        return carried

    for_each_tap(f, pooling.window, pooling.base, outputs, (), put)


def _number(taps: Vector, tap: Index) -> Vector:
    """The number of a tap in all lanes of a vector like `taps`."""
    if isinstance(tap, int):
        return taps.like(tap)
    return tap.vector().cast("trunc", taps.element).spread(taps.lanes)

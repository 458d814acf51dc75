"""scatter: updates combined into a copy of the operands, in index order.

The start of every window is read from the indices; a window that does not fit the operand is left out whole, as
XLA does.  The innermost loop runs along the window dimension that is contiguous in operand and updates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated

from hlotool.analysis.indexing import row_major_strides
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import empty_kernel, step_arguments, step_function
from hlotool.codegen.llvm.arrays import load, store, vector_lanes
from hlotool.codegen.llvm.control import Loop, begin_loop, when
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import vector
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Index, Int, Ptr, Truth, maximum, minimum
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation, Instruction, byte_size, element_type
from hlotool.lazy_dataclass import dataclass

__all__ = ["Scatter", "describe", "emit_scatter", "window_start"]

_COPY: Annotated[int, Threshold("bytes")] = 1 << 16
"""Bytes that one task of the copy moves."""


@dataclass(frozen=True, slots=True)
class _Loop:
    """`size` trips, moving by a stride (in elements) of the operand, or of the indices, and by one of the updates."""

    size: int
    stride: int
    update_stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """A scatter as loops over index vectors and over elements of a window."""

    types: tuple[str, ...]
    combiner: Computation
    lanes: int
    operand: tuple[int, ...]
    index_type: str
    components: tuple[tuple[int, int], ...]  # (operand dimension, place in the index vector)
    component_stride: int
    batching: tuple[tuple[int, int], ...]  # (operand dimension, position among the loops over index vectors)
    window: tuple[int, ...]  # window size along every operand dimension
    vector_loops: tuple[_Loop, ...]  # over index vectors
    window_loops: tuple[_Loop, ...]

    @property
    def tasks(self) -> int:
        """Parts that the innermost window loop is dealt to: columns do not meet, whatever the indices are."""
        inner = self.window_loops[-1]
        return max(1, min(8, inner.size // (4 * self.lanes))) if inner.stride == 1 else 1


def describe(instruction: Instruction, machine: Machine) -> Scatter:
    """The loops of a scatter."""
    count = len(instruction.operands) // 2
    operand, indices, update = (instruction.operands[i].shape for i in (0, count, count + 1))
    attributes = instruction.attributes
    vector_dim = attributes["index_vector_dim"]
    window_dims = tuple(attributes["update_window_dims"])
    batching = tuple(attributes.get("input_batching_dims") or ())
    skipped = {*attributes["inserted_window_dims"], *batching}
    index_strides, update_strides = row_major_strides(indices.dimensions), row_major_strides(update.dimensions)
    index_dims = [d for d in range(indices.rank) if d != vector_dim]
    scatter_dims = [d for d in range(update.rank) if d not in window_dims]
    operand_strides = row_major_strides(operand.dimensions)
    kept = [d for d in range(operand.rank) if d not in skipped]
    window = [1] * operand.rank
    loops = []
    for dimension, place in zip(kept, window_dims, strict=True):
        window[dimension] = update.dimensions[place]
        loops.append(_Loop(update.dimensions[place], operand_strides[dimension], update_strides[place]))
    index_batching = tuple(attributes.get("scatter_indices_batching_dims") or ())
    types = tuple(o.shape.element_type for o in instruction.operands[:count])
    return Scatter(
        types=types,
        combiner=attributes["to_apply"],
        lanes=vector_lanes(machine, types),
        operand=operand.dimensions,
        index_type=indices.element_type,
        components=tuple((d, i) for i, d in enumerate(attributes["scatter_dims_to_operand_dims"])),
        component_stride=index_strides[vector_dim] if vector_dim < indices.rank else 0,
        batching=tuple((d, index_dims.index(i)) for d, i in zip(batching, index_batching, strict=True)),
        window=tuple(window),
        vector_loops=tuple(
            _Loop(update.dimensions[d], index_strides[i], update_strides[d])
            for i, d in zip(index_dims, scatter_dims, strict=True)
        ),
        window_loops=_merged(loops),
    )


def _merged(loops: list[_Loop]) -> tuple[_Loop, ...]:
    """Loops of one trip dropped but for a last one, neighbours that are one contiguous run in both arrays made one."""
    result: list[_Loop] = []
    for loop in loops:
        if loop.size == 1:
            continue
        run = loop.size * loop.stride, loop.size * loop.update_stride
        if result and (result[-1].stride, result[-1].update_stride) == run:
            result[-1] = _Loop(result[-1].size * loop.size, loop.stride, loop.update_stride)
        else:
            result.append(loop)
    return tuple(result) or (_Loop(1, 1, 1),)


def emit_scatter(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of a scatter.  `in_place`: output i is the buffer of operand i, already holding its values."""
    scatter = describe(instruction, machine)
    if prod(scatter.operand) == 0:
        return empty_kernel(name, machine)
    unit, steps = Unit(machine), []
    if not in_place:
        steps += [_copy_step(unit, f"copy{i}_{name}", scatter, i) for i in range(len(scatter.types))]
    vectors, elements = (prod(loop.size for loop in loops) for loops in (scatter.vector_loops, scatter.window_loops))
    if vectors * elements:
        _define_updates(unit, name, scatter)
        steps.append(Step(name, scatter.tasks, vectors * (3.0 * scatter.tasks + max(1, elements / scatter.lanes))))
    return finish_kernel(unit, steps) if steps else empty_kernel(name, machine)


def _copy_step(unit: Unit, name: str, scatter: Scatter, number: int) -> Step:
    total = prod(scatter.operand) * byte_size(scatter.types[number])
    tasks = -(-total // _COPY)
    f, (source, target) = step_arguments(unit, name, (number, 2 * len(scatter.types) + 1 + number))
    start = Int(f, "%begin") * _COPY
    size = minimum(Int(f, "%end") * _COPY, total) - start
    (target + start).copy_from(source + start, size)
    f.finish()
    return Step(name, tasks, total / 10.0)


def _define_updates(unit: Unit, name: str, scatter: Scatter) -> None:
    count = len(scatter.types)
    f, pointers = step_function(unit, name, 3 * count + 1)
    indices, updates, outputs = pointers[count], pointers[count + 1 : 2 * count + 1], pointers[2 * count + 1 :]
    bounds = _columns(f, scatter)
    loops, index_base, update_base = _open(f, scatter.vector_loops, 0, 0)
    operand_base, inside = window_start(scatter, indices, index_base, [loop.index for loop in loops])
    when(inside, lambda: _window(f, scatter, bounds, (outputs, operand_base), (updates, update_base)))
    for loop in reversed(loops):
        loop.end()
    f.finish()


def _columns(f: Function, scatter: Scatter) -> tuple[Index, Index]:
    """The columns of the tasks that are to be done: whole vectors except in the last task."""
    size, lanes, tasks = scatter.window_loops[-1].size, scatter.lanes, scatter.tasks
    if tasks == 1:
        return 0, size
    vectors = -(-size // lanes)
    first, after = (Int(f, task) * vectors // tasks * lanes for task in ("%begin", "%end"))
    return minimum(first, size), minimum(after, size)


def _open(
    f: Function, levels: Sequence[_Loop], base: Index, update_base: Index
) -> tuple[list[Loop[()]], Index, Index]:
    """Open loops, and go on to the place that each is at."""
    loops = []
    for level in levels:
        loop = begin_loop(f, 0, level.size)
        loops.append(loop)
        base = base + loop.index * level.stride
        update_base = update_base + loop.index * level.update_stride
    return loops, base, update_base


def window_start(scatter: Scatter, indices: Ptr, index_base: Index, spots: list[Index]) -> tuple[Index, Truth]:
    """Where the window lies in the operand (element number), and whether all of it is inside."""
    operand_strides = row_major_strides(scatter.operand)
    signed = element_type(scatter.index_type).kind == "signed"
    base: Index = 0
    inside: Truth = True
    for dimension, place in scatter.components:
        raw = load(indices, scatter.index_type, index_base + place * scatter.component_stride)
        start = vector(raw).resize("i64", signed).index()
        room = scatter.operand[dimension] - scatter.window[dimension]
        inside = inside & (start.below(room + 1) if room >= 0 else False)
        base = base + start * operand_strides[dimension]
    addressed = {dimension for dimension, _ in scatter.components}
    if any(w > n for d, (w, n) in enumerate(zip(scatter.window, scatter.operand, strict=True)) if d not in addressed):
        inside = False
    for dimension, position in scatter.batching:
        base = base + spots[position] * operand_strides[dimension]
    return base, inside


def _window(
    f: Function, scatter: Scatter, bounds: tuple[Index, Index], target: tuple[list[Ptr], Index],
    source: tuple[list[Ptr], Index],
) -> None:  # fmt: skip
    """Combine one window."""
    (outputs, operand_base), (updates, update_base) = target, source
    loops, operand_base, update_base = _open(f, scatter.window_loops[:-1], operand_base, update_base)
    inner, lanes = scatter.window_loops[-1], scatter.lanes

    def run(first: Index, stop: Index, width: int) -> None:
        loop = begin_loop(f, first, stop, width)
        at = operand_base + loop.index * inner.stride
        update_at = update_base + loop.index * inner.update_stride
        old = [load(pointer, t, at, width) for t, pointer in zip(scatter.types, outputs, strict=True)]
        new = [load(pointer, t, update_at, width) for t, pointer in zip(scatter.types, updates, strict=True)]
        results = emit_inline(f, scatter.combiner, [*old, *new], width)
        for t, pointer, result in zip(scatter.types, outputs, results, strict=True):
            store(pointer, t, at, result)
        loop.end()

    first, stop = bounds
    if inner.stride == inner.update_stride == 1 and inner.size >= lanes > 1:
        whole = inner.size // lanes * lanes
        middle = minimum(stop, whole)
        run(first, middle, lanes)
        if whole < inner.size:
            run(maximum(first, middle), stop, 1)
    else:
        run(first, stop, 1)
    for loop in reversed(loops):
        loop.end()

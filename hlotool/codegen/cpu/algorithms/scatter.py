"""scatter: updates combined into a copy of the operands, in index order.

The start of every window is read from the indices; a window that does not fit the operand is left out whole, as
XLA does.  The innermost loop runs along the window dimension that is contiguous in operand and updates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated

from hlotool.analysis.indexing import row_major_strides
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.kernel import Kernel, Step
from hlotool.codegen.llvm.arguments import empty_kernel, step_arguments, step_function
from hlotool.codegen.llvm.arrays import load, store, vector_lanes
from hlotool.codegen.llvm.control import begin_loop, when
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import vector
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.values import Index, Int, Ptr, Truth, maximum, minimum
from hlotool.codegen.llvm.writer import Function, Unit
from hlotool.codegen.machine import Machine
from hlotool.ir import Computation, Instruction, byte_size, element_type

__all__ = ["emit_scatter"]

_COPY: Annotated[int, Threshold("bytes")] = 1 << 16
"""Bytes that one task of the copy moves."""


@dataclass(frozen=True, slots=True)
class _WindowLoop:
    """One loop over a window: `size` trips, moving by the strides (in elements) of operand and updates."""

    size: int
    operand_stride: int
    update_stride: int


@dataclass(frozen=True, slots=True)
class _Scatter:
    types: tuple[str, ...]
    operand: tuple[int, ...]
    indices: tuple[int, ...]
    index_type: str
    components: tuple[tuple[int, int], ...]  # (operand dimension, place in the index vector)
    component_stride: int
    batching: tuple[tuple[int, int], ...]  # (operand dimension, position among the scatter loops)
    window: tuple[int, ...]  # window size along every operand dimension
    scatter_sizes: tuple[int, ...]  # trips of the loops over index vectors
    scatter_index_strides: tuple[int, ...]
    scatter_update_strides: tuple[int, ...]
    loops: tuple[_WindowLoop, ...]


def _describe(instruction: Instruction) -> _Scatter:
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
        loops.append(_WindowLoop(update.dimensions[place], operand_strides[dimension], update_strides[place]))
    index_batching = tuple(attributes.get("scatter_indices_batching_dims") or ())
    return _Scatter(
        types=tuple(o.shape.element_type for o in instruction.operands[:count]),
        operand=operand.dimensions,
        indices=indices.dimensions,
        index_type=indices.element_type,
        components=tuple((d, i) for i, d in enumerate(attributes["scatter_dims_to_operand_dims"])),
        component_stride=index_strides[vector_dim] if vector_dim < indices.rank else 0,
        batching=tuple((d, index_dims.index(i)) for d, i in zip(batching, index_batching, strict=True)),
        window=tuple(window),
        scatter_sizes=tuple(update.dimensions[d] for d in scatter_dims),
        scatter_index_strides=tuple(index_strides[d] for d in index_dims),
        scatter_update_strides=tuple(update_strides[d] for d in scatter_dims),
        loops=_merged(loops),
    )


def _merged(loops: list[_WindowLoop]) -> tuple[_WindowLoop, ...]:
    """Loops of one trip dropped, neighbours that are one contiguous run in both arrays made one."""
    result: list[_WindowLoop] = []
    for loop in loops:
        if loop.size == 1:
            continue
        if result and (result[-1].operand_stride, result[-1].update_stride) == (
            loop.size * loop.operand_stride,
            loop.size * loop.update_stride,
        ):
            result[-1] = _WindowLoop(result[-1].size * loop.size, loop.operand_stride, loop.update_stride)
        else:
            result.append(loop)
    return tuple(result)


def emit_scatter(name: str, instruction: Instruction, machine: Machine, in_place: bool = False) -> Kernel:
    """The kernel of a scatter.  `in_place`: output i is the buffer of operand i, already holding its values."""
    scatter = _describe(instruction)
    if prod(scatter.operand) == 0:
        return empty_kernel(name, machine)
    unit, steps = Unit(machine), []
    if not in_place:
        steps += [_copy_step(unit, f"copy{i}_{name}", scatter, i) for i in range(len(scatter.types))]
    updates = prod(scatter.scatter_sizes) * prod(loop.size for loop in scatter.loops)
    if updates:
        lanes = vector_lanes(machine, scatter.types)
        tasks = _column_tasks(scatter, lanes)
        _define_updates(unit, name, scatter, instruction.attributes["to_apply"], lanes, tasks)
        per_window = max(1, prod(loop.size for loop in scatter.loops) / lanes)
        steps.append(Step(name, tasks, prod(scatter.scatter_sizes) * (3.0 * tasks + 1.0 * per_window)))
    if not steps:
        return empty_kernel(name, machine)
    return finish_kernel(unit, steps)


def _copy_step(unit: Unit, name: str, scatter: _Scatter, number: int) -> Step:
    total = prod(scatter.operand) * byte_size(scatter.types[number])
    tasks = -(-total // _COPY)
    f, (source, target) = step_arguments(unit, name, (number, 2 * len(scatter.types) + 1 + number))
    start = Int(f, "%begin") * _COPY
    size = minimum(Int(f, "%end") * _COPY, total) - start
    (target + start).copy_from(source + start, size)
    f.finish()
    return Step(name, tasks, total / 10.0)


def _column_tasks(scatter: _Scatter, lanes: int) -> int:
    """Parts that the innermost window loop is dealt to: columns do not meet, whatever the indices are."""
    if not scatter.loops or scatter.loops[-1].operand_stride != 1:
        return 1
    return max(1, min(8, scatter.loops[-1].size // (4 * lanes)))


def _define_updates(
    unit: Unit, name: str, scatter: _Scatter, combiner: Computation, lanes: int, tasks: int
) -> None:
    count = len(scatter.types)
    f, pointers = step_function(unit, name, 3 * count + 1)
    indices, updates, outputs = pointers[count], pointers[count + 1 : 2 * count + 1], pointers[2 * count + 1 :]
    bounds: tuple[Index, Index] = (0, 0)
    if scatter.loops:
        size = scatter.loops[-1].size
        bounds = (0, size) if tasks == 1 else _columns(f, size, tasks, lanes)
    loops = [begin_loop(f, 0, size) for size in scatter.scatter_sizes]
    spots = [loop.index for loop in loops]
    index_base: Index = 0
    update_base: Index = 0
    for spot, index_stride, update_stride in zip(
        spots, scatter.scatter_index_strides, scatter.scatter_update_strides, strict=True
    ):
        index_base = index_base + spot * index_stride
        update_base = update_base + spot * update_stride
    operand_base, inside = _start(scatter, indices, index_base, spots)
    when(
        inside,
        lambda: _window(f, scatter, combiner, lanes, bounds, (outputs, operand_base), (updates, update_base)),
    )
    for loop in reversed(loops):
        loop.end()
    f.finish()


def _columns(f: Function, size: int, tasks: int, lanes: int) -> tuple[Index, Index]:
    """The columns of the tasks that are to be done: whole vectors except in the last task."""
    vectors = -(-size // lanes)
    first, after = (Int(f, task) * vectors // tasks * lanes for task in ("%begin", "%end"))
    return minimum(first, size), minimum(after, size)


def _start(scatter: _Scatter, indices: Ptr, index_base: Index, spots: list[Index]) -> tuple[Index, Truth]:
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
    f: Function,
    scatter: _Scatter,
    combiner: Computation,
    lanes: int,
    bounds: tuple[Index, Index],
    target: tuple[list[Ptr], Index],
    source: tuple[list[Ptr], Index],
) -> None:
    """Combine one window."""
    outputs, operand_base = target
    updates, update_base = source

    def combine(at: Index, update_at: Index, width: int) -> None:
        old = [load(pointer, t, at, width) for t, pointer in zip(scatter.types, outputs, strict=True)]
        new = [load(pointer, t, update_at, width) for t, pointer in zip(scatter.types, updates, strict=True)]
        results = emit_inline(f, combiner, [*old, *new], width)
        for t, pointer, result in zip(scatter.types, outputs, results, strict=True):
            store(pointer, t, at, result)

    if not scatter.loops:
        combine(operand_base, update_base, 1)
        return
    open_loops = []
    for level in scatter.loops[:-1]:
        loop = begin_loop(f, 0, level.size)
        open_loops.append(loop)
        operand_base = operand_base + loop.index * level.operand_stride
        update_base = update_base + loop.index * level.update_stride
    inner = scatter.loops[-1]

    def run(first: Index, stop: Index, width: int) -> None:
        loop = begin_loop(f, first, stop, width)
        at = operand_base + loop.index * inner.operand_stride
        combine(at, update_base + loop.index * inner.update_stride, width)
        loop.end()

    first, stop = bounds
    if inner.operand_stride == inner.update_stride == 1 and lanes > 1 and inner.size >= lanes:
        whole = inner.size // lanes * lanes
        middle = minimum(stop, whole)
        run(first, middle, lanes)
        if whole < inner.size:
            run(maximum(first, middle), stop, 1)
    else:
        run(first, stop, 1)
    for loop in reversed(open_loops):
        loop.end()

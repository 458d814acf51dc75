"""Scatter by many threads, with the results of one that combines updates in the order of the indices.

Where windows either are the same or have no element in common, each element of the result has one thread that sees to
it: all blocks go through the index vectors, as many at a time as a block has threads, and a thread combines the updates
of those that are its own.  That takes no order on trust, and needs none that is found by sorting.  Updates that meet in
no element, and integers that are added, or combined in another way that takes any order, have a thread each.  What is
left goes through the windows one by one, with a block for each.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Annotated

from hlotool.analysis.indexing import row_major_strides
from hlotool.analysis.thresholds import Threshold
from hlotool.codegen.algorithms.scatter import Scatter, describe, window_start
from hlotool.codegen.gpu.chip import Chip
from hlotool.codegen.gpu.grid import Grid, open_grid
from hlotool.codegen.gpu.items import THREADS, copy_grid, item_grid
from hlotool.codegen.gpu.spaces import counters
from hlotool.codegen.kernel import Kernel, Note, Step
from hlotool.codegen.llvm.arguments import empty_kernel
from hlotool.codegen.llvm.arrays import load, offset, store
from hlotool.codegen.llvm.control import begin_loop, conditional, when
from hlotool.codegen.llvm.inline import emit_inline
from hlotool.codegen.llvm.math.elements import vector
from hlotool.codegen.llvm.polling import finish_kernel
from hlotool.codegen.llvm.reduce import reducer
from hlotool.codegen.llvm.values import Index, Int, Truth, Vector, number
from hlotool.codegen.llvm.writer import Unit
from hlotool.ir import Instruction, byte_size, element_type
from hlotool.lazy_dataclass import dataclass

__all__ = ["emit_scatter"]

_BLOCKS: Annotated[int, Threshold("blocks")] = 264
"""That keep a chip busy: all of them read all indices."""

_ATOMIC = {
    "add": ("add", "add"), "and": ("and", "and"), "or": ("or", "or"), "xor": ("xor", "xor"),
    "maximum": ("max", "umax"), "minimum": ("min", "umin"),
}  # fmt: skip
"""LLVM's operations by opcodes, of signed and of unsigned numbers."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A scatter, its buffers, and how many index vectors and elements of a window it has."""

    scatter: Scatter
    buffers: int
    vectors: int
    elements: int

    @property
    def count(self) -> int:
        """Arrays that are scattered into."""
        return len(self.scatter.types)

    @property
    def lie_apart(self) -> bool:
        """Whether windows are the same or have no element in common, wherever they begin."""
        pairs = zip(self.scatter.window, self.scatter.operand, strict=True)
        return all(own in (1, whole) for own, whole in pairs)

    @property
    def pitch(self) -> int:
        """What the starts of windows that differ are apart, at least."""
        strides = row_major_strides(self.scatter.operand)
        moving = {d for d, _ in (*self.scatter.components, *self.scatter.batching)}
        return min((strides[d] for d in moving), default=1)


def emit_scatter(name: str, instruction: Instruction, chip: Chip, in_place: bool) -> Kernel:
    """The kernel of a scatter.  `in_place`: output i is the buffer of operand i, already holding its values."""
    scatter = describe(instruction, chip.machine)
    if prod(scatter.operand) == 0:
        return empty_kernel(name, chip.machine)
    vectors, elements = (prod(loop.size for loop in loops) for loops in (scatter.vector_loops, scatter.window_loops))
    plan = _Plan(scatter, 3 * len(scatter.types) + 1, vectors, elements)
    unit, steps, notes = Unit(chip.machine), [], []
    if not in_place:
        size = prod(scatter.operand)
        sizes = [(size * byte_size(t), n, 2 * plan.count + 1 + n, 0) for n, t in enumerate(scatter.types)]
        steps.append(copy_grid(unit, f"copy_{name}", chip, sizes, plan.buffers))
    if vectors * elements:
        step, why = _updates(unit, name, plan, instruction, chip)
        steps.append(step)
        notes.append(Note("scatter", why, (("blocks", step.tasks), ("threads", step.threads))))
    if not steps:
        return empty_kernel(name, chip.machine)
    return replace(finish_kernel(unit, steps), notes=tuple(notes))


def _updates(unit: Unit, name: str, plan: _Plan, instruction: Instruction, chip: Chip) -> tuple[Step, str]:
    atomic = _atomic(plan.scatter)
    if plan.vectors == 1 or (plan.lie_apart and instruction.attributes.get("unique_indices")):
        return _apart(unit, name, plan, chip, ""), "no two updates meet in an element"
    if atomic:
        return _apart(unit, name, plan, chip, atomic), "integers may be combined in any order"
    if plan.lie_apart:
        return _owned(unit, name, plan, chip), "every element has a thread that combines its updates in order"
    return _one_by_one(unit, name, plan, chip), "windows may overlap: they are combined one after the other"


def _atomic(scatter: Scatter) -> str:
    """LLVM's operation that combines a number in memory in whatever order, if there is one."""
    how = reducer(scatter.combiner, scatter.types)
    if len(scatter.types) != 1 or len(how.opcodes) != 1 or how.opcodes[0] not in _ATOMIC:
        return ""
    row = element_type(scatter.types[0])
    if not row.is_integer or row.bits not in (32, 64):
        return ""
    return _ATOMIC[how.opcodes[0]][row.kind == "unsigned"]


# ---- places


def _vector(grid: Grid, plan: _Plan, own: Index) -> tuple[Index, Truth, Index]:
    """Of index vector number `own`: where its window begins, whether all of it is inside, and where its updates begin.
    """
    scatter = plan.scatter
    spots = counters(own, [loop.size for loop in scatter.vector_loops])
    index_base = offset(spots, [loop.stride for loop in scatter.vector_loops])
    update_base = offset(spots, [loop.update_stride for loop in scatter.vector_loops])
    base, inside = window_start(scatter, grid.argument(plan.count), index_base, spots)
    return base, inside, update_base


def _element(plan: _Plan, own: Index) -> tuple[Index, Index]:
    """How far element number `own` of a window lies from its first one, in the operand and in the updates."""
    loops = plan.scatter.window_loops
    spots = counters(own, [loop.size for loop in loops])
    return offset(spots, [loop.stride for loop in loops]), offset(spots, [loop.update_stride for loop in loops])


def _combine(grid: Grid, plan: _Plan, at: Index, update_at: Index, atomic: str = "") -> None:
    """Combine one element."""
    scatter, count = plan.scatter, plan.count
    targets = [grid.argument(2 * count + 1 + n) for n in range(count)]
    new = [load(grid.argument(count + 1 + n), t, update_at) for n, t in enumerate(scatter.types)]
    if atomic:
        value = vector(new[0])
        targets[0].at(value.element, at).combine_atomically(atomic, value)
        return
    old = [load(target, t, at) for target, t in zip(targets, scatter.types, strict=True)]
    results = emit_inline(grid.f, scatter.combiner, [*old, *new])
    for target, t, result in zip(targets, scatter.types, results, strict=True):
        store(target, t, at, result)


# ---- grids


def _apart(unit: Unit, name: str, plan: _Plan, chip: Chip, atomic: str) -> Step:
    """A thread for every update."""

    def update(grid: Grid, own: Int) -> None:
        which, element = counters(own, [plan.vectors, plan.elements])
        base, inside, update_base = _vector(grid, plan, which)
        place, update_place = _element(plan, element)
        when(inside, lambda: _combine(grid, plan, base + place, update_base + update_place, atomic))

    return item_grid(unit, name, chip, plan.vectors * plan.elements, plan.buffers, update)


def _owned(unit: Unit, name: str, plan: _Plan, chip: Chip) -> Step:
    """A thread for every element of a window, and of every so many starts of windows."""
    width = 1
    while width < min(plan.elements, THREADS):
        width *= 2
    lots = THREADS // width  # of starts, in a block
    across = -(-plan.elements // width)
    starts = max(1, prod(plan.scatter.operand) // plan.elements)
    shares = max(1, min(_BLOCKS // across, -(-starts // lots)))
    grid = open_grid(unit, name, chip, shares * across, THREADS, plan.buffers)
    f = grid.f
    share, column = counters(grid.block, [shares, across])
    bases, sources, lot_of = grid.shared("i64", THREADS), grid.shared("i64", THREADS), grid.shared("i32", THREADS)
    chunk = begin_loop(f, 0, plan.vectors, THREADS)
    with grid.phase() as thread:
        own = number(f, chunk.index).plus(thread)

        def look() -> tuple[Vector]:
            base, inside, update_base = _vector(grid, plan, own)
            bases.at("i64", thread).store(number(f, base).vector())
            sources.at("i64", thread).store(number(f, update_base).vector())
            owner = number(f, base) // plan.pitch % (shares * lots)
            mine = number(f, owner // lots if isinstance(owner, Int) else 0).eq(number(f, share))
            kept = number(f, owner % lots if isinstance(owner, Int) else 0).vector().resize("i32", signed=False)
            (found,) = conditional(inside & mine, lambda: (kept,), nobody)
            return (found,)

        nobody = Vector(f, "i32", 1, "-1")
        (found,) = conditional(own < plan.vectors if plan.vectors % THREADS else True, look, nobody)
        lot_of.at("i32", thread).store(found)
    with grid.phase() as thread:
        element = number(f, thread % width).plus(column * width)
        lot = (thread // width).vector().resize("i32", signed=False)
        place, update_place = _element(plan, element)

        def go_through() -> None:
            each = begin_loop(f, 0, THREADS)

            def combine() -> None:
                base, source = (held.at("i64", each.index).load_int(align=8) for held in (bases, sources))
                _combine(grid, plan, base + place, source + update_place)

            when(lot_of.at("i32", each.index).load("i32").eq(lot).bit(), combine)
            each.end()

        when(element < plan.elements if plan.elements % width else True, go_through)
    chunk.end()
    return grid.finish()


def _one_by_one(unit: Unit, name: str, plan: _Plan, chip: Chip) -> Step:
    """One block, whose threads share each window and wait for each other after it."""
    grid = open_grid(unit, name, chip, 1, THREADS, plan.buffers)
    which = begin_loop(grid.f, 0, plan.vectors)
    base, inside, update_base = _vector(grid, plan, which.index)
    with grid.phase() as thread:

        def combine() -> None:
            own = begin_loop(grid.f, thread, plan.elements, THREADS)
            place, update_place = _element(plan, own.index)
            _combine(grid, plan, base + place, update_base + update_place)
            own.end()

        when(inside, combine)
    which.end()
    return grid.finish()

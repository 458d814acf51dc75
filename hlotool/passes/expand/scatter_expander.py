"""Scatter expander: a loop that combines one update window after the other into the operand."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Computation, Instruction, Module, array, clone_computation
from hlotool.ir.builder import Builder, binary_computation
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.expand.gather_expander import index_rows
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.loops.counted_loop import counted_loop

__all__ = ["ScatterExpander", "expanded"]


@dataclass(frozen=True, slots=True)
class ScatterExpander:
    """Rewrites scatter as a loop over its index vectors, in order: a slice, a map of the combiner, and an update.

    A window that leaves the operand is skipped whole; of several arrays each has a map of its own.  Not in the default
    pipeline: the CPU code generator scatters directly.
    """

    name: ClassVar[str] = "scatter-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"scatter"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "one window after the other"
        return expand_each(module, log, self.opcodes, partial(expanded, module), "expand", reason, static=True)


def expanded(module: Module, build: Builder, scatter: Instruction) -> Instruction:
    half = len(scatter.operands) // 2
    results, indices, sources = scatter.operands[:half], scatter.operands[half], scatter.operands[half + 1 :]
    operand, updates = results[0], sources[0]
    attributes = scatter.attributes
    if not updates.shape.size or not operand.shape.size:
        return build.tuple(results) if scatter.shape.is_tuple else operand
    sizes, rank = operand.shape.dimensions, operand.shape.rank
    batching = list(zip(
        attributes.get("input_batching_dims") or (), attributes.get("scatter_indices_batching_dims") or (), strict=True
    ))  # fmt: skip
    rows, columns = index_rows(
        build, indices, attributes["index_vector_dim"], attributes["scatter_dims_to_operand_dims"], batching
    )
    # Windows are compared with the bounds in s64: an index type that is narrower may not hold them, and u64 wraps.
    kind = rows.shape.element_type
    inside_type = rows if kind == "s64" else build.convert(rows, "s64")
    dropped = {*attributes["inserted_window_dims"], *(dimension for dimension, _ in batching)}
    window_dims = list(attributes["update_window_dims"])
    inner = iter(window_dims)
    window = tuple(1 if d in dropped else updates.shape.dimensions[next(inner)] for d in range(rank))
    limits = build.concatenate(
        [build.reshape(build.scalar_constant(sizes[d] - window[d], "s64"), (1,)) for d in columns] or
        [build.splat(0, array("s64", (0,)))], 0,
    )  # fmt: skip
    count = rows.shape.dimensions[0]
    order = [d for d in range(updates.shape.rank) if d not in window_dims]
    lines = [build.reshape(build.transpose(one, [*order, *window_dims]), (count, prod(window))) for one in sources]
    both = module.add(binary_computation("and", "pred"))
    combiners = [_one_result(module, attributes["to_apply"], n) for n in range(half)]

    def step(build: Builder, number: Instruction, state: list[Instruction]) -> list[Instruction]:
        results, lines, rows, limits = state[:half], state[half : 2 * half], state[-2], state[-1]
        zero = build.scalar_constant(0, "s32")
        row = build.reshape(build.dynamic_slice(rows, [number, zero], (1, len(columns))), (len(columns),))
        fits = build.binary(
            "and", build.compare(row, build.splat(0, row.shape), "GE"), build.compare(row, limits, "LE")
        )
        inside = build.reduce(fits, build.constant(True, "pred"), [0], both)
        starts = [build.scalar_constant(0, "s64")] * rank
        for position, dimension in enumerate(columns):
            starts[dimension] = build.reshape(build.slice(row, [position], [position + 1]), ())
        old = [build.dynamic_slice(result, starts, window) for result in results]
        new = [build.reshape(build.dynamic_slice(line, [number, zero], (1, prod(window))), window) for line in lines]
        place = build.broadcast(inside, (), window)
        for n, combiner in enumerate(combiners):
            map_of = {"dimensions": tuple(range(rank)), "to_apply": combiner}
            merged = build.add("map", array(old[n].shape.element_type, window), [*old, *new], map_of)
            results[n] = build.dynamic_update_slice(results[n], build.select(place, merged, old[n]), starts)
        return [*results, *lines, rows, limits]

    after = counted_loop(module, build, count, [*results, *lines, inside_type, limits], step)
    return build.tuple(after[:half]) if scatter.shape.is_tuple else after[0]


def _one_result(module: Module, computation: Computation, number: int) -> Computation:
    """A computation of one of the results of `computation`."""
    if not computation.root.shape.is_tuple:
        return computation
    single = module.add(clone_computation(computation))
    single.root = Builder(single).gte(single.root, number)
    return single

"""Gather expander: a loop that slices one window after the other out of the operand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import ClassVar

from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each
from hlotool.passes.loops.counted_loop import counted_loop

__all__ = ["GatherExpander", "index_rows", "starts_of"]


@dataclass(frozen=True, slots=True)
class GatherExpander:
    """Rewrites gather as a loop over its index vectors: a dynamic-slice, which clamps as gather does, and an update.

    Not in the default pipeline: the CPU code generator gathers directly.
    """

    name: ClassVar[str] = "gather-expander"
    opcodes: ClassVar[frozenset[str]] = frozenset({"gather"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "one window after the other"
        return expand_each(module, log, self.opcodes, partial(_expanded, module), "expand", reason, static=True)


def index_rows(
    build: Builder,
    indices: Instruction,
    vector_dimension: int,
    index_map: Sequence[int],
    batching: Sequence[tuple[int, int]],
) -> tuple[Instruction, list[int]]:
    """The index vectors as rows of a matrix, and the operand dimension that each column is an index of.

    `batching` pairs operand dimensions with dimensions of `indices` that advance together: columns of their own.
    """
    sizes = list(indices.shape.dimensions)
    if vector_dimension == len(sizes):
        indices, sizes = build.reshape(indices, (*sizes, 1)), [*sizes, 1]
    order = [d for d in range(len(sizes)) if d != vector_dimension]
    ordered = build.transpose(indices, [*order, vector_dimension])
    kind, batch = indices.shape.element_type, ordered.shape.dimensions[:-1]
    parts = [ordered]
    for _, index_dimension in batching:
        parts.append(build.iota(array(kind, (*batch, 1)), order.index(index_dimension)))
    joined = build.concatenate(parts, len(batch)) if len(parts) > 1 else ordered
    columns = [*index_map, *(dimension for dimension, _ in batching)]
    return build.reshape(joined, (prod(batch), len(columns))), columns


def starts_of(
    build: Builder, rows: Instruction, number: Instruction, columns: Sequence[int], rank: int
) -> list[Instruction]:
    """The start index in each operand dimension that row `number` tells; 0 in the others."""
    kind = rows.shape.element_type
    zero = build.scalar_constant(0, kind)
    starts = [zero] * rank
    for position, dimension in enumerate(columns):
        place = [number, build.scalar_constant(position, "s32")]
        starts[dimension] = build.reshape(build.dynamic_slice(rows, place, (1, 1)), ())
    return starts


def _expanded(module: Module, build: Builder, gather: Instruction) -> Instruction:
    operand, indices = gather.operands
    attributes = gather.attributes
    kind, sizes = operand.shape.element_type, tuple(attributes["slice_sizes"])
    if not gather.shape.size or not operand.shape.size:
        return build.splat(0, gather.shape)
    batching = list(zip(
        attributes.get("operand_batching_dims") or (), attributes.get("start_indices_batching_dims") or (), strict=True
    ))  # fmt: skip
    rows, columns = index_rows(build, indices, attributes["index_vector_dim"], attributes["start_index_map"], batching)
    dropped = {*attributes["collapsed_slice_dims"], *(dimension for dimension, _ in batching)}
    window = [size for d, size in enumerate(sizes) if d not in dropped]
    count = rows.shape.dimensions[0]

    def step(build: Builder, number: Instruction, state: list[Instruction]) -> list[Instruction]:
        picked, operand, rows = state
        part = build.dynamic_slice(operand, starts_of(build, rows, number, columns, operand.shape.rank), sizes)
        zero = build.scalar_constant(0, "s32")
        row = build.reshape(part, (1, *window))
        return [build.dynamic_update_slice(picked, row, [number, *(zero for _ in window)]), operand, rows]

    nothing = build.splat(0, array(kind, (count, *window)))
    picked = counted_loop(module, build, count, [nothing, operand, rows], step)[0]
    offsets = list(attributes["offset_dims"])
    batch = [d for d in range(gather.shape.rank) if d not in offsets]
    grid = build.reshape(picked, [*(gather.shape.dimensions[d] for d in batch), *window])
    place = {d: position for position, d in enumerate([*batch, *offsets])}
    return build.transpose(grid, [place[d] for d in range(gather.shape.rank)])

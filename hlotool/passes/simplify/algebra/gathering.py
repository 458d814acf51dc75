"""Gathers and scatters at places that are known: slices, reversed slices and updates instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from hlotool.analysis.thresholds import Threshold
from hlotool.ir import ELEMENT_TYPES, Instruction, SliceDimension
from hlotool.passes.framework.patterns import number
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule
from hlotool.passes.simplify.algebra.contraction import reducer_opcode

__all__ = ["RULES"]

_LARGEST: Annotated[int, Threshold("indices")] = 65536
"""Indices in a constant up to which it is looked at."""


def _progression(indices: Instruction) -> tuple[int, int, int] | None:
    """First index, step, and the dimension along which they go on: for indices that follow each other evenly.

    Those of a constant, and of an iota times a number plus a number.
    """
    long = [d for d, size in enumerate(indices.shape.dimensions) if size > 1]
    if len(long) != 1 or not ELEMENT_TYPES[indices.shape.element_type].is_integer:
        return None
    if indices.opcode == "constant":
        if indices.literal.elided or indices.shape.size > _LARGEST:
            return None
        values = np.asarray(indices.literal.value()).astype(object if "64" in indices.shape.element_type else np.int64)
        values = values.reshape(-1)
        first, step = int(values[0]), int(values[1]) - int(values[0])
        even = all(values[1:] - values[:-1] == step)
        return (first, step, long[0]) if even else None
    first, step = 0, 1
    inner = indices
    if inner.opcode == "add" and isinstance(number(inner.operands[1]), int):
        first, inner = _integer(inner.operands[1]), inner.operands[0]
    if inner.opcode == "multiply" and isinstance(number(inner.operands[1]), int):
        step, inner = _integer(inner.operands[1]), inner.operands[0]
    if inner.opcode != "iota" or inner.attributes["iota_dimension"] != long[0] or step == 0:
        return None
    row = ELEMENT_TYPES[indices.shape.element_type]
    last = first + step * (indices.shape.dimensions[long[0]] - 1)
    limit = 1 << (row.bits - (row.kind == "signed"))
    return (first, step, long[0]) if max(abs(first), abs(last), abs(last - first)) < limit else None  # nothing wraps


def _integer(instruction: Instruction) -> int:
    value = number(instruction)
    assert isinstance(value, int)
    return value


def _batch_place(dimension: int, vector: int) -> int:
    """Which batch dimension of the result a dimension of the indices is."""
    return dimension - (dimension > vector)


@rule("gather(operand, indices: constant|iota|add|multiply)")
def gather_progression(
    instruction: Instruction, operand: Instruction, indices: Instruction, rewriter: Rewriter
) -> Rewritten:
    """A gather at evenly spaced places, none out of bounds, is a slice (reversed where they go down), transposed to
    where the gather has its parts."""
    attributes = instruction.attributes
    index_map = attributes["start_index_map"]
    if len(index_map) != 1 or attributes.get("operand_batching_dims") or instruction.shape.size == 0:
        return None
    (along,) = index_map
    sizes = attributes["slice_sizes"]
    found = _progression(indices) if sizes[along] == 1 else None
    if found is None or found[1] == 0 or found[2] == attributes["index_vector_dim"]:
        return None
    first, step, dimension = found
    count = indices.shape.dimensions[dimension]
    last = first + step * (count - 1)
    low, high = min(first, last), max(first, last)
    if low < 0 or high >= operand.shape.dimensions[along]:
        return None
    rows = [SliceDimension(0, size) for size in sizes]
    rows[along] = SliceDimension(low, high + 1, abs(step))
    part = rewriter.slice_rows(operand, rows)
    if step < 0:
        part = rewriter.make("reverse", part.shape, part, dimensions=(along,))
    rest = [d for d in range(operand.shape.rank) if d not in attributes["collapsed_slice_dims"]]
    offsets = sorted(attributes["offset_dims"])
    batch = [d for d in range(instruction.shape.rank) if d not in offsets]
    long = batch[_batch_place(dimension, attributes["index_vector_dim"])]
    kept = dict(zip(offsets, rest, strict=True))
    places = [(d, along if d == long else kept.get(d, along)) for d in range(instruction.shape.rank)]
    order = [of for d, of in places if d == long or of != along]
    order += [d for d in range(operand.shape.rank) if d not in order]  # collapsed ones, of size 1
    return rewriter.reshape(rewriter.transpose(part, order), instruction.shape.dimensions)


@rule("scatter(operand, indices: constant|broadcast|iota|add|multiply, updates)")
def scatter_known(
    instruction: Instruction, operand: Instruction, indices: Instruction, updates: Instruction, rewriter: Rewriter
) -> Rewritten:
    """A scatter of one window, or of windows of size 1 side by side, at constant places is an update of a part; one
    that leaves the operand changes nothing."""
    if instruction.attributes.get("input_batching_dims"):
        return None
    attributes = instruction.attributes
    index_map = attributes["scatter_dims_to_operand_dims"]
    opcode = _combines_with(instruction)
    if opcode is None or updates.shape.size == 0 or operand.shape.size == 0:
        return None
    inserted, windows = attributes["inserted_window_dims"], attributes["update_window_dims"]
    window = iter([updates.shape.dimensions[d] for d in sorted(windows)])
    sizes = [1 if d in inserted else next(window) for d in range(operand.shape.rank)]
    scattered = [d for d in range(updates.shape.rank) if d not in windows]
    starts = [0] * operand.shape.rank
    order = [*scattered, *sorted(windows)]
    if all(updates.shape.dimensions[d] == 1 for d in scattered):
        places = _constant_vector(indices)
        if places is None:
            return None
        for dimension, place in zip(index_map, places, strict=True):
            starts[dimension] = place
    else:
        found = _progression(indices) if len(index_map) == 1 else None
        if found is None or found[1] != 1 or found[2] == attributes["index_vector_dim"] or sizes[index_map[0]] != 1:
            return None
        if found[0] < 0 or found[0] + indices.shape.dimensions[found[2]] > operand.shape.dimensions[index_map[0]]:
            return None
        long = scattered[_batch_place(found[2], attributes["index_vector_dim"])]
        starts[index_map[0]], sizes[index_map[0]] = found[0], updates.shape.dimensions[long]
        order = _places_of(operand.shape.rank, inserted, index_map[0], long, sorted(windows))
        order += [d for d in range(updates.shape.rank) if d not in order]  # of size 1
    if any(not 0 <= start <= whole - size
           for start, size, whole in zip(starts, sizes, operand.shape.dimensions, strict=True)):  # fmt: skip
        return operand
    rows = [SliceDimension(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    new = rewriter.reshape(rewriter.transpose(updates, order), sizes)
    if opcode:
        new = rewriter.binary(opcode, rewriter.slice_rows(operand, rows), new)
    if new.shape.dimensions == operand.shape.dimensions:
        return new
    scalars = [rewriter.scalar_constant(start, "s64") for start in starts]
    return rewriter.make("dynamic-update-slice", operand.shape, operand, new, *scalars)


def _places_of(rank: int, inserted: Sequence[int], along: int, long: int, windows: Sequence[int]) -> list[int]:
    """For each dimension of the operand, but inserted ones of size 1, the dimension of the updates that holds it."""
    rest = iter(windows)
    order = []
    for d in range(rank):
        place = None if d in inserted else next(rest)
        if d == along:
            order.append(long)
        elif place is not None:
            order.append(place)
    return order


def _combines_with(scatter: Instruction) -> str | None:
    """The operation of its combiner, "" for one that takes the update; None for any other."""
    computation = scatter.attributes["to_apply"]
    root = computation.root
    if root.opcode == "parameter":
        return "" if root.parameter_number == 1 else None
    return reducer_opcode(computation)


def _constant_vector(indices: Instruction) -> list[int] | None:
    """The numbers in a small constant, written out or broadcast."""
    value = number(indices)
    if value is not None:
        return [int(value.real)] * indices.shape.size
    if indices.opcode != "constant" or indices.literal.elided:
        return None
    return [int(v) for v in np.asarray(indices.literal.value()).reshape(-1)]


RULES: tuple[Rule, ...] = (gather_progression, scatter_known)

"""Data that only moves or repeats: broadcast, reshape, transpose, reverse, iota, constants of one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from hlotool.analysis.thresholds import Threshold
from hlotool.ir import ELEMENT_TYPES, Instruction, array, literal
from hlotool.passes.framework.patterns import ELEMENTWISE
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule

__all__ = ["RULES", "matching_dimensions"]


def matching_dimensions(source: Sequence[int], target: Sequence[int]) -> dict[int, int] | None:
    """For two sizes that differ only in dimensions of size 1: which dimension of `target` each kept one of `source` is.

    None when they differ in more.  Dimensions of size 1 in `source` are matched only where both sides have one.
    """
    found: dict[int, int] = {}
    position = 0
    for dimension, size in enumerate(source):
        if size == 1:
            if position < len(target) and target[position] == 1:
                found[dimension] = position
                position += 1
            continue
        while position < len(target) and target[position] == 1:
            position += 1
        if position == len(target) or target[position] != size:
            return None
        found[dimension] = position
        position += 1
    return found if all(size == 1 for size in target[position:]) else None


# ---- constants


@rule("constant")
def splat_constant(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """An array constant of one value is a broadcast of a scalar."""
    if not instruction.shape.is_array or not instruction.shape.dimensions or instruction.literal.elided:
        return None
    if not instruction.literal.is_splat:
        return None
    value = np.ascontiguousarray(instruction.literal.value()).reshape(-1)[0]
    scalar = rewriter.make(
        "constant",
        array(instruction.shape.element_type),
        literal=literal(np.asarray(value, instruction.literal.value().dtype), instruction.shape.element_type),
    )
    return rewriter.broadcast(scalar, (), instruction.shape)


_COUNTED: Annotated[int, Threshold("elements")] = 8
"""Of a constant, from which on a loop counts."""


@rule("constant", types="integers")
def counting_constant(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """An integer vector 0, 1, 2, ... is an iota."""
    shape = instruction.shape
    if not shape.is_array or shape.rank != 1 or shape.size < _COUNTED or instruction.literal.elided:
        return None
    if shape.element_type not in ("s32", "s64", "u32", "u64"):
        return None
    if not np.array_equal(instruction.literal.value(), np.arange(shape.size)):
        return None
    return rewriter.make("iota", shape, iota_dimension=0)


@rule("iota")
def iota_of_one(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """An iota along a dimension of size 1 is 0."""
    if instruction.shape.dimensions[instruction.attributes["iota_dimension"]] != 1:
        return None
    return rewriter.splat(0, instruction.shape)


# ---- broadcast


@rule("broadcast(operand)")
def broadcast_nothing(instruction: Instruction, operand: Instruction) -> Rewritten:
    """A broadcast to the shape that x has, all dimensions in order, is x."""
    if not operand.shape.compatible(instruction.shape):
        return None
    return operand if tuple(instruction.attributes["dimensions"]) == tuple(range(instruction.shape.rank)) else None


@rule("broadcast(operand)")
def broadcast_ones(instruction: Instruction, operand: Instruction, rewriter: Rewriter) -> Rewritten:
    """A broadcast that only adds dimensions of size 1 is a reshape."""
    if not operand.shape.dimensions or operand.shape.size != instruction.shape.size or operand.shape.size == 0:
        return None
    dimensions = instruction.attributes["dimensions"]
    if list(dimensions) != sorted(dimensions):
        return None
    return rewriter.make("reshape", instruction.shape, operand)


@rule("broadcast(inner: broadcast(x))")
def broadcast_twice(instruction: Instruction, inner: Instruction, x: Instruction, rewriter: Rewriter) -> Instruction:
    """broadcast(broadcast(x)) is one broadcast."""
    outer = instruction.attributes["dimensions"]
    dimensions = tuple(outer[d] for d in inner.attributes["dimensions"])
    return rewriter.make("broadcast", instruction.shape, x, dimensions=dimensions)


@rule("broadcast(inner: reshape(source))")
def broadcast_of_inserted_ones(
    instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter
) -> Rewritten:
    """broadcast(reshape(x)) where the reshape only adds dimensions of size 1 is a broadcast of x."""
    if source.shape.rank >= inner.shape.rank:
        return None
    matched = matching_dimensions(source.shape.dimensions, inner.shape.dimensions)
    if matched is None or len(matched) != source.shape.rank:
        return None
    outer = instruction.attributes["dimensions"]
    dimensions = tuple(outer[matched[d]] for d in range(source.shape.rank))
    return rewriter.make("broadcast", instruction.shape, source, dimensions=dimensions)


@rule(f"{ELEMENTWISE}(*operands)", reads="broadcast")
def elementwise_of_broadcasts(instruction: Instruction, operands: list[Instruction], rewriter: Rewriter) -> Rewritten:
    """op(broadcast(x), broadcast(y)) = broadcast(op(x, y)): computed once, not for every copy.

    All operands are broadcast along the same dimensions, or are broadcast scalars.
    """
    if any(operand.opcode != "broadcast" and operand.shape.dimensions for operand in operands):
        return None
    views = [o for o in operands if o.opcode == "broadcast"]
    if not instruction.shape.dimensions:
        return None
    wide = [v for v in views if v.operands[0].shape.dimensions] or views[:1]
    model = wide[0]
    inner_sizes = model.operands[0].shape.dimensions
    if any(
        v.attributes["dimensions"] != model.attributes["dimensions"] or v.operands[0].shape.dimensions != inner_sizes
        for v in wide
    ):
        return None
    if inner_sizes and model.operands[0].shape.size >= instruction.shape.size:
        return None
    shape = array(instruction.shape.element_type, inner_sizes)
    inner = [_narrowed(o, inner_sizes, rewriter) for o in operands]
    narrow = rewriter.make(instruction.opcode, shape, *inner, **instruction.attributes)
    return rewriter.broadcast(narrow, model.attributes["dimensions"], instruction.shape)


def _narrowed(operand: Instruction, sizes: tuple[int, ...], rewriter: Rewriter) -> Instruction:
    if operand.opcode != "broadcast":
        return operand  # the scalar predicate of a select, or the scalar bound of a clamp
    source = operand.operands[0]
    if source.shape.dimensions == sizes:
        return source
    return rewriter.broadcast(source, (), array(source.shape.element_type, sizes))


# ---- reshape


@rule("reshape(operand)")
def reshape_nothing(instruction: Instruction, operand: Instruction) -> Rewritten:
    """A reshape to the dimensions that x has is x."""
    return operand if operand.shape.compatible(instruction.shape) else None


@rule("reshape(reshape(source))")
def reshape_twice(instruction: Instruction, source: Instruction, rewriter: Rewriter) -> Instruction:
    """reshape(reshape(x)) is one reshape."""
    return rewriter.make("reshape", instruction.shape, source)


@rule("reshape(inner: broadcast(x))")
def reshape_broadcast(instruction: Instruction, inner: Instruction, x: Instruction, rewriter: Rewriter) -> Rewritten:
    """reshape(broadcast(x)) is a broadcast of x, for a scalar x and where only dimensions of size 1 come or go."""
    matched = matching_dimensions(inner.shape.dimensions, instruction.shape.dimensions)
    if not x.shape.dimensions:
        return rewriter.broadcast(x, (), instruction.shape)
    dimensions = inner.attributes["dimensions"]
    if matched is None or any(d not in matched for d in dimensions):
        return None
    return rewriter.make("broadcast", instruction.shape, x, dimensions=tuple(matched[d] for d in dimensions))


@rule("reshape(inner: iota)")
def reshape_iota(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """reshape(iota) is an iota where only dimensions of size 1 come or go."""
    matched = matching_dimensions(inner.shape.dimensions, instruction.shape.dimensions)
    dimension = inner.attributes["iota_dimension"]
    if matched is None or dimension not in matched:
        return None
    return rewriter.make("iota", instruction.shape, iota_dimension=matched[dimension])


# ---- transpose


@rule("transpose(operand)")
def transpose_nothing(instruction: Instruction, operand: Instruction) -> Rewritten:
    """A transpose that keeps all dimensions in place is x."""
    kept = list(instruction.attributes["dimensions"]) == list(range(instruction.shape.rank))
    return operand if kept and operand.shape.compatible(instruction.shape) else None


@rule("transpose(inner: transpose(source))")
def transpose_twice(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """transpose(transpose(x)) is one transpose, or x."""
    permutation = tuple(inner.attributes["dimensions"][d] for d in instruction.attributes["dimensions"])
    return rewriter.transpose(source, permutation)


@rule("transpose(operand)")
def transpose_ones(instruction: Instruction, operand: Instruction, rewriter: Rewriter) -> Rewritten:
    """A transpose that moves only dimensions of size 1 is a reshape: no element changes its place in memory."""
    moved = [d for d in instruction.attributes["dimensions"] if operand.shape.dimensions[d] != 1]
    if moved != sorted(moved):
        return None
    return rewriter.make("reshape", instruction.shape, operand)


@rule("transpose(inner: broadcast(x))")
def transpose_broadcast(instruction: Instruction, inner: Instruction, x: Instruction, rewriter: Rewriter) -> Rewritten:
    """transpose(broadcast(x)) = broadcast(transpose(x)), the smaller transpose (none at all for vectors)."""
    place = {d: i for i, d in enumerate(instruction.attributes["dimensions"])}
    targets = [place[d] for d in inner.attributes["dimensions"]]
    order = sorted(range(len(targets)), key=lambda d: targets[d])
    narrow = rewriter.transpose(x, order)
    return rewriter.broadcast(narrow, tuple(targets[d] for d in order), instruction.shape)


@rule("transpose(inner: iota)")
def transpose_iota(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """transpose(iota) is an iota along the moved dimension."""
    dimension = list(instruction.attributes["dimensions"]).index(inner.attributes["iota_dimension"])
    return rewriter.make("iota", instruction.shape, iota_dimension=dimension)


# ---- reverse


@rule("reverse(operand)")
def reverse_ones(instruction: Instruction, operand: Instruction, rewriter: Rewriter) -> Rewritten:
    """Reversing dimensions of size 1, or none, changes nothing."""
    dimensions = instruction.attributes["dimensions"]
    left = tuple(d for d in dimensions if operand.shape.dimensions[d] > 1)
    if len(left) == len(dimensions) and left:
        return None
    return rewriter.make("reverse", instruction.shape, operand, dimensions=left) if left else operand


@rule("reverse(inner: reverse(source))")
def reverse_twice(instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter) -> Rewritten:
    """reverse(reverse(x)) reverses the dimensions that only one of them does."""
    left = tuple(sorted(set(instruction.attributes["dimensions"]) ^ set(inner.attributes["dimensions"])))
    return rewriter.make("reverse", instruction.shape, source, dimensions=left) if left else source


@rule("reverse(inner: broadcast)")
def reverse_broadcast(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """Reversing a dimension along which all elements are equal changes nothing."""
    dimensions = instruction.attributes["dimensions"]
    left = tuple(d for d in dimensions if d in inner.attributes["dimensions"])
    if len(left) == len(dimensions):
        return None
    return rewriter.make("reverse", instruction.shape, inner, dimensions=left) if left else inner


# ---- iotas, and what moves past each other


@rule("broadcast(inner: iota)")
def broadcast_iota(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """broadcast(iota) is an iota along the dimension where the iota's went."""
    dimension = instruction.attributes["dimensions"][inner.attributes["iota_dimension"]]
    return rewriter.make("iota", instruction.shape, iota_dimension=dimension)


@rule("reverse(inner: iota)")
def reverse_iota(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """reverse(iota) of integers counts down from n - 1; across its dimension an iota stays what it is."""
    dimension = inner.attributes["iota_dimension"]
    if dimension not in instruction.attributes["dimensions"]:
        return inner
    row = ELEMENT_TYPES[instruction.shape.element_type]
    last = inner.shape.dimensions[dimension] - 1
    if not row.is_integer or not 0 <= last < 1 << (row.bits - (row.kind == "signed")):
        return None
    return rewriter.binary("subtract", rewriter.splat(last, instruction.shape), inner)


@rule("transpose(inner: reshape(source))")
def transpose_of_inserted_ones(
    instruction: Instruction, inner: Instruction, source: Instruction, rewriter: Rewriter
) -> Rewritten:
    """transpose(reshape(x)) where only dimensions of size 1 come and go is a reshape of a transpose of fewer."""
    if source.shape.rank >= inner.shape.rank or instruction.shape.size == 0:
        return None
    matched = matching_dimensions(source.shape.dimensions, inner.shape.dimensions)
    if matched is None or len(matched) != source.shape.rank:
        return None
    back = {target: d for d, target in matched.items()}
    order = [back[d] for d in instruction.attributes["dimensions"] if d in back]
    return rewriter.reshape(rewriter.transpose(source, order), instruction.shape.dimensions)


@rule("reverse(inner: transpose(first: reverse(source)))")
def reverse_transpose(
    instruction: Instruction, inner: Instruction, first: Instruction, source: Instruction, rewriter: Rewriter
) -> Instruction | None:
    """reverse(transpose(reverse(x))) is transpose(x) with what both reverse left out."""
    permutation = inner.attributes["dimensions"]
    reversed_before = {i for i, d in enumerate(permutation) if d in first.attributes["dimensions"]}
    left = tuple(sorted(reversed_before ^ set(instruction.attributes["dimensions"])))
    moved = rewriter.transpose(source, permutation)
    return rewriter.make("reverse", instruction.shape, moved, dimensions=left) if left else moved


RULES: tuple[Rule, ...] = (
    splat_constant, counting_constant, iota_of_one, broadcast_nothing, broadcast_ones, broadcast_twice,
    broadcast_of_inserted_ones, elementwise_of_broadcasts, reshape_nothing, reshape_twice, reshape_broadcast,
    reshape_iota, transpose_nothing, transpose_twice, transpose_ones, transpose_broadcast, transpose_iota,
    reverse_ones, reverse_twice, reverse_broadcast, broadcast_iota, reverse_iota, transpose_of_inserted_ones,
    reverse_transpose,
)  # fmt: skip

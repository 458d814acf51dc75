"""Data that only moves or repeats: broadcast, reshape, transpose, reverse, iota, constants of one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from hlotool.analysis.thresholds import Threshold
from hlotool.ir import ELEMENT_TYPES, OPCODES, Instruction, array, literal
from hlotool.passes.framework.rewriter import Rewriter, Rule, rule

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
def splat_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
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


@rule("constant")
def counting_constant(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
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
def iota_of_one(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """An iota along a dimension of size 1 is 0."""
    if instruction.shape.dimensions[instruction.attributes["iota_dimension"]] != 1:
        return None
    return rewriter.splat(0, instruction.shape)


# ---- broadcast


@rule("broadcast")
def broadcast_nothing(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """A broadcast to the shape that x has, all dimensions in order, is x."""
    operand = instruction.operands[0]
    if not operand.shape.compatible(instruction.shape):
        return None
    return operand if tuple(instruction.attributes["dimensions"]) == tuple(range(instruction.shape.rank)) else None


@rule("broadcast")
def broadcast_ones(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """A broadcast that only adds dimensions of size 1 is a reshape."""
    operand = instruction.operands[0]
    if not operand.shape.dimensions or operand.shape.size != instruction.shape.size or operand.shape.size == 0:
        return None
    dimensions = instruction.attributes["dimensions"]
    if list(dimensions) != sorted(dimensions):
        return None
    return rewriter.make("reshape", instruction.shape, operand)


@rule("broadcast", reads="broadcast")
def broadcast_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """broadcast(broadcast(x)) is one broadcast."""
    inner = instruction.operands[0]
    if inner.opcode != "broadcast":
        return None
    outer = instruction.attributes["dimensions"]
    dimensions = tuple(outer[d] for d in inner.attributes["dimensions"])
    return rewriter.make("broadcast", instruction.shape, inner.operands[0], dimensions=dimensions)


@rule("broadcast", reads="reshape")
def broadcast_of_inserted_ones(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """broadcast(reshape(x)) where the reshape only adds dimensions of size 1 is a broadcast of x."""
    inner = instruction.operands[0]
    if inner.opcode != "reshape" or inner.operands[0].shape.rank >= inner.shape.rank:
        return None
    source = inner.operands[0]
    matched = matching_dimensions(source.shape.dimensions, inner.shape.dimensions)
    if matched is None or len(matched) != source.shape.rank:
        return None
    outer = instruction.attributes["dimensions"]
    dimensions = tuple(outer[matched[d]] for d in range(source.shape.rank))
    return rewriter.make("broadcast", instruction.shape, source, dimensions=dimensions)


@rule(
    *(name for name, row in OPCODES.items() if "elementwise" in row.traits and name != "bitcast-convert"),
    reads="broadcast",
)
def elementwise_of_broadcasts(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """op(broadcast(x), broadcast(y)) = broadcast(op(x, y)): computed once, not for every copy.

    All operands are broadcast along the same dimensions, or are broadcast scalars.
    """
    operands = instruction.operands
    if not instruction.shape.dimensions:
        return None
    for operand in operands:
        if operand.opcode != "broadcast" and operand.shape.dimensions:
            return None
    views = [o for o in operands if o.opcode == "broadcast"]
    if not views:
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


@rule("reshape")
def reshape_nothing(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """A reshape to the dimensions that x has is x."""
    operand = instruction.operands[0]
    return operand if operand.shape.compatible(instruction.shape) else None


@rule("reshape", reads="reshape")
def reshape_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """reshape(reshape(x)) is one reshape."""
    inner = instruction.operands[0]
    return rewriter.make("reshape", instruction.shape, inner.operands[0]) if inner.opcode == "reshape" else None


@rule("reshape", reads="broadcast")
def reshape_broadcast(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """reshape(broadcast(x)) is a broadcast of x, for a scalar x and where only dimensions of size 1 come or go."""
    inner = instruction.operands[0]
    if inner.opcode != "broadcast":
        return None
    source = inner.operands[0]
    matched = matching_dimensions(inner.shape.dimensions, instruction.shape.dimensions)
    if not source.shape.dimensions:
        return rewriter.broadcast(source, (), instruction.shape)
    dimensions = inner.attributes["dimensions"]
    if matched is None or any(d not in matched for d in dimensions):
        return None
    return rewriter.make("broadcast", instruction.shape, source, dimensions=tuple(matched[d] for d in dimensions))


@rule("reshape", reads="iota")
def reshape_iota(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """reshape(iota) is an iota where only dimensions of size 1 come or go."""
    inner = instruction.operands[0]
    if inner.opcode != "iota":
        return None
    matched = matching_dimensions(inner.shape.dimensions, instruction.shape.dimensions)
    dimension = inner.attributes["iota_dimension"]
    if matched is None or dimension not in matched:
        return None
    return rewriter.make("iota", instruction.shape, iota_dimension=matched[dimension])


# ---- transpose


@rule("transpose")
def transpose_nothing(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """A transpose that keeps all dimensions in place is x."""
    operand = instruction.operands[0]
    kept = list(instruction.attributes["dimensions"]) == list(range(instruction.shape.rank))
    return operand if kept and operand.shape.compatible(instruction.shape) else None


@rule("transpose", reads="transpose")
def transpose_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """transpose(transpose(x)) is one transpose, or x."""
    inner = instruction.operands[0]
    if inner.opcode != "transpose":
        return None
    permutation = tuple(inner.attributes["dimensions"][d] for d in instruction.attributes["dimensions"])
    return rewriter.transpose(inner.operands[0], permutation)


@rule("transpose")
def transpose_ones(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """A transpose that moves only dimensions of size 1 is a reshape: no element changes its place in memory."""
    operand = instruction.operands[0]
    moved = [d for d in instruction.attributes["dimensions"] if operand.shape.dimensions[d] != 1]
    if moved != sorted(moved):
        return None
    return rewriter.make("reshape", instruction.shape, operand)


@rule("transpose", reads="broadcast")
def transpose_broadcast(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """transpose(broadcast(x)) = broadcast(transpose(x)), the smaller transpose (none at all for vectors)."""
    inner = instruction.operands[0]
    if inner.opcode != "broadcast":
        return None
    source = inner.operands[0]
    place = {d: i for i, d in enumerate(instruction.attributes["dimensions"])}
    targets = [place[d] for d in inner.attributes["dimensions"]]
    order = sorted(range(len(targets)), key=lambda d: targets[d])
    narrow = rewriter.transpose(source, order)
    return rewriter.broadcast(narrow, tuple(targets[d] for d in order), instruction.shape)


@rule("transpose", reads="iota")
def transpose_iota(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """transpose(iota) is an iota along the moved dimension."""
    inner = instruction.operands[0]
    if inner.opcode != "iota":
        return None
    dimension = list(instruction.attributes["dimensions"]).index(inner.attributes["iota_dimension"])
    return rewriter.make("iota", instruction.shape, iota_dimension=dimension)


# ---- reverse


@rule("reverse")
def reverse_ones(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """Reversing dimensions of size 1, or none, changes nothing."""
    operand = instruction.operands[0]
    dimensions = instruction.attributes["dimensions"]
    left = tuple(d for d in dimensions if operand.shape.dimensions[d] > 1)
    if len(left) == len(dimensions) and left:
        return None
    return rewriter.make("reverse", instruction.shape, operand, dimensions=left) if left else operand


@rule("reverse", reads="reverse")
def reverse_twice(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """reverse(reverse(x)) reverses the dimensions that only one of them does."""
    inner = instruction.operands[0]
    if inner.opcode != "reverse":
        return None
    left = tuple(sorted(set(instruction.attributes["dimensions"]) ^ set(inner.attributes["dimensions"])))
    source = inner.operands[0]
    return rewriter.make("reverse", instruction.shape, source, dimensions=left) if left else source


@rule("reverse", reads="broadcast")
def reverse_broadcast(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """Reversing a dimension along which all elements are equal changes nothing."""
    inner = instruction.operands[0]
    if inner.opcode != "broadcast":
        return None
    dimensions = instruction.attributes["dimensions"]
    left = tuple(d for d in dimensions if d in inner.attributes["dimensions"])
    if len(left) == len(dimensions):
        return None
    return rewriter.make("reverse", instruction.shape, inner, dimensions=left) if left else inner


# ---- iotas, and what moves past each other


@rule("broadcast", reads="iota")
def broadcast_iota(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """broadcast(iota) is an iota along the dimension where the iota's went."""
    inner = instruction.operands[0]
    if inner.opcode != "iota":
        return None
    dimension = instruction.attributes["dimensions"][inner.attributes["iota_dimension"]]
    return rewriter.make("iota", instruction.shape, iota_dimension=dimension)


@rule("reverse", reads="iota")
def reverse_iota(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """reverse(iota) of integers counts down from n - 1; across its dimension an iota stays what it is."""
    inner = instruction.operands[0]
    if inner.opcode != "iota":
        return None
    dimension = inner.attributes["iota_dimension"]
    if dimension not in instruction.attributes["dimensions"]:
        return inner
    row = ELEMENT_TYPES[instruction.shape.element_type]
    last = inner.shape.dimensions[dimension] - 1
    if not row.is_integer or not 0 <= last < 1 << (row.bits - (row.kind == "signed")):
        return None
    return rewriter.binary("subtract", rewriter.splat(last, instruction.shape), inner)


@rule("transpose", reads="reshape")
def transpose_of_inserted_ones(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """transpose(reshape(x)) where only dimensions of size 1 come and go is a reshape of a transpose of fewer."""
    inner = instruction.operands[0]
    if inner.opcode != "reshape" or inner.operands[0].shape.rank >= inner.shape.rank or instruction.shape.size == 0:
        return None
    source = inner.operands[0]
    matched = matching_dimensions(source.shape.dimensions, inner.shape.dimensions)
    if matched is None or len(matched) != source.shape.rank:
        return None
    back = {target: d for d, target in matched.items()}
    order = [back[d] for d in instruction.attributes["dimensions"] if d in back]
    return rewriter.reshape(rewriter.transpose(source, order), instruction.shape.dimensions)


@rule("reverse", reads="transpose")
def reverse_transpose(instruction: Instruction, rewriter: Rewriter) -> Instruction | None:
    """reverse(transpose(reverse(x))) is transpose(x) with what both reverse left out."""
    inner = instruction.operands[0]
    if inner.opcode != "transpose" or inner.operands[0].opcode != "reverse":
        return None
    first = inner.operands[0]
    permutation = inner.attributes["dimensions"]
    reversed_before = {i for i, d in enumerate(permutation) if d in first.attributes["dimensions"]}
    left = tuple(sorted(reversed_before ^ set(instruction.attributes["dimensions"])))
    moved = rewriter.transpose(first.operands[0], permutation)
    return rewriter.make("reverse", instruction.shape, moved, dimensions=left) if left else moved


RULES: tuple[Rule, ...] = (
    splat_constant, counting_constant, iota_of_one, broadcast_nothing, broadcast_ones, broadcast_twice,
    broadcast_of_inserted_ones, elementwise_of_broadcasts, reshape_nothing, reshape_twice, reshape_broadcast,
    reshape_iota, transpose_nothing, transpose_twice, transpose_ones, transpose_broadcast, transpose_iota,
    reverse_ones, reverse_twice, reverse_broadcast, broadcast_iota, reverse_iota, transpose_of_inserted_ones,
    reverse_transpose,
)  # fmt: skip

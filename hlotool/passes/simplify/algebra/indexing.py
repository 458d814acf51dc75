"""Slices at computed places: dynamic-slice, dynamic-update-slice, gather and scatter of data that is simple."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.ir import ELEMENT_TYPES, Instruction, array
from hlotool.passes.framework.patterns import number
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule
from hlotool.passes.simplify.algebra.contraction import is_identity, reducer_opcode

__all__ = ["RULES"]


def _dynamic_slice(
    rewriter: Rewriter, operand: Instruction, indices: Sequence[Instruction], sizes: Sequence[int]
) -> Instruction:
    """A dynamic-slice; the operand itself when it is all of it."""
    if tuple(sizes) == operand.shape.dimensions:
        return operand
    shape = array(operand.shape.element_type, sizes)
    return rewriter.make("dynamic-slice", shape, operand, *indices, dynamic_slice_sizes=tuple(sizes))


# ---- dynamic-slice


@rule("dynamic-slice|dynamic-update-slice")
def index_of_whole_dimension(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """Where a slice is as large as the dimension, it starts at 0, whatever its index."""
    first = 1 if instruction.opcode == "dynamic-slice" else 2
    indices = instruction.operands[first:]
    if len(indices) != instruction.shape.rank:
        return None  # the old form with a vector of indices
    whole = instruction.operands[0].shape.dimensions
    part = instruction.shape if instruction.opcode == "dynamic-slice" else instruction.operands[1].shape
    free = [d for d, index in enumerate(indices) if part.dimensions[d] == whole[d] and number(index) is None]
    if not free:
        return None
    new = [rewriter.scalar_constant(0, i.shape.element_type) if d in free else i for d, i in enumerate(indices)]
    return rewriter.same(instruction, *instruction.operands[:first], *new)


@rule("dynamic-slice(inner: broadcast(source), *indices)")
def dynamic_slice_broadcast(
    instruction: Instruction, inner: Instruction, source: Instruction, indices: list[Instruction], rewriter: Rewriter
) -> Rewritten:
    """dynamic-slice(broadcast(x)) = broadcast(dynamic-slice(x)) along the dimensions that x has."""
    if len(indices) != instruction.shape.rank:
        return None
    dimensions = inner.attributes["dimensions"]
    sizes = [instruction.shape.dimensions[d] for d in dimensions]
    narrow = _dynamic_slice(rewriter, source, [indices[d] for d in dimensions], sizes)
    return rewriter.broadcast(narrow, dimensions, instruction.shape)


@rule("dynamic-slice(inner: iota, *indices)")
def dynamic_slice_iota(
    instruction: Instruction, inner: Instruction, indices: list[Instruction], rewriter: Rewriter
) -> Rewritten:
    """A dynamic-slice of an iota is a smaller iota, and where it is along its dimension, that and its clamped start."""
    dimension, shape = inner.attributes["iota_dimension"], instruction.shape
    whole, part = inner.shape.dimensions[dimension], shape.dimensions[dimension]
    if whole == part:
        return rewriter.make("iota", shape, iota_dimension=dimension)
    if len(indices) != shape.rank or indices[dimension].shape.rank:
        return None  # the old form with a vector of indices
    start = indices[dimension]
    counting = start.shape.element_type
    if whole > 1 << ELEMENT_TYPES[counting].bits - 1:
        return None  # the type of the index does not count so far
    bounds = [rewriter.scalar_constant(n, counting) for n in (0, whole - part)]
    clamped = rewriter.make("clamp", start.shape, bounds[0], start, bounds[1])
    first = rewriter.broadcast(clamped, (), shape.dimensions)
    if part > 1:
        first = rewriter.binary("add", first, rewriter.make("iota", first.shape, iota_dimension=dimension))
    return first if counting == shape.element_type else rewriter.make("convert", shape, first)


@rule("dynamic-slice(inner: transpose(source), *indices)")
def dynamic_slice_transpose(
    instruction: Instruction, inner: Instruction, source: Instruction, indices: list[Instruction], rewriter: Rewriter
) -> Rewritten:
    """dynamic-slice(transpose(x)) = transpose(dynamic-slice(x)), where nothing else reads the larger transpose."""
    if len(indices) != instruction.shape.rank or len(inner.users) != 1:
        return None
    permutation = inner.attributes["dimensions"]
    place = {d: i for i, d in enumerate(permutation)}
    rank = instruction.shape.rank
    sizes = [instruction.shape.dimensions[place[d]] for d in range(rank)]
    narrow = _dynamic_slice(rewriter, source, [indices[place[d]] for d in range(rank)], sizes)
    return rewriter.transpose(narrow, permutation)


# ---- dynamic-update-slice


@rule("dynamic-update-slice(inner: dynamic-update-slice(operand, written, *places), update, *indices)")
def update_twice(
    instruction: Instruction,
    operand: Instruction,
    written: Instruction,
    places: list[Instruction],
    update: Instruction,
    indices: list[Instruction],
    rewriter: Rewriter,
) -> Rewritten:
    """An update of just what was updated before makes the first one useless."""
    if places != indices or not written.shape.compatible(update.shape):
        return None
    return rewriter.same(instruction, operand, update, *indices)


@rule("dynamic-update-slice(operand: broadcast(value), update, *_)")
def update_with_own_value(operand: Instruction, value: Instruction, update: Instruction) -> Rewritten:
    """Writing c into an array that is c everywhere changes nothing."""
    if value.shape.dimensions:
        return None
    own = update.operands[0] if update.opcode == "broadcast" else update
    return operand if own is value else None


# ---- gather and scatter


@rule("gather(operand: broadcast(value), _)")
def gather_splat(instruction: Instruction, value: Instruction, rewriter: Rewriter) -> Rewritten:
    """A gather from an array of one value is that value: indices are clamped, so each finds an element."""
    if value.shape.dimensions or instruction.shape.size == 0:
        return None
    return rewriter.broadcast(value, (), instruction.shape)


@rule("scatter(operand, _, updates)")
def scatter_nothing(instruction: Instruction, operand: Instruction, updates: Instruction) -> Rewritten:
    """A scatter of no updates, or of integer updates that its combiner ignores, is the operand."""
    if updates.shape.size == 0:
        return operand
    opcode = reducer_opcode(instruction.attributes["to_apply"])
    exact = not ELEMENT_TYPES[operand.shape.element_type].is_float or opcode in ("maximum", "minimum")
    if opcode is None or not exact or updates.opcode != "broadcast" or updates.operands[0].shape.dimensions:
        return None
    return operand if is_identity(opcode, updates.operands[0]) else None


RULES: tuple[Rule, ...] = (
    index_of_whole_dimension, dynamic_slice_broadcast, dynamic_slice_iota, dynamic_slice_transpose, update_twice,
    update_with_own_value, gather_splat, scatter_nothing,
)  # fmt: skip

"""Less work where less of a result is wanted: slices of operations, products of repeated parts, reductions of joins."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated

from hlotool.analysis.contraction import dot_dimensions
from hlotool.analysis.thresholds import Threshold
from hlotool.ir import ELEMENT_TYPES, Instruction, SliceDimension, array
from hlotool.passes.framework.patterns import ELEMENTWISE
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule
from hlotool.passes.simplify.algebra.contraction import is_identity, single_reducer
from hlotool.passes.simplify.algebra.slicing import constant_start, rows_of

__all__ = ["RULES"]

_LEAST_JOIN: Annotated[int, Threshold("elements")] = 4096
"""Elements from which on a concatenation is worth a reduction for each part."""
_MOST_JOINED: Annotated[int, Threshold("operands")] = 4  # of such a concatenation
_SAVED: Annotated[int, Threshold("times")] = 4
"""How many multiplications a copied element must save where less of a product is wanted."""


def _only_read_by(inner: Instruction, reader: Instruction) -> bool:
    return len(inner.users) == 1 and inner.users.get(reader) == 1 and not inner.is_root


# ---- slice


@rule(f"slice(inner: {ELEMENTWISE})")
def slice_elementwise(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """slice(op(x, y)) = op(slice(x), slice(y)), where nothing else reads the larger result."""
    if not _only_read_by(inner, instruction):
        return None
    rows, sizes = rows_of(instruction), inner.shape.dimensions
    parts = [rewriter.slice_rows(o, rows) if o.shape.dimensions == sizes else o for o in inner.operands]
    return rewriter.make(inner.opcode, instruction.shape, *parts, **inner.attributes)


@rule("slice(inner: dynamic-update-slice(operand, update, *indices))")
def slice_update(
    instruction: Instruction, operand: Instruction, update: Instruction, indices: list[Instruction], rewriter: Rewriter
) -> Rewritten:
    """A slice of an update at constant indices that it does not touch is a slice of the old array; one that lies
    within it, of the update."""
    if instruction.shape.size == 0:
        return None
    sizes, within = update.shape.dimensions, operand.shape.dimensions
    start = constant_start(indices, sizes, within) if len(indices) == len(sizes) else None
    if start is None:
        return None
    rows = rows_of(instruction)
    places = list(zip(rows, start, sizes, strict=True))
    if any(row.limit <= first or row.start >= first + size for row, first, size in places):
        return rewriter.slice_rows(operand, rows)
    if all(row.start >= first and row.limit <= first + size for row, first, size in places):
        return rewriter.slice_rows(update, [SliceDimension(r.start - s, r.limit - s, r.stride) for r, s, _ in places])
    return None


@rule("slice(inner: reduce(source, initial))")
def slice_reduce(
    instruction: Instruction, inner: Instruction, source: Instruction, initial: Instruction, rewriter: Rewriter
) -> Rewritten:
    """slice(reduce(x)) = reduce(slice(x)), where nothing else reads the larger result."""
    if not _only_read_by(inner, instruction):
        return None
    kept = iter(rows_of(instruction))
    reduced = inner.attributes["dimensions"]
    rows = [SliceDimension(0, n) if d in reduced else next(kept) for d, n in enumerate(source.shape.dimensions)]
    return rewriter.make("reduce", instruction.shape, rewriter.slice_rows(source, rows), initial, **inner.attributes)


@rule("slice|dynamic-slice(inner: dot(left, right), *indices)")
def slice_dot(
    instruction: Instruction,
    inner: Instruction,
    left: Instruction,
    right: Instruction,
    indices: list[Instruction],
    rewriter: Rewriter,
) -> Rewritten:
    """slice(dot(x, y)) = dot(slice(x), slice(y)), where nothing else reads the larger product and the products saved
    are worth copying the parts; likewise a dynamic-slice."""
    if not _only_read_by(inner, instruction):
        return None
    if instruction.opcode == "dynamic-slice" and len(indices) != instruction.shape.rank:
        return None
    numbers = dot_dimensions(inner)
    batch = len(numbers.lhs_batch)
    left_places = (*numbers.lhs_batch, *numbers.lhs_free)
    right_places = (*numbers.rhs_batch, *numbers.rhs_free)
    of_left = dict(zip(left_places, range(len(left_places)), strict=True))
    behind = [*range(batch), *range(len(left_places), inner.shape.rank)]
    of_right = dict(zip(right_places, behind, strict=True))
    sizes = [_part(operand, places, instruction) for operand, places in ((left, of_left), (right, of_right))]
    terms = prod(left.shape.dimensions[d] for d in numbers.lhs_contracting)
    saved = (inner.shape.size - instruction.shape.size) * terms
    copied = sum(
        prod(part) for part, operand in zip(sizes, (left, right), strict=True) if part != operand.shape.dimensions
    )
    if instruction.shape.size == 0 or saved < _SAVED * copied:
        return None
    parts = [
        _cut(rewriter, operand, part, places, instruction)
        for operand, part, places in ((left, sizes[0], of_left), (right, sizes[1], of_right))
    ]
    return rewriter.make("dot", instruction.shape, *parts, **inner.attributes)


def _part(operand: Instruction, places: dict[int, int], instruction: Instruction) -> tuple[int, ...]:
    """The sizes of what a part of a product needs of an operand; `places` maps its dimensions to the product's."""
    wanted = instruction.shape.dimensions
    return tuple(wanted[places[d]] if d in places else size for d, size in enumerate(operand.shape.dimensions))


def _cut(
    rewriter: Rewriter, operand: Instruction, sizes: tuple[int, ...], places: dict[int, int], instruction: Instruction
) -> Instruction:
    if sizes == operand.shape.dimensions:
        return operand
    if instruction.opcode == "slice":
        rows = rows_of(instruction)
        whole = operand.shape.dimensions
        return rewriter.slice_rows(operand, [rows[places[d]] if d in places else SliceDimension(0, n)
                                             for d, n in enumerate(whole)])  # fmt: skip
    indices = instruction.operands[1:]
    zero = rewriter.scalar_constant(0, indices[0].shape.element_type)
    starts = [indices[places[d]] if d in places else zero for d in range(operand.shape.rank)]
    shape = array(operand.shape.element_type, sizes)
    return rewriter.make("dynamic-slice", shape, operand, *starts, dynamic_slice_sizes=sizes)


# ---- dot


@rule("dot(left, right)", reads="broadcast")
def dot_of_repeated_rows(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """A dot of an operand that is broadcast along a free dimension is computed once, and broadcast."""
    numbers = dot_dimensions(instruction)
    free = (numbers.lhs_free, numbers.rhs_free)
    gone = [_repeated(operand, dims) for operand, dims in zip(instruction.operands, free, strict=True)]
    if not any(gone) or instruction.shape.size == 0:
        return None
    batch = (numbers.lhs_batch, numbers.rhs_batch)
    contracting = (numbers.lhs_contracting, numbers.rhs_contracting)
    operands, attributes = [], dict(instruction.attributes)
    for number_, side in enumerate(("lhs", "rhs")):
        narrow, place = _without(rewriter, instruction.operands[number_], gone[number_])
        operands.append(narrow)
        if batch[number_]:
            attributes[f"{side}_batch_dims"] = tuple(place[d] for d in batch[number_])
        attributes[f"{side}_contracting_dims"] = tuple(place[d] for d in contracting[number_])
    order = [*batch[0], *free[0]]
    first = len(order)
    dropped = {order.index(d) for d in gone[0]} | {first + free[1].index(d) for d in gone[1]}
    kept = [d for d in range(instruction.shape.rank) if d not in dropped]
    shape = array(instruction.shape.element_type, [instruction.shape.dimensions[d] for d in kept])
    return rewriter.broadcast(rewriter.make("dot", shape, *operands, **attributes), kept, instruction.shape)


def _repeated(operand: Instruction, dims: Sequence[int]) -> list[int]:
    """Those of `dims` along which a broadcast repeats its operand."""
    if operand.opcode != "broadcast":
        return []
    own = operand.attributes["dimensions"]
    return [d for d in dims if d not in own and operand.shape.dimensions[d] > 1]


def _without(rewriter: Rewriter, operand: Instruction, gone: Sequence[int]) -> tuple[Instruction, dict[int, int]]:
    """A broadcast without the dimensions `gone`, and where its other ones are then."""
    place = {d: i for i, d in enumerate(d for d in range(operand.shape.rank) if d not in gone)}
    if not gone:
        return operand, place
    shape = array(operand.shape.element_type, [operand.shape.dimensions[d] for d in place])
    narrow = rewriter.broadcast(operand.operands[0], [place[d] for d in operand.attributes["dimensions"]], shape)
    return narrow, place


@rule("dot(left, right: broadcast)")
def dot_of_repeated_matrix(
    instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter
) -> Rewritten:
    """A batched dot whose right operand is the same in all batches is one dot: the batches are rows of the left one."""
    numbers = dot_dimensions(instruction)
    batch = list(numbers.lhs_batch)
    if not batch or len(_repeated(right, numbers.rhs_batch)) < len(batch):
        return None
    if [*batch, *numbers.lhs_free] != sorted([*batch, *numbers.lhs_free]):
        return None
    narrow, place = _without(rewriter, right, numbers.rhs_batch)
    attributes = {k: v for k, v in instruction.attributes.items() if k not in ("lhs_batch_dims", "rhs_batch_dims")}
    attributes["rhs_contracting_dims"] = tuple(place[d] for d in numbers.rhs_contracting)
    return rewriter.make("dot", instruction.shape, left, narrow, **attributes)


@rule("reduce(inner: dot, 0)")
def reduce_of_batches(instruction: Instruction, inner: Instruction, rewriter: Rewriter) -> Rewritten:
    """The sum of the products of all batches is one dot, which contracts them too (floats add up in another order)."""
    if single_reducer(instruction) != "add" or not _only_read_by(inner, instruction):
        return None
    numbers = dot_dimensions(inner)
    reduced = instruction.attributes["dimensions"]
    kinds = {shape.element_type for shape in (inner.shape, *(o.shape for o in inner.operands))}
    exact = ELEMENT_TYPES[instruction.shape.element_type]
    if len(kinds) > 1 or not (exact.is_integer or exact.name in ("f32", "f64")) or "algorithm" in inner.attributes:
        return None
    if any(d >= len(numbers.lhs_batch) for d in reduced):
        return None
    left = [d for i, d in enumerate(numbers.lhs_batch) if i not in reduced]
    right = [d for i, d in enumerate(numbers.rhs_batch) if i not in reduced]
    attributes = {k: v for k, v in inner.attributes.items() if k not in ("lhs_batch_dims", "rhs_batch_dims")}
    if left:
        attributes |= {"lhs_batch_dims": tuple(left), "rhs_batch_dims": tuple(right)}
    attributes["lhs_contracting_dims"] = (*(numbers.lhs_batch[d] for d in reduced), *numbers.lhs_contracting)
    attributes["rhs_contracting_dims"] = (*(numbers.rhs_batch[d] for d in reduced), *numbers.rhs_contracting)
    return rewriter.make("dot", instruction.shape, *inner.operands, **attributes)


# ---- reduce


@rule("reduce(inner: concatenate(*parts), initial)")
def reduce_of_joined(
    instruction: Instruction, inner: Instruction, parts: list[Instruction], initial: Instruction, rewriter: Rewriter
) -> Rewritten:
    """reduce(concatenate(x, y)) = op(reduce(x), reduce(y)), or a concatenation of both where it does not reduce along
    it: large parts need not be copied (floats add up in another order)."""
    opcode = single_reducer(instruction)
    if opcode is None or not _only_read_by(inner, instruction):
        return None
    if len(parts) > _MOST_JOINED or inner.shape.size < _LEAST_JOIN * len(parts):
        return None
    (along,) = inner.attributes["dimensions"]
    reduced = instruction.attributes["dimensions"]
    if along in reduced and not is_identity(opcode, initial):
        return None  # it would enter once for each part
    if along in reduced and opcode in ("add", "multiply") and instruction.shape.element_type not in _EXACT_PARTS:
        return None  # the results of the parts are rounded
    results = []
    for part in parts:
        sizes = [size for d, size in enumerate(part.shape.dimensions) if d not in reduced]
        shape = array(instruction.shape.element_type, sizes)
        results.append(rewriter.make("reduce", shape, part, initial, **instruction.attributes))
    if along not in reduced:
        place = along - sum(d < along for d in reduced)
        return rewriter.make("concatenate", instruction.shape, *results, dimensions=(place,))
    total = results[0]
    for result in results[1:]:
        total = rewriter.binary(opcode, total, result)
    return total


_EXACT_PARTS = frozenset(name for name, row in ELEMENT_TYPES.items() if row.is_integer or name in ("f32", "f64"))


RULES: tuple[Rule, ...] = (
    slice_elementwise, slice_update, slice_reduce, slice_dot, dot_of_repeated_rows, dot_of_repeated_matrix,
    reduce_of_batches, reduce_of_joined,
)  # fmt: skip

"""Reductions, dots and sorts that are less than they seem."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign

from hlotool.analysis.contraction import dot_dimensions, sum_type
from hlotool.ir import ELEMENT_TYPES, Computation, Instruction, array
from hlotool.passes.framework.patterns import number, number_of
from hlotool.passes.framework.rewriter import Rewriter, Rewritten, Rule, rule
from hlotool.passes.simplify.algebra.conversion import as_bytes, byte_type
from hlotool.passes.simplify.algebra.movement import matching_dimensions

__all__ = ["RULES", "is_identity", "reducer_opcode", "single_reducer"]

_NEUTRAL = {
    "add": "0", "multiply": "1", "maximum": "lowest", "minimum": "highest", "and": "ones", "or": "0", "xor": "0",
}  # fmt: skip
"""The operations of reducers -> what changes nothing."""


def reducer_opcode(computation: Computation) -> str | None:
    """The operation of a computation ``op(parameter 0, parameter 1)`` that is commutative; None for any other."""
    root = computation.root
    parameters = computation.parameters
    if root.opcode not in _NEUTRAL or len(parameters) != 2 or root.operands[0] is root.operands[1]:
        return None
    return root.opcode if all(o.opcode == "parameter" for o in root.operands) else None


def is_identity(opcode: str, initial: Instruction) -> bool:
    """Whether reducing from the scalar `initial` is reducing from nothing."""
    value = number(initial)
    return value is not None and value == number_of(_NEUTRAL[opcode], initial.shape.element_type)


def single_reducer(instruction: Instruction) -> str | None:
    """The reducer of a reduce or reduce-window of one array, in the type of the array; None for any other."""
    if len(instruction.operands) != 2 or instruction.operands[0].shape.element_type != instruction.shape.element_type:
        return None
    return reducer_opcode(instruction.attributes["to_apply"])


def _reduce(
    rewriter: Rewriter, model: Instruction, operand: Instruction, sizes: Sequence[int], dimensions: Sequence[int]
) -> Instruction:
    """`model` over other `dimensions` of another `operand`, leaving `sizes`."""
    attributes = {**model.attributes, "dimensions": tuple(dimensions)}
    return rewriter.make("reduce", array(model.shape.element_type, sizes), operand, model.operands[1], **attributes)


# ---- reduce


@rule("reduce(operand, initial)")
def reduce_ones(instruction: Instruction, operand: Instruction, initial: Instruction, rewriter: Rewriter) -> Rewritten:
    """Reducing dimensions of size 1, or none, is a reshape (and one operation with an initial value that matters)."""
    opcode = single_reducer(instruction)
    if opcode is None:
        return None
    dimensions = instruction.attributes["dimensions"]
    ones = {d for d in dimensions if operand.shape.dimensions[d] == 1}
    if len(ones) < len(dimensions):
        if not ones:
            return None
        kept = [d for d in range(operand.shape.rank) if d not in ones]
        narrow = rewriter.reshape(operand, [operand.shape.dimensions[d] for d in kept])
        left = [kept.index(d) for d in dimensions if d not in ones]
        return _reduce(rewriter, instruction, narrow, instruction.shape.dimensions, left)
    flat = rewriter.reshape(operand, instruction.shape.dimensions)
    if is_identity(opcode, initial):
        return flat
    return rewriter.make(opcode, instruction.shape, flat, rewriter.broadcast(initial, (), instruction.shape))


@rule("reduce(operand, initial)")
def reduce_empty(instruction: Instruction, operand: Instruction, initial: Instruction, rewriter: Rewriter) -> Rewritten:
    """Reducing no elements gives the initial value."""
    if instruction.shape.is_tuple or operand.shape.size or instruction.shape.size == 0:
        return None
    if initial.shape.element_type != instruction.shape.element_type:
        return None  # the computation works in a wider type
    return rewriter.broadcast(initial, (), instruction.shape)


@rule("reduce(inner: reduce(source, start), initial)")
def reduce_twice(
    instruction: Instruction,
    inner: Instruction,
    source: Instruction,
    start: Instruction,
    initial: Instruction,
    rewriter: Rewriter,
) -> Rewritten:
    """reduce(reduce(x)) with the same operation is one reduce (floats add up in another order)."""
    opcode = single_reducer(instruction)
    if opcode is None or single_reducer(inner) != opcode or len(inner.users) != 1:
        return None
    if not is_identity(opcode, start):  # it would enter once for each element of the inner result
        return None
    row = ELEMENT_TYPES[instruction.shape.element_type]
    if opcode in ("add", "multiply") and row.is_float and row.bits < 32:  # the inner results are rounded
        return None
    kept = [d for d in range(source.shape.rank) if d not in inner.attributes["dimensions"]]
    outer = [kept[d] for d in instruction.attributes["dimensions"]]
    dimensions = tuple(sorted([*inner.attributes["dimensions"], *outer]))
    attributes = {**instruction.attributes, "dimensions": dimensions}
    return rewriter.make("reduce", instruction.shape, source, initial, **attributes)


@rule("reduce(inner: reshape(x), _)")
def reduce_of_reshape(instruction: Instruction, inner: Instruction, x: Instruction, rewriter: Rewriter) -> Rewritten:
    """reduce(reshape(x)) where only dimensions of size 1 come or go is a reduce of x."""
    opcode = single_reducer(instruction)
    if opcode is None or instruction.shape.size == 0:
        return None
    matched = matching_dimensions(x.shape.dimensions, inner.shape.dimensions)
    reduced = instruction.attributes["dimensions"]
    if matched is None or any(inner.shape.dimensions[d] == 1 for d in reduced):
        return None
    dimensions = tuple(d for d in range(x.shape.rank) if matched.get(d) in reduced)
    sizes = [size for d, size in enumerate(x.shape.dimensions) if d not in dimensions]
    return rewriter.reshape(_reduce(rewriter, instruction, x, sizes, dimensions), instruction.shape.dimensions)


@rule("reduce(inner: transpose(x), _)")
def reduce_of_transpose(instruction: Instruction, inner: Instruction, x: Instruction, rewriter: Rewriter) -> Rewritten:
    """reduce(transpose(x)) is a reduce of x, followed by a smaller transpose where the order of the rest changed."""
    if single_reducer(instruction) is None:
        return None
    permutation = inner.attributes["dimensions"]
    dimensions = tuple(sorted(permutation[d] for d in instruction.attributes["dimensions"]))
    kept = [d for d in range(x.shape.rank) if d not in dimensions]
    wanted = [permutation[d] for d in range(x.shape.rank) if d not in instruction.attributes["dimensions"]]
    narrow = _reduce(rewriter, instruction, x, [x.shape.dimensions[d] for d in kept], dimensions)
    return rewriter.transpose(narrow, [kept.index(d) for d in wanted])


_EXACT_COUNT = {"f16": 2**11, "bf16": 2**8, "f32": 2**24, "f64": 2**53}


@rule("reduce(inner: broadcast(element), initial)")
def reduce_broadcast(
    instruction: Instruction, inner: Instruction, element: Instruction, initial: Instruction, rewriter: Rewriter
) -> Rewritten:
    """Reducing n equal elements: x for max, min, and, or; n * x for add (which rounds once, not n times).

    Constant zeros add up to 0, and to -0 only where the initial value is that as well.
    """
    opcode = single_reducer(instruction)
    if opcode is None or inner.shape.size == 0:
        return None
    reduced, repeated = instruction.attributes["dimensions"], inner.attributes["dimensions"]
    equal = [d for d in reduced if d not in repeated]
    if not equal or not is_identity(opcode, initial):
        return None
    count = 1
    for d in equal:
        count *= inner.shape.dimensions[d]
    element_type = instruction.shape.element_type
    if opcode == "add":
        if number(element) == 0 and _is_positive_zero(initial):
            return rewriter.splat(0, instruction.shape)
        integer = ELEMENT_TYPES[element_type].is_integer and count < 2 ** (ELEMENT_TYPES[element_type].bits - 1)
        if not integer and count > _EXACT_COUNT.get(element_type, 0):
            return None
    elif opcode not in ("maximum", "minimum", "and", "or"):
        return None
    kept = [d for d in range(inner.shape.rank) if d not in equal]
    shape = array(element_type, [inner.shape.dimensions[d] for d in kept])
    source = rewriter.broadcast(element, tuple(kept.index(d) for d in repeated), shape)
    if opcode == "add":
        source = rewriter.binary("multiply", source, rewriter.splat(count, source.shape))
    left = [kept.index(d) for d in reduced if d not in equal]
    return _reduce(rewriter, instruction, source, instruction.shape.dimensions, left) if left else source


def _is_positive_zero(instruction: Instruction) -> bool:
    value = number(instruction)
    return value is not None and value == 0 and copysign(1, value.real) + copysign(1, value.imag) == 2


@rule("reduce(negate(x), initial: 0)")
def reduce_of_negated(instruction: Instruction, x: Instruction, initial: Instruction, rewriter: Rewriter) -> Rewritten:
    """reduce(-x) = -reduce(x) for add from 0, exactly: one negation for each result instead of each element."""
    if single_reducer(instruction) != "add":
        return None
    return rewriter.unary("negate", rewriter.same(instruction, x, initial))


@rule("divide(left, right: broadcast(total))", types="f32 and f64")
def divide_by_softmax_sum(
    instruction: Instruction, left: Instruction, right: Instruction, total: Instruction, rewriter: Rewriter
) -> Rewritten:
    """x / s = x * (1 / s) for a repeated s that sums exp(a - max(a)), the denominator of a softmax.

    One of its terms is exp(0), so it lies between 1 and the number of terms: its inverse is normal, and the product
    rounds once more than the division.
    """
    source = total.operands[0] if total.opcode == "reshape" else total
    if total.shape.size == instruction.shape.size or not _sums_to_one_or_more(source):
        return None
    inverse = rewriter.binary("divide", rewriter.splat(1, total.shape), total)
    return rewriter.binary("multiply", left, rewriter.same(right, inverse))


def _sums_to_one_or_more(total: Instruction) -> bool:
    """Whether `total` adds up exp(a - max(a)) over the dimensions of the maximum."""
    if total.opcode != "reduce" or single_reducer(total) != "add" or number(total.operands[1]) != 0:
        return False
    terms, reduced = total.operands[0], tuple(total.attributes["dimensions"])
    if terms.opcode != "exponential" or terms.operands[0].opcode != "subtract":
        return False
    array_, repeated = terms.operands[0].operands
    if repeated.opcode != "broadcast":
        return False
    kept = tuple(d for d in range(terms.shape.rank) if d not in reduced)
    largest = repeated.operands[0]
    return (
        tuple(repeated.attributes["dimensions"]) == kept
        and largest.opcode == "reduce"
        and single_reducer(largest) == "maximum"
        and largest.operands[0] is array_
        and sorted(largest.attributes["dimensions"]) == sorted(reduced)
        and is_identity("maximum", largest.operands[1])
        and array_.shape.size > 0
    )


# ---- dot


@rule("dot(left, right)")
def dot_empty(instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter) -> Rewritten:
    """A dot over no elements is 0."""
    if instruction.shape.size == 0 or (left.shape.size and right.shape.size):
        return None
    return rewriter.splat(0, instruction.shape)


@rule("dot(left, right)")
def dot_outer(instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter) -> Rewritten:
    """A dot over dimensions of size 1, or over none, is a product of broadcasts."""
    numbers = dot_dimensions(instruction)
    if any(left.shape.dimensions[d] != 1 for d in numbers.lhs_contracting) or instruction.shape.size == 0:
        return None
    if "algorithm" in instruction.attributes:
        return None  # it may round the operands first
    types = left.shape.element_type, right.shape.element_type, instruction.shape.element_type
    kind = types[0] if len(set(types)) == 1 else sum_type(*types)
    start = len(numbers.lhs_batch)
    factors = []
    for operand, batch, free, contracting, offset in (
        (left, numbers.lhs_batch, numbers.lhs_free, numbers.lhs_contracting, start),
        (right, numbers.rhs_batch, numbers.rhs_free, numbers.rhs_contracting, start + len(numbers.lhs_free)),
    ):
        places = [*range(start), *range(offset, offset + len(free))]
        ordered = rewriter.transpose(operand, [*batch, *free, *sorted(contracting)])
        narrow = rewriter.reshape(ordered, [operand.shape.dimensions[d] for d in (*batch, *free)])
        wide = rewriter.convert(narrow, kind)
        factors.append(rewriter.broadcast(wide, places, instruction.shape.with_type(kind)))
    product = rewriter.make("multiply", instruction.shape.with_type(kind), *factors)
    return rewriter.convert(product, instruction.shape.element_type)


# ---- sort


@rule("sort(*operands)")
def sort_one(instruction: Instruction, operands: list[Instruction], rewriter: Rewriter) -> Rewritten:
    """Sorting along a dimension of size 0 or 1 changes nothing."""
    if operands[0].shape.dimensions[instruction.attributes["dimensions"][0]] > 1:
        return None
    return rewriter.make("tuple", instruction.shape, *operands) if instruction.shape.is_tuple else operands[0]


# ---- more of reduce, dot and sort


@rule("reduce(inner: reverse(source), initial)")
def reduce_of_reverse(
    instruction: Instruction, inner: Instruction, source: Instruction, initial: Instruction, rewriter: Rewriter
) -> Rewritten:
    """What is reduced need not be reversed (floats add up in another order)."""
    if single_reducer(instruction) is None:
        return None
    reduced = instruction.attributes["dimensions"]
    left = tuple(d for d in inner.attributes["dimensions"] if d not in reduced)
    if len(left) == len(inner.attributes["dimensions"]):
        return None
    if left:
        source = rewriter.make("reverse", inner.shape, source, dimensions=left)
    return rewriter.same(instruction, source, initial)


@rule("reduce(inner: pad(source, value), initial)")
def reduce_of_pad(
    instruction: Instruction,
    inner: Instruction,
    source: Instruction,
    value: Instruction,
    initial: Instruction,
    rewriter: Rewriter,
) -> Rewritten:
    """Padding with what changes nothing, along dimensions that are reduced, is no padding."""
    opcode = single_reducer(instruction)
    if opcode is None or not is_identity(opcode, value):
        return None
    reduced = instruction.attributes["dimensions"]
    for d, row in enumerate(inner.attributes["padding"]):
        if row.low < 0 or row.high < 0 or (d not in reduced and (row.low or row.high or row.interior)):
            return None
    return rewriter.same(instruction, source, initial)


@rule("reduce(multiply(source, c), initial: 0)", types="integers")
def reduce_of_scaled(
    instruction: Instruction, source: Instruction, c: Instruction, initial: Instruction, rewriter: Rewriter
) -> Rewritten:
    """reduce(x * c) = c * reduce(x) for sums of integers, which wrap, from 0."""
    if single_reducer(instruction) != "add":
        return None
    scalar = c.operands[0] if c.opcode == "broadcast" else c
    total = rewriter.same(instruction, source, initial)
    return rewriter.binary("multiply", total, rewriter.broadcast(scalar, (), instruction.shape))


@rule("dot(left: negate(x), right: negate(y))")
def dot_negated(
    instruction: Instruction, left: Instruction, x: Instruction, right: Instruction, y: Instruction, rewriter: Rewriter
) -> Rewritten:
    """dot(-x, -y) = dot(x, y), exactly."""
    kinds = {ELEMENT_TYPES[o.shape.element_type].kind for o in (left, right, instruction)}
    if len({o.shape.element_type for o in (left, right, instruction)}) > 1 and kinds != {"float"}:
        return None  # the lowest integer has no negative in its own type
    return rewriter.same(instruction, x, y)


@rule("dot(0, right)", "dot(left, 0)", types="integers")
def dot_zero(instruction: Instruction, rewriter: Rewriter) -> Rewritten:
    """dot(0, y) = dot(x, 0) = 0, for integers."""
    integers = all(ELEMENT_TYPES[o.shape.element_type].is_integer for o in instruction.operands)
    return rewriter.splat(0, instruction.shape) if integers else None


@rule("sort(*operands)", reads="broadcast")
def sort_equal(instruction: Instruction, operands: list[Instruction], rewriter: Rewriter) -> Rewritten:
    """Sorting along a dimension on which each array is the same everywhere changes nothing."""
    dimension = instruction.attributes["dimensions"][0]
    if any(o.opcode != "broadcast" or dimension in o.attributes["dimensions"] for o in operands):
        return None
    return rewriter.make("tuple", instruction.shape, *operands) if instruction.shape.is_tuple else operands[0]


@rule("dot(left, right)", reads="convert constant")
def dot_of_bytes(instruction: Instruction, left: Instruction, right: Instruction, rewriter: Rewriter) -> Rewritten:
    """A dot in s32 of what was converted from integers of eight bits is a dot of these, with the same sums."""
    wide = {left.shape.element_type, right.shape.element_type} & {"s32"}
    if instruction.shape.element_type != "s32" or not wide or "algorithm" in instruction.attributes:
        return None
    kinds = [byte_type(operand) for operand in (left, right)]
    if None in kinds:
        return None
    narrow = [as_bytes(rewriter.constant, o, kind) for o, kind in zip((left, right), kinds, strict=True) if kind]
    return rewriter.make("dot", instruction.shape, *narrow, **instruction.attributes)


RULES: tuple[Rule, ...] = (
    reduce_ones, reduce_empty, reduce_twice, reduce_of_reshape, reduce_of_transpose, reduce_broadcast,
    reduce_of_negated, divide_by_softmax_sum, dot_empty, dot_outer, sort_one, reduce_of_reverse, reduce_of_pad,
    reduce_of_scaled, dot_negated, dot_zero, dot_of_bytes, sort_equal,
)  # fmt: skip

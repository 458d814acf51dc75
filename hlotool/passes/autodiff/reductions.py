"""Derivatives of reductions: sums, extremes, and any reducer that is elementwise, as the tree of what it computes."""

from __future__ import annotations

from collections.abc import Sequence

from hlotool.analysis.reducers import opcodes
from hlotool.ir import Computation, Instruction, array
from hlotool.ir.builder import Builder
from hlotool.passes.autodiff.control import RULES as CONTROL
from hlotool.passes.autodiff.forward import Forward
from hlotool.passes.autodiff.movement import jointly
from hlotool.passes.autodiff.reverse import Reverse
from hlotool.passes.autodiff.rule import ByLeaf, Rule
from hlotool.passes.autodiff.writer import Writer, refusal

__all__ = ["RULES", "combine", "forward_as_call", "reverse_as_call"]


def reverse_as_call(at: Reverse, instruction: Instruction, computation: Computation, cotangents: ByLeaf) -> None:
    """Differentiate `instruction` as a call of `computation`, which computes the same."""
    at.module.add(computation)
    call = at.ahead_of(instruction).call(computation, instruction.operands)
    at.replace(instruction, call)
    CONTROL["call"].reverse(at, call, cotangents)


def forward_as_call(at: Forward, instruction: Instruction, computation: Computation) -> ByLeaf:
    """The same, forwards; the value stays what it was."""
    at.module.add(computation)
    call = Instruction("call", instruction.shape, instruction.operands, {"to_apply": computation})
    kept = at.primal(instruction)
    tangents = CONTROL["call"].forward(at, call)
    call.set_operands(())
    at.settle(instruction, kept)
    return tangents


def combine(
    build: Builder, reduction: Instruction, left: Sequence[Instruction], right: Sequence[Instruction]
) -> list[Instruction]:
    """The reducer of `reduction` on whole arrays.  UnsupportedError where it does more than elementwise operations."""
    reducer: Computation = reduction.attributes["to_apply"]
    given = [*left, *right]
    sizes = left[0].shape.dimensions
    values: dict[Instruction, list[Instruction]] = {}
    for inner in reducer:
        if inner.opcode == "parameter":
            values[inner] = [given[inner.parameter_number]]
        elif inner.opcode == "constant" and inner.shape.is_scalar:
            own = build.constant(inner.literal)
            values[inner] = [build.broadcast(own, (), sizes) if sizes else own]
        elif inner.opcode == "tuple":
            values[inner] = [one for operand in inner.operands for one in values[operand]]
        elif inner.opcode == "get-tuple-element":
            values[inner] = [values[inner.operands[0]][inner.attributes["index"]]]
        elif inner.has("elementwise") and inner.shape.is_scalar:
            operands = [values[operand][0] for operand in inner.operands]
            shape = array(inner.shape.element_type, sizes)
            values[inner] = [build.add(inner.opcode, shape, operands, inner.attributes)]
        else:
            raise refusal(reduction, f"its computation {reducer.name} has {inner.written} {inner.name} in it")
    return values[reducer.root]


def _tree(reduce: Instruction) -> Computation:
    """A computation of the operands of `reduce` that halves the dimensions, one after the other."""
    computation = Computation("tree")
    build = Builder(computation, like=reduce)
    count = len(reduce.operands) // 2
    given = [build.parameter(number, operand.shape) for number, operand in enumerate(reduce.operands)]
    values, starts = given[:count], given[count:]
    over = sorted(reduce.attributes["dimensions"])
    rank = values[0].shape.rank
    for dimension in over:
        size = values[0].shape.dimensions[dimension]
        while size > 1:
            half = size // 2
            left = [_part(build, one, dimension, 0, half) for one in values]
            right = [_part(build, one, dimension, half, 2 * half) for one in values]
            rest = [_part(build, one, dimension, 2 * half, size) for one in values]
            values = combine(build, reduce, left, right)
            if size % 2:
                pairs = zip(values, rest, strict=True)
                values = [build.concatenate((one, more), dimension) for one, more in pairs]
            size = size - half
    sizes = [size for d, size in enumerate(reduce.operands[0].shape.dimensions) if d not in over]
    spread = [build.broadcast(start, (), sizes) if sizes else start for start in starts]
    if any(reduce.operands[0].shape.dimensions[d] == 0 for d in over):
        values = spread
    else:
        values = combine(build, reduce, spread, [build.reshape(one, sizes) if rank else one for one in values])
    computation.root = build.tuple(values) if reduce.shape.is_tuple else values[0]
    return computation


def _part(build: Builder, value: Instruction, dimension: int, start: int, end: int) -> Instruction:
    starts, limits = [0] * value.shape.rank, list(value.shape.dimensions)
    starts[dimension], limits[dimension] = start, end
    return build.slice(value, starts, limits)


def _kept(reduce: Instruction) -> list[int]:
    over = reduce.attributes["dimensions"]
    return [d for d in range(reduce.operands[0].shape.rank) if d not in over]


def _spread(at: Writer, value: Instruction, reduce: Instruction) -> Instruction:
    """A result of `reduce` where its operand has the elements that it came from."""
    operand = reduce.operands[0]
    if value.shape.dimensions == operand.shape.dimensions:
        return value
    return at.build.broadcast(value, _kept(reduce), operand.shape.dimensions)


def _chosen(at: Writer, reduce: Instruction) -> tuple[Instruction, Instruction]:
    """Which elements are the result, and how many are, as numbers of the type."""
    operand = reduce.operands[0]
    mask = at.build.compare(at.primal(operand), _spread(at, at.primal(reduce), reduce), "EQ")
    counted = at.build.convert(mask, operand.shape.element_type)
    return mask, at.sum_over(counted, reduce.attributes["dimensions"])


def _reverse(at: Reverse, reduce: Instruction, cotangents: ByLeaf) -> None:
    names = opcodes(reduce.attributes["to_apply"])
    if set(names) == {"add"}:
        _sum_reverse(at, reduce, cotangents)
    elif names in (("maximum",), ("minimum",)) and not at.wants(reduce.operands[1]):
        mask, count = _chosen(at, reduce)
        share = at.build.binary("divide", cotangents[()], count)
        spread = _spread(at, share, reduce)
        at.give(reduce.operands[0], at.build.select(mask, spread, at.zeros(spread.shape)))
    else:
        reverse_as_call(at, reduce, _tree(reduce), cotangents)


def _sum_reverse(at: Reverse, reduce: Instruction, cotangents: ByLeaf) -> None:
    count = len(reduce.operands) // 2
    for path, g in cotangents.items():
        number = path[0] if path else 0
        operand, start = reduce.operands[number], reduce.operands[count + number]
        if at.wants(operand):
            at.give(operand, _spread(at, g, reduce))
        if at.wants(start):
            at.give(start, at.sum_over(g, range(g.shape.rank)))


_sum_forward = jointly(lambda reduce: (0, 1))


def _forward(at: Forward, reduce: Instruction) -> ByLeaf:
    names = opcodes(reduce.attributes["to_apply"])
    if names == ("add",):
        return _sum_forward(at, reduce)
    tangent = at.tangent(reduce.operands[0])
    if names in (("maximum",), ("minimum",)) and tangent is not None and at.tangent(reduce.operands[1]) is None:
        mask, count = _chosen(at, reduce)
        total = at.sum_over(at.build.select(mask, tangent, at.zeros(tangent.shape)), reduce.attributes["dimensions"])
        return {(): at.build.binary("divide", total, count)}
    return forward_as_call(at, reduce, _tree(reduce))


RULES: dict[str, Rule] = {"reduce": Rule(_reverse, _forward)}

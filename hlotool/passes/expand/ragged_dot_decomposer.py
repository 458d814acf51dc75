"""Ragged dot decomposer: products with groups of rows as plain products and masks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from hlotool.analysis.contraction import DotDimensions, dot_dimensions, sum_type
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array
from hlotool.ir.builder import Builder, binary_computation
from hlotool.ir.ragged import ragged_mode
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["RaggedDotDecomposer", "ragged_dot"]


@dataclass(frozen=True, slots=True)
class RaggedDotDecomposer:
    """Rewrites ragged-dot as dots of full size, masked by group.

    A ragged free dimension: the product with every group's matrix, of which each row keeps the one of its group.  A
    ragged contracting dimension: one product per group, of operands that are zero outside it.  A ragged batch
    dimension: a plain dot.  Costs as many products as there are groups.
    """

    name: ClassVar[str] = "ragged-dot-decomposer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"ragged-dot"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "a product for each group, masked"
        return expand_each(module, log, self.opcodes, partial(ragged_dot, module), "ragged-dot", reason, static=True)


def ragged_dot(module: Module, build: Builder, dot: Instruction) -> Instruction:
    """What has the value of a ragged-dot, of its operands."""
    lhs, rhs, sizes = dot.operands
    numbers = dot_dimensions(dot)
    (ragged,) = dot.attributes["lhs_ragged_dims"]
    kind = dot.shape.element_type
    contracting = (numbers.lhs_contracting, numbers.rhs_contracting)
    batch = (numbers.lhs_batch, numbers.rhs_batch)
    mode, outer = ragged_mode(dot.attributes, lhs.shape.rank)
    if mode == "batch":
        return build.dot(lhs, rhs, contracting, batch, kind)
    if mode == "free":
        return _free(module, build, dot, numbers)
    along = (*(outer if sizes.shape.rank > 1 else ()), ragged)
    pairs = zip(
        (*numbers.lhs_batch, *numbers.lhs_contracting), (*numbers.rhs_batch, *numbers.rhs_contracting), strict=True
    )
    other = dict(pairs)
    return build.dot(
        _masked(module, build, lhs, sizes, along),
        _masked(module, build, rhs, sizes, [other[d] for d in along]),
        [[d + 1 for d in dims] for dims in contracting],
        [[0, *(d + 1 for d in dims)] for dims in batch],
        kind,
    )


def _free(module: Module, build: Builder, dot: Instruction, numbers: DotDimensions) -> Instruction:
    lhs, rhs, sizes = dot.operands
    kind = dot.shape.element_type
    total = sum_type(lhs.shape.element_type, rhs.shape.element_type, kind)
    (ragged,), (group,) = dot.attributes["lhs_ragged_dims"], dot.attributes["rhs_group_dims"]
    contracting = (numbers.lhs_contracting, numbers.rhs_contracting)
    full = build.dot(lhs, rhs, contracting, (numbers.lhs_batch, numbers.rhs_batch), total)
    order = [*numbers.lhs_batch, *numbers.lhs_free]
    outer = ragged_mode(dot.attributes, lhs.shape.rank)[1] if sizes.shape.rank > 1 else ()
    groups = len(order) + numbers.rhs_free.index(group)
    along = [order.index(d) for d in (*outer, ragged)]
    mask = _mask(module, build, sizes, full.shape.dimensions, along, groups)
    own = build.select(mask, full, build.splat(0, full.shape))
    adder = module.add(binary_computation("or" if total == "pred" else "add", total))
    result = build.reduce(own, build.scalar_constant(0, total), [groups], adder)
    return result if total == kind else build.convert(result, kind)


def _masked(
    module: Module, build: Builder, operand: Instruction, sizes: Instruction, along: Sequence[int]
) -> Instruction:
    """``[groups, *operand]``, zero outside the group; for `along` see `_mask`."""
    if operand.shape.element_type == "f8e8m0fnu":  # has no zero
        operand = build.convert(operand, "f32")
    dimensions = (sizes.shape.dimensions[-1], *operand.shape.dimensions)
    wide = build.broadcast(operand, range(1, len(dimensions)), dimensions)
    mask = _mask(module, build, sizes, dimensions, [d + 1 for d in along], 0)
    return build.select(mask, wide, build.splat(0, wide.shape))


def _mask(
    module: Module, build: Builder, sizes: Instruction, dimensions: tuple[int, ...], along: Sequence[int], groups: int
) -> Instruction:
    """Whether the position along the last dimension of `along` belongs to the group along `groups`.

    The other dimensions of `along` are those of the array of group sizes, without its last.
    """
    sizes = build.convert(sizes, "s64")
    rank, count = sizes.shape.rank, sizes.shape.dimensions[-1]
    square = array("s64", (*sizes.shape.dimensions, count))  # the end of a group sums up the sizes of those up to it
    earlier = build.compare(build.iota(square, rank), build.iota(square, rank - 1), "LE")
    spread = build.broadcast(sizes, [*range(rank - 1), rank], square)
    wide = build.select(earlier, spread, build.splat(0, square))
    ends = build.reduce(wide, build.scalar_constant(0, "s64"), [rank], module.add(binary_computation("add", "s64")))
    starts = build.binary("subtract", ends, sizes)
    position = build.iota(array("s64", dimensions), along[-1])
    places = [*along[:-1], groups]
    after = build.compare(position, build.broadcast(starts, places, dimensions), "GE")
    before = build.compare(position, build.broadcast(ends, places, dimensions), "LT")
    return build.binary("and", after, before)

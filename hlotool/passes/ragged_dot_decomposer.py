"""Ragged dot decomposer: products with groups of rows as plain products and masks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hlotool.analysis.contraction import DotDimensions, dot_dimensions
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array, element_type
from hlotool.ir.builder import Builder, binary_computation
from hlotool.passes.graph import replace_with

__all__ = ["RaggedDotDecomposer"]


@dataclass(frozen=True, slots=True)
class RaggedDotDecomposer:
    """Rewrites ragged-dot as dots of full size, masked by group.

    A ragged free dimension: the product with every group's matrix, of which each row keeps the one of its group.  A
    ragged contracting dimension: one product per group, of operands that are zero outside it.  A ragged batch
    dimension: a plain dot.  Costs as many products as there are groups.
    """

    name: ClassVar[str] = "ragged-dot-decomposer"

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in list(module.computations.values()):
            for dot in computation:
                if dot.opcode != "ragged-dot":
                    continue
                if dot.operands[2].shape.rank != 1:
                    log.refuse("ragged-dot", dot, "its group sizes differ between batches")
                elif log.allow():
                    result = _decompose(module, Builder(computation, dot, like=dot), dot)
                    log.rewrite("ragged-dot", dot, result, "a product for each group, masked")
                    replace_with(dot, result)
                    changed = True
        return changed


def _decompose(module: Module, build: Builder, dot: Instruction) -> Instruction:
    lhs, rhs, sizes = dot.operands
    numbers = dot_dimensions(dot)
    (ragged,) = dot.attributes["lhs_ragged_dims"]
    kind = dot.shape.element_type
    contracting = (numbers.lhs_contracting, numbers.rhs_contracting)
    batch = (numbers.lhs_batch, numbers.rhs_batch)
    if ragged in numbers.lhs_batch:
        return build.dot(lhs, rhs, contracting, batch, kind)
    if ragged in numbers.lhs_contracting:
        other = numbers.rhs_contracting[numbers.lhs_contracting.index(ragged)]
        left, right = _masked(module, build, lhs, sizes, ragged), _masked(module, build, rhs, sizes, other)
        return build.dot(
            left,
            right,
            [[d + 1 for d in dims] for dims in contracting],
            [[0, *(d + 1 for d in dims)] for dims in batch],
            kind,
        )
    return _free(module, build, dot, numbers, ragged)


def _free(module: Module, build: Builder, dot: Instruction, numbers: DotDimensions, ragged: int) -> Instruction:
    lhs, rhs, sizes = dot.operands
    kind = dot.shape.element_type
    (group,) = dot.attributes["rhs_group_dims"]
    contracting = (numbers.lhs_contracting, numbers.rhs_contracting)
    full = build.dot(lhs, rhs, contracting, (numbers.lhs_batch, numbers.rhs_batch), kind)
    first = len(numbers.lhs_batch)
    rows = first + numbers.lhs_free.index(ragged)
    groups = first + len(numbers.lhs_free) + numbers.rhs_free.index(group)
    mask = _mask(module, build, sizes, full.shape.dimensions, rows, groups)
    own = build.select(mask, full, build.splat(0, full.shape))
    adder = module.add(binary_computation("add", kind))
    return build.reduce(own, build.scalar_constant(0, kind), [groups], adder)


def _masked(module: Module, build: Builder, operand: Instruction, sizes: Instruction, ragged: int) -> Instruction:
    """``[groups, *operand]``, zero where `ragged` is outside the group."""
    dimensions = (sizes.shape.dimensions[0], *operand.shape.dimensions)
    wide = build.broadcast(operand, range(1, len(dimensions)), dimensions)
    mask = _mask(module, build, sizes, dimensions, ragged + 1, 0)
    return build.select(mask, wide, build.splat(0, wide.shape))


def _mask(
    module: Module, build: Builder, sizes: Instruction, dimensions: tuple[int, ...], rows: int, groups: int
) -> Instruction:
    """Whether the position along `rows` belongs to the group along `groups`."""
    count, kind = sizes.shape.dimensions[0], sizes.shape.element_type
    assert element_type(kind).is_integer
    square = array(kind, (count, count))
    earlier = build.compare(build.iota(square, 1), build.iota(square, 0), "LE")
    wide = build.select(earlier, build.broadcast(sizes, [1], square), build.splat(0, square))
    adder = module.add(binary_computation("add", kind))
    ends = build.reduce(wide, build.scalar_constant(0, kind), [1], adder)
    starts = build.binary("subtract", ends, sizes)
    position = build.iota(array(kind, dimensions), rows)
    after = build.compare(position, build.broadcast(starts, [groups], dimensions), "GE")
    before = build.compare(position, build.broadcast(ends, [groups], dimensions), "LT")
    return build.binary("and", after, before)

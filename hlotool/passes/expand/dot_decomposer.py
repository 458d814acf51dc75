"""Dot decomposer: every dot becomes a (batched) product of two matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from hlotool.analysis.contraction import dot_dimensions, matrix_views
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.passes.framework.graph import has_sizes, replace_with

__all__ = ["DotDecomposer"]


@dataclass(frozen=True, slots=True)
class DotDecomposer:
    """Rewrites dots whose free or contracting dimensions are not evenly spaced in memory.

    Such a dot becomes transposes, reshapes to ``[batch, m, k]`` and ``[batch, k, n]``, a plain product and
    a reshape.  All others stay: the kernels take any strides.
    """

    name: ClassVar[str] = "dot-decomposer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"dot"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        changed = False
        for computation in module.computations.values():
            for instruction in computation:
                if instruction.opcode != "dot" or matrix_views(instruction) is not None or has_sizes(instruction):
                    continue
                if log.allow():
                    _decompose(instruction, log)
                    changed = True
        return changed


def _decompose(dot: Instruction, log: DecisionLog) -> None:
    assert dot.parent is not None
    build = Builder(dot.parent, dot, like=dot)
    numbers = dot_dimensions(dot)
    lhs, rhs = dot.operands
    batch = [lhs.shape.dimensions[d] for d in numbers.lhs_batch]
    left = _matrix(build, lhs, numbers.lhs_batch, numbers.lhs_free, numbers.lhs_contracting)
    right = _matrix(build, rhs, numbers.rhs_batch, numbers.rhs_contracting, numbers.rhs_free)
    count = len(batch)
    attributes = {k: v for k, v in dot.attributes.items() if k in ("operand_precision", "algorithm")}
    attributes |= {
        "lhs_batch_dims": tuple(range(count)),
        "rhs_batch_dims": tuple(range(count)),
        "lhs_contracting_dims": (count + 1,),
        "rhs_contracting_dims": (count,),
    }
    shape = array(dot.shape.element_type, [*batch, left.shape.dimensions[count], right.shape.dimensions[count + 1]])
    product = build.add("dot", shape, [left, right], attributes)
    result = build.reshape(product, dot.shape.dimensions)
    log.rewrite("dot-to-matrices", dot, result, "its dimensions do not collapse in place")
    replace_with(dot, result)


def _matrix(
    build: Builder, operand: Instruction, batch: Sequence[int], first: Sequence[int], second: Sequence[int]
) -> Instruction:
    """`operand` as ``[batch..., product of first, product of second]``."""
    sizes = operand.shape.dimensions
    moved = build.transpose(operand, [*batch, *first, *second])
    matrix = [prod(sizes[d] for d in first), prod(sizes[d] for d in second)]
    return build.reshape(moved, [*(sizes[d] for d in batch), *matrix])

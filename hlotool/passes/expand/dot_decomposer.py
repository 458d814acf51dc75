"""Dot decomposer: every dot becomes a (batched) product of two matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

from hlotool.analysis.contraction import dot_dimensions, matrix_views
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module, array
from hlotool.ir.builder import Builder
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

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
        reason = "its dimensions do not collapse in place"
        return expand_each(module, log, self.opcodes, _decompose, "dot-to-matrices", reason, static=True)


def _decompose(build: Builder, dot: Instruction) -> Instruction | None:
    if matrix_views(dot) is not None:
        return None
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
    return build.reshape(product, dot.shape.dimensions)


def _matrix(
    build: Builder, operand: Instruction, batch: Sequence[int], first: Sequence[int], second: Sequence[int]
) -> Instruction:
    """`operand` as ``[batch..., product of first, product of second]``."""
    sizes = operand.shape.dimensions
    moved = build.transpose(operand, [*batch, *first, *second])
    matrix = [prod(sizes[d] for d in first), prod(sizes[d] for d in second)]
    return build.reshape(moved, [*(sizes[d] for d in batch), *matrix])

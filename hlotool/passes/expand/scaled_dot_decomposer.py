"""Scaled dot decomposer: products of block-scaled operands as plain products."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from hlotool.analysis.contraction import dot_dimensions
from hlotool.analysis.decisions import DecisionLog
from hlotool.ir import Instruction, Module
from hlotool.ir.builder import Builder
from hlotool.ir.dot_algorithms import scaled_type
from hlotool.lazy_dataclass import dataclass
from hlotool.passes.framework.expansion import expand_each

__all__ = ["ScaledDotDecomposer", "scaled", "scaled_dot"]


@dataclass(frozen=True, slots=True)
class ScaledDotDecomposer:
    """Multiplies the operands of scaled-dot by their scales, one per block, and makes a dot in f32 (or f64)."""

    name: ClassVar[str] = "scaled-dot-decomposer"
    opcodes: ClassVar[frozenset[str]] = frozenset({"scaled-dot"})

    def run(self, module: Module, log: DecisionLog) -> bool:
        reason = "the operands are scaled first"
        return expand_each(module, log, self.opcodes, partial(scaled_dot, module), "scaled-dot", reason, static=True)


def scaled_dot(module: Module, build: Builder, dot: Instruction) -> Instruction:
    """What has the value of a scaled-dot, of its operands."""
    lhs, rhs, lhs_scale, rhs_scale = dot.operands
    numbers = dot_dimensions(dot)
    kind = scaled_type([x.shape.element_type for x in dot.operands], dot.shape.element_type)
    product = build.dot(
        scaled(build, lhs, lhs_scale, kind),
        scaled(build, rhs, rhs_scale, kind),
        (numbers.lhs_contracting, numbers.rhs_contracting),
        (numbers.lhs_batch, numbers.rhs_batch),
        kind,
    )
    return product if dot.shape.element_type == kind else build.convert(product, dot.shape.element_type)


def scaled(build: Builder, operand: Instruction, scale: Instruction, kind: str) -> Instruction:
    """The operand in type `kind`, each block times its scale."""
    sizes, counts = operand.shape.dimensions, scale.shape.dimensions
    wide = build.convert(scale, kind)
    if not counts:
        spread = build.broadcast(wide, (), sizes)
    else:  # a dimension of n blocks becomes one of n blocks and one inside the block
        split = [part for size, n in zip(sizes, counts, strict=True) for part in (n, size // max(1, n))]
        spread = build.reshape(build.broadcast(wide, range(0, len(split), 2), split), sizes)
    return build.binary("multiply", build.convert(operand, kind), spread)

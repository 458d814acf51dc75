"""A number and its negative."""

from __future__ import annotations

from hlotool.ir import Instruction
from hlotool.passes.framework.rewriter import Rewriter, Rule, rule

__all__ = ["RULES", "maximum_of_opposites"]


@rule("maximum(x, negate(x))", "maximum(negate(x), x)", types="signed integers")
def maximum_of_opposites(x: Instruction, rewriter: Rewriter) -> Instruction:
    """max(x, -x) = |x|, for integers (of the lowest one, which has no negative, both are itself)."""
    return rewriter.unary("abs", x)


RULES: tuple[Rule, ...] = (maximum_of_opposites,)

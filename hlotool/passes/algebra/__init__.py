"""The rules of the algebraic simplifier, by subject.

Each rule is one function whose docstring is its identity.  A rule of floating-point numbers is here only when it is
exact, or when its error is within that of the instruction it replaces and its docstring says so.
"""

from hlotool.passes.algebra import arithmetic, comparison, contraction, conversion, movement, slicing
from hlotool.passes.algebra.arithmetic import RECIPROCAL_RULES
from hlotool.passes.rewriter import Rule

__all__ = ["RECIPROCAL_RULES", "RULES"]

RULES: tuple[Rule, ...] = (
    *arithmetic.RULES,
    *comparison.RULES,
    *conversion.RULES,
    *movement.RULES,
    *slicing.RULES,
    *contraction.RULES,
)

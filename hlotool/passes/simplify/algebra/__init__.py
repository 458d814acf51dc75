"""The rules of the algebraic simplifier, by subject.

Each rule is one function whose docstring is its identity, or one line of text that states it (`identity`).  A rule of
floating-point numbers is here only when it is exact, or when its error is within that of the instruction it replaces
and its docstring says so.
"""

from hlotool.passes.framework.rewriter import Rule
from hlotool.passes.simplify.algebra import (
    arithmetic,
    comparison,
    contraction,
    conversion,
    gathering,
    identities_float,
    identities_integer,
    identities_logic,
    identities_order,
    indexing,
    movement,
    narrowing,
    slicing,
    windows,
)
from hlotool.passes.simplify.algebra.arithmetic import RECIPROCAL_RULES
from hlotool.passes.simplify.algebra.identity import Identity

__all__ = ["IDENTITIES", "RECIPROCAL_RULES", "RULES"]

_TEXTS = (
    *identities_integer.IDENTITIES,
    *identities_logic.IDENTITIES,
    *identities_order.IDENTITIES,
    *identities_float.IDENTITIES,
)

IDENTITIES: tuple[Identity, ...] = tuple(identity for identity, _ in _TEXTS)
"""The exact rules that are written as text."""

RULES: tuple[Rule, ...] = (
    *arithmetic.RULES,
    *comparison.RULES,
    *conversion.RULES,
    *movement.RULES,
    *slicing.RULES,
    *indexing.RULES,
    *gathering.RULES,
    *contraction.RULES,
    *windows.RULES,
    *narrowing.RULES,
    *(rule for _, rule in (*_TEXTS, *identities_float.ROUNDING_IDENTITIES)),
)

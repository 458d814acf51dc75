"""The rules, one idea per file.

60xx numbers that are lost or wrong, 61xx work and memory for nothing.  Codes never change their meaning.
"""

from __future__ import annotations

from hlotool.lint.rule import Rule
from hlotool.lint.rules import (
    cancellation,
    carried_broadcast,
    constants,
    f64,
    fixed_slice,
    inexact_iota,
    late_function,
    narrow_sum,
    pairs,
    reduce_start,
    scatter_order,
    short_loop,
    softmax,
    thin_dot,
    transpose_chain,
    unused,
    variance,
    wide_indices,
    zero_norm,
)

__all__ = ["RULES"]

_RULES = (
    f64.RULE, softmax.SOFTMAX, softmax.LOG_SUM_EXP, softmax.LOG_OF_SOFTMAX, cancellation.LOG1P, cancellation.EXPM1,
    zero_norm.RULE, variance.RULE, scatter_order.RULE, narrow_sum.RULE, reduce_start.RULE, inexact_iota.RULE,
    transpose_chain.RULE, pairs.COPIES, pairs.CONVERTS, constants.LARGE, constants.SPLAT, short_loop.RULE,
    fixed_slice.RULE, unused.DEAD, unused.PARAMETERS, thin_dot.RULE, carried_broadcast.RULE, wide_indices.RULE,
    late_function.RULE,
)  # fmt: skip

RULES: dict[str, Rule] = {rule.code: rule for rule in _RULES}
"""All rules by their code."""
